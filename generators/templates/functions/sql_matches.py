"""What the comparisons of a query meet in a database, for the check of a template.

Read from the query's words, not from a grammar: a comparison is a column, or a function of
columns of one table, beside a sign and literals. Others, such as those of aggregates, are let be.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import TYPE_CHECKING

from generators.templates.functions.base import Kind, Match, quote_name
from generators.templates.functions.matches import MOST_KNOWN

if TYPE_CHECKING:
    from generators.templates.functions.sqlite_file import OpenDatabase

_TOKEN = re.compile(
    r"""\s+ | --[^\n]* | /\*(?:[^*]|\*(?!/))*+(?:\*/)?+
      | (?P<text>'(?:[^']|'')*+'?+)
      | (?P<quoted>"(?:[^"]|"")*+"?+ | \[[^\]]*+\]?+ | `[^`]*+`?+)
      | (?P<number>[0-9]+(?:\.[0-9]*)?(?:[eE][+-]?[0-9]+)?|\.[0-9]+)
      | (?P<name>[A-Za-z_][A-Za-z0-9_]*)
      | (?P<sign><>|!=|<=|>=|==|\|\||.)""",
    re.VERBOSE | re.DOTALL,
)
_EQUAL = ("=", "==", "!=", "<>", "is")
_ORDERS = ("<", "<=", ">", ">=")
_LIKE = ("like", "glob")
_TURNED = {"<": ">", ">": "<", "<=": ">=", ">=": "<="}
_ARITHMETIC = frozenset(("+", "-", "*", "/", "%", "||", "."))
_AGGREGATES = frozenset(("count", "sum", "avg", "min", "max", "total", "group_concat", "over"))
_KEYWORDS = frozenset(
    (
        *("on", "using", "where", "join", "left", "right", "inner", "outer", "cross", "natural"),
        *("full", "group", "order", "having", "limit", "union", "intersect", "except", "as"),
        *("set", "and", "or", "not", "indexed", "window"),
    )
)
_LITERALS = ("text", "number")
_ORDERED = re.compile(r"\border\s+by\b", re.IGNORECASE)
_NEAR = 1e-9  # of floats that were added in another order


@dataclass(frozen=True, slots=True)
class _Token:
    kind: str  # text, quoted, number, name, sign
    text: str
    start: int = 0  # in the query
    end: int = 0

    @property
    def name(self) -> str:
        """In lower case, without its quotes."""
        return (self.text[1:-1] if self.kind == "quoted" else self.text).lower()


@dataclass(frozen=True, slots=True)
class Comparison:
    """An expression of one table's columns, a sign, and the literals that it is compared with."""

    table: str
    left: str
    sign: str
    literals: tuple[str, ...]  # as SQL has them
    part: str  # as written


Columns = tuple[tuple[str, tuple[str, ...]], ...]  # of each table


def match_query(sql: str, database: OpenDatabase) -> Iterator[Match]:
    """What each comparison of a query meets; and whether equal rows decide its answer."""
    tables = database.all("SELECT name FROM sqlite_master WHERE type IN ('table', 'view')")
    columns = tuple(
        (table, tuple(database.all(f"PRAGMA table_info({quote_name(table)})", 1)))
        for table in tables
        if not table.startswith("sqlite_")
    )
    for comparison in read_comparisons(sql, columns):
        yield from _match(comparison, database)
    if _ORDERED.search(sql):
        row, other = database.first(sql), database.first(_backwards(sql, columns))
        tied = row is not None and other is not None and not _same(row[0], other[0])
        yield Match("tie", "ORDER BY", int(tied), 1)


def _match(comparison: Comparison, database: OpenDatabase) -> Iterator[Match]:
    table, left = quote_name(comparison.table), comparison.left
    have = _number(database, f"SELECT count({left}) FROM {table}")  # noqa: S608 - a test of it
    for literal in comparison.literals:
        low, _, high = literal.partition("\0")
        test = f"{left} {comparison.sign} {low}" + (f" AND {high}" if high else "")
        met = _number(database, f"SELECT sum({test}) FROM {table}")  # noqa: S608
        bare = low[1:-1].replace("''", "'") if low[:1] in ("'", '"') else low
        equal = comparison.sign == "="
        ranged = comparison.sign in _ORDERS or bool(high)
        kind: Kind = "literal" if equal else "range" if ranged else "filter"
        known: tuple[str, ...] = ()
        if not met and ranged:
            ends = database.first(f"SELECT min({left}), max({left}) FROM {table}")  # noqa: S608
            known = tuple(str(end) for end in ends or () if end is not None)
        elif not met:
            known = tuple(
                database.all(
                    f"SELECT DISTINCT {left} FROM {table} WHERE {left} IS NOT NULL "  # noqa: S608
                    f"ORDER BY 1 LIMIT {MOST_KNOWN}"
                )
            )
        yield Match(kind, comparison.part, met, have, bare, known=known)


def _number(database: OpenDatabase, sql: str) -> int:
    row = database.first(sql)
    return 0 if row is None or row[0] is None else int(str(row[0]))


def _same(one: object, other: object) -> bool:
    if isinstance(one, float) and isinstance(other, float):
        return abs(one - other) <= _NEAR * max(1.0, abs(one))
    return one == other


@lru_cache(maxsize=512)
def _backwards(sql: str, columns: Columns) -> str:
    """The query with its tables read from their ends: it has another first row if rows that are
    equal in its order decide which is first."""
    reader = _Reader(_tokens(sql), columns)
    for token, name in reversed(reader.tables):
        read = f"(SELECT * FROM {token.text} ORDER BY rowid DESC LIMIT -1)"  # noqa: S608
        sql = f"{sql[: token.start]}{read} {name}{sql[token.end :]}"
    return sql


@lru_cache(maxsize=512)
def read_comparisons(sql: str, columns: Columns) -> tuple[Comparison, ...]:
    """The comparisons of a query with literals, of tables with such columns."""
    reader = _Reader(_tokens(sql), columns)
    return tuple(reader.comparisons(sql))


def _tokens(sql: str) -> list[_Token]:
    return [
        _Token(match.lastgroup, match[0], *match.span())
        for match in _TOKEN.finditer(sql)
        if match.lastgroup is not None
    ]


class _Reader:
    """The words of a query, and what its names mean."""

    def __init__(self, tokens: Sequence[_Token], columns: Columns) -> None:
        self._tokens = tokens
        self._columns = {
            table.lower(): (table, {name.lower(): name for name in names})
            for table, names in columns
        }
        self._aliases: dict[str, str] = {}
        self.tables: list[tuple[_Token, str]] = []  # where they stand, and the names they lack
        self._renamed = {self._name(at + 1) for at, one in enumerate(tokens) if one.name == "as"}
        for at, token in enumerate(tokens):
            if token.name in self._columns and self._opens(at - 1):
                self._aliases.setdefault(token.name, token.name)
                alias = self._alias(at + 1)
                self._aliases[alias or token.name] = token.name
                self.tables.append((token, "" if alias else token.text))

    def comparisons(self, sql: str) -> Iterator[Comparison]:
        """Yield them in their order."""
        for at, token in enumerate(self._tokens):
            sign = token.name
            if sign not in (*_EQUAL, *_ORDERS, *_LIKE, "in", "between"):
                continue
            negated = self._name(at - 1) == "not"
            left = self._left(at - 1 - negated)
            if left is not None:
                literals, end = self._right(at + 1, sign)
            elif sign in (*_EQUAL, *_ORDERS) and self._is_literal(at - 1):
                left = self._forward(at + 1)  # a literal, and then a column
                literals, end, sign = [self._tokens[at - 1].text], at, _TURNED.get(sign, sign)
            if left is None or not literals:
                continue
            equal = sign in (*_EQUAL, "in")
            table, start, stop = left
            first, last = self._tokens[min(start, at - 1)], self._tokens[max(end, stop)]
            written = " ".join(sql[first.start : last.end].split())
            left_text = self._bare(start, stop)
            yield Comparison(table, left_text, "=" if equal else sign, tuple(literals), written)

    def _opens(self, at: int) -> bool:
        return self._name(at) in ("from", "join", ",")

    def _alias(self, at: int) -> str:
        at += self._name(at) == "as"
        token = self._tokens[at] if at < len(self._tokens) else _Token("sign", "")
        is_name = token.kind in ("name", "quoted") and token.name not in _KEYWORDS
        return token.name if is_name else ""

    def _name(self, at: int) -> str:
        return self._tokens[at].name if 0 <= at < len(self._tokens) else ""

    def _is_literal(self, at: int) -> bool:
        if not 0 <= at < len(self._tokens):
            return False
        token = self._tokens[at]
        if token.kind == "quoted" and token.text.startswith('"'):  # to SQLite a text, if no column
            return self._resolve(token.name, "") is None and self._name(at + 1) != "."
        alone = self._name(at + 1) not in _ARITHMETIC and self._name(at - 1) not in _ARITHMETIC
        return token.kind in _LITERALS and alone

    def _resolve(self, name: str, qualifier: str) -> str | None:
        """The table of a column."""
        if qualifier:
            table = self._aliases.get(qualifier, "")
            return table if table and name in self._columns[table][1] else None
        if name in self._renamed:  # of a subquery, say, and no longer the column's own values
            return None
        used = dict.fromkeys(self._aliases.values())
        return next((table for table in used if name in self._columns[table][1]), None)

    def _left(self, end: int) -> tuple[str, int, int] | None:
        """The expression of one table that ends here."""
        start = end
        if self._name(end) == ")":
            depth = 0
            while start >= 0:
                depth += {")": 1, "(": -1}.get(self._name(start), 0)
                if depth == 0:
                    break
                start -= 1
            start -= start > 0 and self._tokens[start - 1].kind == "name"
            if self._name(start) in _KEYWORDS | {"in", "exists", "values", "case", "then"}:
                start += 1
        elif self._name(end - 1) == ".":
            start = end - 2
        return self._of_one_table(start, end)

    def _forward(self, start: int) -> tuple[str, int, int] | None:
        end = start + 2 if self._name(start + 1) == "." else start
        return None if self._name(end + 1) == "(" else self._of_one_table(start, end)

    def _of_one_table(self, start: int, end: int) -> tuple[str, int, int] | None:
        if start < 0 or end >= len(self._tokens) or self._name(start - 1) in _ARITHMETIC:
            return None
        tables: set[str | None] = set()
        for at in range(start, end + 1):
            token = self._tokens[at]
            if token.name in _AGGREGATES or token.name == "select":
                return None
            is_name = token.kind in ("name", "quoted") and self._name(at + 1) not in ("(", ".")
            if is_name and self._name(at - 1) == ".":
                tables.add(self._resolve(token.name, self._name(at - 2)))
            elif is_name and not (start < end and token.name in ("as", "integer", "real", "text")):
                tables.add(self._resolve(token.name, ""))
        found = tables.pop() if len(tables) == 1 else None
        return None if found is None else (self._columns[found][0], start, end)

    def _right(self, start: int, sign: str) -> tuple[list[str], int]:
        """The literals that stand here, and where they end."""
        if sign == "in":
            return self._listed(start)
        if sign == "is" and self._name(start) == "not":
            start += 1
        end = start + (self._name(start) == "-")
        if not self._is_literal(end) and not (end > start and self._tokens[end].kind == "number"):
            return [], start
        literal = "".join(token.text for token in self._tokens[start : end + 1])
        if sign != "between":
            return [literal], end
        if self._name(end + 1) != "and" or not self._is_literal(end + 2):
            return [], start
        return [f"{literal}\0{self._tokens[end + 2].text}"], end + 2

    def _listed(self, start: int) -> tuple[list[str], int]:
        literals: list[str] = []
        if self._name(start) != "(":
            return [], start
        at = start + 1
        while self._is_literal(at):
            literals.append(self._tokens[at].text)
            at += 2
            if self._name(at - 1) == ")":
                return literals, at - 1
        return [], start

    def _bare(self, start: int, end: int) -> str:
        """The expression without the names of tables before its columns."""
        kept = [
            self._tokens[at]
            for at in range(start, end + 1)
            if not (self._name(at + 1) == "." or self._name(at) == ".")
        ]
        return " ".join(token.text for token in kept)
