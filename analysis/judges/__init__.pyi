from .columns import JudgeColumn, JudgeFacts, judge_column, judge_departures
from .drift import Drift, Regrading, drift_controls, measure_drift
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
from .part import judges_part

__all__ = [
    "Drift",
    "FamilyBias",
    "JudgeColumn",
    "JudgeFacts",
    "JudgeRates",
    "Judged",
    "Labels",
    "Regrading",
    "cohen_kappa",
    "drift_controls",
    "family_bias",
    "judge_column",
    "judge_departures",
    "judges_part",
    "krippendorff_alpha",
    "measure_drift",
    "measure_judge",
    "measure_positions",
    "read_rates",
    "shortfall",
]
