from .check import (
    GUESSABLE,
    QuestionReport,
    TemplateReport,
    check_form,
    check_text,
    place_error,
)
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
    "check_form",
    "check_text",
    "place_error",
    "precheck_writer",
    "prepare",
    "template_family",
]
