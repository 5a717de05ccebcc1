from .base import Store as Store
from .base import check_scheme as check_scheme

def open_store(uri: str) -> Store: ...

__all__ = ["Store", "check_scheme", "open_store"]
