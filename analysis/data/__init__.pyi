from .import_file import read_graded_file, read_result_file
from .seed_means import ArmCount, SeedMeans, count_arms, make_seed_means, outcome_of
from .table import (
    ResultTable,
    codes_of,
    make_table,
    names_in,
    one_of,
    read_rows,
    read_table,
    write_table,
)

__all__ = [
    "ArmCount",
    "ResultTable",
    "SeedMeans",
    "codes_of",
    "count_arms",
    "make_seed_means",
    "make_table",
    "names_in",
    "one_of",
    "outcome_of",
    "read_graded_file",
    "read_result_file",
    "read_rows",
    "read_table",
    "write_table",
]
