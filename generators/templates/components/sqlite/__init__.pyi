from .database import compile_sqlite, write_database

__all__ = ["compile_sqlite", "write_database"]
