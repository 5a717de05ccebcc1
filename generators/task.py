"""The values that lead from a seed to an instance, whose id is the digest of its canonical JSON
(RFC 8785)."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, replace
from functools import lru_cache
from typing import TYPE_CHECKING, Any, Protocol, runtime_checkable

from generators.seed import Seed
from generators.title import add_headline, marker_of, title_of
from registry.canonical import canonical_bytes

if TYPE_CHECKING:
    from generators.grading.rubric import Rubric

# --- small frozen tables of truth

Scalar = str | int | float | bool


@dataclass(frozen=True, slots=True)
class TruthTable:
    """Named columns over rows; each cell keeps its own type."""

    columns: tuple[str, ...]
    rows: tuple[tuple[Scalar, ...], ...]

    def __post_init__(self) -> None:
        if any(len(row) != len(self.columns) for row in self.rows):
            raise ValueError(f"a row does not have the {len(self.columns)} columns")

    @classmethod
    def of_row(cls, **cells: Scalar) -> TruthTable:
        """The table of one row, its columns named."""
        return cls(tuple(cells), (tuple(cells.values()),))

    def column(self, name: str) -> tuple[Scalar, ...]:
        """The cells of a column. Raises ValueError for an unknown name."""
        index = self.columns.index(name)
        return tuple(row[index] for row in self.rows)

    def records(self) -> list[dict[str, Scalar]]:
        """The rows as dictionaries by column."""
        return [dict(zip(self.columns, row, strict=True)) for row in self.rows]

    def as_json(self) -> dict[str, Any]:
        """The value as plain JSON."""
        return {"columns": list(self.columns), "rows": [list(row) for row in self.rows]}


# --- tasks

DIFFICULTIES = ("easy", "medium", "hard")


@dataclass(frozen=True, slots=True)
class Asset:
    """One input file, at a path relative to the agent's work folder."""

    path: str
    media_type: str
    data: bytes = field(repr=False)

    @property
    def digest(self) -> str:
        """``sha256:`` and the digest of the bytes, in hex."""
        return "sha256:" + hashlib.sha256(self.data).hexdigest()


@dataclass(frozen=True, slots=True)
class Limits:
    """Resource limits of one episode. Sizes are bytes. Seconds are wall time: ``tool_seconds`` of
    one tool call, ``working_seconds`` of all of them together, and ``wall_seconds`` of the whole
    episode with its waits for the model, for providers and for other episodes. An agent that uses
    up its working time is asked for its answer; beyond the wall time an attempt is missing."""

    turns: int = 10
    tool_seconds: float = 60.0
    working_seconds: float = 900.0
    wall_seconds: float = 6 * 3600.0
    memory_bytes: int = 1 << 30
    disk_bytes: int = 256 << 20
    processes: int = 64
    output_bytes: int = 16_384


@dataclass(frozen=True, slots=True)
class TaskSpec:
    """A task: a family at a version and difficulty, with the parameters that follow from them."""

    family: str
    version: str
    difficulty: str
    parameters: tuple[tuple[str, int | float | str], ...]

    @property
    def stratum(self) -> str:
        """Family and difficulty, as ``family/difficulty``."""
        return f"{self.family}/{self.difficulty}"


@dataclass(frozen=True, slots=True)
class Environment:
    """An image of a task's own, which is built of the brief's files: they are its build context,
    and not placed in the work folder. In ``dockerfile`` base images have digests for names.
    ``folder`` and ``user`` are the image's where they are empty."""

    dockerfile: str = ""
    build_seconds: float = 600.0
    build_network: bool = False
    folder: str = ""
    user: str = ""
    variables: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Verifier:
    """The program of a task that scores what an agent left: the files of the task that no agent
    sees, of which those in ``tests/`` go to it, and the seconds that it may take."""

    files: tuple[Asset, ...]
    seconds: float
    user: str = ""
    variables: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Brief:
    """All that an agent may see."""

    prompt: str
    assets: tuple[Asset, ...]
    # JSON Schema 2020-12, canonical JSON text; "" where the final message itself is the answer,
    # or the files under ``collect`` are.
    answer_schema: str
    limits: Limits = Limits()
    collect: tuple[str, ...] = ()  # paths that graders read when the agent is done
    exists: tuple[str, ...] = ()  # paths of which they ask only whether something is there
    environment: Environment | None = None  # built of the assets

    @property
    def digest(self) -> str:
        """The digest of all that an agent sees."""
        content = {
            "prompt": self.prompt,
            "assets": [[asset.path, asset.media_type, asset.digest] for asset in self.assets],
            "answer_schema": _parsed(self.answer_schema or "null"),
        }
        for name, paths in (("collect", self.collect), ("exists", self.exists)):
            if paths:
                content[name] = list(paths)
        if self.environment is not None:
            content["environment"] = asdict(self.environment)
        return _digest(content)


@dataclass(frozen=True, slots=True)
class GroundTruth:
    """Ground truth of an instance: named tables, tolerances, digests of the files' content."""

    tables: tuple[tuple[str, TruthTable], ...]
    tolerances: tuple[tuple[str, float], ...] = ()
    digests: tuple[tuple[str, str], ...] = ()
    verifier: Verifier | None = None

    def table(self, name: str) -> TruthTable:
        """The table of a name. Raises KeyError."""
        return dict(self.tables)[name]

    def as_json(self) -> dict[str, Any]:
        """The value as plain JSON, with the digests of a verifier's files."""
        value = {
            "tables": {name: table.as_json() for name, table in self.tables},
            "tolerances": dict(self.tolerances),
            "digests": dict(self.digests),
        }
        if (verifier := self.verifier) is not None:
            files = {file.path: file.digest for file in verifier.files}
            value["verifier"] = asdict(replace(verifier, files=())) | {"files": files}
        return value


@dataclass(frozen=True, slots=True)
class TaskInstance:
    """Instance made from a seed. Its id pins every byte of it and cannot be guessed from them."""

    id: str
    spec: TaskSpec
    brief: Brief
    truth: GroundTruth = field(repr=False)
    rubric: Rubric = field(repr=False)
    title: str
    marker: str  # one of generators.title.MARKERS

    @property
    def files(self) -> tuple[Asset, ...]:
        """All files of the instance: those that agents get, and those of a verifier."""
        verifier = self.truth.verifier
        return self.brief.assets + (() if verifier is None else verifier.files)


def make_instance(
    spec: TaskSpec, seed: Seed, brief: Brief, truth: GroundTruth, rubric: Rubric
) -> TaskInstance:
    """Bind the parts under an id: the digest of them all and of a nonce from the seed. The prompt
    gets a first line with the instance's title and marker."""
    title, marker = title_of(seed), marker_of(seed)
    brief = replace(brief, prompt=add_headline(title, marker, brief.prompt))
    identity = {
        "family": spec.family,
        "version": spec.version,
        "difficulty": spec.difficulty,
        "parameters": dict(spec.parameters),
        "brief": brief.digest,
        "truth": truth.as_json(),
        "rubric": rubric.as_json(),
        "nonce": seed.child("instance-id").hex,
    }
    return TaskInstance(
        id=_digest(identity),
        spec=spec,
        brief=brief,
        truth=truth,
        rubric=rubric,
        title=title,
        marker=marker,
    )


class Family(Protocol):
    """One task family: the parts that every family has."""

    @property
    def name(self) -> str:
        """The name, in small letters, digits and underscores."""

    @property
    def version(self) -> str:
        """The version; a published one never changes a byte."""

    @property
    def summary(self) -> str:
        """One line for people."""

    def parameters(self, difficulty: str) -> Mapping[str, int | float | str]:
        """Return the parameters of a difficulty. Raises GeneratorError for an unknown one."""

    def generate(self, difficulty: str, seed: Seed) -> TaskInstance:
        """The instance of this seed: same seed, same bytes, on every machine."""

    def key(self, truth: GroundTruth) -> dict[str, Any]:
        """The answer block that scores full marks."""

    def nulls(self, instance: TaskInstance) -> Mapping[str, dict[str, Any]]:
        """Answers that open no input file, by name: at least ``empty``, ``everything``
        and ``prior``. Of the instance they may use only its spec."""


@runtime_checkable
class Solvable(Protocol):
    """A family with a solver, which proves that prompt and files lead to the key."""

    def solver(self) -> str:
        """Source of a Python program that reads the input files in the current folder and
        writes ``answer.json`` there, with nothing but the sandbox's libraries."""


def difficulties_of(family: Family) -> tuple[str, ...]:
    """The difficulties of a family: those that it names, in no order of hardness, or the usual."""
    named: tuple[str, ...] = getattr(family, "difficulties", DIFFICULTIES)
    return named


@runtime_checkable
class StatesInputs(Protocol):
    """A family with truth that its input files state by design, and a list of those columns."""

    @property
    def given(self) -> tuple[str, ...]:
        """Columns of the truth to be read, not derived, each as ``table.column``."""


@runtime_checkable
class ClosedBook(Protocol):
    """A family with its own question for exposure probes, which identifies an instance to a model
    that has read it, without the data."""

    def closed_book(self, instance: TaskInstance) -> str:
        """The question, answered by the values of the family's answer block."""


@lru_cache(maxsize=1024)  # the instances of a stratum have one schema
def _parsed(schema: str) -> Any:
    return json.loads(schema)


def _digest(value: Any) -> str:
    return "sha256:" + hashlib.sha256(canonical_bytes(value)).hexdigest()
