"""A wave that is begun and not closed is reported, and spends its look; a wave before the release
gives no verdict."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest
from click.testing import CliRunner

from harness.sweep.run_cell import run_cell
from harness.sweep.workbench import Workbench
from registry.errors import BrokenPromise
from registry.provenance import utc_now
from registry.verify.verify import verify_study
from study.errors import StudyError
from study.main import main
from study.steps import pipeline
from study.steps.sweep.history import begun_waves, early_models, history_of
from study.steps.sweep.sweep import SweepRequest, begin_wave, context_of
from study.steps.sweep.waves import list_waves
from study.workspace.address import open_study
from study.workspace.setup import pinned_image
from study.workspace.snapshot import cells_of
from study.workspace.study import Study
from tests.study.conftest import SINGLE, make_study, run_wave

TINY = SINGLE.replace("seeds_per_arm: 6", "seeds_per_arm: 3")
TINY = TINY.replace("plan: {", "plan: {alpha: 0.2, ")
TEXT = TINY.replace(
    "  - [honest, spiked]\nplan: {alpha: 0.2, permutations: 1999}",
    "  - [honest, spiked]\n  - [spiked]\n  - [spiked]\n"
    "plan: {alpha: 0.2, permutations: 1999, looks: 2}",
)


def make_longer(folder: Path) -> Study:
    """The study, drawn and registered, with a wave more than it has looks: planned later, since
    no draw is made for one."""
    make_study(folder, TEXT.replace("  - [spiked]\n", "", 1))
    (folder / "study.yaml").write_text(TEXT, encoding="utf-8")
    return open_study(folder)


def begin(study: Study, wave: int, episodes: int, now: Callable[[], str] = utc_now) -> None:
    """Begin a wave, run some of its episodes, and stop."""
    image = pinned_image(study.protocol)
    manifest = begin_wave(study, SweepRequest(wave, allow_dirty=True), image, now)
    if not episodes:
        return
    bench = Workbench.open(context_of(study, manifest, image, 1))
    for cell in cells_of(study, manifest)[:episodes]:
        assert run_cell(cell, bench, now).finished
    bench.close()


@pytest.fixture(scope="module")
def dropped(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A study of two looks. Wave 0 ran before the release; of those after it, wave 1 was begun and
    dropped after 5 of its 12 episodes; wave 2 is closed."""
    study = make_longer(tmp_path_factory.mktemp("dropped") / "study")
    run_wave(study, 0)
    pipeline.publish(study, None, lambda *step: None)
    begin(study, 1, 5)
    run_wave(study, 2)
    return study.folder


@pytest.fixture
def study(dropped: Path, tmp_path: Path) -> Study:
    shutil.copytree(dropped, tmp_path / "study")
    return pipeline.open_study(tmp_path / "study")


def test_a_dropped_wave_is_a_deviation_and_the_early_one_has_no_verdict(study: Study) -> None:
    report, page = pipeline.report(study)
    begun = begun_waves(study.ledger.entries())[1].begun[:10]
    assert (
        f"Wave 1 (honest, spiked) was begun on {begun} and is not closed, with 5 episodes stored: "
        "none of its results is shown. Its look is spent."
    ) in report.deviations
    assert [(v.model, v.wave, v.alpha) for v in report.verdicts] == [("spiked", 2, 0.1)]
    assert [(e.model, e.wave) for e in report.before_publication] == [("honest", 0)]
    assert not report.exploratory
    body = json.loads((page.parent / "report.json").read_text(encoding="utf-8"))
    (early,) = body["before_publication"]
    assert (early["model"], early["n_public"]) == ("honest", 3)
    assert "verdict" not in early
    assert "Before publication" in page.read_text(encoding="utf-8")
    assert "Before publication" in (page.parent / "report.md").read_text(encoding="utf-8")
    (record,) = [entry.record for entry in study.ledger.find("report")]
    assert record.unclosed == ((1, 5),)
    assert verify_study(study.store, study.identities()).problems == ()
    waves = list_waves(study)
    assert [(wave.look, wave.beyond) for wave in waves] == [
        (None, False),
        (1, False),
        (2, False),
        (3, True),
    ]


def test_the_same_look_is_the_same_bytes_and_a_newly_begun_wave_is_news(study: Study) -> None:
    _, page = pipeline.report(study)
    first, count = page.read_bytes(), len(study.ledger.entries())
    begin(study, 1, 9)  # more episodes of the wave that is reported already
    assert pipeline.report(study)[1].read_bytes() == first
    begin(study, 3, 2)
    where = ["report", "--study", str(study.folder)]
    refused = CliRunner().invoke(main, where)  # nobody answers
    assert refused.exit_code == 2, refused.output
    assert "wave 1, wave 3: begun and not closed" in refused.stderr
    assert "`dosimeter report --wave 2`" in refused.stderr
    assert len(study.ledger.find("report")) == 1
    assert CliRunner().invoke(main, where, input="y\n").exit_code == 0
    report, _ = pipeline.report(study)
    assert report.through_wave == 2
    assert sum("is not closed" in line for line in report.deviations) == 2
    records = [entry.record.unclosed for entry in study.ledger.find("report")]
    assert records == [((1, 5),), ((1, 9), (3, 2))]
    again, _ = pipeline.report(study, 2)
    assert again == report
    assert len(study.ledger.find("report")) == 2
    assert len(study.ledger.entries()) > count


def test_no_wave_that_was_begun_can_be_struck_from_the_file(study: Study) -> None:
    run_wave(study, 3)
    path = study.folder / "study.yaml"
    path.write_text(path.read_text().replace("  - [spiked]\n  - [spiked]\n", "  - [spiked]\n"))
    with pytest.raises(BrokenPromise, match=r"wave 3 \(spiked\) was begun on .* restore its line"):
        pipeline.report(pipeline.open_study(study.folder))


def test_order_is_that_of_the_ledger_and_not_of_clocks(tmp_path: Path) -> None:
    """The clock of the machine that begins the second wave is years behind."""
    study = make_longer(tmp_path / "study")
    run_wave(study, 0, lambda: "2030-01-01T00:00:00Z")
    pipeline.publish(study, None, lambda *step: None)
    run_wave(study, 1, lambda: "2020-01-01T00:00:00Z")
    history = history_of(study.ledger.entries(), study.protocol.registered_plan())
    assert history.before == {0}
    report, _ = pipeline.report(study)
    assert {v.wave for v in report.verdicts} == {1}


def test_a_study_without_a_release_has_no_verdict_and_says_why(tmp_path: Path) -> None:
    study = make_study(tmp_path / "study", TINY)
    run_wave(study, 0)
    report, page = pipeline.report(study)
    assert report.verdicts == ()
    assert "every wave was begun before the public arm was released" in page.read_text("utf-8")
    shown = CliRunner().invoke(main, ["report", "--study", str(study.folder)])
    assert "Before publication: no verdicts" in shown.output
    begin(study, 1, 0)
    with pytest.raises(StudyError, match="wave 1 is not closed"):
        pipeline.report(study, 1)
    again, _ = pipeline.report(study)
    assert "It was begun before the publication and is no look." in " ".join(again.deviations)


def test_a_sweep_says_beforehand_that_a_wave_will_get_no_verdict(study: Study) -> None:
    assert early_models(study, 0) == ("honest",)
    assert [early_models(study, wave) for wave in (1, 2, 3)] == [(), (), ()]
