"""Burned private seeds: for whom and from when on, by the ledger alone."""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path

import pytest
from click.testing import CliRunner
from hypothesis import given, settings
from hypothesis import strategies as st

from analysis.probe.probes import Exposure
from registry.ledger.chain import Entry
from registry.ledger.records import (
    Graded,
    JudgePin,
    Leak,
    ModelPin,
    Provenance,
    Regraded,
    RunManifest,
    record_digest,
)
from registry.stores.base import MemoryStore
from registry.verify.verify import verify_study
from study.extras.probe.kinds import instances_of_model
from study.extras.probe.results import _adjusted
from study.main import main
from study.steps.sweep.exposure_ledger import burned_tranches, provider_of
from study.workspace.address import open_study
from tests.cases import cases
from tests.ledgers import signed_ledger
from tests.study.conftest import SMALL, make_study

MADE = Provenance("9f" * 20, False, "sha256:" + "ab" * 32, "none", "3.11", ())


# Settings that a pin of a provider has in any study.
NEEDED = cases(__file__, "needed")
VERSIONS = {"local": "smollm2", "scripted": "honest/1"}


def pin(name: str, provider: str = "openai", url: str = "") -> ModelPin:
    given = {"base_url": url} if url else dict(NEEDED.get(provider, {}))
    if provider == "agent_server":
        given["tree"] = "host"
    settings_ = tuple((key, json.dumps(value)) for key, value in sorted(given.items()))
    return ModelPin(name, provider, VERSIONS.get(provider, "v1"), settings_)


def run_of(
    wave: int, *models: ModelPin, tranches: tuple[tuple[int, ...], ...] = (), **retention: str
) -> RunManifest:
    return RunManifest(
        "study",
        wave,
        "p",
        "ee",
        models,
        (),
        "local",
        "",
        (1,) * len(models),
        "00",
        "age1",
        f"runs/{wave}/key.age",
        MADE,
        (),
        tranches=tranches,
        retention=tuple(retention.items()),
    )


def ledger_of(*records: object) -> tuple[Entry, ...]:
    """Each record a day after the one before, from the first of November."""
    ledger = signed_ledger(MemoryStore())
    for day, record in enumerate(records, start=1):
        ledger.append(record, f"2026-11-{day:02}T12:00:00Z")
    return ledger.entries()


def test_what_a_provider_may_have_kept_is_burned_for_its_later_runs_only() -> None:
    entries = ledger_of(
        run_of(0, pin("a"), pin("b", "anthropic")),
        run_of(1, pin("c"), pin("b", "anthropic"), tranches=((1,), (0,)), b="none"),
        run_of(2, pin("c"), pin("b", "anthropic"), pin("d", "google"), b="none"),
    )
    assert burned_tranches(entries) == {
        (0, "a"): frozenset(),  # two models of one look do not burn for each other
        (0, "b"): frozenset(),
        (1, "c"): {0},
        (1, "b"): {0},  # nothing was documented of it at wave 0
        (2, "c"): {0, 1},
        (2, "b"): {0},
        (2, "d"): frozenset(),
    }


def test_what_runs_here_or_keeps_nothing_burns_nothing() -> None:
    entries = ledger_of(
        run_of(0, pin("a"), pin("l", "local"), pin("s", "scripted"), a="none"),
        run_of(1, pin("a"), pin("l", "local"), pin("s", "scripted"), a="training"),
        run_of(1, pin("a"), pin("l", "local"), pin("s", "scripted"), a="none"),
        run_of(2, pin("a")),
    )
    found = burned_tranches(entries)
    assert [found[wave, "a"] for wave in (0, 1, 2)] == [frozenset(), frozenset(), {0}]
    assert not any(found[wave, name] for wave in (0, 1) for name in "ls")


def test_who_is_behind_an_address_is_its_host() -> None:
    assert provider_of(pin("a", "openai", "http://10.0.0.1:8000/v1")) == "10.0.0.1"
    assert provider_of(pin("a", "agent_server", "http://10.0.0.1:9000")) == "10.0.0.1"
    direct, spelt = pin("a", "anthropic"), pin("a", "anthropic", "https://api.anthropic.com")
    assert provider_of(direct) == provider_of(spelt) == "api.anthropic.com"
    for provider in ("vertex", "vertex_anthropic"):  # Google sees what is sent to either
        assert provider_of(pin("a", provider)) == "aiplatform.googleapis.com"
    assert provider_of(pin("a", "bedrock")) == "bedrock"


def test_a_judge_that_has_read_a_wave_burns_it_for_its_provider() -> None:
    run = run_of(0, pin("s", "scripted"), tranches=((0, 2),))
    judge = JudgePin("jury", "anthropic", "v1", "sha256:00")
    later = run_of(1, pin("b", "anthropic"), pin("a"))

    def after(retention: str) -> frozenset[int]:
        graded = Graded(0, record_digest(run), judge, 4, 4, "00", retention, pinned=False)
        return burned_tranches(ledger_of(run, graded, later))[1, "b"]

    assert after("") == after("kept") == {0, 2}
    assert after("none") == frozenset()
    graded = Graded(0, record_digest(run), judge, 4, 4, "00", pinned=False)
    assert not burned_tranches(ledger_of(run, later, graded))[1, "b"], "graded afterwards"
    first = Graded(0, record_digest(run), judge, 4, 4, "00", "none", pinned=False)
    again = Regraded(1, record_digest(run), judge, 4, 4, "00", "kept", first=0, share=1.0)
    third = run_of(2, pin("b", "anthropic"))
    look = run_of(1, pin("s", "scripted"))
    assert not burned_tranches(ledger_of(run, first, look, third))[2, "b"]
    assert burned_tranches(ledger_of(run, first, look, again, third))[2, "b"] == {0, 2}


def test_a_leak_burns_for_everybody_from_its_day_on() -> None:
    entries = ledger_of(
        run_of(0, pin("s", "scripted")),
        run_of(1, pin("s", "scripted")),
        run_of(2, pin("s", "scripted"), tranches=((1,),)),
        Leak(0, "2026-11-02", "a transcript was put online"),
    )
    found = burned_tranches(entries)
    assert [found[wave, "s"] for wave in (0, 1, 2)] == [frozenset(), {0}, {0}]


@dataclass(frozen=True)
class Run:
    provider: int
    tranche: int
    policy: str


_WAVES = st.lists(
    st.lists(
        st.builds(
            Run, st.integers(0, 2), st.integers(0, 3), st.sampled_from(["none", "kept", "unknown"])
        ),
        min_size=1,
        max_size=4,
    ),
    min_size=1,
    max_size=5,
)


@settings(max_examples=60, deadline=None)
@given(_WAVES)
def test_it_is_what_every_pair_of_runs_says(waves: list[list[Run]]) -> None:
    records = [
        run_of(
            wave,
            *(pin(f"m{n}", url=f"http://host{r.provider}/v1") for n, r in enumerate(runs)),
            tranches=tuple((r.tranche,) for r in runs),
            **{f"m{n}": r.policy for n, r in enumerate(runs) if r.policy != "unknown"},
        )
        for wave, runs in enumerate(waves)
    ]
    found = burned_tranches(ledger_of(*records))
    for wave, runs in enumerate(waves):
        for n, own in enumerate(runs):
            expected = {
                before.tranche
                for earlier in waves[:wave]
                for before in earlier
                if before.provider == own.provider and before.policy != "none"
            }
            assert found[wave, f"m{n}"] == expected


def test_a_wave_is_warned_of_before_it_is_begun(tmp_path: Path) -> None:
    text = RESERVED.replace("plan: {permutations: 1999}", "plan: {permutations: 1999, looks: 8}")
    study = make_study(tmp_path / "study", text)
    study.ledger.append(Leak(0, "2026-11-01", "seen"), "2026-11-05T00:00:00Z")
    command = ["wave", "open", "--study", str(study.folder), "--models", "honest,spiked"]
    result = CliRunner().invoke(main, [*command, "--tranche", "honest=1"], catch_exceptions=False)
    assert "note: tranche 0 is burned for spiked" in result.stderr
    assert "for honest" not in result.stderr
    listed = CliRunner().invoke(main, ["wave", "list", "--study", str(study.folder), "--json"])
    assert [row["burned"] for row in json.loads(listed.stdout)] == [
        {"honest": [0]},
        {"honest": [0], "spiked": [0]},
        {"spiked": [0]},
    ]


RESERVED = SMALL.replace(
    "seeds_per_arm: 6\n", "seeds_per_arm: 2\nreserve: {tranches: 2, seeds_per_arm: 1}\n"
)


def test_a_leak_is_declared_once(tmp_path: Path) -> None:
    study = make_study(tmp_path / "study", RESERVED)
    command = ["leak", "declare", "--study", str(study.folder), "--reason", "seen in a forum"]
    command += ["--since", "2026-11-03", "--tranche", "1"]
    result = CliRunner().invoke(main, command, catch_exceptions=False)
    assert result.exit_code == 0, result.output
    assert "tranche 1 is burned for everybody from 2026-11-03 on" in result.output
    again = CliRunner().invoke(main, [*command, "--json"], catch_exceptions=False)
    assert json.loads(again.stdout)["tranche"] == 1
    assert len(study.ledger.find("leak")) == 1
    assert verify_study(study.store, study.identities()).holds


@pytest.mark.parametrize(("options", "said"), cases(__file__, "refused"))
def test_a_leak_that_cannot_be_is_refused(reserved: Path, options: list[str], said: str) -> None:
    command = ["leak", "declare", "--study", str(reserved), "--reason", "r", *options]
    result = CliRunner().invoke(main, command)
    assert result.exit_code == 2
    assert said in result.output
    assert not open_study(reserved).ledger.find("leak")


def test_a_model_is_probed_on_what_it_runs_and_groups_are_adjusted_together(reserved: Path) -> None:
    study = open_study(reserved)
    own = instances_of_model(study, 1, study.protocol.wave_models(1)[1], study.instances())
    assert len(own) == 2 * 2 * 2
    assert {entry.tranche for entry in own} == {0}
    row = Exposure(
        wave=1, model="m", public=0.5, private=0.4, gap=0.1, interval=(0.0, 0.2), p=0.01,
        p_adjusted=0.02, alpha=0.025, exposed=True, n_public=4, n_private=4, strata=1,
    )  # fmt: skip
    assert _adjusted(row, 1) == row
    assert (_adjusted(row, 2).p_adjusted, _adjusted(row, 2).exposed) == (0.04, False)


@pytest.fixture(scope="module")
def reserved(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return make_study(tmp_path_factory.mktemp("reserved") / "study", RESERVED).folder
