"""The smallest study of the reference: it validates, and with built-in models it is registered,
swept and published."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from click.testing import CliRunner

from study import workspace
from study.cli.main import main
from study.protocol import read_protocol

PAGE = Path(__file__).parents[2] / "docs/reference/study-yaml.md"


def smallest() -> str:
    """The example of the reference page."""
    found = re.search(r"## The smallest file.*?```yaml\n(.*?)```", PAGE.read_text(), re.DOTALL)
    assert found is not None
    return found[1]


def test_it_has_at_most_twelve_lines_and_validates(tmp_path: Path) -> None:
    assert len(smallest().splitlines()) <= 12
    (tmp_path / "study.yaml").write_text(smallest())
    protocol = read_protocol(tmp_path)
    plan = protocol.registered_plan()
    assert plan.standard is not None
    assert plan.standard.pre_exposure == ("before-1", "before-2"), "the models of wave 0"
    assert (protocol.store, protocol.keys) == ("store", "keys/study.txt")
    assert protocol.sandbox.kind == "docker"
    assert protocol.prices is None
    (tmp_path / "prices.yaml").write_text("prices: []\n")
    assert read_protocol(tmp_path).prices == "prices.yaml"


def test_models_that_are_named_as_controls_are_those(tmp_path: Path) -> None:
    text = smallest().replace("controls: {", "controls: {pre_exposure: [before-2], ")
    (tmp_path / "study.yaml").write_text(text)
    plan = read_protocol(tmp_path).registered_plan()
    assert plan.standard is not None
    assert plan.standard.pre_exposure == ("before-2",)


@pytest.mark.slow
def test_it_runs_from_the_draw_to_the_second_wave(tmp_path: Path) -> None:
    """With a built-in model in the place of the served one, two instances an arm and programs on
    this machine; the power that is lacking so is waived."""
    model = re.search(r"\{provider: openai[^}]*\}", smallest())
    assert model is not None
    text = smallest().replace(model[0], "{provider: scripted}")
    text = text.replace("seeds_per_arm: 58", "seeds_per_arm: 2\nsandbox: {kind: local}")
    folder = workspace.init_study(tmp_path / "study", text).parent
    why, dirty = ["--underpowered", "a test"], "--allow-dirty"
    for command in (
        ["draw", *why],
        ["register", *why],
        ["sweep", "--wave", "0", dirty],
        ["publish"],
        ["sweep", "--wave", "1", dirty],
        ["status"],
    ):
        done = CliRunner().invoke(main, [command[0], "--study", str(folder), *command[1:]])
        assert done.exit_code == 0, (command, done.output)
