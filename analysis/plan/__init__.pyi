from .burned import BurnedSeeds, burned_words, keep_rows
from .controls import GRADED_AGAIN, ControlResult, tested_control
from .describe import describe_plan
from .history import NO_HISTORY, EarlyGap, WaveHistory
from .look import Analysis, ArmMean, analyse, explore
from .monitoring import Monitored
from .negative_controls import (
    AGREES,
    DISAGREES,
    NOT_RUN,
    UNINFORMATIVE,
    ControlTest,
    control_settings,
    regrade_drift,
)
from .presets import (
    EXCLUSIONS,
    HYPOTHESES,
    KEEP,
    MARKER_CONTROL,
    MULTIPLICITY,
    OUTCOME_WORDS,
    OUTCOMES,
    SENSITIVITY,
    STANDARD,
    basic_plan,
    bridging_models,
    control_models,
    look_alpha,
    marker_alpha,
    plan_draws,
    replicates_of,
    standard_plan,
    validate_plan,
)
from .primary import ModelScores, Studies, look_data
from .results import PrimaryResult
from .rule import apply_rule
from .sensitivity import DIMENSIONS, SensitivityResult
from .standard import LookResult, bears_on
from .verdict import CONTAMINATED, INCONCLUSIVE, NO_INFLATION, WITHHELD, Verdict, Word

__all__ = [
    "AGREES",
    "CONTAMINATED",
    "DIMENSIONS",
    "DISAGREES",
    "EXCLUSIONS",
    "GRADED_AGAIN",
    "HYPOTHESES",
    "INCONCLUSIVE",
    "KEEP",
    "MARKER_CONTROL",
    "MULTIPLICITY",
    "NOT_RUN",
    "NO_HISTORY",
    "NO_INFLATION",
    "OUTCOMES",
    "OUTCOME_WORDS",
    "SENSITIVITY",
    "STANDARD",
    "UNINFORMATIVE",
    "WITHHELD",
    "Analysis",
    "ArmMean",
    "BurnedSeeds",
    "ControlResult",
    "ControlTest",
    "EarlyGap",
    "LookResult",
    "ModelScores",
    "Monitored",
    "PrimaryResult",
    "SensitivityResult",
    "Studies",
    "Verdict",
    "WaveHistory",
    "Word",
    "analyse",
    "apply_rule",
    "basic_plan",
    "bears_on",
    "bridging_models",
    "burned_words",
    "control_models",
    "control_settings",
    "describe_plan",
    "explore",
    "keep_rows",
    "look_alpha",
    "look_data",
    "marker_alpha",
    "plan_draws",
    "regrade_drift",
    "replicates_of",
    "standard_plan",
    "tested_control",
    "validate_plan",
]
