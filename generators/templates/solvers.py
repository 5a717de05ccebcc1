"""The program that solves the templates of our library: an honest agent for sweeps and tests.

It is one file that knows nothing but ``question.txt``, the question as an agent reads it, and the
input files; it leaves what the question asks for, and the response in ``answer.json``.
"""

from __future__ import annotations

from importlib.resources import files

QUESTION_FILE = "question.txt"


def library_solver() -> str:
    """Its source. It ends with an error on a question of any other template."""
    return files("generators.templates.library").joinpath("solve.py").read_text("utf-8")
