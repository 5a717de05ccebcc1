from .control_power import ALARM, NegativeControls, Remedy, find_models, find_seeds
from .power import (
    PowerCurve,
    PowerDesign,
    PowerPoint,
    PowerSetting,
    check_design,
    check_target,
    gaps_curve,
    power_at,
    seeds_curve,
)
from .variance_components import (
    ARTICLE,
    Components,
    PilotVariance,
    SimulationSize,
    estimate_components,
)

__all__ = [
    "ALARM",
    "ARTICLE",
    "Components",
    "NegativeControls",
    "PilotVariance",
    "PowerCurve",
    "PowerDesign",
    "PowerPoint",
    "PowerSetting",
    "Remedy",
    "SimulationSize",
    "check_design",
    "check_target",
    "estimate_components",
    "find_models",
    "find_seeds",
    "gaps_curve",
    "power_at",
    "seeds_curve",
]
