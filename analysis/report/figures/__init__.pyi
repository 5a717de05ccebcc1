from .bars import Bar, plot_bar_grid, plot_bars
from .calibration import plot_calibration
from .dots import Dot, plot_dots
from .gaps import plot_arms, plot_gaps
from .monitoring import plot_monitoring
from .power import plot_power
from .style import NARROW, WIDE, css_variables, standalone
from .timeline import Timeline, make_timeline, plot_time

__all__ = [
    "NARROW",
    "WIDE",
    "Bar",
    "Dot",
    "Timeline",
    "css_variables",
    "make_timeline",
    "plot_arms",
    "plot_bar_grid",
    "plot_bars",
    "plot_calibration",
    "plot_dots",
    "plot_gaps",
    "plot_monitoring",
    "plot_power",
    "plot_time",
    "standalone",
]
