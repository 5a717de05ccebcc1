"""Waves over the years: listed from the ledger, opened by one line of study.yaml, closed once."""

from __future__ import annotations

import json
import socket
from pathlib import Path

import pytest
from click.testing import CliRunner

from registry.errors import BrokenPromise
from registry.ledger.records import RunManifest
from registry.provenance import utc_now
from study.errors import StudyError
from study.main import main
from study.steps import pipeline
from study.steps.init.folder import init_study
from study.steps.sweep.estimate import planned_episodes
from study.steps.sweep.sweep import SweepRequest, begin_wave, context_of
from study.steps.sweep.wave_command import ask_sweep
from study.steps.sweep.waves import close_wave_now, list_waves, open_wave
from study.workspace.setup import pinned_image
from study.workspace.study import Study
from tests.cases import cases
from tests.study.conftest import SMALL, TINY, draw_tiny, make_study

LOOKS = SMALL.replace("plan: {permutations: 1999}", "plan: {permutations: 1999, looks: 3}")


def planned(folder: Path, text: str) -> Study:
    init_study(folder, text)
    return pipeline.open_study(folder)


def test_a_wave_is_one_line_more_and_comments_stay(tmp_path: Path) -> None:
    commented = SMALL.replace("  - [honest]\n", "  - [honest]  # before the release\n")
    study = planned(tmp_path, commented)
    before = (tmp_path / "study.yaml").read_text()
    assert open_wave(study, ["spiked"]) == (2, True)
    after = (tmp_path / "study.yaml").read_text()
    assert after == before.replace("  - [honest, spiked]\n", "  - [honest, spiked]\n  - [spiked]\n")
    assert pipeline.open_study(tmp_path).protocol.waves[2] == ("spiked",)
    assert [path.name for path in tmp_path.iterdir() if path.name.startswith(".study")] == []


LISTED = "waves:\n  - [honest]\n  - [honest, spiked]\n"


def test_opening_the_same_wave_twice_is_one_wave(tmp_path: Path) -> None:
    open_wave(planned(tmp_path, SMALL), ["spiked"])
    text = (tmp_path / "study.yaml").read_text()
    assert open_wave(pipeline.open_study(tmp_path), ["spiked"]) == (2, False)
    assert (tmp_path / "study.yaml").read_text() == text


def test_a_wave_may_be_written_over_several_lines(tmp_path: Path) -> None:
    text = SMALL.replace("  - [honest, spiked]\n", "  - - honest\n    - spiked\n")
    assert open_wave(planned(tmp_path, text), ["honest"]) == (2, True)
    assert pipeline.open_study(tmp_path).protocol.waves[1:] == (("honest", "spiked"), ("honest",))


def test_waves_in_one_line_get_another_in_it(tmp_path: Path) -> None:
    text = SMALL.replace(LISTED, "waves: [[honest], [honest, spiked]]  # two\n")
    assert open_wave(planned(tmp_path, text), ["honest"]) == (2, True)
    line = "waves: [[honest], [honest, spiked], [honest]]  # two\n"
    assert (tmp_path / "study.yaml").read_text() == SMALL.replace(LISTED, line)


@pytest.mark.parametrize(("waves", "models", "said"), cases(__file__, "unopened"))
def test_what_cannot_be_opened_leaves_the_file(
    tmp_path: Path, waves: str, models: list[str], said: str
) -> None:
    text = SMALL.replace(LISTED, waves) if waves else SMALL
    study = planned(tmp_path, text)
    with pytest.raises(StudyError, match=said):
        open_wave(study, models)
    assert (tmp_path / "study.yaml").read_text() == text


def test_the_registered_looks_are_not_changed_by_a_wave(tmp_path: Path) -> None:
    study = make_study(tmp_path / "implicit")
    with pytest.raises(StudyError, match=r"2 looks are registered.*write `looks: 2`"):
        open_wave(study, ["spiked"])
    assert len(pipeline.open_study(study.folder).protocol.waves) == 2
    study = make_study(tmp_path / "explicit", LOOKS)
    assert open_wave(study, ["spiked"]) == (2, True)
    assert open_wave(pipeline.open_study(study.folder), ["honest"]) == (3, True)
    waves = list_waves(pipeline.open_study(study.folder))
    assert [(wave.look, wave.beyond) for wave in waves] == [
        (1, False),
        (2, False),
        (3, False),
        (4, True),
    ]


def test_the_list_tells_what_the_ledger_knows(finished: Study) -> None:
    result = CliRunner().invoke(main, ["wave", "list", "--study", str(finished.folder), "--json"])
    rows = json.loads(result.stdout)
    assert [(row["wave"], row["state"], row["models"]) for row in rows] == [
        (0, "closed", ["honest"]),
        (1, "closed", ["honest", "spiked"]),
    ]
    assert all(row["begun"] < row["closed"] <= row["reported"] for row in rows)
    assert rows[0]["scored"] == 24


def test_a_closed_wave_is_closed_once(finished: Study) -> None:
    length = len(finished.ledger.entries())
    record, fresh = close_wave_now(finished, 0, lambda: "2030-01-01T00:00:00Z")
    assert (record.wave, fresh) == (0, False)
    assert len(finished.ledger.entries()) == length


def test_a_wave_with_untried_episodes_is_not_closed(tmp_path: Path) -> None:
    study = make_study(tmp_path / "study")
    with pytest.raises(StudyError, match="wave 0 is not begun"):
        close_wave_now(study, 0, lambda: "")
    from study.steps.sweep.sweep import SweepRequest, begin_wave
    from study.workspace.setup import pinned_image

    manifest = begin_wave(
        study,
        SweepRequest(0, allow_dirty=True),
        pinned_image(study.protocol),
        lambda: "2026-01-01T00:00:00Z",
    )
    assert isinstance(manifest, RunManifest)
    with pytest.raises(StudyError, match="24 of 24 episodes were never tried"):
        close_wave_now(study, 0, lambda: "")


RESERVED = SMALL.replace(
    "seeds_per_arm: 6\n", "seeds_per_arm: 3\nreserve: {tranches: 2, seeds_per_arm: 1}\n"
).replace("plan: {permutations: 1999}", "plan: {permutations: 1999, looks: 8}")


def test_a_wave_is_opened_on_a_reserve_tranche(tmp_path: Path) -> None:
    planned(tmp_path, RESERVED)
    command = ["wave", "open", "--study", str(tmp_path), "--models", "honest,spiked"]
    command += ["--tranche", "spiked=2", "--tranche", "honest=0,2"]
    for _ in range(2):
        result = CliRunner().invoke(main, command, catch_exceptions=False)
        assert result.exit_code == 0, result.output
    protocol = pipeline.open_study(tmp_path).protocol
    assert protocol.wave_tranches(2) == {"honest": (0, 2), "spiked": (2,)}
    assert len(protocol.waves) == 3, "twice the same is one wave"
    added = "  - {models: [honest, spiked], tranches: {spiked: [2], honest: [0, 2]}}\n"
    assert added in (tmp_path / "study.yaml").read_text()
    result = CliRunner().invoke(main, [*command[:6], "--tranche", "1"], catch_exceptions=False)
    assert pipeline.open_study(tmp_path).protocol.wave_tranches(3) == {
        "honest": (1,),
        "spiked": (1,),
    }
    first = list_waves(pipeline.open_study(tmp_path))[0]
    assert first.tranches == {"honest": (0,)}


@pytest.mark.parametrize(("tranche", "said"), cases(__file__, "no_tranches"))
def test_a_tranche_that_is_not_there_is_not_opened(tmp_path: Path, tranche: str, said: str) -> None:
    planned(tmp_path, RESERVED)
    command = ["wave", "open", "--study", str(tmp_path), "--models", "honest"]
    result = CliRunner().invoke(main, [*command, "--tranche", tranche])
    assert result.exit_code == 2
    assert said in " ".join(result.output.split())
    assert (tmp_path / "study.yaml").read_text() == RESERVED


def test_a_wave_owes_its_tranches_and_no_other(tmp_path: Path) -> None:
    text = RESERVED.replace(
        "  - [honest, spiked]\n",
        "  - {models: [honest, spiked], tranches: {spiked: 1, honest: [0, 2]}}\n",
    )
    study = make_study(tmp_path / "study", text)
    from study.steps.sweep.sweep import SweepRequest, begin_wave
    from study.workspace.setup import pinned_image
    from study.workspace.snapshot import cells_of

    planned_ = {
        model: planned_episodes(study.protocol, 1, [model]) for model in ("honest", "spiked")
    }
    assert {m: {s: sum(n) for s, n in own.items()} for m, own in planned_.items()} == {
        "honest": {"count_circles/easy": 8, "compute_average/easy": 8},
        "spiked": {"count_circles/easy": 2, "compute_average/easy": 2},
    }
    each = [1] * 6 + [1] * 2 + [1] * 2
    assert planned_episodes(study.protocol, 1) == dict.fromkeys(planned_["honest"], each)
    manifest = begin_wave(
        study,
        SweepRequest(1, allow_dirty=True),
        pinned_image(study.protocol),
        lambda: "2026-01-01T00:00:00Z",
    )
    assert manifest.tranches == ((0, 2), (1,))
    tranche = {entry.instance: entry.tranche for entry in study.entries()}
    cells = cells_of(study, manifest)
    ran = {
        name: {tranche[c.instance] for c in cells if c.model == name}
        for name in ("honest", "spiked")
    }
    assert ran == {"honest": {0, 2}, "spiked": {1}}
    assert len(cells) == sum(sum(map(sum, own.values())) for own in planned_.values())
    moved = text.replace("{spiked: 1,", "{spiked: 2,")
    (study.folder / "study.yaml").write_text(moved)
    again = pipeline.open_study(study.folder)
    with pytest.raises(
        BrokenPromise, match=r"here is \[honest: 0, 2, spiked: 2\], and wave 1 was begun with"
    ):
        begin_wave(
            again, SweepRequest(1, allow_dirty=True), pinned_image(again.protocol), lambda: ""
        )
    more = text.replace("tranches: 2, seeds", "tranches: 3, seeds")
    (study.folder / "study.yaml").write_text(more)
    again = pipeline.open_study(study.folder)
    with pytest.raises(BrokenPromise, match="reserve: here is"):
        draw_tiny(again)


CONTROLLED = cases(__file__, "controlled")


@pytest.mark.parametrize(("models", "notes"), cases(__file__, "notes"))
def test_what_a_wave_lacks_without_a_control_is_noted_when_it_is_opened(
    tmp_path: Path, models: str, notes: list[str]
) -> None:
    planned(tmp_path, CONTROLLED)
    result = CliRunner().invoke(
        main, ["wave", "open", "--study", str(tmp_path), "--models", models]
    )
    assert result.exit_code == 0, result.output
    assert result.stderr.splitlines() == [f"note: {note} (docs/waves.md)" for note in notes]


def test_a_sweep_that_was_asked_to_stop_does_not_resume_and_status_shows_it(tmp_path: Path) -> None:
    study = make_study(tmp_path / "study", TINY)
    image = pinned_image(study.protocol)
    manifest = begin_wave(study, SweepRequest(0, allow_dirty=True), image, utc_now)
    context_of(study, manifest, image, 1).epochs.open()
    for asked, shown in (("pause", "paused"), ("go", "at work"), ("stop", "asked to stop")):
        ask_sweep(study, 0, asked)  # type: ignore[arg-type]  # its words
        assert f"; {shown} on {socket.gethostname()}" in str(pipeline.status(study))
    with pytest.raises(StudyError, match="was asked to stop, and ends: `dosimeter sweep --wave 0`"):
        ask_sweep(study, 0, "go")
