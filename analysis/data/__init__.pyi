from .import_file import read_graded_file, read_result_file
from .seed_means import ArmCount, Cube, SeedMeans, count_arms, make_cube, means_per_seed, outcome_of
from .table import Table, codes_of, make_table, one_of, read_rows, read_table, write_table

__all__ = [
    "ArmCount",
    "Cube",
    "SeedMeans",
    "Table",
    "codes_of",
    "count_arms",
    "make_cube",
    "make_table",
    "means_per_seed",
    "one_of",
    "outcome_of",
    "read_graded_file",
    "read_result_file",
    "read_rows",
    "read_table",
    "write_table",
]
