from .deviations import table_departures
from .facts import LedgerCheckpoint, ModelFact
from .json import changes_since
from .part import (
    NONE,
    Block,
    Bullets,
    Columns,
    Heading,
    Paragraph,
    Part,
    PartFigure,
    ReportTable,
    tabulate,
)
from .registration import registration_json
from .report import Report, ReportRequest, build_report, build_table_report, report_json
from .wording import range_words, score_words, short, time_words_of
from .write import DATA, check_folder, report_files, write_files, write_report

__all__ = [
    "DATA",
    "NONE",
    "Block",
    "Bullets",
    "Columns",
    "Heading",
    "LedgerCheckpoint",
    "ModelFact",
    "Paragraph",
    "Part",
    "PartFigure",
    "Report",
    "ReportRequest",
    "ReportTable",
    "build_report",
    "build_table_report",
    "changes_since",
    "check_folder",
    "range_words",
    "registration_json",
    "report_files",
    "report_json",
    "score_words",
    "short",
    "table_departures",
    "tabulate",
    "time_words_of",
    "write_files",
    "write_report",
]
