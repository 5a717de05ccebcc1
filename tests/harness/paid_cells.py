"""Cells of a paid model in a store in a folder, and a worker that a test can kill."""

from __future__ import annotations

from generators.catalog import INSTALLED
from generators.seed import Seed
from generators.task import TaskSpec
from harness.build_model import build_model
from harness.sweep.run_cell import run_cell
from harness.sweep.schedule import Schedule, WaveInstance, WavePlan, schedule_cells
from harness.sweep.workbench import RunContext, Workbench
from registry.ledger.records import ModelPin
from registry.sealing import recipient_of
from registry.stores import open_store
from tests.harness.paid_attempt import Vouched
from tests.harness.script import noon

COUNT = 4
NAME = "paid"


def pin_at(url: str) -> ModelPin:
    """The model, asked once for each turn and told the turn's seed, which names it."""
    settings = {"api_key_env": '""', "base_url": f'"{url}"', "retries": "0", "send_seed": "true"}
    return ModelPin(NAME, "openai", "asked", tuple(settings.items()))


def cells(url: str, count: int = COUNT) -> Schedule:
    spec = TaskSpec("compute_average", "3", "easy", ())
    root = Seed(bytes(32))
    seeds = [root.child("cell", number) for number in range(count)]
    made = INSTALLED.family(spec.family)
    subjects = [WaveInstance(spec, made.generate(spec.difficulty, seed).id, seed) for seed in seeds]
    return schedule_cells(WavePlan("s", 0, (pin_at(url),), (1,), root.hex), subjects, root.hex)


def bench(url: str, folder: str, study: str, identity: str) -> Workbench:
    """A worker's equipment, of a study with this recipient and a run with this identity."""
    context = RunContext(
        plan=WavePlan("s", 0, (pin_at(url),), (1,), Seed(bytes(32)).hex),
        run="sha256:" + "a" * 64,
        store=folder,
        recipients=(study,),
        trusted=frozenset(),
        run_recipient=recipient_of(identity),
        run_identity=identity,
        sandbox="local",
        runtime="",
        image_tag="",
        image_digest="none",
        parallel=1,
        folder=".",
        code="",
    )
    models = {NAME: build_model(pin_at(url), {})}
    return Workbench(context, open_store(folder), models, Vouched())


def work(url: str, folder: str, study: str, identity: str) -> None:
    """All the cells, one after the other: the whole of a worker's process."""
    made = bench(url, folder, study, identity)
    for cell in cells(url):
        assert run_cell(cell, made, noon).finished
    made.close()
