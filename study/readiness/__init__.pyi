from .gate import check_proved, check_ready, find_warnings
from .lint import lint_study
from .target_power import LEAST_POWER, describe_chances, describe_power, find_power

__all__ = [
    "LEAST_POWER",
    "check_proved",
    "check_ready",
    "describe_chances",
    "describe_power",
    "find_power",
    "find_warnings",
    "lint_study",
]
