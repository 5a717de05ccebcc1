"""The templates of the PICARD paper: ``past`` (its Appendix A) and ``formats`` (Appendix C); and
``past-varied``, the first with its constants drawn.

The two are as printed there, with what the PDF broke mended and nothing else: line breaks within
texts, indentation, the brace that question 402 lost, and the "same as 301" of Appendix C written
out.
"""

from __future__ import annotations

from importlib.resources import files

from generators.errors import TemplateError, nearest

NAMES = ("past", "formats", "past-varied")
QUESTION_FILE = "question.txt"


def library_text(name: str) -> str:
    """The text of a template that ships. Raises TemplateError for a name of none."""
    if name not in NAMES:
        raise TemplateError(f"unknown library template {name!r}; {nearest(name, NAMES)}")
    return files(__package__).joinpath(f"{name}.yml").read_text(encoding="utf-8")


def library_solver() -> str:
    """The source of a program that solves the library's questions: an honest agent for sweeps and
    tests. It reads ``question.txt`` and the input files, and writes what the question asks for and
    ``answer.json``; it exits with an error on a question of any other template."""
    return files(__package__).joinpath("solver.py").read_text("utf-8")
