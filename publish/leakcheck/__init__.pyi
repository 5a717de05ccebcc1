from .check import (
    FindFamily,
    LeakFound,
    check_folder,
    counted,
    leaks_in,
    regenerate,
    release_files,
    release_needles,
    scan_paths,
)

__all__ = [
    "FindFamily",
    "LeakFound",
    "check_folder",
    "counted",
    "leaks_in",
    "regenerate",
    "release_files",
    "release_needles",
    "scan_paths",
]
