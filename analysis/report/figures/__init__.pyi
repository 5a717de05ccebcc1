from .calibration import plot_calibration
from .gaps import plot_arms, plot_gaps
from .monitoring import plot_monitoring
from .power import plot_power
from .style import DARK, LIGHT, NARROW, PRINT, WIDE, standalone
from .timeline import Timeline, make_timeline, plot_time

__all__ = [
    "DARK",
    "LIGHT",
    "NARROW",
    "PRINT",
    "WIDE",
    "Timeline",
    "make_timeline",
    "plot_arms",
    "plot_calibration",
    "plot_gaps",
    "plot_monitoring",
    "plot_power",
    "plot_time",
    "standalone",
]
