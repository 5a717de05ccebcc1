"""A small draw to publish, made by a family whose every part can be told apart."""

from __future__ import annotations

import csv
import hashlib
import importlib.util
import io
import shutil
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from types import MappingProxyType, ModuleType
from typing import Any

import numpy as np
import pytest
from PIL import Image

from generators.catalog import INSTALLED
from generators.grading.checks import NumberWithin
from generators.grading.rubric import Metarubric, fill_rubric
from generators.seed import Seed
from generators.task import (
    Asset,
    Brief,
    Family,
    GroundTruth,
    TaskInstance,
    TaskSpec,
    TruthTable,
    make_instance,
)
from publish.leakcheck.check import release_needles
from publish.leakcheck.secrets import Needles
from publish.release import ReleaseManifest, ReleaseText, build_release
from registry.ledger.records import SealedSet
from registry.result_row import Arm
from registry.sealing import DrawnInstance
from tests.ledgers import sealed_set

TEXT = ReleaseText(study="letters", title="Letters and numbers")
SCHEMA = '{"properties":{"total":{"type":"number"}},"type":"object"}'


@dataclass(frozen=True, slots=True)
class Noise:
    """A picture of noise and a table of readings: find their total."""

    name: str = "noise"
    version: str = "1"
    summary: str = "Add up readings that belong to a picture"

    def parameters(self, difficulty: str) -> Mapping[str, int | float | str]:
        return MappingProxyType({"readings": {"easy": 3, "medium": 8, "hard": 20}[difficulty]})

    def generate(self, difficulty: str, seed: Seed) -> TaskInstance:
        count = int(self.parameters(difficulty)["readings"])
        stream = seed.child("readings").rng()
        readings = tuple(round(stream.uniform(0, 1000), 9) for _ in range(count))
        small = seed.child("small").rng().integer(1, 4)
        truth = GroundTruth(
            (
                ("readings", TruthTable(("reading",), tuple((each,) for each in readings))),
                ("small", TruthTable(("count",), ((small,),))),
            ),
            digests=(("picture", "sha256:" + hashlib.sha256(_pixels(seed)).hexdigest()),),
        )
        prompt = f'Add up the "readings" taken in\nroom {seed.child("room").rng().word()}, please.'
        brief = Brief(prompt, (_picture(seed), _readings(readings), _notice()), SCHEMA)
        spec = TaskSpec(self.name, self.version, difficulty, (("readings", count),))
        total = sum(readings)
        check = NumberWithin(("total",), total - 0.1, total + 0.1)
        meta = Metarubric("total", "SR", 1.0, "The total is stated", check)
        return make_instance(spec, seed, brief, truth, fill_rubric((meta,), {}))

    def key(self, truth: GroundTruth) -> dict[str, Any]:
        readings = truth.table("readings").column("reading")
        return {"total": sum(float(each) for each in readings), "readings": list(readings)}

    def nulls(self, instance: TaskInstance) -> Mapping[str, dict[str, Any]]:
        return {"empty": {}, "everything": {}, "prior": {"total": 0}}

    def solver(self) -> str:
        return ""


@dataclass(frozen=True, slots=True)
class Draw:
    """A sealed draw, opened: two strata with four instances in each arm."""

    entries: tuple[DrawnInstance, ...]
    sealed: SealedSet

    @property
    def public(self) -> tuple[DrawnInstance, ...]:
        return tuple(each for each in self.entries if each.arm is Arm.PUBLIC)

    @property
    def private(self) -> tuple[DrawnInstance, ...]:
        return tuple(each for each in self.entries if each.arm is Arm.PRIVATE)


def find_noise(name: str) -> Family:
    if name != "noise@1":
        raise KeyError(name)
    return Noise()


def make_draw(
    strata: Sequence[tuple[str, str]], each_arm: int, find: Callable[[str], Family], root: bytes
) -> Draw:
    """Entries of both arms in turn, with a set that commits to them."""
    seed = Seed(hashlib.sha256(root).digest())
    entries = []
    for name, difficulty in strata:
        family = find(name)
        for index in range(2 * each_arm):
            own = seed.child(name, difficulty, index)
            arm = Arm.PUBLIC if index % 2 else Arm.PRIVATE
            instance = family.generate(difficulty, own)
            nonce = own.child("nonce").hex
            entries.append(
                DrawnInstance(
                    instance.id, family.name, family.version, difficulty, own.hex, nonce, arm
                )
            )
    named = [f"{name.split('@')[0]}/{level}" for name, level in strata]
    return Draw(tuple(entries), sealed_set(entries, named, each_arm))


@pytest.fixture(scope="session")
def draw() -> Draw:
    return make_draw((("noise@1", "easy"), ("noise@1", "hard")), 4, find_noise, b"publish")


@pytest.fixture(scope="session")
def reserve_draw(draw: Draw) -> Draw:
    """The same, with two of the four in each arm and stratum in reserve tranches 1 and 2."""
    tranches = (0, 0, 0, 0, 1, 1, 2, 2) * 2
    entries = tuple(
        replace(entry, tranche=tranche)
        for entry, tranche in zip(draw.entries, tranches, strict=True)
    )
    return Draw(entries, replace(draw.sealed, seeds_per_arm=2, reserve=(1, 1)))


@pytest.fixture(scope="session")
def other_draw() -> Draw:
    return make_draw((("noise@1", "easy"),), 2, find_noise, b"another")


@pytest.fixture(scope="session")
def basics_draw() -> Draw:
    """The strata of the demonstration."""
    strata = (("compute_average@3", "easy"), ("count_circles@3", "easy"))
    return make_draw(strata, 4, INSTALLED.family, b"basics")


@pytest.fixture(scope="session")
def find() -> Callable[[str], Family]:
    return find_noise


@pytest.fixture(scope="session")
def text() -> ReleaseText:
    return TEXT


@pytest.fixture(scope="session")
def needles(draw: Draw) -> Needles:
    return release_needles(draw.entries, find_noise)


@pytest.fixture(scope="session")
def built(draw: Draw, tmp_path_factory: pytest.TempPathFactory) -> ReleaseManifest:
    folder = tmp_path_factory.mktemp("built") / "release"
    return build_release(folder, draw.public, draw.sealed, find_noise, TEXT)


@pytest.fixture
def release(built: ReleaseManifest, tmp_path: Path) -> ReleaseManifest:
    """A copy of a test's own."""
    return replace(built, folder=Path(shutil.copytree(built.folder, tmp_path / "release")))


@pytest.fixture
def hub(monkeypatch: pytest.MonkeyPatch) -> Iterator[Any]:
    """A Hub that knows ``owner`` and ``other``; this process is logged in as the first."""
    monkeypatch.setenv("HF_TOKEN", "hf_owner")
    with _hub_server().HubServer({"hf_owner": "owner", "hf_other": "other"}) as server:
        yield server


def _hub_server() -> ModuleType:
    """``tests/hub_server.py``, which is in no package."""
    if "hub_server" not in sys.modules:
        place = Path(__file__).parents[1] / "hub_server.py"
        spec = importlib.util.spec_from_file_location("hub_server", place)
        assert spec is not None
        assert spec.loader is not None
        sys.modules["hub_server"] = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(sys.modules["hub_server"])
    return sys.modules["hub_server"]


def _pixels(seed: Seed) -> bytes:
    levels = seed.child("pixels").rng().uniforms(48 * 32) * 256
    return bytes(levels.astype(np.uint8))


def _picture(seed: Seed) -> Asset:
    target = io.BytesIO()
    Image.frombytes("L", (48, 32), _pixels(seed)).save(target, "PNG")
    return Asset("picture.png", "image/png", target.getvalue())


def _readings(readings: tuple[float, ...]) -> Asset:
    text = io.StringIO()
    csv.writer(text, lineterminator="\n").writerows((repr(each),) for each in readings)
    return Asset("readings.csv", "text/csv", text.getvalue().encode())


def _notice() -> Asset:
    """The same in every instance, so that it betrays none."""
    return Asset("notice.txt", "text/plain", b"All readings were taken on the same day.\n" * 20)
