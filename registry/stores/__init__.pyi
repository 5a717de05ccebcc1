from .base import Store as Store

def open_store(uri: str) -> Store: ...

__all__ = ["Store", "open_store"]
