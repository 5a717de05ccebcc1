from .database import compile_sqlite as compile_sqlite
from .database import write_database as write_database
