from .bars import Bar, plot_bar_grid, plot_bars
from .flow import make_flow, plot_flow
from .intervals import Dot, plot_arms, plot_dots, plot_gaps, plot_strata
from .monitoring import plot_monitoring
from .style import NARROW, WIDE, css_variables, standalone
from .timeline import make_timeline, plot_time
from .tipping import plot_tipping

__all__ = [
    "NARROW",
    "WIDE",
    "Bar",
    "Dot",
    "css_variables",
    "make_flow",
    "make_timeline",
    "plot_arms",
    "plot_bar_grid",
    "plot_bars",
    "plot_dots",
    "plot_flow",
    "plot_gaps",
    "plot_monitoring",
    "plot_strata",
    "plot_time",
    "plot_tipping",
    "standalone",
]
