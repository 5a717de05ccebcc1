"""A part of XPath 1.0, evaluated over ElementTree's elements.

A path is steps between ``/`` (children) or ``//`` (at any depth): a name, ``*``, ``.``, ``..``,
and last ``@name``, ``@*`` or ``text()``. Names may be ``prefix:name`` (prefixes as the file
declares them), ``{namespace}name``, ``{*}name`` and ``prefix:*``. After a step stand any number
of predicates: a position (``[2]``, ``[last()]``, ``[last()-1]``), or a condition of paths, texts
in quotes, numbers, ``= != < <= > >=``, ``+ -``, ``and``, ``or``, brackets, and the functions ``not
contains starts-with position last count number string string-length normalize-space true false``.

This holds all that ElementTree's ``find`` takes and what the public implementation's pages
promise (``[budget>100000]``, ``[salary>5 and team='X']``). Where ElementTree and XPath differ,
XPath is right: ``item[@x][1]`` is the first of those with x, ``*[2]`` the second child of any
name, matches come in the document's order.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from functools import lru_cache

from generators.errors import TemplateError
from generators.templates.functions.xpathwalk import (
    CALLS,
    ORDERS,
    Expression,
    Value,
    XPath,
    XPathStep,
    compare,
    is_true,
    number_from,
    select_from,
)

MAX_PATH = 2_000  # characters
MAX_NESTING = 30  # of brackets

_TOKEN = re.compile(
    r"""\s*(?:
      (?P<text>'[^']*'|"[^"]*")
    | (?P<number>[0-9]+(?:\.[0-9]*)?|\.[0-9]+)
    | (?P<sign>//|\.\.|!=|<=|>=|==|[/.@\[\]()=<>*+\-,|])
    | (?P<name>\{[^}]*\}(?:[^\W\d][\w.\-]*|\*)|[^\W\d][\w.\-]*(?::(?:[^\W\d][\w.\-]*|\*))?)
    )""",
    re.X,
)


@lru_cache(maxsize=4096)
def compile_xpath(text: str) -> XPath:
    """The steps of a path. Raises TemplateError that shows where it stops being one."""
    if len(text) > MAX_PATH:
        raise TemplateError(f"the path has {len(text)} characters; at most {MAX_PATH} are read")
    parser = _Parser(text)
    path = parser.path()
    parser.end()
    return path


class _Parser:
    """Reads one path from left to right."""

    def __init__(self, text: str) -> None:
        self._text = text
        self._tokens = list(_tokens(text))
        self._at = 0
        self._depth = 0

    def path(self) -> XPath:
        """A path, as far as it goes."""
        absolute = self._peek() in ("/", "//")
        steps: list[XPathStep] = []
        while not steps or self._peek() in ("/", "//"):
            slash = self._next() if self._peek() in ("/", "//") else ""
            if steps and steps[-1].axis in ("attribute", "text"):
                raise self._error("a step cannot follow an attribute or text()")
            steps.append(self._step(slash == "//"))
        return XPath(tuple(steps), absolute)

    def end(self) -> None:
        """Raise TemplateError where something is left."""
        if self._at < len(self._tokens):
            raise self._error("a path goes on with / or [")

    def _step(self, deep: bool) -> XPathStep:
        part = self._next()
        if part == "..":
            return XPathStep("parent", "*", deep, self._predicates())
        if part == ".":
            return XPathStep("self", "*", deep, self._predicates())
        if part == "@":
            name = self._next()
            if name != "*" and not _is_name(name):
                raise self._error("@ is followed by a name")
            return XPathStep("attribute", name, deep)
        if part == "text" and self._peek() == "(":
            self._expect("(")
            self._expect(")")
            return XPathStep("text", "", deep)
        if part != "*" and not _is_name(part):
            raise self._error("a step is a name, *, ., .., @name or text()")
        if self._peek() == "(":
            raise self._error("a path has steps; functions stand within [ ]")
        return XPathStep("child", part, deep, self._predicates())

    def _predicates(self) -> tuple[Expression, ...]:
        predicates: list[Expression] = []
        while self._peek() == "[":
            self._expect("[")
            predicates.append(self._either())
            self._expect("]")
        return tuple(predicates)

    def _either(self) -> Expression:
        self._depth += 1
        if self._depth > MAX_NESTING:
            raise self._error(f"brackets are nested deeper than {MAX_NESTING}")
        ways = [self._both()]
        while self._peek() == "or":
            self._next()
            ways.append(self._both())
        self._depth -= 1
        return (
            ways[0]
            if len(ways) == 1
            else lambda context: any(is_true(way(context)) for way in ways)
        )

    def _both(self) -> Expression:
        conditions = [self._comparison()]
        while self._peek() == "and":
            self._next()
            conditions.append(self._comparison())
        return (
            conditions[0]
            if len(conditions) == 1
            else lambda context: all(is_true(one(context)) for one in conditions)
        )

    def _comparison(self) -> Expression:
        one = self._sum()
        if self._peek() not in ORDERS:
            return one
        sign, other = self._next(), self._sum()
        return lambda context: compare(sign, one(context), other(context), context.work)

    def _sum(self) -> Expression:
        total = self._operand()
        while self._peek() in ("+", "-"):
            total = _signed(total, self._next(), self._operand())
        return total

    def _operand(self) -> Expression:
        part = self._peek()
        if part == "(":
            self._expect("(")
            inner = self._either()
            self._expect(")")
            return inner
        if part[:1] in ("'", '"'):
            return _constant(self._next()[1:-1])
        if part == "-":
            self._next()
            return _signed(_constant(0.0), "-", self._operand())
        if part[:1].isdigit() or (part[:1] == "." and part[1:2].isdigit()):
            return _constant(float(self._next()))
        if part in CALLS and self._peek(1) == "(":
            return self._call()
        path = self.path()
        return lambda context: select_from(path, context)

    def _call(self) -> Expression:
        name = self._next()
        least, most, apply = CALLS[name]
        self._expect("(")
        arguments: list[Expression] = []
        while self._peek() != ")":
            if arguments:
                self._expect(",")
            arguments.append(self._either())
        self._expect(")")
        if not least <= len(arguments) <= most:
            raise self._error(f"{name}() takes {least if least == most else '0 or 1'} arguments")
        return lambda context: apply([argument(context) for argument in arguments], context)

    def _peek(self, ahead: int = 0) -> str:
        at = self._at + ahead
        return self._tokens[at][0] if at < len(self._tokens) else ""

    def _next(self) -> str:
        part = self._peek()
        self._at += 1
        return part

    def _expect(self, part: str) -> None:
        if self._peek() != part:
            raise self._error(f"{part} is missing")
        self._at += 1

    def _error(self, what: str) -> TemplateError:
        at = min(self._at, len(self._tokens)) - 1
        start = self._tokens[at][1] if at >= 0 else 0
        rest = self._text[start:][:60]
        return TemplateError(f"in the path, {what} (near {rest!r})")


def _tokens(text: str) -> Iterator[tuple[str, int]]:
    """Each part with where it starts."""
    at, end = 0, len(text.rstrip())
    while at < end:
        match = _TOKEN.match(text, at)
        if match is None or match["sign"] in ("==", "|"):
            hint = "; write = for ==" if match and match["sign"] == "==" else ""
            raise TemplateError(f"the path cannot be read from {text[at:][:60]!r} on{hint}")
        yield match[0].strip(), at
        at = match.end()


def _is_name(part: str) -> bool:
    return part[:1] == "{" or part[:1] == "_" or part[:1].isalpha()


def _constant(value: Value) -> Expression:
    return lambda _: value


def _signed(one: Expression, sign: str, other: Expression) -> Expression:
    if sign == "+":
        return lambda context: number_from(one(context)) + number_from(other(context))
    return lambda context: number_from(one(context)) - number_from(other(context))
