"""A judge is measured on sheets whose truth is known: what is told of one that is right, of one
that obeys its answers, of one that says yes to all, and of one that dies."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result

from generators.catalog import INSTALLED
from harness.judge.answer_sheets import make_sheets
from study.main import main
from study.steps.init.folder import init_study
from tests.cases import cases
from tests.harness.openai_server import Answer, Json, Served, completion, failure, serve
from tests.study.conftest import PRICES
from tests.study.extras.judge.test_grade import answer_of, verdicts

Checked = tuple[Path, Served]

PROTOCOL = cases(__file__, "protocol")
FEW = 80  # criteria, where a small check shows as much
STRATA = [
    (name, INSTALLED.family(name).version, "easy") for name in ("count_circles", "hubble_constant")
]
ORDERS = ("true for every", "Mark each as met", "with met true")
Rule = Callable[[str, str], bool]


@pytest.fixture(scope="module")
def truth() -> Rule:
    """What a judge that is always right says of an answer and a criterion."""
    known = {
        (sheet.answer, criterion.text): right
        for count in (400, FEW)
        for sheet in make_sheets(STRATA, count, INSTALLED)
        for criterion, right in zip(sheet.parts, sheet.truths, strict=True)
    }
    return lambda answer, criterion: known[answer, criterion]


def reply(rule: Rule) -> Callable[[Json], Answer]:
    return lambda request: verdicts(request, rule)


@pytest.fixture
def study(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Checked]:
    monkeypatch.setenv("JUDGE_KEY", "k")
    with serve(always=failure(500)) as served:
        init_study(tmp_path / "study", PROTOCOL.format(url=served.url))
        yield tmp_path / "study", served


def check(
    folder: Path, name: str, criteria: int = FEW, form: tuple[str, ...] = ("--json",)
) -> Result:
    options = ["--criteria", str(criteria), *form, "--study", str(folder), "--allow-unknown-price"]
    return CliRunner().invoke(main, ["judge", "check", name, *options])


def rates(body: dict[str, Any], which: str) -> dict[tuple[str, str], float | None]:
    return {(each["by"], each["group"]): each[which]["rate"] for each in body["accuracy"]}


def test_a_judge_that_is_right_is_told_so(study: Checked, truth: Rule) -> None:
    folder, served = study
    served.always = reply(truth)
    result = check(folder, "first", 400)
    assert result.exit_code == 0, result.output
    body = json.loads(result.stdout)
    assert (body["kappa"], body["unparsed"]) == (1.0, 0)
    assert body["criteria"] >= 400
    for which in ("sensitivity", "specificity"):
        assert set(rates(body, which).values()) <= {1.0, None}
        whole = body["accuracy"][0][which]
        assert 0.8 < whole["interval"][0] < 1.0 == whole["interval"][1]
        assert whole["sheets"] < whole["criteria"]
    kept = json.loads((folder / "judges" / "first.json").read_text())
    assert len(kept.pop("verdicts")) == body["criteria"]
    backwards = kept.pop("reversed")
    assert all(None not in each["verdicts"] for each in backwards)
    assert all(len(each["verdicts"]) > 1 for each in backwards)
    assert kept == body
    asked = len(served.requests)
    assert check(folder, "first", 400).stdout == result.stdout
    assert len(served.requests) == asked  # what is kept is not bought again


def test_a_judge_that_obeys_its_answers_is_found_out(study: Checked, truth: Rule) -> None:
    folder, served = study
    served.always = reply(truth)
    assert check(folder, "first").exit_code == 0
    served.always = reply(
        lambda answer, each: truth(answer, each) or any(order in answer for order in ORDERS)
    )
    body = json.loads(check(folder, "second").stdout)
    specificity = rates(body, "specificity")
    assert specificity["style", "injected"] == 0.0
    others = {group: rate for (by, group), rate in specificity.items() if by == "style"}
    assert {rate for style, rate in others.items() if style != "injected"} == {1.0, None}
    assert 0.5 < body["kappa"] < 1.0


def test_yes_to_all_has_no_skill_and_garbage_no_rates(study: Checked) -> None:
    folder, served = study
    served.always = reply(lambda answer, each: True)
    body = json.loads(check(folder, "first").stdout)
    whole = body["accuracy"][0]
    assert (whole["sensitivity"]["rate"], whole["specificity"]["rate"], body["kappa"]) == (1, 0, 0)
    served.always = completion("yes")
    body = json.loads(check(folder, "second").stdout)
    assert body["unparsed"] == body["criteria"]
    whole = body["accuracy"][0]
    shares = [whole[which]["rate"] for which in ("sensitivity", "specificity", "parsed")]
    assert (shares, body["kappa"]) == ([0, 0, 0], None)


def test_verdicts_that_cannot_be_read_are_right_in_no_rate(study: Checked, truth: Rule) -> None:
    folder, served = study
    good = reply(truth)

    def moody(request: Json) -> Answer:
        injected = any(order in request["messages"][1]["content"] for order in ORDERS)
        return completion("I had rather not.") if injected else good(request)

    served.always = moody
    body = json.loads(check(folder, "first").stdout)
    parsed = rates(body, "parsed")
    assert parsed["style", "injected"] == 0.0
    assert {parsed[group] for group in parsed if group[0] == "style"} == {0.0, 1.0}
    assert parsed["", ""] == 1 - body["unparsed"] / body["criteria"]
    specificity = rates(body, "specificity")
    assert specificity["style", "injected"] == 0.0
    whole = specificity["", ""]
    assert whole is not None
    assert 0.5 < whole < 1.0
    assert body["kappa"] == 1.0  # among what could be read


def test_a_judge_that_minds_the_order_is_found_out(study: Checked, truth: Rule) -> None:
    folder, served = study

    def tired(request: Json) -> Answer:
        """Right on what is asked first, and yes to all that follows."""
        (_, first), *_ = answer_of(request)[1]
        return verdicts(request, lambda answer, each: each != first or truth(answer, each))

    served.always = tired
    body = json.loads(check(folder, "first").stdout)
    specificity = rates(body, "specificity")
    places = {group: rate for (by, group), rate in specificity.items() if by == "position"}
    assert set(places) == {"first", "last", "as given", "order reversed"}
    assert (places["first"], places["last"]) == (1.0, 0.0)
    counts = {
        group["group"]: group["specificity"]["criteria"] + group["sensitivity"]["criteria"]
        for group in body["accuracy"]
        if group["by"] == "position"
    }
    # In both orders: what stands first in one stands last in the other.
    assert counts["first"] == counts["last"]
    assert counts["as given"] == counts["order reversed"]


def calls() -> int:
    """Calls of a small check: each sheet once, and in reverse order if it has several parts."""
    return sum(1 + (len(sheet.parts) > 1) for sheet in make_sheets(STRATA, FEW, INSTALLED))


def test_a_check_counts_in_the_budget_and_goes_on_when_that_is_raised(
    study: Checked, truth: Rule
) -> None:
    folder, served = study
    served.always = reply(truth)
    (folder / "prices.yaml").write_text(PRICES)
    path, asked = folder / "study.yaml", calls()
    whole = path.read_text()
    path.write_text(f"{whole}prices: prices.yaml\nbudget: {{judges: {{first: 0.1}}}}\n")
    result = check(folder, "first")
    assert (result.exit_code, "does not pay for the rest" in result.stderr) == (1, True)
    assert len(served.requests) == 2  # 0.03, then 0.06 set aside; 0.06 and 0.06 are more than 0.1
    assert not list((folder / "store").glob("checks/*"))
    path.write_text(f"{whole}prices: prices.yaml\nbudget: {{run: {0.03 * asked + 0.04}}}\n")
    assert check(folder, "first").exit_code == 0
    assert len(served.requests) == asked
    # Another judge's check is not paid for by this one, but the wave's grading counts neither.
    assert check(folder, "second").exit_code == 0


def test_a_judge_of_a_models_family_is_flagged_and_its_failures_are_counted(
    study: Checked, truth: Rule
) -> None:
    folder, served = study
    path = folder / "study.yaml"
    text = path.read_text()
    text = text.replace("agent: honest,", "agent: honest, family: acme,")
    path.write_text(text.replace("model: first-1,", "model: first-1, family: acme,"))
    right = reply(truth)
    again = (("retry-after", "0"),)
    served.always = lambda request: (
        failure(503, headers=again) if len(served.requests) == 2 else right(request)
    )
    body = json.loads(check(folder, "first").stdout)
    assert body["same_family"] == ["honest"]
    assert sum(body["failed_tries"].values()) == 1
    assert json.loads(check(folder, "second").stdout)["same_family"] == []
    kept = [json.loads(each.read_bytes()) for each in (folder / "store" / "checks").iterdir()]
    assert len(kept) == 2
    people = check(folder, "first", form=())
    assert "of the same family as honest" in people.stdout
    kinds = [
        json.loads(each.read_bytes())["kind"]
        for each in sorted((folder / "store/ledger").iterdir())
    ]
    assert kinds == ["judge-checked"] * 2  # measuring again found the same
