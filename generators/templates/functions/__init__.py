"""The functions that compute answer keys from the files of a sample.

``FUNCTIONS`` holds them by name; ``call_function`` computes one. ``docs/template-functions.md``
lists them with an example each.
"""

from __future__ import annotations

from collections.abc import Sequence

from generators.errors import TemplateError, TemplateLimitError, nearest
from generators.templates.functions.base import Function, OpenFile
from generators.templates.functions.csv_file import CSV, CsvRows, parse_table
from generators.templates.functions.json_yaml import TREE
from generators.templates.functions.numbers import ARITHMETIC
from generators.templates.functions.sqlite_file import SQLITE
from generators.templates.functions.text_file import TEXT
from generators.templates.functions.xml_file import XML

__all__ = [
    "FUNCTIONS",
    "CsvRows",
    "Function",
    "OpenFile",
    "call_function",
    "check_call",
    "parse_table",
]

MAX_ANSWER = 1_000_000  # characters
_SHOWN = 120  # characters of an argument in an error

FUNCTIONS: dict[str, Function] = {**TEXT, **CSV, **SQLITE, **TREE, **XML, **ARITHMETIC}


def call_function(name: str, arguments: Sequence[str], file: OpenFile | None) -> str:
    """What a function says of its arguments and the file.

    Arguments are texts with nothing left to fill in, the file not among them. Raises
    TemplateError that names the function, its arguments, the file's path and the reason; where
    that is a bound that was struck, TemplateLimitError.
    """
    function = _find(name, arguments)
    if function.takes_file and file is None:
        raise TemplateError(f"{show_call(name, arguments)}: a file is missing")
    try:
        answer = function.compute(arguments, file)
    except TemplateError as error:
        raise type(error)(f"{show_call(name, arguments, file)}: {error}") from None
    except RecursionError:
        raise TemplateLimitError(f"{show_call(name, arguments, file)}: nested too deep") from None
    if len(answer) > MAX_ANSWER:
        raise TemplateLimitError(
            f"{show_call(name, arguments, file)}: the answer has {len(answer)} characters; a key "
            f"has at most {MAX_ANSWER}"
        )
    return answer


def check_call(name: str, arguments: Sequence[str]) -> None:
    """Raise TemplateError for a call that no file could make right, without looking at any.

    It finds unknown functions, wrong counts, unknown operators, numbers that are none, and
    paths and filters that cannot be read.
    """
    function = _find(name, arguments)
    if function.check is None:
        return
    try:
        function.check(arguments)
    except TemplateError as error:
        raise TemplateError(f"{show_call(name, arguments)}: {error}") from None


def show_call(name: str, arguments: Sequence[str], file: OpenFile | None = None) -> str:
    """``{{name:argument:…}}`` and the file, as errors name them."""
    cut = (text if len(text) <= _SHOWN else text[: _SHOWN - 1] + "…" for text in arguments)
    call = "{{" + ":".join((name, *cut)) + "}}"
    return f"{call} on {file.path}" if file is not None else call


def _find(name: str, arguments: Sequence[str]) -> Function:
    function = FUNCTIONS.get(name)
    if function is None:
        raise TemplateError(f"there is no function {name[:80]!r}; {nearest(name, FUNCTIONS)}")
    least, most = function.min_arguments, function.max_arguments
    if not least <= len(arguments) <= most:
        takes = str(least) if least == most else f"{least} to {most}"
        also = " and a file" if function.takes_file else ""
        raise TemplateError(
            f"{show_call(name, arguments)}: takes {takes} argument{'' if takes == '1' else 's'}"
            f"{also}, not {len(arguments)}"
        )
    return function
