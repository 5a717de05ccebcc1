"""The smallest study of the reference page validates, with its defaults."""

from __future__ import annotations

import re
from pathlib import Path

from study.protocol.protocol import read_protocol

PAGE = Path(__file__).parents[3] / "docs/reference/study-yaml.md"


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
