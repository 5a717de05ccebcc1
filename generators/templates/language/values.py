"""Values that an author gives for data types and pools: ``values:`` of a template, or a file that
it names there.

```yaml
format: 1  # of a file only
types:
  department: [Engineering, Sales, IT]
  status: {values: [active, inactive], weights: [0.9, 0.1], empty: 0.05}
  price: {range: [0.5, 99.99]}
pools:
  default: [crimson, harbor]
together:
- {types: [city, region], rows: [[New York, Northeast], [Chicago, Midwest]]}
```
"""

from __future__ import annotations

import difflib
import math
import re
import unicodedata
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from decimal import ROUND_CEILING, ROUND_FLOOR, Decimal
from pathlib import PurePosixPath
from typing import Any

from generators.errors import TemplateError, nearest
from generators.templates.language.custom_types import (
    composed,
    identifiers,
    listed,
    with_empty_cells,
)
from generators.templates.language.data_types import (
    DATA_TYPES,
    POOLS,
    SEMANTIC_POOLS,
    DataType,
    decimals,
    integers,
)
from generators.templates.language.diagnostics import Form, shown, wrong
from generators.templates.language.keys import (
    DOCUMENT_KEYS,
    FORMAT,
    GROUP_KEYS,
    LISTED_KEYS,
    POOL_KEYS,
    RANGE_KEYS,
    SECTIONS,
    VALUES_FILE_KEYS,
)
from generators.yaml_lines import Place, fault_of_form

_KINDS = frozenset(DOCUMENT_KEYS) - {"boolean"}  # which is a data type as well
_NAME = re.compile(r"[A-Za-z][A-Za-z0-9_]{0,49}")
_WORD = re.compile(r"[A-Za-z0-9][A-Za-z0-9_-]{0,59}")  # of a pool: it may become a file's name
_LONGEST_VALUE = 200  # characters
_MOST_DECIMALS = 6
_MOST_STEPS = 1 << 53  # a uniform distinguishes no more values
_TOLERANCE = 1e-6  # of the sum of weights, which are written as decimals
_INVISIBLE = ("Cc", "Cf", "Cs", "Zl", "Zp")  # categories of characters
# Without repeats that compete for the same characters, so that the search takes linear time.
_FILE = re.compile(
    r"""^\ufeff?values:[ \t]+(?:(["'])([^"'#\n]+)\1[ \t]*|([^\s"'#{\[|>&*!][^"'#\n]*))(?:\#.*)?$""",
    re.M,
)
# Data type → the one that it has its values from, if only that one is given.
_SAME = {"city_name": "city", "company_name": "company", "product_name": "product"}


@dataclass(frozen=True, slots=True, eq=False)
class ValueSet:
    """The data types and pools that a template may name. If the author's own could not be read,
    ``unread`` is true, and every name stands for something, so that the fault is reported once."""

    types: Mapping[str, DataType]
    pools: Mapping[str, DataType | tuple[str, ...]]
    unread: bool = False

    def type(self, name: str) -> DataType:
        """The data type of this name. Raises TemplateError with the nearest that there is."""
        kind = self.types.get(name) or (self.types["lorem_word"] if self.unread else None)
        if kind is None:
            raise TemplateError(f"unknown data type {name!r}; {nearest(name, self.types)}")
        return kind

    def pool(self, name: str) -> DataType | tuple[str, ...]:
        """The pool of this name. Raises TemplateError with the nearest that there is."""
        pool = self.pools.get(name) or (self.pools["default"] if self.unread else None)
        if pool is None:
            raise TemplateError(f"unknown pool {name!r}; {nearest(name, self.pools)}")
        return pool


BUILT_IN = ValueSet(DATA_TYPES, POOLS)
UNREAD = replace(BUILT_IN, unread=True)


def named_values_file(template: str) -> str | None:
    """Return the path of the file that a template's line ``values: FILE`` names, if it has one."""
    match = _FILE.search(template)
    return (match[2] or match[3]).strip() if match else None


def fault_of_path(name: str) -> str | None:
    """Return why a path is none of a values file beside its template; None if it is one."""
    path = PurePosixPath(name)
    if path.is_absolute() or ".." in path.parts or "\\" in name or name.startswith("~"):
        return "leads out of the template's folder; keep the file beside the template"
    return None if path.suffix in (".yml", ".yaml") else "is no YAML file; .yml or .yaml is wanted"


@dataclass(slots=True)
class ValuesForm(Form):
    """The reading of ``values:``, or of a values file."""

    used: str = ""  # the text in which a type of a new name is to be used
    shared: bool = False  # whether other templates may use it
    types: dict[str, DataType] = field(default_factory=dict)
    pools: dict[str, DataType] = field(default_factory=dict)

    def read_file(self) -> ValueSet:
        """The values of a file, UNREAD if there are errors in them."""
        content = self.document.value
        if not isinstance(content, dict):
            self.error((), f"a mapping is wanted, with format: {FORMAT}, not {shown(content)}")
            return UNREAD
        given = content.get("format")
        if "format" not in content or given != FORMAT or isinstance(given, bool):
            what = "is missing" if "format" not in content else f"is {shown(given)}"
            self.error(("format",), f"the format {what}; this version reads format: {FORMAT}")
            return UNREAD  # another version may have other keys
        self.known_keys((), content, VALUES_FILE_KEYS)
        sections = {key: content[key] for key in SECTIONS if key in content}
        return self.read((), sections)

    def read(self, place: Place, given: Any) -> ValueSet:
        """The built-in values, and in place of some of them the given ones; UNREAD if there are
        errors in them."""
        content = self.mapping(place, given, SECTIONS)
        for name, entry in self.entries((*place, "types"), content):
            with self.noted():
                self.types[name] = self.entry((*place, "types", name), name, entry)
        for name, entry in self.entries((*place, "pools"), content):
            with self.noted():
                self.pools[name] = self.pool((*place, "pools", name), name, entry)
        together = content.get("together", [])
        if not isinstance(together, list):
            self.error((*place, "together"), f"a list is wanted, not {shown(together)}")
            together = []
        for index, group in enumerate(together):
            self.group((*place, "together", index), group)
        if self.errors:
            return UNREAD
        return ValueSet(
            {**DATA_TYPES, **_derived(self.types, self.pools), **self.types},
            {**POOLS, **self.pools},
        )

    def entries(self, place: Place, content: Mapping[str, Any]) -> list[tuple[str, Any]]:
        """The entries of a section that have a name which may stand in a placeholder."""
        if place[-1] not in content:
            return []
        section = self.mapping(place, content[str(place[-1])])
        return [(name, entry) for name, entry in section.items() if self.name(place, name)]

    def name(self, place: Place, name: str) -> bool:
        if not _NAME.fullmatch(name) or name in _KINDS:
            self.error(
                (*place, name),
                f"{shown(name)} is no name: a letter, then letters, digits and _, and no kind of "
                f"a schema ({', '.join(sorted(_KINDS))})",
            )
            return False
        if place[-1] == "pools" or name in DATA_TYPES:
            return True
        near = difflib.get_close_matches(name, DATA_TYPES, n=1, cutoff=0.8)
        if near and not re.search(rf"(?<![\w-]){name}(?![\w-]|\s*:)", self.used):
            what = f"unknown data type {name!r}, which no question uses; did you mean {near[0]!r}?"
            report = self.warn if self.shared else self.error
            report((*place, name), what)
            return self.shared
        return True

    def entry(self, place: Place, name: str, given: Any) -> DataType:
        """The data type of an entry: a list, or a mapping."""
        if isinstance(given, list):
            return self.listed((), place, name, given, None)
        if not isinstance(given, dict) or not given:
            wrong(place, f"a list of values, or a mapping, is wanted, not {shown(given)}")
        before = len(self.errors)
        if "values" in given:
            self.known_keys(place, given, LISTED_KEYS)
            kind = self.listed(("values",), place, name, given["values"], given.get("weights"))
        elif "range" in given:
            self.known_keys(place, given, RANGE_KEYS)
            kind = _range(place, name, given)
        else:
            self.known_keys(place, given, ("empty",))
            if name not in DATA_TYPES and len(self.errors) == before:
                wrong(place, "lacks `values`, or `range`")
            kind = DATA_TYPES.get(name, DATA_TYPES["lorem_word"])
        if len(self.errors) > before or "empty" not in given:
            return kind
        share = given["empty"]
        if not _is_number(share) or not 0 <= share < 1:
            wrong((*place, "empty"), f"a share from 0 to below 1 is wanted, not {shown(share)}")
        return with_empty_cells(kind, float(share)) if share else kind

    def pool(self, place: Place, name: str, given: Any) -> DataType:
        """The pool of an entry."""
        words, weights = given, None
        inner: Place = ()
        if isinstance(given, dict):
            self.known_keys(place, given, POOL_KEYS)
            words, weights, inner = given.get("values"), given.get("weights"), ("values",)
        return self.listed(inner, place, name, words, weights, fault_of_word)

    def listed(
        self,
        inner: Place,
        place: Place,
        name: str,
        given: Any,
        weights: Any,
        fault_of: Callable[[Any], str | None] | None = None,
    ) -> DataType:
        """The data type of a list of values, with their weights if they have some."""
        within = (*place, *inner)
        if not isinstance(given, list) or not given:
            wrong(within, f"a list of at least one value is wanted, not {shown(given)}")
        _check_plain(within, given, fault_of or _fault_of_value)
        if weights is None:
            return listed(name, given)
        return listed(name, given, _weights((*place, "weights"), weights, len(given)))

    def group(self, place: Place, given: Any) -> None:
        """Data types of which the values go together: rows of a table."""
        content = self.mapping(place, given, GROUP_KEYS)
        names, rows = content.get("types"), content.get("rows")
        within = (*place, "types")
        if not isinstance(names, list) or len(names) < 2 or {*map(type, names)} != {str}:
            self.error(within, f"a list of at least two data types is wanted, not {shown(names)}")
            return
        before = len(self.errors)
        for index, name in enumerate(names):
            if name in names[:index] or name in self.types:
                self.error((*within, index), f"{name!r} has its values already")
            else:
                self.name(within, name)
        if not isinstance(rows, list) or not rows:
            self.error((*place, "rows"), f"a list of rows is wanted, not {shown(rows)}")
            return
        for index, row in enumerate(rows):
            if not isinstance(row, list) or len(row) != len(names):
                self.error((*place, "rows", index), f"a list of {len(names)} values is wanted")
        if len(self.errors) > before:
            return
        with self.noted():
            weights = None
            if "weights" in content:
                weights = _weights((*place, "weights"), content["weights"], len(rows))
            for index, name in enumerate(names):
                column = [row[index] for row in rows]
                _check_plain((*place, "rows"), column, _fault_of_value)
                self.types[name] = replace(listed(name, column, weights), group="+".join(names))


def _check_plain(
    place: Place, values: Sequence[Any], fault_of: Callable[[Any], str | None]
) -> None:
    """Check that the values are all texts, or all numbers; the first that is neither is wrong."""
    for index, value in enumerate(values):
        if (fault := fault_of(value)) is not None:
            wrong((*place, index), f"{shown(value)} {fault}")
    if len({isinstance(value, str) for value in values}) > 1:
        wrong(place, "texts and numbers in one list; put the numbers in quotes")


def _weights(place: Place, given: Any, count: int) -> list[float]:
    """The weights of as many values."""
    if not isinstance(given, list):
        wrong(place, f"a list of numbers is wanted, not {shown(given)}")
    for index, weight in enumerate(given):
        if not _is_number(weight) or weight < 0:
            what = "is no share; shares from 0 on that sum to 1 are wanted"
            wrong((*place, index), f"{shown(weight)} {what}")
    if len(given) != count:
        noun = "weight" if len(given) == 1 else "weights"
        wrong(place, f"{len(given)} {noun} for {count} values; one for each is wanted")
    if abs(math.fsum(given) - 1) > _TOLERANCE:
        wrong(
            place,
            f"the weights sum to {math.fsum(given):g}; shares from 0 on that sum to 1 are wanted",
        )
    return [float(weight) for weight in given]


def _range(place: Place, name: str, given: Mapping[str, Any]) -> DataType:
    """The numbers from one to another, both included."""
    ends, within = given["range"], (*place, "range")
    if not isinstance(ends, list) or len(ends) != 2:
        wrong(within, f"[least, greatest] is wanted, two numbers, not {shown(ends)}")
    for index, end in enumerate(ends):
        if not _is_number(end):
            what = "is no number; [least, greatest] is wanted, in plain digits"
            wrong((*within, index), f"{shown(end)} {what}")
    low, high = (Decimal(str(end)) for end in ends)
    if high < low:
        wrong(within, f"[{low}, {high}] is reversed; write [{high}, {low}]")
    places = given.get("decimals", _places(name, low, high))
    if type(places) is not int or not 0 <= places <= _MOST_DECIMALS:  # true is no number
        wrong(
            (*place, "decimals"),
            f"a whole number from 0 to {_MOST_DECIMALS} is wanted, not {shown(places)}",
        )
    if max(abs(low), abs(high)) * 10**places >= _MOST_STEPS:
        wrong(within, f"is too wide: up to 2^53 steps of {places} decimals are possible")
    first = int((low * 10**places).to_integral_value(ROUND_CEILING))
    last = int((high * 10**places).to_integral_value(ROUND_FLOOR))
    if last < first:
        wrong(within, f"no number of {places} decimals lies between {low} and {high}")
    if places:
        return decimals(name, first, last, places, lambda value: f"{value:.{places}f}")
    return identifiers(name, first, last) if name == "id" else integers(name, first, last)


def fault_of_text(value: str) -> str | None:
    """Return why a text may be no value; None if it may."""
    if not value.strip():
        return "is empty; write `empty: SHARE` for a share of empty cells"
    if len(value) > _LONGEST_VALUE:
        return f"is longer than {_LONGEST_VALUE} characters"
    # Controls, line ends, bidirectional formatting and halves of characters.
    if any(
        unicodedata.category(letter) in _INVISIBLE or letter in "\ufffe\uffff" for letter in value
    ):
        return "holds a control character, or one that nobody sees"
    return "holds braces of a placeholder" if "{{" in value or "}}" in value else None


def fault_of_word(word: Any) -> str | None:
    """Return why a value may not stand in a pool; None if it may."""
    if isinstance(word, str) and _WORD.fullmatch(word):
        return None
    return (
        "is no word: up to 60 letters, digits, _ and - are wanted (a number in quotes), since it "
        "may become the name of a file or a column"
    )


def _fault_of_value(value: Any) -> str | None:
    """Return why a value may not be one of a data type; None if it may."""
    if isinstance(value, str):
        return fault_of_text(value)
    if _is_number(value):
        return fault_of_form(value) if abs(value) < _MOST_STEPS else "is too far from 0"
    return "is neither text nor a number; put true, false and null in quotes"


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool) and abs(value) <= 1e300


def _places(name: str, low: Decimal, high: Decimal) -> int:
    """Decimals of the numbers in a range: those of its ends, and of a price two."""
    if name == "price":
        return 2
    exponents = [int(end.normalize().as_tuple().exponent) for end in (low, high)]
    return max(0, *(-exponent for exponent in exponents))


def _derived(types: Mapping[str, DataType], pools: Mapping[str, DataType]) -> dict[str, DataType]:
    """The types that have their values from others that were given."""
    known = {**DATA_TYPES, **types}
    derived = {
        name: replace(types[source], name=name) for name, source in _SAME.items() if source in types
    }
    for name in SEMANTIC_POOLS:
        if name in pools:
            derived[name] = replace(pools[name], name=name)
    if "default" in pools:
        derived["entity_pool"] = replace(pools["default"], name="entity_pool")
    names = ("first_name", "last_name")
    if any(name in types for name in names):
        derived["person_name"] = composed("person_name", [known[name] for name in names], " ".join)
    if any(name in types for name in (*names, "mail_domain")):
        parts = [known[name] for name in (*names, "mail_domain")]
        derived["email"] = composed("email", parts, _mail)
    return derived


def _mail(parts: Sequence[str]) -> str:
    first, last = ("".join(part.lower().split()) for part in parts[:2])
    return f"{first}.{last}@{parts[2]}"
