from .database import compile_sqlite

__all__ = ["compile_sqlite"]
