from .answers import answers_of_rows, facts_of_study
from .check import check_files, print_reports
from .import_results import Imported, import_parametr, import_picard, named_folders, write_rows
from .prepare import prepare_template
from .report import print_run_report, report_runs
from .score import score_folder

__all__ = [
    "Imported",
    "answers_of_rows",
    "check_files",
    "facts_of_study",
    "import_parametr",
    "import_picard",
    "named_folders",
    "prepare_template",
    "print_reports",
    "print_run_report",
    "report_runs",
    "score_folder",
    "write_rows",
]
