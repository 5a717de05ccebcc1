from .control_power import ALARM, NegativeControls, Remedy, find_models, find_seeds
from .power import (
    PowerCurve,
    PowerPoint,
    PowerSetting,
    SimulationSize,
    check_setting,
    check_target,
    gaps_curve,
    power_at,
    seeds_curve,
)
from .variance_components import (
    ARTICLE,
    Components,
    PilotVariance,
    check_components,
    estimate_components,
)

__all__ = [
    "ALARM",
    "ARTICLE",
    "Components",
    "NegativeControls",
    "PilotVariance",
    "PowerCurve",
    "PowerPoint",
    "PowerSetting",
    "Remedy",
    "SimulationSize",
    "check_components",
    "check_setting",
    "check_target",
    "estimate_components",
    "find_models",
    "find_seeds",
    "gaps_curve",
    "power_at",
    "seeds_curve",
]
