"""The data types that columns, schemas and ``{{semanticN:TYPE}}`` draw values of.

Every type makes its values from one uniform each, so that a whole table is one call of the
stream. Numbers are numbers and truth values are booleans; ``text`` writes them. As text, a truth
value of the type ``boolean`` is also ``yes`` or ``1``, as the format documents.

The words are those of ``word_pools.yml``. Entity words are lower case ASCII letters, so that any of
them may stand in a file name, in SQL or in a path expression. No value of a data type holds a
comma, a quote, a colon or a brace, so that each may stand in CSV, in SQL and as an argument of a
function without being quoted. The values that the format's documentation gives as examples are
among them, since people's templates filter by these.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import date, timedelta
from functools import cache, partial
from importlib.resources import files
from itertools import product
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

from generators.stream import Stream
from generators.yaml_lines import YamlLimits, parse_yaml

if TYPE_CHECKING:
    from numpy import float64, int64, object_
    from numpy.typing import NDArray

    Units = NDArray[float64]  # draws from the open interval (0, 1)
    Indices = NDArray[int64]


_NAME = "word_pools.yml"
_FILE: dict[str, dict[str, str]] = parse_yaml(
    files(__package__).joinpath(_NAME).read_bytes(), _NAME, YamlLimits("pools", 1_000_000)
).value
LISTS: Mapping[str, tuple[str, ...]] = MappingProxyType(
    {name: tuple(words.split()) for name, words in _FILE["words"].items()}
    | {name: tuple(phrases.splitlines()) for name, phrases in _FILE["phrases"].items()}
)
_BY_WHOLE = {header: kind for kind, names in _FILE["headers"].items() for header in names.split()}

SEMANTIC_POOLS = ("person", "place", "business", "technology")
# Colours, landscape, things, abstract and descriptive words are mixed in "default" on purpose: the
# names that an agent meets in the wild are seldom tidy (section 4.3.2 of the paper).
_ENTITIES = ("default", "colors", "nature", "metals", "gems", *SEMANTIC_POOLS)
POOLS: Mapping[str, tuple[str, ...]] = MappingProxyType({name: LISTS[name] for name in _ENTITIES})
_MAIL_PARTS = [
    [name.lower() for name in LISTS[part]] for part in ("first_names", "last_names", "mail_domains")
]
LATIN = LISTS["latin"]  # for filler text

LEAST_DATE, GREATEST_DATE = date(2020, 1, 1), date(2025, 12, 31)
SECONDS_A_DAY = 86_400
IDS = 9999
VERSIONS = 9 * 20 * 10  # 1.0.0 to 9.19.9
TRUTH_VALUES = ("true", "false", "yes", "no", "1", "0")  # as text; every other one is true
LEAST_WORDS, MOST_WORDS = 2, 5  # of lorem_words
MOST_TEXTS = 1000  # whole numbers of a kind that are kept as text


def text(value: Any) -> str:
    """A value as CSV, XML and questions show it: ``true``, ``12``, ``0.5``, and null as nothing."""
    if isinstance(value, str):
        return value
    if value is None:
        return ""
    if isinstance(value, bool):
        return "true" if value else "false"
    return repr(value)


@dataclass(frozen=True, slots=True)
class DataType:
    """A kind of value: how many there are, what column of a database holds it, how it is drawn.

    A value is made from an index below ``size``, which one uniform gives: those of whole tables
    are computed at once. A kind without a size makes its values from the uniforms themselves.
    """

    name: str
    sql: str  # TEXT, INTEGER, REAL or BOOLEAN
    size: int
    at: Callable[[Any], list[Any]]  # the values of as many indices, or uniforms
    longest: int  # characters of the longest value as text
    log10: float | None = None  # of how many values there are; None: as many as its size says
    write: Callable[[Any], str] = text
    texts: Callable[[], NDArray[object_]] | None = None  # of all indices, where they are few
    spell: Callable[[Any], list[str]] | None = None  # ``texts_at``, where there is a quicker way
    custom: bool = False  # whether an author gave the values, which may be any text
    group: str | None = None  # of types that go together: made from the same uniforms
    filled: DataType | None = None  # the same type without empty cells, if it has some
    listed: tuple[str, ...] = ()  # the values that an author gave, as text

    @property
    def log10_values(self) -> float:
        """log10 of how many values there are."""
        return math.log10(self.size) if self.log10 is None else self.log10

    def make(self, units: Units) -> list[Any]:
        """As many values as uniforms."""
        return self.at((units * self.size).astype("int64") if self.size else units)

    def texts_at(self, drawn: Any) -> list[str]:
        """As many values, written."""
        if self.texts is not None:
            return as_list(self.texts().take(drawn))
        if self.spell is not None:
            return self.spell(drawn)
        values = self.at(drawn)
        return values if self.sql == "TEXT" else list(map(self.write, values))

    @property
    def as_text(self) -> DataType:
        """The same type, its values written: for files that hold nothing but text."""
        if self.sql == "TEXT":
            return self
        return replace(self, sql="TEXT", at=self.texts_at, write=text)

    def draw(self, stream: Stream, count: int) -> list[Any]:
        """``count`` values. ``id`` repeats none before all 9,999 were drawn; others may."""
        return self.make(stream.uniforms(count))


def money(value: float) -> str:
    """A price with both its decimals: ``12.50``."""
    return f"{value:.2f}"


def as_list(array: Any) -> list[Any]:
    """The values of an array."""
    values: list[Any] = array.tolist()
    return values


def indices(units: Units, size: int) -> list[int]:
    """An index below ``size`` for each uniform."""
    return as_list((units * size).astype("int64"))


def drawn_columns(kinds: Sequence[DataType], sizes: Units, units: Units) -> list[Any]:
    """Compute the arguments of ``at`` for a column of each kind, from a row of uniforms for each.
    ``sizes`` is the result of ``sizes_of``."""
    places = (units * sizes).astype("int64")
    return [places[row] if kind.size else units[row] for row, kind in enumerate(kinds)]


def partners(kinds: Sequence[DataType | None]) -> tuple[tuple[int, int], ...]:
    """The places of kinds that go together with an earlier one, each with that one's place: of
    every type in a group the first with the first, the second with the second."""
    met: dict[tuple[str, int], int] = {}
    counts: Counter[tuple[str, str]] = Counter()
    pairs = []
    for place, kind in enumerate(kinds):
        if kind is None or kind.group is None:
            continue
        turn = counts[kind.group, kind.name]
        counts[kind.group, kind.name] += 1
        first = met.setdefault((kind.group, turn), place)
        if first != place:
            pairs.append((place, first))
    return tuple(pairs)


def sizes_of(kinds: Sequence[DataType]) -> Units:
    """The sizes of the kinds, one below the other."""
    import numpy as np

    return np.array([[float(kind.size)] for kind in kinds])


def lookup(values: Iterable[str | bytes]) -> NDArray[object_]:
    """The values as an array of objects, to take many from at once."""
    import numpy as np

    return np.array(tuple(values), dtype=object)


def _choice(name: str, values: Sequence[str]) -> DataType:
    return _lazy_choice(name, lambda: values, len(values), max(map(len, values)))


def _pairs(name: str, first: Sequence[str], second: Sequence[str]) -> DataType:
    longest = max(map(len, first)) + 1 + max(map(len, second))
    return _lazy_choice(
        name,
        lambda: [f"{one} {other}" for one, other in product(first, second)],
        len(first) * len(second),
        longest,
    )


def _lazy_choice(
    name: str, values: Callable[[], Sequence[str]], size: int, longest: int
) -> DataType:
    table = cache(lambda: lookup(values()))
    at = partial(taken, table)
    return DataType(name, "TEXT", size, at, longest, texts=table)


def taken(table: Callable[[], NDArray[object_]], drawn: Indices) -> list[Any]:
    """The values at these places of a table."""
    return as_list(table().take(drawn))


def integers(name: str, low: int, high: int) -> DataType:
    """The whole numbers from ``low`` to ``high``, both included."""
    size, width = high - low + 1, _width(low, high)
    texts = cache(lambda: lookup(map(str, range(low, high + 1)))) if size <= MOST_TEXTS else None

    def at(drawn: Indices) -> list[Any]:
        return as_list(drawn + low)

    return DataType(name, "INTEGER", size, at, width, write=str, texts=texts)


def decimals(
    name: str, low: int, high: int, places: int, write: Callable[[Any], str] = repr
) -> DataType:
    """The numbers of ``places`` decimals from ``low`` to ``high``, in units of the last one."""
    size, scale = high - low + 1, 10**places
    longest = max(_width(low, high), places + 1) + 2

    def at(drawn: Indices) -> list[Any]:
        return as_list((drawn + low) / scale)

    return DataType(name, "REAL", size, at, longest, write=write)


def hundredths(name: str, low: int, high: int, write: Callable[[Any], str] = repr) -> DataType:
    """The numbers from ``low / 100`` to ``high / 100`` with two decimals."""
    return decimals(name, low, high, 2, write)


def _width(low: int, high: int) -> int:
    return max(len(str(low)), len(str(high)))


def distinct_identifiers(indices: Indices, low: int = 1, size: int = IDS) -> list[Any]:
    """A number from ``low`` on for each index, none twice in a run of all: where one is taken, the
    next."""
    identifiers: list[int] = []
    numbers = indices.tolist()
    for start in range(0, len(numbers), size):
        drawn: list[int] = numbers[start : start + size]
        identifiers += drawn if len(set(drawn)) == len(drawn) else _apart(drawn, size)
    return [number + low for number in identifiers]


def _apart(drawn: list[int], size: int) -> list[int]:
    taken: set[int] = set()
    for index, number in enumerate(drawn):
        while number in taken:
            number = (number + 1) % size
        taken.add(number)
        drawn[index] = number
    return drawn


def _emails(drawn: Indices) -> list[Any]:
    first, last, domains = _MAIL_PARTS
    most = len(last) * len(domains)
    kinds = len(domains)
    return [
        f"{first[one // most]}.{last[one // kinds % len(last)]}@{domains[one % kinds]}"
        for one in drawn.tolist()
    ]


def _phones(drawn: Indices) -> list[Any]:
    return [
        f"({200 + one // 8_000_000}) {200 + one // 10_000 % 800}-{one % 10_000:04d}"
        for one in drawn.tolist()
    ]


@cache
def days() -> tuple[str, ...]:
    """Every date from 2020 to 2025 as ``YYYY-MM-DD``."""
    count = (GREATEST_DATE - LEAST_DATE).days + 1
    return tuple((LEAST_DATE + timedelta(days=day)).isoformat() for day in range(count))


def _moments(drawn: Indices) -> list[Any]:
    day = days()
    return [
        f"{day[one // 86_400]} {one // 3600 % 24:02d}:{one // 60 % 60:02d}:{one % 60:02d}"
        for one in drawn.tolist()
    ]


def _some_words(units: Units) -> list[Any]:
    """Two to five words from one uniform: its first part says how many, the rest which."""
    kinds = MOST_WORDS - LEAST_WORDS + 1
    scaled = units * kinds
    counts = scaled.astype("int64")
    rests = (scaled - counts).tolist()
    size, word = len(LATIN), LATIN
    texts: list[Any] = []
    for count, rest in zip((counts + LEAST_WORDS).tolist(), rests, strict=True):
        code = int(rest * size**count)
        drawn = []
        for _ in range(count):
            code, index = divmod(code, size)
            drawn.append(word[index])
        texts.append(" ".join(drawn))
    return texts


def _booleans(drawn: Indices) -> list[Any]:
    return as_list(drawn % 2 == 0)


def _versions(drawn: Indices) -> list[Any]:
    return [f"{1 + one // 200}.{one // 10 % 20}.{one % 10}" for one in drawn.tolist()]


def _all() -> dict[str, DataType]:
    longest_word = max(map(len, LATIN))
    some_words = sum(len(LATIN) ** count for count in range(LEAST_WORDS, MOST_WORDS + 1))
    phones = 800 * 800 * 10_000
    mails = math.prod(map(len, _MAIL_PARTS))
    truths = cache(lambda: lookup(TRUTH_VALUES))
    calendar = (GREATEST_DATE - LEAST_DATE).days + 1
    longest_mail = sum(max(map(len, part)) for part in _MAIL_PARTS)
    types = (
        _pairs("person_name", LISTS["first_names"], LISTS["last_names"]),
        _choice("first_name", LISTS["first_names"]),
        _choice("last_name", LISTS["last_names"]),
        _choice("entity_pool", POOLS["default"]),
        DataType("email", "TEXT", mails, _emails, longest_mail + 2),
        integers("age", 18, 70),
        _choice("city", LISTS["cities"]),
        _choice("city_name", LISTS["cities"]),
        _choice("company", LISTS["companies"]),
        _choice("company_name", LISTS["companies"]),
        _choice("product", LISTS["products"]),
        _choice("product_name", LISTS["products"]),
        integers("currency", 1000, 100_000),
        integers("salary", 30_000, 150_000),
        hundredths("price", 1000, 50_099, money),
        DataType("phone", "TEXT", phones, _phones, 14),
        _lazy_choice("date", days, calendar, 10),
        _choice("status", LISTS["statuses"]),
        _choice("department", LISTS["departments"]),
        _choice("region", LISTS["regions"]),
        DataType("id", "INTEGER", IDS, distinct_identifiers, 4, write=str),
        integers("experience", 0, 40),
        integers("score", 60, 100),
        _choice("course", LISTS["courses"]),
        _pairs("semester", LISTS["seasons"], ("2023", "2024", "2025")),
        _choice("category", LISTS["categories"]),
        DataType(
            "boolean", "BOOLEAN", len(TRUTH_VALUES), _booleans, 5, log10=math.log10(2), texts=truths
        ),
        _choice("lorem_word", LATIN),
        DataType(
            "lorem_words",
            "TEXT",
            0,
            _some_words,
            MOST_WORDS * (longest_word + 1),
            log10=math.log10(some_words),
        ),
        DataType("version", "TEXT", VERSIONS, _versions, 6),
        _choice("mail_domain", LISTS["mail_domains"]),
        *(_choice(name, POOLS[name]) for name in SEMANTIC_POOLS),
    )
    return {kind.name: kind for kind in types}


DATA_TYPES: Mapping[str, DataType] = MappingProxyType(_all())

# Types of database columns without a data type (not to be asked for by name).
CALENDAR = DATA_TYPES["date"]
MOMENT = DataType("datetime", "TEXT", CALENDAR.size * SECONDS_A_DAY, _moments, 19)


def infer_type(header: str) -> str:
    """The data type that a header's name suggests; ``lorem_words`` where it suggests none.

    The names are those that the public implementation knows: first whole names in any case, then
    ``…_id``, then parts.
    """
    lower = header.lower()
    if (whole := _BY_WHOLE.get(lower)) is not None:
        return whole
    if lower.endswith("_id"):
        return "id"
    return next(
        (kind for part, kind in _FILE["header_parts"].items() if part in lower), "lorem_words"
    )
