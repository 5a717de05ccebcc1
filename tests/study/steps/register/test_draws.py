"""Draws and reveals of a study: once, announced, recorded, and whole after a kill at any write."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from registry.errors import BrokenPromise
from registry.verify.verify import verify_study
from study.errors import StudyError, WorkOwedError
from study.extras.pilot import pilot
from study.extras.reveal.reveal import check_revealed, reveal
from study.main import main
from study.steps import pipeline
from study.steps.init.folder import init_study
from study.steps.register.draw import DrawRequest, draw_seeds, is_drawn
from study.steps.sweep.exposure_ledger import burned_of_wave, declare_leak
from study.workspace.study import Study
from tests.registry.draws.beacons import sign_round, use_chain
from tests.study.conftest import SMALLNESS, run_wave
from tests.study.test_promises import TINY, kinds

ROUND = 1_000_001
BEACON = f"drand:{ROUND}"
BEFORE, AFTER = "2023-12-19T15:33:19Z", "2023-12-19T15:33:20Z"
RESERVE = TINY.replace(
    "seeds_per_arm: 2", "seeds_per_arm: 2\nreserve: {tranches: 1, seeds_per_arm: 2}"
)


@pytest.fixture(autouse=True)
def _chain(monkeypatch: pytest.MonkeyPatch) -> None:
    use_chain(monkeypatch)


@pytest.fixture
def study(tmp_path: Path) -> Study:
    init_study(tmp_path / "study", RESERVE)
    return pipeline.open_study(tmp_path / "study")


@pytest.fixture
def relay(tmp_path: Path) -> str:
    """A file with the round's signature."""
    path = tmp_path / "round.json"
    path.write_text(json.dumps({"round": ROUND, "signature": sign_round(ROUND)}))
    return str(path)


def draw(study: Study, now: str = AFTER, **request: object) -> object:
    wanted = DrawRequest(**request)  # type: ignore[arg-type]
    return draw_seeds(study, lambda *step: None, lambda: now, request=wanted)


def dosimeter(*words: str, input: str = "") -> Result:
    return CliRunner().invoke(main, [*words], input=input)


# --- the beacon ---


def test_a_draw_waits_for_the_round_that_it_was_announced_with(
    study: Study, relay: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = ("--study", str(study.folder))
    monkeypatch.setattr(pipeline, "utc_now", lambda: BEFORE)
    words = (
        "register",
        "--draw",
        "--beacon",
        BEACON,
        "--relay",
        relay,
        "--underpowered",
        SMALLNESS,
        *folder,
    )
    waiting = dosimeter(*words)
    assert waiting.exit_code == 1
    assert waiting.stderr.endswith(
        "the draw is announced: its arms follow from drand round 1000001, public at 2023-12-19 "
        "15:33:20 UTC; then run `dosimeter register` again\n"
    )
    assert kinds(study) == ["announcement"]
    assert not is_drawn(study)
    for step in (words, ("register", "--draw", *folder), ("register", *folder)):
        assert dosimeter(*step).exit_code == 1, step
    assert kinds(study) == ["announcement"]
    monkeypatch.setattr(pipeline, "utc_now", lambda: AFTER)
    done = dosimeter("register", "--draw", "--relay", relay, "--json", *folder)
    assert done.exit_code == 0, done.stderr
    assert json.loads(done.stdout)["value"] == sign_round(ROUND)
    assert kinds(study) == ["announcement", "sealed-set"]
    assert verify_study(study.store).holds
    assert verify_study(study.store, study.identities()).holds
    assert '"round": 1000001' in dosimeter("log", "--json", *folder).stdout


def test_a_round_that_is_over_draws_nothing(study: Study) -> None:
    refused = dosimeter("register", "--draw", "--beacon", BEACON, "--study", str(study.folder))
    assert refused.exit_code == 2
    assert "name one to come, such as drand:" in refused.stderr
    assert [*study.store.list()] == []


def test_a_value_of_another_round_is_refused(study: Study, tmp_path: Path) -> None:
    with pytest.raises(WorkOwedError):
        draw(study, BEFORE, beacon=BEACON)
    forged = tmp_path / "forged.json"
    forged.write_text(json.dumps({"round": ROUND, "signature": sign_round(ROUND + 1)}))
    with pytest.raises(BrokenPromise, match="its signature is not of round 1000001"):
        draw(study, relays=(str(forged),))
    assert kinds(study) == ["announcement"]


def test_an_announced_draw_takes_no_other_beacon(study: Study) -> None:
    draw(study)
    with pytest.raises(StudyError, match="announced with a secret of its own already"):
        draw(study, BEFORE, beacon=BEACON)
    assert kinds(study) == ["announcement", "sealed-set"]


# --- a second draw ---


def test_a_second_draw_needs_a_reason_and_is_recorded(study: Study) -> None:
    draw(study)
    first = study.entries()
    assert draw(study)[1] is False  # type: ignore[index]
    draw(study, again="a task was replaced")
    assert kinds(study) == ["announcement", "sealed-set"] * 2
    assert study.ledger.entries()[2].body["again"] == "a task was replaced"
    assert not {e.instance for e in first} & {e.instance for e in study.entries()}
    assert draw(study, again="a task was replaced")[1] is False  # type: ignore[index]
    assert verify_study(study.store, study.identities()).holds
    pipeline.register(study, underpowered=SMALLNESS)
    assert verify_study(study.store, study.identities()).holds
    with pytest.raises(StudyError, match="the plan is registered"):
        draw(study, again="I did not like it")
    assert kinds(study) == [*["announcement", "sealed-set"] * 2, "preregistration", "study-files"]


@pytest.mark.parametrize("reason", [" ", "two\nlines"])
def test_a_reason_is_words_on_one_line(study: Study, reason: str) -> None:
    draw(study)
    with pytest.raises(StudyError, match="--again: give the reason in words"):
        draw(study, again=reason)


def test_a_first_draw_takes_no_reason(study: Study) -> None:
    with pytest.raises(StudyError, match="--again: nothing is drawn yet"):
        draw(study, again="why not")
    assert kinds(study) == []


def test_a_second_draw_may_follow_another_study_yaml(study: Study) -> None:
    draw(study)
    path = study.folder / "study.yaml"
    path.write_text(path.read_text().replace("\nseeds_per_arm: 2", "\nseeds_per_arm: 3"))
    other = pipeline.open_study(study.folder)
    with pytest.raises(BrokenPromise, match="here is 3, and drawn is 2"):
        draw(other)
    draw(other, again="more seeds")
    assert other.sealed_set().seeds_per_arm == 3
    assert verify_study(other.store, other.identities()).holds


def test_fixed_entropy_draws_and_allots_the_same_again(tmp_path: Path) -> None:
    text = RESERVE + 'entropy: "fixed:' + "5e" * 32 + '"\n'
    drawn = []
    for name in ("one", "two"):
        init_study(tmp_path / name, text)
        made = pipeline.open_study(tmp_path / name)
        draw(made)
        drawn.append((made.entries(), made.sealed_set().allocation_seed))
        draw(made, again="once more")
        assert not {e.seed for e in drawn[-1][0]} & {e.seed for e in made.entries()}
    assert drawn[0] == drawn[1]


# --- kill -9 ---


# --- the reveal ---


@pytest.fixture
def run(study: Study) -> Study:
    """One wave of the panel, begun and closed."""
    draw(study)
    pipeline.register(study, underpowered=SMALLNESS)
    run_wave(study)
    return study


def test_a_tranche_is_revealed_once_its_waves_are_closed(study: Study) -> None:
    draw(study)
    with pytest.raises(StudyError, match="no plan is registered"):
        reveal(study, (0,), "", lambda: AFTER)
    pipeline.register(study, underpowered=SMALLNESS)
    folder = ("--study", str(study.folder))
    refused = dosimeter("reveal", "--tranche", "0", "--yes", *folder)
    assert refused.exit_code == 2
    assert "still to run on these seeds: wave 0 (planned); close each" in refused.stderr
    assert "revealed" not in kinds(study)
    run_wave(study)
    asked = dosimeter("reveal", "--tranche", "0", *folder, input="n\n")
    assert asked.exit_code == 1
    assert "cannot be undone" in asked.stderr
    assert "revealed" not in kinds(study)
    done = dosimeter("reveal", "--tranche", "0", "--json", *folder, input="y\n")
    assert done.exit_code == 0, done.stderr
    assert json.loads(done.stdout)["count"] == 4
    value = json.loads((study.folder / "reveal-0.json").read_text())
    assert {(s["instance"], s["seed"], s["nonce"], s["arm"]) for s in value["seeds"]} == {
        (e.instance, e.seed, e.nonce, e.arm) for e in study.entries() if e.tranche == 0
    }
    everything = b"".join(study.store.get(key) for key in study.store.list())
    assert not any(e.seed.encode() in everything for e in study.entries() if e.tranche == 1)
    assert dosimeter("reveal", "--tranche", "0", "--yes", *folder).exit_code == 0
    assert kinds(study).count("revealed") == 1
    assert verify_study(study.store).holds
    assert "count 4; " in dosimeter("log", *folder).stdout


def test_a_reason_or_a_declared_leak_reveals_earlier(study: Study) -> None:
    draw(study)
    pipeline.register(study, underpowered=SMALLNESS)
    declare_leak(study, 0, "2023-12-19", "seen in a forum", AFTER)
    record, _ = reveal(study, (0,), "", lambda: AFTER)
    assert (record.tranches, record.reason) == ((0,), "")
    with pytest.raises(StudyError, match=r"seeds: wave 0 \(planned\)"):
        reveal(study, (0, 1), "", lambda: AFTER)
    record, path = reveal(study, (0, 1), "the study is given up", lambda: AFTER)
    assert (record.count, record.reason) == (8, "the study is given up")
    assert path.name == "reveal-study.json"
    assert verify_study(study.store).holds


def test_revealed_seeds_are_burned_for_every_later_wave(run: Study) -> None:
    before = burned_of_wave(run, run.ledger.entries(), 0)
    reveal(run, (0,), "", lambda: AFTER)
    path = run.folder / "study.yaml"
    path.write_text(path.read_text().replace("  - [honest]\n", "  - [honest]\n  - [honest]\n"))
    later = pipeline.open_study(run.folder)
    entries = later.ledger.entries()
    assert burned_of_wave(later, entries, 0) == before == {}
    assert burned_of_wave(later, entries, 1) == {"honest": (0,)}


@pytest.mark.parametrize(
    "words", [(), ("--tranche", "0", "--all"), ("--all", "--check", "x"), ("--tranche", "7")]
)
def test_a_reveal_of_nothing_or_of_two_things_is_refused(
    study: Study, words: tuple[str, ...]
) -> None:
    draw(study)
    assert dosimeter("reveal", *words, "--yes", "--study", str(study.folder)).exit_code == 2
    assert "revealed" not in kinds(study)


def test_a_reveal_is_checked_without_a_key_and_every_instance_is_made_again(run: Study) -> None:
    _, path = reveal(run, (0, 1), "", lambda: AFTER)
    run.key_file.unlink()
    folder = ("--study", str(run.folder))
    held = dosimeter("reveal", "--check", str(path), *folder)
    assert held.exit_code == 0, held.stderr
    assert "all holds; 8 instances made again" in held.stdout
    for change, problem in (
        (lambda v: v["seeds"][3].update(seed="11" * 32), "seed 3 is not what was committed to"),
        (lambda v: v["seeds"][0].update(nonce="11" * 32), "seed 0 is not what was committed"),
        (lambda v: v.update(root="11" * 32), "of the draw with root 1111"),
        (
            lambda v: v["seeds"][1].update(tranche=1 - v["seeds"][1]["tranche"]),
            "another arm or tranche",
        ),
        (lambda v: v["seeds"][2].update(difficulty="hard"), "another stratum"),
        (lambda v: (v["seeds"].pop(), v["leaves"].pop()), "others found"),
        (lambda v: v.update(study="other"), "of the study 'other'"),
    ):
        value = json.loads(path.read_text())
        change(value)
        forged = run.folder / "forged.json"
        forged.write_text(json.dumps(value, sort_keys=True, separators=(",", ":")))
        count, problems = check_revealed(run, forged, lambda *step: None)
        assert count >= 7
        assert any(problem in text for text in problems), (problem, problems)
        assert dosimeter("reveal", "--check", str(forged), *folder).exit_code == 3
    forged.write_text(json.dumps(value))  # not canonical
    assert dosimeter("reveal", "--check", str(forged), *folder).exit_code == 3


@pytest.mark.parametrize("change", ["altered", "removed", "moved"])
def test_verify_names_a_reveal_that_was_altered(run: Study, change: str) -> None:
    record, _ = reveal(run, (0,), "", lambda: AFTER)
    path = run.folder / "store" / record.uri
    if change == "removed":
        path.unlink()
    elif change == "altered":
        path.write_bytes(path.read_bytes().replace(b"public", b"secret"))
    else:
        other = path.with_name("00" * 32 + ".json")
        path.rename(other)
    problems = verify_study(run.store).problems
    assert any(place == run.ledger.entries()[-1].place for place, _ in problems), problems


def test_a_pilot_has_no_seed_of_a_draw_that_still_waits_for_its_arms(tmp_path: Path) -> None:
    init_study(tmp_path, RESERVE)
    study = pipeline.open_study(tmp_path)
    with pytest.raises(WorkOwedError):
        draw(study, BEFORE, beacon=BEACON)
    request = pilot.PilotRequest(seeds=3)
    scratch = pilot._write(study, request, study.protocol.models[:1])
    draw_seeds(scratch, lambda *step: None, lambda: BEFORE)
    for secret in ("seed", "instance"):
        own = {getattr(each, secret) for each in scratch.drawn_seeds()}
        assert len(own) == 6
        assert not own & {getattr(each, secret) for each in study.drawn_seeds()}
