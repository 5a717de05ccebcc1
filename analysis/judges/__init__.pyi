from .columns import JudgeColumn, JudgeFacts, judge_column, judge_departures
from .error_rates import (
    FamilyBias,
    Judged,
    JudgeRates,
    Labels,
    cohen_kappa,
    family_bias,
    krippendorff_alpha,
    measure_judge,
    measure_positions,
    read_rates,
    shortfall,
)

__all__ = [
    "FamilyBias",
    "JudgeColumn",
    "JudgeFacts",
    "JudgeRates",
    "Judged",
    "Labels",
    "cohen_kappa",
    "family_bias",
    "judge_column",
    "judge_departures",
    "krippendorff_alpha",
    "measure_judge",
    "measure_positions",
    "read_rates",
    "shortfall",
]
