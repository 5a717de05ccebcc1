"""Texts with placeholders: parsed once, filled for every sample.

A placeholder is ``{{name:argument:…}}``. Arguments are split on ``:`` and stripped; one that
starts with a quote ends with it, and may hold ``:`` and ``}``; the free text of a function such
as ``sqlite_query`` may hold ``:`` anyway, and quotes anywhere. Arguments may hold placeholders.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from functools import lru_cache

from generators.errors import TemplateError, nearest
from generators.templates.functions import FUNCTIONS, call_function, find_matches
from generators.templates.functions.base import Function, Match, OpenFile
from generators.templates.language.values import BUILT_IN, ValueSet
from generators.templates.language.variables import Variable, find_variable

CONSTANTS = ("artifacts", "qs_id", "expected_structure")
MAX_DEPTH = 16  # of calls within calls
LONGEST_PLACEHOLDER = 20_000  # characters
_TARGET = re.compile(r"TARGET_FILE(?:\[([A-Za-z][A-Za-z0-9_-]{0,49})\])?")
_LOREM = re.compile(r"lorem:[ ]*[0-9]{1,6}[ ]*[lsp]")
_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
_KNOWN = ("entity1", "semantic1", "number1", *CONSTANTS)


@dataclass(frozen=True, slots=True)
class Constant:
    """A value that the sample is given, not drawn."""

    name: str

    def __str__(self) -> str:
        return f"{{{{{self.name}}}}}"


@dataclass(frozen=True, slots=True)
class Call:
    """A function of the answer key, its arguments still texts."""

    function: Function
    arguments: tuple[Text, ...]
    file: Text | None

    @property
    def texts(self) -> tuple[Text, ...]:
        """The arguments, and the file if it takes one."""
        return (*self.arguments, self.file) if self.file else self.arguments


Part = str | Variable | Constant | Call
Text = tuple[Part, ...]


# Receives a call, its file's path, and what finds out what the call's parts meet there.
Trace = Callable[[Call, str, Callable[[], tuple[Match, ...]]], None]


@dataclass(frozen=True, slots=True)
class Scope:
    """Values that replace a sample's placeholders."""

    values: Mapping[str, str]  # of variables by key, and of constants by name
    open_file: Callable[[str], OpenFile]  # a path, or TARGET_FILE…; raises TemplateError
    trace: Trace | None = None  # receives each call that reads a file


@lru_cache(maxsize=4096)
def parse_text(text: str, keep_lorem: bool = False, values: ValueSet = BUILT_IN) -> Text:
    """The parts of a text. ``keep_lorem`` leaves ``{{lorem:…}}`` as it is, to be drawn later.

    Raises TemplateError for a placeholder that nothing can fill.
    """
    return tuple(_merge(_parts(text, _Known(keep_lorem, values), 0)))


@dataclass(frozen=True, slots=True)
class _Known:
    """What a text may hold."""

    keep_lorem: bool
    values: ValueSet


def fill_text(text: Text, scope: Scope) -> str:
    """The text of one sample. Raises TemplateError if a function has no answer."""
    return "".join([part if isinstance(part, str) else _value(part, scope) for part in text])


def _value(part: Variable | Constant | Call, scope: Scope) -> str:
    if isinstance(part, Call):
        return _answer(part, scope)
    value = scope.values.get(part.key if isinstance(part, Variable) else part.name)
    if value is None:
        raise TemplateError(f"{part} has no value here")
    return value


def _answer(call: Call, scope: Scope) -> str:
    name = call.function.name
    arguments = [fill_text(argument, scope) for argument in call.arguments]
    if call.file is None:
        return call_function(name, arguments, None)
    opened = scope.open_file(fill_text(call.file, scope))
    if scope.trace is not None:
        scope.trace(call, opened.path, lambda: find_matches(name, arguments, opened))
    return call_function(name, arguments, opened)


def parts_of(text: Text) -> Iterator[Part]:
    """The parts of a text in their order, after each call those of its arguments."""
    for part in text:
        yield part
        if isinstance(part, Call):
            for inner in part.texts:
                yield from parts_of(inner)


def variables_of(text: Text) -> Iterator[Variable]:
    """The variables of a text in their order, those in arguments too."""
    return (part for part in parts_of(text) if isinstance(part, Variable))


def is_plain(text: Text) -> bool:
    """True if the text has no placeholders."""
    return all(isinstance(part, str) for part in text)


def outermost(text: str) -> Iterator[tuple[int, int]]:
    """Find the start and end of each outermost placeholder, by the braces alone."""
    depth = start = 0
    for match in re.finditer(r"\{\{|\}\}", text):
        if match[0] == "{{":
            start = start if depth else match.start()
            depth += 1
        elif depth:
            depth -= 1
            if depth == 0:
                yield start, match.end()


def _merge(parts: Iterator[Part]) -> Iterator[Part]:
    """The same, neighbouring strings joined, empty ones left out."""
    literal = ""
    for part in parts:
        if isinstance(part, str):
            literal += part
            continue
        if literal:
            yield literal
        literal = ""
        yield part
    if literal:
        yield literal


def _parts(text: str, known: _Known, depth: int) -> Iterator[Part]:
    if depth > MAX_DEPTH:
        raise TemplateError(f"placeholders are nested deeper than {MAX_DEPTH}")
    at = 0
    while (start := text.find("{{", at)) >= 0:
        while text.startswith("{{{", start):  # a brace before a placeholder is a brace
            start += 1
        yield text[at:start]
        end = _end_of(text, start + 2)
        yield _placeholder(text[start + 2 : end], known, depth)
        at = end + 2
    yield text[at:]


def _end_of(text: str, start: int) -> int:
    """Find the end of the placeholder that starts here. Raises TemplateError if there is none."""
    free = _is_free(text[start : start + 64])
    for quoted in (True, False):  # an odd quote is a quote, not an opening one
        end = _scan(text, start, quoted, free)
        if end is not None:
            return end
    raise TemplateError(f"{_show(text[start - 2 :])} is never closed: it lacks }}}}")


def _scan(text: str, start: int, quoted: bool, free: bool) -> int | None:
    at, depth, quote, fresh = start, 0, "", False
    end = min(len(text), start + LONGEST_PLACEHOLDER)
    while at < end:
        letter = text[at]
        if quote:
            quote = "" if letter == quote else quote
        elif text.startswith("}}", at) and depth == 0:
            return at
        elif text.startswith("}}", at):
            depth, at = depth - 1, at + 1
        elif text.startswith("{{", at):
            depth, at = depth + 1, at + 1
        elif quoted and letter in "'\"" and (free or fresh):
            quote = letter
        fresh = letter == ":" or (fresh and letter == " ")
        at += 1
    return None


def _placeholder(body: str, known: _Known, depth: int) -> Part:
    if known.keep_lorem and _LOREM.fullmatch(body.strip()):
        return f"{{{{{body.strip()}}}}}"
    name, *rest = _split(body, _is_free(body))
    name = name.strip()
    if name in CONSTANTS and not rest:
        return Constant(name)
    if name in FUNCTIONS:
        return _call(FUNCTIONS[name], rest, known, depth)
    variable = find_variable(name, tuple(argument.strip() for argument in rest), known.values)
    if variable is not None:
        return variable
    if name == "lorem":
        raise TemplateError(
            f"{_show('{{' + body + '}}')}: write {{{{lorem:N}}}} with N and l, s or p (lines, "
            "sentences, paragraphs) as in {{lorem:3s}}, in the custom content of create_files"
        )
    names = (*FUNCTIONS, *_KNOWN)
    raise TemplateError(f"unknown placeholder {_show('{{' + body + '}}')}; {_hint(name, names)}")


def _hint(name: str, known: tuple[str, ...]) -> str:
    hint = nearest(name, known)
    near = hint.split("? known")[0]
    return f"{near}?" if near != hint else f"variables are {', '.join(_KNOWN[:3])}"


def _call(function: Function, rest: list[str], known: _Known, depth: int) -> Call:
    file = rest.pop().strip() if function.takes_file and rest else None
    if function.takes_file and not file:
        raise TemplateError(
            f"{function.name} takes a file last: TARGET_FILE, TARGET_FILE[NAME] or a path"
        )
    if function.split is not None and rest:
        rest = function.split(":".join(rest))
    elif function.rest and len(rest) > function.max_arguments:
        extra = len(rest) - function.max_arguments
        rest = [":".join(rest[: extra + 1]), *rest[extra + 1 :]]
    if not function.min_arguments <= len(rest) <= function.max_arguments:
        raise TemplateError(
            f"{function.name} takes {_count(function)}, not {len(rest)}: "
            f"{', '.join(rest)[:120] or 'none'}"
        )
    arguments = tuple(_parse(_unquote(text.strip()), known, depth) for text in rest)
    if function.check is not None and all(map(is_plain, arguments)):
        try:
            function.check(["".join(map(str, argument)) for argument in arguments])
        except TemplateError as error:
            raise TemplateError(f"{function.name}: {error}") from error
    return Call(function, arguments, _parse(file, known, depth) if file else None)


def _parse(text: str, known: _Known, depth: int) -> Text:
    return tuple(_merge(_parts(text, known, depth + 1)))


def _count(function: Function) -> str:
    least, most = function.min_arguments, function.max_arguments
    number = str(least) if least == most else f"{least} to {most}"
    return f"{number} argument{'' if number == '1' else 's'}{' and a file' * function.takes_file}"


def _is_free(body: str) -> bool:
    """True if the placeholder that starts so is a function with free text, such as SQL."""
    name = _NAME.match(body.lstrip())
    return name is not None and name[0] in FUNCTIONS and FUNCTIONS[name[0]].rest


def _split(body: str, free: bool) -> list[str]:
    """The body's pieces between colons, those in quotes and in inner placeholders let be."""
    pieces, start, at, depth, quote = [], 0, 0, 0, ""
    while at < len(body):
        letter = body[at]
        if quote:
            quote = "" if letter == quote else quote
        elif body.startswith(("{{", "}}"), at):
            depth, at = depth + (1 if letter == "{" else -1), at + 1
        elif depth == 0 and letter == ":":
            pieces.append(body[start:at])
            start = at + 1
        elif letter in "'\"" and body.find(letter, at + 1) > 0:
            quote = letter if free or not body[start:at].strip() else ""
        at += 1
    return [*pieces, body[start:]]


def _unquote(text: str) -> str:
    """The text in quotes, where all of it is one quoted text."""
    quote = text[:1]
    whole = len(text) >= 2 and quote in ("'", '"') and text.find(quote, 1) == len(text) - 1
    return text[1:-1] if whole else text


def target_name(file: str) -> str | None:
    """The component that ``TARGET_FILE[name]`` means, "" for the only one; None for a path."""
    match = _TARGET.fullmatch(file)
    return None if match is None else match[1] or ""


def _show(text: str) -> str:
    return text if len(text) <= 80 else text[:77] + "…"
