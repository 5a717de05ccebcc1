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
    "ARTICLE",
    "Components",
    "PilotVariance",
    "PowerCurve",
    "PowerDesign",
    "PowerPoint",
    "PowerSetting",
    "SimulationSize",
    "check_design",
    "check_target",
    "estimate_components",
    "gaps_curve",
    "power_at",
    "seeds_curve",
]
