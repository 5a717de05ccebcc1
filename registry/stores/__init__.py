"""Object stores with put-if-absent: a folder, S3, and memory."""

from __future__ import annotations

from registry.stores.base import MemoryStore, Store, check_scheme


def open_store(uri: str) -> Store:
    """The store of a URI: ``memory:``, a folder's path (or ``file:`` and a path), or
    ``s3://bucket/prefix[?endpoint=http://host:port&region=name]``. Raises StoreError."""
    check_scheme(uri)
    if uri.startswith("s3://"):
        from registry.stores.s3 import S3Store  # boto3 is an extra

        return S3Store.from_uri(uri)
    if uri == "memory:":
        return MemoryStore()
    from registry.stores.folder import FolderStore

    return FolderStore(uri.removeprefix("file:"))
