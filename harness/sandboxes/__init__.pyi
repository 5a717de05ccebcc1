from .image import ensure_image, locked_libraries
from .local import LocalSandboxes, folder_of
from .sandbox import ExecResult, Sandbox, SandboxProvider, SandboxRefused
from .tool_server import RefusedError, read_file

__all__ = [
    "ExecResult",
    "LocalSandboxes",
    "RefusedError",
    "Sandbox",
    "SandboxProvider",
    "SandboxRefused",
    "ensure_image",
    "folder_of",
    "locked_libraries",
    "read_file",
]
