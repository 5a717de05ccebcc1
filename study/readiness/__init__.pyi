from .gate import check_ready, find_warnings
from .lint import lint_study
from .target_power import describe_chances, describe_power

__all__ = [
    "check_ready",
    "describe_chances",
    "describe_power",
    "find_warnings",
    "lint_study",
]
