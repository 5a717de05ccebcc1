"""A pool of given items from the rows of a table, checked whole; and its near-duplicates."""

from __future__ import annotations

import base64
import json
import re
import zlib
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

from generators.errors import GeneratorError, nearest
from generators.items import STRATUM
from generators.items.check import matches, number_of, plain_text
from generators.items.item import LETTERS, SCORES, Item, Score, join_items, one_item
from registry.errors import RegistryError

ALIKE = 0.7  # least share of triples of words in common of two texts that are near-duplicates
_MOST_TEXT = 1_000_000  # characters of a prompt with its choices
_PERMUTATIONS, _LOOSE = 64, 0.5  # hashes find more than they should, so that they miss few
ORDERED = re.compile(r"(?i:\b(above|below|preceding)\b)|\b[A-E]\)? (and|or|&) \(?[A-E]\b")
_SAMPLE, _FEW, _MOST = 1000, 20, 0.9  # texts that show which triples of words are common
_FINAL = "\n####"  # before the last line of an answer of GSM8K
_BRACES = re.compile(r"\{([^{}\n]+)\}")


@dataclass(frozen=True, slots=True, kw_only=True)
class Columns:
    """What of a row makes an item: names of columns, and of ``prompt`` a text with names in braces
    or one name. ``choices`` are several columns, or one with a list; ``name`` that of the pool."""

    name: str
    prompt: str = ""
    answer: str = ""
    score: Score = "exact"
    choices: tuple[str, ...] = ()
    group: str = ""
    stratum: str = ""
    files: str = ""
    shuffle: bool = False
    rubric: str = ""


@dataclass(frozen=True, slots=True)
class Group:
    """Items that are drawn together, with the numbers of their rows, from 1. ``data`` is what
    stands behind a seed, if it is made already."""

    stratum: str
    items: tuple[Item, ...]
    rows: tuple[int, ...]
    data: bytes = b""

    @property
    def text(self) -> str:
        """What is asked, choices included."""
        return "\n".join("\n".join((item.prompt, *item.choices)) for item in self.items)


Row = Mapping[str, Any]
ReadFile = Callable[[str], bytes]  # by a path of the column ``files``


def make_pool(rows: Sequence[Row], columns: Columns, read_file: ReadFile) -> tuple[Group, ...]:
    """The groups of a pool in the order of their first rows; without a column for groups each item
    is one. Raises GeneratorError that names the row, for the first fault."""
    if columns.score not in SCORES:
        raise GeneratorError(f"unknown score {columns.score!r}; {nearest(columns.score, SCORES)}")
    if not rows:
        raise GeneratorError("it has no rows")
    named = [columns.answer, columns.rubric, *columns.choices]
    named += [columns.group, columns.stratum, columns.files]
    for name in (*filter(None, named), *_prompt_columns(columns.prompt, rows[0])):
        if name not in rows[0]:
            raise GeneratorError(f"it has no column {name!r}; {nearest(name, rows[0])}")
    first = _first_place(rows, columns) if columns.score == "choice" else None
    members: dict[tuple[str, str], list[tuple[int, Item, bytes]]] = {}
    for number, row in enumerate(rows, 1):
        try:
            stratum = stratum_name(columns.name, _cell(row, columns.stratum))
            group = _cell(row, columns.group) if columns.group else str(number)
            item = _make_item(row, columns, first, read_file)
            data = _written(item)
        except GeneratorError as error:
            raise GeneratorError(f"row {number}: {error}") from None
        members.setdefault((stratum, group), []).append((number, item, data))
    groups: list[Group] = []
    for (stratum, _), each in members.items():
        numbers, items, written = zip(*each, strict=True)
        groups.append(Group(stratum, items, numbers, join_items(written)))
    _check_groups(groups, [group for _, group in members])
    return tuple(groups)


def stratum_name(pool: str, value: str = "") -> str:
    """The name of a pool's stratum by the value in its column. Raises GeneratorError for a value
    without a letter or digit."""
    plain = [re.sub("[^a-z0-9]+", "_", text.lower()).strip("_") for text in (pool, value) if text]
    if not all(plain) or not STRATUM.fullmatch(name := "_".join(plain)):
        raise GeneratorError(
            f"{value or pool!r} gives no name of a stratum: letters or digits, at most 60 with the "
            "file's name"
        )
    return name


def near_duplicates(groups: Sequence[Group]) -> Iterator[tuple[Group, Group]]:
    """Yield each group that is like one before it, after that one: by MinHash over triples of
    words, found by its hashes and then compared. Triples that nine of ten groups have, such as
    those of an instruction, do not count."""
    from datasketch import MinHash, MinHashLSH

    sample = [_triples(group.text) for group in groups[:: len(groups) // _SAMPLE + 1]]
    often = Counter(triple for each in sample for triple in each)
    common = {t for t, count in often.items() if count > max(_FEW, _MOST * len(sample))}

    @lru_cache(maxsize=_SAMPLE)
    def triples(number: int) -> set[bytes]:
        every = _triples(groups[number].text)
        return every - common or every

    def like(number: int, other: int) -> bool:
        one, two = triples(number), triples(other)
        return len(one & two) >= ALIKE * len(one | two)

    index = MinHashLSH(threshold=_LOOSE, num_perm=_PERMUTATIONS)
    numbers = range(len(groups))
    hashes = MinHash.generator(
        map(triples, numbers), num_perm=_PERMUTATIONS, seed=1, hashfunc=zlib.crc32
    )
    for number, one in zip(numbers, hashes, strict=True):
        other = next((each for each in sorted(index.query(one)) if like(number, each)), None)
        if other is None:
            index.insert(number, one)
        else:
            yield groups[other], groups[number]


def stated_keys(groups: Iterable[Group]) -> Iterator[Group]:
    """Yield the groups with a prompt that holds its own answer, of three words or ten letters or
    more; choices hold theirs by design."""
    for group in groups:
        for item in group.items:
            key = plain_text(str(item.answer)).lower()
            telling = len(key) >= 10 or key.count(" ") > 1
            if item.score == "exact" and telling and key in plain_text(item.prompt).lower():
                yield group
                break


def guess_rate(groups: Sequence[Group]) -> float:
    """The share of items that the commonest answer of their score gets right; of choices in a
    drawn order one in as many as there are; none of those that a judge or a verifier scores."""
    items = [item for group in groups for item in group.items]
    if items[0].score in ("judge", "verifier"):
        return 0.0
    if items[0].score == "choice" and items[0].shuffle:
        return sum(1 / len(item.choices) for item in items) / len(items)
    given = Counter(_guessed(item) for item in items)
    return max(given.values()) / len(items)


def key_number(value: Any) -> float | None:
    """A number, or that at the end of a worked answer, as GSM8K writes it; None for all else."""
    if isinstance(value, str) and _FINAL in value:
        value = value.rpartition(_FINAL)[2].replace(",", "")
    return number_of(value)


def _guessed(item: Item) -> str:
    if item.score == "choice":
        return LETTERS[item.choices.index(item.answer)]
    return json.dumps(item.answer, sort_keys=True)


def _triples(text: str) -> set[bytes]:
    words = re.findall(r"\w+", text.lower())
    return {" ".join(words[at : at + 3]).encode() for at in range(max(1, len(words) - 2))}


def _check_groups(groups: Sequence[Group], names: Sequence[str]) -> None:
    """Raise GeneratorError for a group in two strata or as large as the rest of its stratum, and
    for items that are alike but for blanks and stand in two groups."""
    seen: dict[str, str] = {}
    sizes = Counter(group.stratum for group in groups for _ in group.items)
    for group, name in zip(groups, names, strict=True):
        if seen.setdefault(name, group.stratum) != group.stratum:
            raise GeneratorError(f"row {group.rows[0]}: the group {name!r} lies in two strata")
        if 1 < len(group.items) >= sizes[group.stratum] / 2:
            raise GeneratorError(
                f"row {group.rows[0]}: the group {name!r} holds {len(group.items)} of the "
                f"{sizes[group.stratum]} items of its stratum, which leaves nothing to compare"
            )
    asked: dict[str, int] = {}
    for group in groups:
        texts = {plain_text("\n".join((item.prompt, *item.choices))) for item in group.items}
        for text in texts:
            if (other := asked.setdefault(text, group.rows[0])) != group.rows[0]:
                raise GeneratorError(
                    f"row {group.rows[0]}: the same question as in row {other}, in another group: "
                    "remove one of them, or give both one `group`"
                )


def _prompt_columns(prompt: str, row: Row) -> list[str]:
    return _BRACES.findall(prompt) if prompt not in row else [prompt]


def _cell(row: Row, column: str) -> str:
    value = row[column] if column else ""
    text = "" if value is None else value if isinstance(value, str) else json.dumps(value)
    if column and not text.strip():
        raise GeneratorError(f"{column} is empty")
    return text


def _first_place(rows: Sequence[Row], columns: Columns) -> int | None:
    """The number of the first choice if keys are places: 0 if one of them is 0, 1 if one is the
    number of its choices. None if they are no places, or nothing shows which."""
    first = None
    for row in rows:
        key = str(row[columns.answer]).strip()
        with suppress(GeneratorError):  # which making the item raises
            choices = _choices(row, columns.choices)
            if not key.isdecimal() or key in choices or key in choices.values():
                return None
            first = {"0": 0, str(max(len(choices), len(columns.choices))): 1}.get(key, first)
    return first


def _make_item(row: Row, columns: Columns, first: int | None, read_file: ReadFile) -> Item:
    if columns.prompt in row:
        prompt = _cell(row, columns.prompt)
    else:
        prompt = _BRACES.sub(lambda found: _cell(row, found[1]), columns.prompt)
    named = _choices(row, columns.choices)
    choices = tuple(named.values())
    if len(prompt) + sum(map(len, choices)) > _MOST_TEXT:
        raise GeneratorError(f"its prompt is longer than {_MOST_TEXT:,} characters")
    if columns.shuffle and (placed := [each for each in choices if ORDERED.search(each)]):
        raise GeneratorError(f"{placed[0][:60]!r} names others by their place: leave out `shuffle`")
    key = _key(row, columns, named, first)
    return Item(
        prompt=prompt.strip(),
        score=columns.score,
        answer=key,
        choices=choices,
        files=_files(row, columns.files, read_file),
        shuffle=columns.shuffle,
        rubric=_cell(row, columns.rubric).strip(),
    )


def _written(item: Item) -> bytes:
    try:
        return one_item(item)
    except RegistryError as error:  # a number that JSON has not, half a surrogate
        raise GeneratorError(f"it cannot be written as JSON: {error.__cause__}") from None


def _choices(row: Row, columns: Sequence[str]) -> dict[str, str]:
    """The choices of a row by column, or by letter of a list; a blank column is none."""
    if len(columns) == 1:
        given = dict(zip(LETTERS, _listed(row[columns[0]], columns[0]), strict=False))
    else:
        given = {name: row[name] for name in columns if row[name] not in (None, "")}
    named = {n: plain_text(v if isinstance(v, str) else json.dumps(v)) for n, v in given.items()}
    choices = tuple(named.values())
    if not columns:
        return {}
    if not 2 <= len(choices) <= len(LETTERS):
        raise GeneratorError(f"{len(choices)} choices, where 2 to {len(LETTERS)} are right")
    if len({*choices}) < len(choices) or not all(choices):
        raise GeneratorError("two of its choices are alike, or one is empty")
    letters = {*LETTERS[: len(choices)]}
    if clash := letters & {choice.upper() for choice in choices}:
        raise GeneratorError(f"the choice {min(clash)!r} is a letter that names the choices")
    return named


def _key(row: Row, columns: Columns, choices: Mapping[str, str], first: int | None) -> Any:
    name, text = columns.answer, _cell(row, columns.answer)
    match columns.score:
        case "choice":
            if first is not None:
                names = columns.choices if len(columns.choices) > 1 else LETTERS
                text = dict(enumerate(names, first)).get(int(text), text)
            elif not isinstance(row[name], str):
                raise GeneratorError(
                    f"{name}: {text} may be a place: give a choice's text or letter"
                )
            return _right_choice(plain_text(text), columns.choices, choices)
        case "number":
            if (number := key_number(row[name])) is None:
                raise GeneratorError(f"{name}: {text[:40]!r} is no number")
            return number
        case "set":
            return _listed(row[name], name)
        case "json":
            return _parsed(row[name], name)
        case "regex":
            try:
                matches(text, "")
            except ValueError as error:
                raise GeneratorError(f"{name}: no pattern of RE2: {error}") from None
    return text.strip()


def _right_choice(key: str, columns: Sequence[str], choices: Mapping[str, str]) -> str:
    """The text of the choice that a key names by its text, its column, or its letter, which counts
    blank columns too."""
    if key in choices.values():
        return key
    letters = dict(zip(LETTERS, columns if len(columns) > 1 else choices, strict=False))
    for name in (key, letters.get(key.upper(), "")):
        if name in choices:
            return choices[name]
    raise GeneratorError(
        f"the answer {key[:40]!r} is none of its {len(choices)} choices: give a choice's text or "
        "letter"
    )


def _listed(value: Any, column: str) -> list[Any]:
    if isinstance(value, dict):
        value = value.get("text")  # beside the letters, as ARC has it
    if isinstance(value, str):
        value = _parsed(value, column) if value.lstrip().startswith("[") else value.split(";")
    if not isinstance(value, list) or not value:
        raise GeneratorError(f"{column}: a list is right, as JSON or with `;` between")
    return [each.strip() if isinstance(each, str) else each for each in value]


def _parsed(value: Any, column: str) -> Any:
    if not isinstance(value, str):
        return value
    try:
        return json.loads(value)
    except (ValueError, RecursionError):
        raise GeneratorError(f"{column}: {value[:40]!r} is no JSON") from None


def _files(row: Row, column: str, read_file: ReadFile) -> tuple[tuple[str, str], ...]:
    if not column or row[column] in (None, ""):
        return ()
    names = [str(name) for name in _listed(row[column], column)]
    return tuple((name, base64.b64encode(read_file(name)).decode()) for name in names)
