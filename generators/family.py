"""A built-in family as a value: its parts, and how they make an instance of a seed."""

from __future__ import annotations

import hashlib
import zlib
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field, fields, replace
from functools import lru_cache, wraps
from importlib import import_module
from importlib.resources import files
from importlib.util import find_spec
from itertools import starmap
from pathlib import PurePosixPath
from types import ModuleType
from typing import Any, Generic, TypeVar, TypeVarTuple

from generators.attackers import Attacker, NoisySolver
from generators.errors import GeneratorError, unknown
from generators.grading.checks import FitsSchema, Unrepaired, ValueEquals
from generators.grading.rubric import Metarubric, Rubric
from generators.seed import Seed, SeedStreams, Streams
from generators.task import (
    Asset,
    Brief,
    Family,
    GroundTruth,
    Limits,
    TaskInstance,
    TaskSpec,
    make_instance,
)
from registry.canonical import canonical_bytes

# --- the form of an answer

NUMBER: Mapping[str, Any] = {"type": "number"}
TEXT: Mapping[str, Any] = {"type": "string"}


def list_of(item: Mapping[str, Any]) -> dict[str, Any]:
    """The JSON Schema of a list of such items."""
    return {"type": "array", "items": item}


def record_of(**properties: Mapping[str, Any]) -> dict[str, Any]:
    """The JSON Schema of an object with these properties, all of them required."""
    return {"type": "object", "required": list(properties), "properties": properties}


def answer_schema(
    task: str, properties: Mapping[str, Mapping[str, Any]], **other_rules: Any
) -> str:
    """The JSON Schema of an answer block, as canonical JSON: the task's name and these properties,
    all of them required unless ``other_rules`` say otherwise."""
    schema = record_of(task={"const": task}, **properties) | other_rules
    draft = "https://json-schema.org/draft/2020-12/schema"
    return canonical_bytes({"$schema": draft, **schema}).decode()


_MOST_LISTED = 24  # files of a kind in one folder that a prompt names
FORM_CRITERIA = ("answer_block", "answer_schema")  # names of the criteria below


def form_criteria(task: str, schema: str, weight: float) -> tuple[Metarubric, Metarubric]:
    """The criteria of instruction following that a repair and a violation of the schema cost;
    ``weight`` is that of both together."""
    return (
        Metarubric(
            FORM_CRITERIA[0],
            "IF",
            weight / 2,
            "The answer ends with the JSON object that the task asks for, between a line <answer> "
            "and a line </answer>, or leaves it in answer.json; it is read without a repair.",
            Unrepaired(ValueEquals(("task",), task)),
        ),
        Metarubric(
            FORM_CRITERIA[1],
            "IF",
            weight / 2,
            "The JSON object of the answer fits the JSON Schema of the task.",
            FitsSchema(schema),
        ),
    )


# --- the parts


@dataclass(frozen=True, slots=True, kw_only=True)
class FamilyParameters:
    """The meaning of a difficulty. A family adds its own parameters to what an episode may use."""

    limits: Limits

    def described(self) -> dict[str, int | float | str]:
        """The parameters as people read them; they pin the instance too."""
        return {
            field.name: getattr(self, field.name)
            for field in fields(self)
            if field.name != "limits"
        }


P = TypeVar("P", bound=FamilyParameters)


@dataclass(slots=True)
class InputFiles:
    """The input files of an instance, with the digests of each file and of a picture's pixels."""

    assets: list[Asset] = field(default_factory=list)
    digests: list[tuple[str, str]] = field(default_factory=list)

    def add_text(self, path: str, media_type: str, data: bytes) -> None:
        """Append a file of text."""
        self.assets.append(Asset(path, media_type, data))
        self.digests.append((path, self.assets[-1].digest))

    def add_picture(self, path: str, png: bytes, pixels: Any, size: int | None = None) -> None:
        """Append a PNG file, padded to ``size`` bytes: pictures of one size show nothing of what
        they hold in a list of files. The buffer ``pixels`` holds its decoded pixels.

        Raises GeneratorError for a picture that is too large for the size."""
        self.add_text(path, "image/png", png if size is None else pad_png(png, size))
        digest = hashlib.sha256(pixels).hexdigest()
        self.digests.append((f"{path}#pixels", f"sha256:{digest}"))


_EMPTY = bytes((0, 0, 0, 255, 255))  # a stored block of nothing (RFC 1951, 3.2.4)
# The same behind one empty block with fixed codes (3.2.6), two and three: 1, 2 and 4 bytes over a
# multiple of an empty block.
_ONE, _TWO, _THREE = b"\x02" + _EMPTY, b"\x02\x08" + _EMPTY, b"\x02\x08\x20\0" + _EMPTY
_OVER = (b"", _ONE, _TWO, _ONE + _TWO, _THREE)
_MOST_OVER = max(map(len, _OVER))
PNG_NOTES = frozenset({b"tEXt", b"zTXt", b"iTXt", b"tIME", b"eXIf"})


def pad_png(png: bytes, size: int) -> bytes:
    """The PNG file at exactly ``size`` bytes, without its notes. Its compressed data begin with
    blocks of nothing and stand in one chunk, so that the lengths of chunks are the same for all
    pictures, too.

    Raises GeneratorError if the file and its padding take more."""
    chunks = [chunk for chunk in png_chunks(png) if chunk[0] not in PNG_NOTES]
    packed = b"".join(data for kind, data in chunks if kind == b"IDAT")
    at = next(index for index, (kind, _) in enumerate(chunks) if kind == b"IDAT")
    before, after = chunks[:at], [chunk for chunk in chunks[at:] if chunk[0] != b"IDAT"]
    ends = png[:8] + b"".join(starmap(_png_chunk, before)), b"".join(starmap(_png_chunk, after))
    spare = size - len(b"".join(ends)) - len(_png_chunk(b"IDAT", packed))
    if spare < _MOST_OVER:
        raise GeneratorError(
            f"a picture of {size - spare} bytes cannot be padded to {size}; the size must be "
            f"{size - spare + _MOST_OVER} or more"
        )
    over = _OVER[spare % len(_EMPTY)]
    padding = over + _EMPTY * ((spare - len(over)) // len(_EMPTY))
    # The first two bytes are the header of the zlib stream (RFC 1950, 2.2).
    return _png_chunk(b"IDAT", packed[:2] + padding + packed[2:]).join(ends)


def png_chunks(png: bytes) -> Iterator[tuple[bytes, bytes]]:
    """The kind and the data of each chunk of a PNG file (PNG, 3rd edition, 5.3)."""
    at = 8
    while at + 8 <= len(png):
        end = at + 8 + int.from_bytes(png[at : at + 4], "big")
        yield png[at + 4 : at + 8], png[at + 8 : end]
        at = end + 4


def _png_chunk(kind: bytes, data: bytes) -> bytes:
    return len(data).to_bytes(4, "big") + kind + data + zlib.crc32(kind + data).to_bytes(4, "big")


@dataclass(frozen=True, slots=True)
class Drawn:
    """The input files that a seed makes, their truth, and how often guards redrew."""

    files: InputFiles
    truth: GroundTruth  # without digests of the files
    redraws: Mapping[str, int]


@dataclass(frozen=True, slots=True, eq=False, kw_only=True)
class FamilyOfParts(Generic[P]):
    """A ``Family`` made of parts, none of which needs numpy or Pillow before it is called."""

    name: str
    version: str
    summary: str
    package: str  # that holds the modules ``solver`` and ``attackers``
    by_difficulty: Mapping[str, P]
    draw: Callable[[P, Streams], Drawn]
    prompt: str  # a str.format template over ``parameters``
    answer_schema: str
    make_rubric: Callable[[GroundTruth], Rubric]
    key: Callable[[GroundTruth], dict[str, Any]]  # the answer block that scores full marks
    make_nulls: Callable[[P], Mapping[str, dict[str, Any]]]
    given: tuple[str, ...] = ()

    def parameters(self, difficulty: str) -> Mapping[str, int | float | str]:
        """The parameters at a difficulty. Raises GeneratorError for an unknown one."""
        return self._parameters(difficulty).described()

    def generate(self, difficulty: str, seed: Seed) -> TaskInstance:
        """The instance of a seed. Raises GeneratorError, GuardExhausted."""
        parameters = self._parameters(difficulty)
        drawn = self.draw(parameters, SeedStreams(seed, self.name, self.version, difficulty))
        described = (*parameters.described().items(), *drawn.redraws.items())
        truth = replace(drawn.truth, digests=tuple(drawn.files.digests))
        return make_instance(
            TaskSpec(self.name, self.version, difficulty, described),
            seed,
            Brief(
                self.prompt.format(parameters=parameters) + _list_files(drawn.files),
                tuple(drawn.files.assets),
                self.answer_schema,
                parameters.limits,
            ),
            truth,
            self.make_rubric(truth),
        )

    def nulls(self, instance: TaskInstance) -> Mapping[str, dict[str, Any]]:
        """Answers that open no input file, by name."""
        return self.make_nulls(self._parameters(instance.spec.difficulty))

    def solver(self) -> str:
        """The source of the program that solves an instance."""
        return read_part(self.package, "solver.py")

    def attackers(self) -> tuple[Attacker, ...]:
        """The shortcuts that must not pay."""
        return tuple(getattr(self._attackers_module(), "ATTACKERS", ()))

    def noisy_solvers(self) -> tuple[NoisySolver, ...]:
        """Solvers of falling skill, the most able first."""
        return tuple(getattr(self._attackers_module(), "NOISY", ()))

    def _attackers_module(self) -> ModuleType | None:
        name = f"{self.package}.attackers"
        return import_module(name) if find_spec(name) else None

    def _parameters(self, difficulty: str) -> P:
        if difficulty not in self.by_difficulty:
            raise unknown("difficulty", difficulty, self.by_difficulty)
        return self.by_difficulty[difficulty]


def _list_files(files: InputFiles) -> str:
    """The names of the files, as the end of a prompt; of dozens of a kind the first and last."""
    kinds: dict[tuple[PurePosixPath, str], list[str]] = {}
    for path in (PurePosixPath(asset.path) for asset in files.assets):
        kinds.setdefault((path.parent, path.suffix), []).append(str(path))
    listed = [
        ", ".join(names)
        if len(names) <= _MOST_LISTED
        else f"{names[0]} to {names[-1]} ({len(names)} files)"
        for names in kinds.values()
    ]
    return f"\n\nThe input files: {', '.join(listed)}."


def read_part(package: str, file: str) -> str:
    """The text of a file that lies beside a family's modules."""
    return files(package).joinpath(file).read_text(encoding="utf-8")


# --- what follows from a family alone

Made = TypeVar("Made")
Rest = TypeVarTuple("Rest")
Maker = Callable[[Family, *Rest], Made]


@dataclass(frozen=True, slots=True)
class _Itself:
    """A family as a key, which equals itself only: two of one name may be made of unlike code, and
    a plug-in's need not be hashable."""

    number: int  # id(), which no other object takes while the family is held here
    family: Family = field(compare=False)


def kept_by_family(most: int) -> Callable[[Maker[*Rest, Made]], Maker[*Rest, Made]]:
    """Decorate a pure function of a family and of hashable values: the ``most`` results that were
    asked for last are kept."""

    def decorate(make: Maker[*Rest, Made]) -> Maker[*Rest, Made]:
        @lru_cache(maxsize=most)
        def kept(key: _Itself, rest: tuple[*Rest]) -> Made:
            return make(key.family, *rest)

        @wraps(make)
        def of_family(family: Family, *rest: *Rest) -> Made:
            return kept(_Itself(id(family), family), rest)

        return of_family

    return decorate
