from .bars import Bar, plot_bar_grid, plot_bars
from .detection import plot_calibration, plot_power
from .intervals import Dot, plot_arms, plot_dots, plot_gaps
from .monitoring import plot_monitoring
from .style import NARROW, WIDE, css_variables, standalone
from .timeline import make_timeline, plot_time

__all__ = [
    "NARROW",
    "WIDE",
    "Bar",
    "Dot",
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
