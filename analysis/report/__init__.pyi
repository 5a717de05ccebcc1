from .calibration import calibration_words
from .deviations import table_departures
from .facts import LedgerCheckpoint, ModelFact
from .json import changes_since
from .registration import registration_json
from .report import Report, ReportRequest, build_report, build_table_report, report_json
from .tool_use import Conduct, ToolUseTables, Use, tabulate_tools, write_tool_files
from .write import DATA, check_folder, report_files, write_files, write_report

__all__ = [
    "DATA",
    "Conduct",
    "LedgerCheckpoint",
    "ModelFact",
    "Report",
    "ReportRequest",
    "ToolUseTables",
    "Use",
    "build_report",
    "build_table_report",
    "calibration_words",
    "changes_since",
    "check_folder",
    "registration_json",
    "report_files",
    "report_json",
    "table_departures",
    "tabulate_tools",
    "write_files",
    "write_report",
    "write_tool_files",
]
