"""The functions that compute answer keys from the files of a sample.

``FUNCTIONS`` holds them by name; ``call_function`` computes one. ``docs/template-functions.md``
lists them with an example each. Files are read in a child process, where queries and paths run too.
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from itertools import islice

from generators.child_process import ChildLimits, run_in_child
from generators.errors import ChildLimitError, TemplateError, TemplateLimitError
from generators.templates.functions.base import Function, Match, OpenFile
from generators.templates.functions.csv_file import CSV
from generators.templates.functions.json_yaml import TREE
from generators.templates.functions.numbers import ARITHMETIC
from generators.templates.functions.sqlite_file import SQLITE
from generators.templates.functions.text_file import TEXT
from generators.templates.functions.xml_file import XML

MAX_ANSWER = 1_000_000  # characters
_MOST_MATCHES = 200  # parts of one call that are looked for
_LIMITS = ChildLimits(seconds=10, memory=1_000_000_000)  # of one call
_SHOWN = 120  # characters of an argument in an error

FUNCTIONS: dict[str, Function] = {**TEXT, **CSV, **SQLITE, **TREE, **XML, **ARITHMETIC}


def call_function(name: str, arguments: Sequence[str], file: OpenFile | None) -> str:
    """Return a function's answer for its arguments and the file.

    Arguments are texts with nothing left to fill in, the file not among them, as many as the
    function takes. Raises TemplateError that names the function, its arguments, the file's path
    and the reason; TemplateLimitError if the reason is an exceeded bound.
    """
    try:
        if file is None:
            answer = FUNCTIONS[name].compute(arguments, None)
        else:
            run = run_in_child(_LIMITS, _compute, name, tuple(arguments), file.path, file.data)
            answer = run.value()
    except ChildLimitError as error:
        call = _show_call(name, arguments, file)
        raise TemplateLimitError(f"{call}: the call {error}") from None
    except TemplateError as error:
        raise type(error)(f"{_show_call(name, arguments, file)}: {error}") from None
    except RecursionError:
        raise TemplateLimitError(f"{_show_call(name, arguments, file)}: nested too deep") from None
    if len(answer) > MAX_ANSWER:
        raise TemplateLimitError(
            f"{_show_call(name, arguments, file)}: the answer has {len(answer)} characters; a key "
            f"has at most {MAX_ANSWER}"
        )
    return answer


def find_matches(name: str, arguments: Sequence[str], file: OpenFile) -> tuple[Match, ...]:
    """What the parts of a call meet in the file, up to the first that cannot be looked for."""
    if FUNCTIONS[name].matches is None:
        return ()
    run = run_in_child(_LIMITS, _find_matches, name, tuple(arguments), file.path, file.data)
    return () if isinstance(run.outcome, ChildLimitError) else run.value()


# -- in the child

_last: list[OpenFile] = []  # the file of the last call: the next one often has the same


def _open(path: str, data: bytes) -> OpenFile:
    if not _last or (_last[0].path, _last[0].data) != (path, data):
        while _last:
            _last.pop().close()
        _last.append(OpenFile(path, data))
    return _last[0]


def _compute(name: str, arguments: Sequence[str], path: str, data: bytes) -> str:
    return FUNCTIONS[name].compute(arguments, _open(path, data))


def _find_matches(name: str, arguments: Sequence[str], path: str, data: bytes) -> tuple[Match, ...]:
    function, found = FUNCTIONS[name], list[Match]()
    with suppress(TemplateError):
        if function.matches is not None:
            for match in islice(function.matches(arguments, _open(path, data)), _MOST_MATCHES):
                found.append(match)
    return tuple(found)


def _show_call(name: str, arguments: Sequence[str], file: OpenFile | None) -> str:
    """``{{name:argument:…}}`` and the file, as errors name them."""
    cut = (text if len(text) <= _SHOWN else text[: _SHOWN - 1] + "…" for text in arguments)
    call = "{{" + ":".join((name, *cut)) + "}}"
    return f"{call} on {file.path}" if file is not None else call
