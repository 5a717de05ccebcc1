from .base import Store as Store
from .base import check_key as check_key
from .base import check_scheme as check_scheme
from .parallel import parallel_map as parallel_map

def open_store(uri: str) -> Store: ...

__all__ = ["Store", "check_key", "check_scheme", "open_store", "parallel_map"]
