from .check import GUESSABLE, QuestionReport, TemplateReport, check_text
from .family import TemplateFamily, family_name
from .prepare import ARTIFACTS, precheck_writer, prepare

__all__ = [
    "ARTIFACTS",
    "GUESSABLE",
    "QuestionReport",
    "TemplateFamily",
    "TemplateReport",
    "check_text",
    "family_name",
    "precheck_writer",
    "prepare",
]
