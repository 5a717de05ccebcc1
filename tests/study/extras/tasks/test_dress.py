"""Drafts of dressings, and the check of siblings, as their owner meets them."""

from __future__ import annotations

from pathlib import Path

import pytest

from generators.catalog import Catalog
from generators.dressings.family import dressed_family
from generators.seed import EXAMPLE_SEED
from generators.validation.dressed import unsolved
from study.extras.tasks.dress import dress_task
from tests.conftest import ROOT
from tests.study.cli.program import refusal, run


@pytest.mark.parametrize("entry", Catalog.built_in().entries())
def test_drafts_of_each_family_can_be_solved_and_differ(entry: str, tmp_path: Path) -> None:
    paths = dress_task(entry.partition("@")[0], 2, tmp_path, EXAMPLE_SEED)
    one, other = (dressed_family(path.name, path.read_text()) for path in paths)
    assert [*unsolved(one, ["easy"], 1)] == []
    assert one.prompt != other.prompt != one.dressing.base.prompt
    assert "Reword it" in paths[0].read_text()
    # The same drafts again: another text there would be refused.
    assert dress_task(entry.partition("@")[0], 2, tmp_path, EXAMPLE_SEED) == paths


def test_a_draft_overwrites_nothing_and_no_other_family_is_dressed(tmp_path: Path) -> None:
    out = str(tmp_path / "new")
    done = run("tasks", "dress", "compute_average", "--n", "2", "--out", out)
    assert (done.exit_code, "wrote 2 drafts" in done.stdout) == (0, True)
    again = refusal("tasks", "dress", "compute_average", "--n", "2", "--out", out)
    assert "compute_average_01.yaml: is there already" in again
    assert "did you mean 'hubble_constant'" in refusal("tasks", "dress", "hubble_constants")
    assert "unknown built-in family 'items'" in refusal("tasks", "dress", "items")
    foreign = str(ROOT / "tests/data/dressings/count_circles_plates.yaml")
    own = f"{out}/compute_average_01.yaml"
    assert "siblings dress one family" in refusal("tasks", "check", own, foreign)
    assert "template check" in refusal("tasks", "check", "past")


@pytest.mark.slow
def test_siblings_are_checked(tmp_path: Path) -> None:
    files = map(str, dress_task("compute_average", 2, tmp_path))
    assert run("tasks", "check", *files, "--seeds", "1").exit_code == 0
