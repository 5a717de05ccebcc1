from .check import GUESSABLE, QuestionReport, TemplateReport, check_text
from .family import TemplateFamily, catalog_with, template_family
from .prepare import ARTIFACTS, CompiledQuestion, Prepared, precheck_writer, prepare

__all__ = [
    "ARTIFACTS",
    "GUESSABLE",
    "CompiledQuestion",
    "Prepared",
    "QuestionReport",
    "TemplateFamily",
    "TemplateReport",
    "catalog_with",
    "check_text",
    "precheck_writer",
    "prepare",
    "template_family",
]
