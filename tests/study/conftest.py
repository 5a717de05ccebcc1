"""A small study on the local sandbox, made once for the tests that only read it."""

from __future__ import annotations

import contextlib
import math
import os
import secrets
import shutil
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from harness.model import ModelRequest, Reply
from harness.sweep.run_cell import run_cell
from harness.sweep.workbench import Workbench
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
TINY = cases(__file__, "tiny")

# A study file with a remote model, for tests that read it and run nothing.
PILOT = cases(__file__, "pilot")

# 0.03 USD a call of a model named "…-1", as the server of tests counts its tokens.
PRICES = cases(__file__, "prices")

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
    bench = replace(bench, begun=context.begun_list(bench.store, "000001-1"))
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


TESTED = "DOSIMETER_TESTED"  # the variable by which a test knows the processes of its own
# Read by Ray when it is imported. Left alone, it would write a token to the home folder.
os.environ.setdefault("RAY_AUTH_MODE", "token")
os.environ.setdefault("RAY_AUTH_TOKEN", secrets.token_hex(32))
os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")
MARK = "shared"  # of the processes of the shared cluster


@contextlib.contextmanager
def start_cluster(variables: Mapping[str, str], **head: object) -> Iterator[Any]:
    """A ray.cluster_utils.Cluster of one node, whose processes have these variables, in up to three
    tries: a raylet ends if its agents need more than 15 seconds, as they do on a busy machine."""
    from ray.cluster_utils import Cluster

    with pytest.MonkeyPatch.context() as environment:
        for name, value in variables.items():
            environment.setenv(name, value)
        for further in (2, 1, 0):
            with contextlib.suppress(Exception) if further else contextlib.nullcontext():
                made = Cluster(True, head_node_args={"include_dashboard": False, **head})
                break
    try:
        yield made
    finally:
        made.shutdown()


@pytest.fixture(scope="session")
def ray_address() -> Iterator[str]:
    """The address of a cluster of one node, shared by tests that kill none."""
    resources = {"head": 1, "sandbox": 3}
    with start_cluster({TESTED: MARK}, num_cpus=2, resources=resources) as made:
        yield made.address


@pytest.fixture(params=["here", pytest.param("cluster", marks=[pytest.mark.ray, pytest.mark.slow])])
def place(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str | None:
    """Where a sweep runs: None for processes of this machine, or the address of a cluster. Both
    have the mark."""
    monkeypatch.setenv(TESTED, MARK)
    return None if request.param == "here" else str(request.getfixturevalue("ray_address"))


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
