from .check import (
    FindFamily,
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
    "check_folder",
    "counted",
    "leaks_in",
    "regenerate",
    "release_files",
    "release_needles",
    "scan_paths",
]
