from .debian_rootfs import install_wheels
from .image import ensure_image, locked_libraries
from .local import LocalSandboxes, folder_of
from .sandbox import SOCKET_FOLDER, ExecResult, Sandbox, SandboxProvider, SandboxRefused
from .tool_server import RefusedError, read_file
from .user_folder import make_user_folder

__all__ = [
    "SOCKET_FOLDER",
    "ExecResult",
    "LocalSandboxes",
    "RefusedError",
    "Sandbox",
    "SandboxProvider",
    "SandboxRefused",
    "ensure_image",
    "folder_of",
    "install_wheels",
    "locked_libraries",
    "make_user_folder",
    "read_file",
]
