"""Units as study.yaml states them, and what is refused of them."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import pytest

from registry.draws.allocation import sealed_units
from registry.ledger.draw_records import FAMILY, VARIANT, Unit
from study.errors import StudyError
from study.extras.levels.contribution import shortfalls
from study.protocol.protocol import read_protocol
from study.steps.init.folder import init_study
from study.steps.lint.lint import find_errors
from study.workspace.address import open_study
from tests.cases import cases

STUDY = cases(__file__, "study")


def written(folder: Path, tasks: str) -> Path:
    (folder / "study.yaml").write_text(STUDY.replace("TASKS", tasks))
    return folder


@pytest.mark.parametrize(("tasks", "words"), cases(__file__, "refused"))
def test_units_that_do_not_fit_are_refused(tmp_path: Path, tasks: str, words: str) -> None:
    with pytest.raises(StudyError) as refused:
        read_protocol(written(tmp_path, tasks))
    assert words in str(refused.value)


@pytest.mark.parametrize(("tasks", "words"), cases(__file__, "unlike"))
def test_siblings_of_another_form_are_an_error(tmp_path: Path, tasks: str, words: str) -> None:
    init_study(tmp_path, STUDY.replace("TASKS", tasks))
    assert any(words in what for _, what in find_errors(open_study(tmp_path)))


@pytest.mark.parametrize(("tasks", "words"), cases(__file__, "few"))
def test_too_few_units_are_a_shortfall(tmp_path: Path, tasks: str, words: str) -> None:
    assert words in next(shortfalls(read_protocol(written(tmp_path, tasks)), lambda *step: None))[1]


def test_half_of_an_area_rounded_down_stays_sealed_by_lot() -> None:
    names = [f"u{n}" for n in range(5)]
    units = [Unit(n, FAMILY if n in names else VARIANT, n[0], (n,)) for n in (*names, "p1", "p2")]
    drawn = Counter[str]()
    for number in range(2000):
        sealed = [unit.name for unit in sealed_units(units, f"{number:064x}")]
        assert sorted(name in names for name in sealed) == [False, True, True]
        drawn.update(sealed)
    assert all(abs(drawn[name] - 800) < 5 * 22 for name in names)
    assert abs(drawn["p1"] - 1000) < 5 * 23
