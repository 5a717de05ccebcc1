"""A small study on the local sandbox, made once for the tests that only read it."""

from __future__ import annotations

import math
import shutil
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from pathlib import Path

import pytest

from harness.model import ModelRequest, Reply
from harness.sweep.run_cell import run_cell
from harness.sweep.workbench import Workbench
from harness.sweep.worker_process import prepare_ray
from registry.ledger.records import WaveClosed
from registry.provenance import utc_now
from study.steps import pipeline
from study.steps.init.folder import init_study
from study.steps.register.draw import draw_seeds
from study.steps.sweep.sweep import SweepRequest, begin_wave, close_wave, context_of
from study.workspace.setup import pinned_image, register_plan
from study.workspace.snapshot import cells_of
from study.workspace.study import Study
from tests.cases import cases

SMALL = cases(__file__, "small")

# The same with one task, whose episodes take least.
SINGLE = SMALL.replace("  - {family: count_circles, difficulty: easy}\n", "")

# A study of one task and one model, which nothing is published of.
TINY = """\
study: tiny
tasks:
  - {family: compute_average, difficulty: easy}
seeds_per_arm: 2
models:
  honest: {provider: scripted, agent: honest, error_rate: 0.3}
waves:
  - [honest]
plan: {alpha: 0.4, permutations: 199}
sandbox: {kind: local}
"""

# A study file with a remote model, for tests that read it and run nothing.
PILOT = cases(__file__, "pilot")

SMALLNESS = "a test has few instances"  # the reason that every small study of the tests gives


def draw_tiny(study: Study) -> None:
    """Draw a study that is too small to answer."""
    pipeline.draw(study, underpowered=SMALLNESS)


class Lost:
    """A model with a provider that answers nobody."""

    name = "honest"
    trusted = True
    paid = False

    def respond(self, request: ModelRequest) -> Reply:
        raise ConnectionError


def promise_unchecked(study: Study) -> None:
    """Draw and register without the checks that come first, so that a later step refuses."""
    draw_seeds(study, lambda *step: None, utc_now)
    register_plan(study, lambda *step: None, utc_now())


def make_study(folder: Path, text: str = SMALL) -> Study:
    """A study that is drawn and registered."""
    init_study(folder, text)
    study = pipeline.open_study(folder)
    draw_tiny(study)
    pipeline.register(study)
    return study


def run_wave(
    study: Study, wave: int = 0, now: Callable[[], str] = utc_now, parallel: int = 1
) -> WaveClosed:
    """Run a wave as a sweep does, without Ray: each episode in this process."""
    image = pinned_image(study.protocol)
    manifest = begin_wave(study, SweepRequest(wave, allow_dirty=True), image, now)
    cells = cells_of(study, manifest)
    context = context_of(study, manifest, image, 1)
    bench = Workbench.open(context)
    bench.purchases.renew(math.inf)  # no coordinator is here to renew it, however slow a host is
    with ThreadPoolExecutor(parallel) as pool:
        assert all(pool.map(lambda cell: run_cell(cell, bench, now).finished, cells))
    bench.close()
    return close_wave(study, context, manifest, cells, bytes([1]) * len(cells), now)


def run_whole(study: Study) -> None:
    """Run both waves, release the public arm between them, and write the report."""
    run_wave(study, 0, parallel=4)
    pipeline.publish(study, None, lambda *step: None)
    run_wave(study, 1, parallel=4)
    pipeline.report(study)


# What the processes of the shared cluster inherit: the mark of a test, and keys of models.
TESTED = "DOSIMETER_TESTED"
RAY_VARIABLES = {TESTED: "shared", "NO_KEY": "sk-none", "REVOKED": "key-of-the-third"}


@pytest.fixture(scope="session")
def ray_stack(s3_credentials: None) -> Iterator[ExitStack]:
    """Holds the shared cluster, once a test has asked for it."""
    with ExitStack() as stack:
        yield stack


@pytest.fixture
def ray_here(ray_stack: ExitStack) -> None:
    """A Ray cluster on this machine, to which this process is connected: shared by the sweeps of
    this process, of which none kills a node."""
    prepare_ray(None)
    import ray

    from harness.sweep.ray_cluster import ray_session

    if ray.is_initialized():
        return
    with pytest.MonkeyPatch.context() as environment:
        for name, value in RAY_VARIABLES.items():
            environment.setenv(name, value)
        ray_stack.enter_context(ray_session(None))


@pytest.fixture
def no_ray_here(ray_stack: ExitStack) -> None:
    """This process is connected to no cluster, so that it connects to the test's own."""
    prepare_ray(None)
    ray_stack.close()


def sweep(study: Study, wave: int, **choices: object) -> object:
    request = SweepRequest(wave, allow_dirty=True, **choices)  # type: ignore[arg-type]
    return pipeline.sweep(study, request, lambda progress: None)


@pytest.fixture(scope="session")
def finished(tmp_path_factory: pytest.TempPathFactory) -> Study:
    """Both waves run, the public arm released between them, the report written."""
    study = make_study(tmp_path_factory.mktemp("study") / "small")
    run_whole(study)
    shutil.copytree(study.folder, study.folder.parent / "untouched")
    return study
