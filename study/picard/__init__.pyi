from .agents import ModelAgent, ServerAgent
from .answers import answers_of_rows, facts_of_study, report_runs
from .checkout_values import write_checkout_values
from .export import export_template
from .import_results import Imported, import_parametr, import_picard, write_rows
from .prepare import check_files, prepare_template
from .preview import SamplePreview, preview_sample, watched_state
from .run import TemplateRunRequest, run_template
from .run_folder import RunScores, disagreements, named_folders, score_run, write_scores

__all__ = [
    "Imported",
    "ModelAgent",
    "RunScores",
    "SamplePreview",
    "ServerAgent",
    "TemplateRunRequest",
    "answers_of_rows",
    "check_files",
    "disagreements",
    "export_template",
    "facts_of_study",
    "import_parametr",
    "import_picard",
    "named_folders",
    "prepare_template",
    "preview_sample",
    "report_runs",
    "run_template",
    "score_run",
    "watched_state",
    "write_checkout_values",
    "write_rows",
    "write_scores",
]
