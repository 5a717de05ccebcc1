"""study.yaml: read whole, or refused with one error that names file, line, key and remedy."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest
import yaml

from study.errors import StudyError
from study.protocol.plan_section import PlanSection
from study.protocol.protocol import read_protocol
from tests.cases import cases
from tests.study.conftest import PILOT as GOOD


def study(folder: Path, text: str) -> Path:
    (folder / "study.yaml").write_text(text, encoding="utf-8")
    return folder


def test_a_protocol_is_read_with_its_defaults(tmp_path: Path) -> None:
    protocol = read_protocol(study(tmp_path, GOOD))
    assert protocol.name == "pilot"
    assert [task.stratum for task in protocol.tasks] == [
        "count_circles/easy",
        "compute_average/hard",
    ]
    assert [pin.name for pin in protocol.wave_models(1)] == ["honest", "remote"]
    assert protocol.sandbox.kind == "docker"
    assert protocol.entropy == "system"
    plan = protocol.registered_plan()
    assert plan.looks == 2
    assert plan.seeds_per_arm == 8
    assert plan.alpha == 0.025


def test_the_allocations_to_enumerate_reach_the_plan_of_either_preset(tmp_path: Path) -> None:
    for preset in ("", "preset: standard-v1, controls: {pre_exposure: [honest]}, "):
        text = GOOD + f"plan: {{{preset}enumerate_up_to: 1000000}}\n"
        assert read_protocol(study(tmp_path, text)).registered_plan().enumerate_up_to == 1_000_000
    with pytest.raises(StudyError, match=r"plan.enumerate_up_to: 1000001: .*1000000"):
        read_protocol(study(tmp_path, GOOD + "plan: {enumerate_up_to: 1000001}\n"))


def test_one_pair_is_refused_and_several_are_not(tmp_path: Path) -> None:
    pairs = GOOD.replace("seeds_per_arm: 8", "seeds_per_arm: 1")
    assert read_protocol(study(tmp_path, pairs)).registered_plan().seeds_per_arm == 1
    one = pairs.replace("  - {family: compute_average, difficulty: hard}\n", "")
    with pytest.raises(StudyError, match="seeds_per_arm: one instance an arm in one stratum"):
        read_protocol(study(tmp_path, one))


def test_tasks_may_be_written_short(tmp_path: Path) -> None:
    short = GOOD.replace(
        "  - {family: count_circles, difficulty: easy}\n"
        "  - {family: compute_average, difficulty: hard}\n",
        "  - count_circles/easy\n  - compute_average@3/hard\n",
    )
    assert read_protocol(study(tmp_path, short)) == read_protocol(study(tmp_path, GOOD))


def test_a_remote_model_is_pinned_by_the_version_asked_for(tmp_path: Path) -> None:
    remote = read_protocol(study(tmp_path, GOOD)).models[1]
    assert (remote.provider, remote.version) == ("openai", "some-model")
    assert ("base_url", '"http://127.0.0.1:8000/v1"') in remote.settings


@pytest.mark.parametrize(
    ("old", "new", "line", "words"),
    cases(__file__, "bad input is refused with file line and remedy"),
)
def test_bad_input_is_refused_with_file_line_and_remedy(
    tmp_path: Path, old: str, new: str, line: int, words: str
) -> None:
    with pytest.raises(StudyError) as caught:
        read_protocol(study(tmp_path, GOOD.replace(old, new, 1)))
    message = str(caught.value)
    assert message.startswith(f"{tmp_path / 'study.yaml'}:{line}"), message
    assert words in message
    assert "\n" not in message
    assert "secret" not in message


def test_a_missing_file_names_the_command_that_writes_one(tmp_path: Path) -> None:
    with pytest.raises(StudyError, match=re.escape("dosimeter init")):
        read_protocol(tmp_path)


def test_deep_nesting_and_huge_files_are_refused_quickly(tmp_path: Path) -> None:
    with pytest.raises(StudyError, match="nested deeper"):
        read_protocol(study(tmp_path, "study: " + "[" * 5000))
    with pytest.raises(StudyError, match="at most"):
        read_protocol(study(tmp_path, "#" * 1_000_001))


def test_an_unplanned_wave_is_refused(tmp_path: Path) -> None:
    protocol = read_protocol(study(tmp_path, GOOD))
    with pytest.raises(StudyError, match="no wave 2"):
        protocol.wave_models(2)


STANDARD = cases(__file__, "standard")


def test_the_standard_plan_is_read_with_its_controls(tmp_path: Path) -> None:
    text = GOOD.replace("model: some-model", "model: some-model\n    released: 2025-11-03")
    plan = read_protocol(study(tmp_path, text + STANDARD)).registered_plan()
    assert (plan.name, plan.looks) == ("standard-v1", 4)
    assert plan.standard is not None
    assert plan.standard.pre_exposure == ("honest",)
    assert plan.standard.released == (("remote", "2025-11-03"),)
    assert plan.standard.regrade == 0.0, "no judge has a part in the verdict"
    pin = read_protocol(study(tmp_path, text)).models[1]
    assert "released" not in dict(pin.settings)  # what is told of a model is no part of its run


@pytest.mark.parametrize(
    ("old", "new", "said"), cases(__file__, "a standard plan is refused by line")
)
def test_a_standard_plan_is_refused_by_line(tmp_path: Path, old: str, new: str, said: str) -> None:
    with pytest.raises(StudyError, match=said):
        read_protocol(study(tmp_path, GOOD + STANDARD.replace(old, new)))


PLANS = (Path(__file__).parents[3] / "docs" / "plans.md").read_text(encoding="utf-8")


def test_the_page_on_plans_names_every_key_and_its_example_is_one() -> None:
    example = yaml.safe_load(PLANS.partition("```yaml\n")[2].partition("```")[0])
    assert PlanSection.model_validate_json(json.dumps(example["plan"])).preset == "standard-v1"
    for key in PlanSection.model_fields:
        assert f"`{key}" in PLANS, key


RESERVE = GOOD.replace(
    "seeds_per_arm: 8\n", "seeds_per_arm: 8\nreserve: {tranches: 3, seeds_per_arm: 2}\n"
)


def test_a_wave_may_say_which_tranches_its_models_run(tmp_path: Path) -> None:
    text = RESERVE.replace(
        "  - [honest, remote]\n",
        "  - {models: [honest, remote], tranches: {remote: 2, honest: [2, 0]}}\n"
        "  - {models: [remote], tranches: [1, 3]}\n"
        "  - {models: [remote]}\n",
    )
    protocol = read_protocol(study(tmp_path, text))
    assert protocol.reserve == (2, 2, 2)
    assert protocol.waves[1:] == (("honest", "remote"), ("remote",), ("remote",))
    assert [protocol.wave_tranches(wave) for wave in range(4)] == [
        {"honest": (0,)},
        {"honest": (0, 2), "remote": (2,)},
        {"remote": (1, 3)},
        {"remote": (0,)},
    ]
    assert protocol.tranches == ((), ((0, 2), (2,)), ((1, 3),), ())
    assert [{*protocol.tranche_sizes(tranche).values()} for tranche in (0, 1)] == [{16}, {4}]
    plain = read_protocol(study(tmp_path, GOOD))
    assert (plain.reserve, plain.wave_tranches(1)) == ((), {"honest": (0,), "remote": (0,)})


@pytest.mark.parametrize(("wave", "said"), cases(__file__, "bad_tranches"))
def test_tranches_that_cannot_be_run_are_refused_by_line(
    tmp_path: Path, wave: str, said: str
) -> None:
    text = RESERVE.replace("[honest, remote]", wave)
    with pytest.raises(StudyError, match=said) as refused:
        read_protocol(study(tmp_path, text))
    assert f"study.yaml:{text.splitlines().index('  - ' + wave) + 1}" in str(refused.value)


def test_a_reserve_tranche_without_a_reserve_is_refused(tmp_path: Path) -> None:
    text = GOOD.replace("[honest, remote]", "{models: [remote], tranches: 1}")
    with pytest.raises(StudyError, match="there is 0, the panel: a reserve is drawn"):
        read_protocol(study(tmp_path, text))


def test_what_a_provider_keeps_is_told_and_is_no_part_of_a_pin(tmp_path: Path) -> None:
    told = GOOD.replace("    model: some-model\n", "    model: some-model\n    retention: none\n")
    plain = read_protocol(study(tmp_path, GOOD))
    protocol = read_protocol(study(tmp_path, told))
    assert protocol.retention == protocol.wave_retention(1) == (("remote", "none"),)
    assert protocol.wave_retention(0) == ()
    assert protocol.models == plain.models
    with pytest.raises(StudyError, match=r"models\.remote.*retention"):
        read_protocol(study(tmp_path, told.replace("retention: none", "retention: off")))
    here = GOOD.replace("error_rate: 0.2}", "error_rate: 0.2, retention: none}")
    with pytest.raises(StudyError, match="scripted models run here, and nobody keeps"):
        read_protocol(study(tmp_path, here))
