from .calibration import calibration_table, calibration_words, title_of
from .episodes import Cost, Effort, Loss, add_costs, count_losses, measure_effort
from .scores import DimensionMean, dimension_means
from .tool_use import Conduct, SeedRow, TaskRow, ToolRow, ToolUseTables, Use, tabulate_tools

__all__ = [
    "Conduct",
    "Cost",
    "DimensionMean",
    "Effort",
    "Loss",
    "SeedRow",
    "TaskRow",
    "ToolRow",
    "ToolUseTables",
    "Use",
    "add_costs",
    "calibration_table",
    "calibration_words",
    "count_losses",
    "dimension_means",
    "measure_effort",
    "tabulate_tools",
    "title_of",
]
