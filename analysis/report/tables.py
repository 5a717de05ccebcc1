"""The report's tables as text, for the page and the Markdown: what a reader sees of the numbers.

A cell is text, or the word of a verdict. The first cell of a row names it.
"""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass

from analysis.plan import (
    SENSITIVITY,
    ControlResult,
    PrimaryResult,
    SensitivityResult,
    Verdict,
    look_alpha,
)
from analysis.probes import MEASURES
from analysis.report.figures import Timeline
from analysis.report.report import FunnelRow, Report
from analysis.report.wording import (
    control_count,
    evidence_words,
    range_words,
    score_words,
    short,
)
from analysis.stats import p_words, points, signed
from registry.result_row import Arm, Status

NONE = "–"
_WHOLE = "whole"
_ASIDES = {
    "false-discovery": "Benjamini–Hochberg over all models and looks, exploratory",
    "burned-versus-virgin": "scores on burned private instances less those on virgin ones: a gap "
    "here says that the private arm has leaked to the model",
}
_OPEN_ROWS = 24  # a longer table is folded


@dataclass(frozen=True, slots=True)
class Said:
    """A verdict's word as a cell."""

    word: str


Cell = str | Said


@dataclass(frozen=True, slots=True)
class Column:
    label: str
    number: bool = False


@dataclass(frozen=True, slots=True)
class Grid:
    """A table. Where it is ``folded`` a reader opens it; its numbers stand in tables/ too."""

    name: str
    caption: str
    columns: tuple[Column, ...]
    rows: tuple[tuple[Cell, ...], ...]
    folded: str = ""  # what is said of it while it is closed


def verdict_grid(report: Report) -> Grid:
    return Grid(
        "verdicts",
        "Gap: mean score on public minus mean score on private instances, averaged over strata, "
        f"in points of 100{_adjusted_words(report)}. p is one-sided; adjusted p is held against "
        f"{look_alpha(report.plan):.4g} in each look. Controls: of those that the verdict rests "
        "on. Instances: public + private.",
        _columns(
            "Model", "#Wave", "Verdict", "#Gap", "#95 % interval", "#p", "#Adjusted p",
            "#Controls passed", "#Instances",
        ),
        tuple((*row[:-1], control_count(v, report.standard), row[-1])
              for v in report.verdicts for row in (_verdict_row(v),)),
    )  # fmt: skip


def exploratory_grid(report: Report) -> Grid:
    return Grid(
        "exploratory",
        "Exploratory: not registered. Gap in points of 100.",
        _columns("Model", "#Wave", "Test", "Would be", "#Gap", "#95 % interval", "#Adjusted p"),
        tuple(
            (
                v.model, str(v.wave), f"{v.hypothesis} (exploratory)", v.verdict,
                _signed(v.estimate), range_words(v.interval), p_words(v.p_adjusted),
            )
            for v in report.exploratory
        ),
    )  # fmt: skip


def control_grid(report: Report) -> Grid:
    controls = () if report.standard is None else report.standard.controls
    return Grid(
        "controls",
        "Controls at their waves. C1: models that cannot have seen the published instances show no "
        "gap. C2: an agent that was given public keys is found. C3: all is graded exactly; or a "
        "second grader says the same, and what it now says of archived answers moved no arm alone.",
        _columns("Control", "#Wave", "Result", "#Gap", "#90 % interval", "#p", "What was seen"),
        tuple(
            (
                f"{c.kind}, {c.what}", str(c.wave), _passed(c), _signed(c.gap),
                range_words(c.interval90), NONE if c.p is None else p_words(c.p), c.says,
            )
            for c in controls
        ),
    )  # fmt: skip


def monitor_grid(report: Report) -> Grid:
    looks = () if report.standard is None else report.standard.monitored.looks
    rejected = None if report.standard is None else report.standard.monitored.rejected_at
    return Grid(
        "monitoring",
        "Study-level monitoring. T: the largest standardised gap over windows of looks that end "
        "here. It rejects where T is removed by the threshold of the look.",
        _columns("Wave", "Models", "#Gap of this look", "#T", "Window", "#Threshold",
                 "#Alpha spent", "Result"),
        tuple(
            (
                f"wave {look.wave}", ", ".join(look.models), signed(look.gap),
                f"{look.statistic:.2f}", _window(look.onset, look.wave),
                NONE if look.threshold is None else f"{look.threshold:.2f}",
                f"{look.spent:.4g}", _rejection(look.wave, rejected),
            )
            for look in looks
        ),
    )  # fmt: skip


def onset_grid(report: Report) -> Grid:
    onset = None if report.standard is None else report.standard.monitored.onset
    values = () if onset is None else onset.values
    bound = "" if onset is None else f" It rejects where E reaches {1 / onset.alpha:g}."
    at = None if onset is None else onset.rejected_at
    return Grid(
        "onset",
        f"Onset process: evidence for a gap that begins at any look.{bound}",
        _columns("Wave", "#E", "Result"),
        tuple(
            (f"wave {wave}", evidence_words(e), _rejection(wave, at))
            for wave, e in values
        ),
    )  # fmt: skip


def exposure_grid(report: Report) -> Grid:
    return Grid(
        "exposure",
        "Answers from memory, without the instance's data: mean score in points of 100.",
        _columns("Model", "#Wave", "#Public", "#Private", "#Gap", "#95 % interval", "#p",
                 "#Adjusted p", "Result"),
        tuple(
            (
                e.model, str(e.wave), points(e.public), points(e.private), signed(e.gap),
                range_words(e.interval), p_words(e.p), p_words(e.p_adjusted),
                "exposed" if e.exposed else "not shown",
            )
            for e in report.exposure
        ),
    )  # fmt: skip


def text_grid(report: Report) -> Grid:
    return Grid(
        "texts",
        "Exploratory: how likely each model finds the text of public and of private instances. "
        "Loss: mean negative log-probability of a token, in nats; lower on public speaks for "
        "exposure. Min-K% and Min-K%++ (k = 20): higher on public does. Adjusted p: over all rows "
        "of a wave.",
        _columns("Model", "#Wave", "Measure", "#Public", "#Private", "#Gap", "#95 % interval", "#p",
                 "#Adjusted p"),
        tuple(
            (
                t.model, str(t.wave), MEASURES[t.measure][0], _nats(t.public), _nats(t.private),
                _nats(t.gap, "+"),
                NONE if t.interval is None else " to ".join(_nats(e, "+") for e in t.interval),
                p_words(t.p), p_words(t.p_adjusted),
            )
            for t in report.texts
        ),
    )  # fmt: skip


def _nats(value: float, sign: str = "") -> str:
    return f"{value:{sign}.3f}".replace("-", "−")


def time_grid(report: Report, line: Timeline) -> Grid:
    return Grid(
        "time",
        "Gaps in time. Dates are those that are documented of the models; a dash: not known.",
        _columns("Model", "Family", "Released", "Training cut-off", "#Wave", "#Gap",
                 "#95 % interval", "Verdict"),
        tuple(
            (
                p.verdict.model, fact.family or NONE, fact.released or NONE, fact.cutoff or NONE,
                str(p.verdict.wave), _signed(p.verdict.estimate), range_words(p.verdict.interval),
                Said(p.verdict.verdict),
            )
            for _, own in line.families for p in own for fact in (report.fact(p.verdict.model),)
        ),
    )  # fmt: skip


def score_grid(report: Report, *, by_stratum: bool) -> Grid:
    held = {(m.wave, m.model, m.stratum, m.arm): m.estimate for m in report.means}
    keys = sorted({key[:3] for key in held if bool(key[2]) == by_stratum})
    rows = []
    for wave, model, stratum in keys:
        arms = [held.get((wave, model, stratum, arm)) for arm in (Arm.PUBLIC, Arm.PRIVATE)]
        said = [NONE if e is None else score_words(e.mean, e.interval) for e in arms]
        rows.append((model, str(wave), *([stratum] if by_stratum else []), *said))
    stratum_column = ["Stratum"] if by_stratum else []
    return Grid(
        "strata" if by_stratum else "scores",
        "Mean score in points of 100, with its 95 % interval where scores differ"
        + (", by stratum." if by_stratum else ", averaged over strata."),
        _columns("Model", "#Wave", *stratum_column, "#Public", "#Private"),
        tuple(rows),
        _fold("Scores by stratum", rows) if by_stratum else "",
    )


def dimension_grid(report: Report) -> Grid:
    held = {(d.wave, d.model, d.dimension, d.arm): d for d in report.dimensions}
    rows = []
    for wave, model, name in dict.fromkeys(key[:3] for key in held):
        pair = [held[wave, model, name, arm] for arm in (Arm.PUBLIC, Arm.PRIVATE)]
        said = [score_words(d.estimate.mean, d.estimate.interval) for d in pair]
        rows.append((model, str(wave), name, str(pair[0].strata), *said))
    return Grid(
        "dimensions",
        "Mean score by dimension of the rubrics, in points of 100, with its 95 % interval, over "
        "the strata whose rubrics have it.",
        _columns("Model", "#Wave", "Dimension", "#Strata", "#Public", "#Private"),
        tuple(rows),
        _fold("Scores by dimension", rows),
    )


def funnel_grid(report: Report) -> Grid:
    rows = tuple(
        (r.model, str(r.wave), str(r.arm), *map(str, (
            r.owed, r.owed - r.absent, r.scored, r.model_failure, r.missing, r.absent,
            r.seeds_dropped,
        )))
        for r in sorted(report.funnel, key=_public_first)
    )  # fmt: skip
    return Grid(
        "episodes",
        "What became of the episodes owed. “Not run”: owed by the plan, without any result.",
        _columns("Model", "#Wave", "Arm", "#Owed", "#Run", "#Scored", "#Model failure",
                 "#Missing", "#Not run", "#Instances dropped"),
        rows,
        _fold("Episodes by model and arm", rows),
    )  # fmt: skip


def cause_grid(report: Report) -> Grid:
    counts: dict[tuple[int, str, str, str], dict[str, int]] = defaultdict(dict)
    for loss in report.losses:
        kind = "missing" if loss.status is Status.MISSING else "model failure"
        counts[loss.wave, loss.model, kind, loss.cause][loss.arm] = loss.episodes
    rows = tuple(
        (model, str(wave), kind, cause, str(by.get(Arm.PUBLIC, 0)), str(by.get(Arm.PRIVATE, 0)))
        for (wave, model, kind, cause), by in counts.items()
    )
    return Grid(
        "causes",
        "Episodes without a score of their own, by cause and arm. Missing: the class of the error "
        "where infrastructure failed; model failure: how the attempt stopped.",
        _columns("Model", "#Wave", "Kind", "Cause", "#Public", "#Private"),
        rows,
        _fold("Causes", rows),
    )


def effort_grid(report: Report) -> Grid:
    return Grid(
        "effort",
        "Rounds, calls and seconds, means over episodes; both arms together.",
        _columns("Model", "#Wave", "#Episodes", "#Rounds", "#Most rounds", "#Calls",
                 "#Without calls", "#Hit a limit", "#Seconds"),
        tuple(
            (
                e.model, str(e.wave), str(e.episodes), f"{e.rounds:.1f}", str(e.most_rounds),
                f"{e.calls:.1f}", str(e.without_calls), str(e.limited), f"{e.seconds:.1f}",
            )
            for e in report.effort
        ),
    )  # fmt: skip


def tool_grid(report: Report) -> Grid:
    tools = () if report.tools is None else report.tools.by_tool
    rows = tuple(
        (
            t.model,
            str(t.wave),
            t.tool,
            str(t.calls),
            f"{100 * t.share:.0f} %",
            str(t.episodes),
            NONE if t.median_seconds is None else f"{t.median_seconds:.2f}",
            str(t.failed),
            t.limits or NONE,
        )
        for t in tools
    )
    return Grid(
        "tools",
        "Calls by tool, both arms together. Failed: refused, or a program that ended with an "
        "error. Tools that no study has, or that are rarely called, are counted as (other).",
        _columns("Model", "#Wave", "Tool", "#Calls", "#Of all calls", "#Episodes",
                 "#Median seconds", "#Failed", "Limits"),
        rows,
        _fold("Calls by tool", rows),
    )  # fmt: skip


def cost_grid(report: Report) -> Grid:
    return Grid(
        "costs",
        "Cost of the attempts that count, by the dated price file, both arms together. Attempts "
        "that failed and judges are counted by the budget, not here.",
        _columns("Model", "#Wave", "#Episodes", "#USD", "#Priced", "#Input tokens",
                 "#Output tokens"),
        tuple(
            (
                c.model, str(c.wave), str(c.episodes), _usd(c.usd, free=c.free), str(c.priced),
                _count(c.input_tokens), _count(c.output_tokens),
            )
            for c in report.costs
        ),
    )  # fmt: skip


def test_grid(report: Report) -> Grid:
    looks = () if report.standard is None else report.standard.looks
    rows = tuple(_test_row(each) for look in looks for each in look.results)
    return Grid(
        "tests",
        "Further numbers: the gap without the covariate; the share of variance that the "
        "covariate takes off; equivalence, whose 90 % interval is held against the margin; missing "
        "runs by arm, p of a difference, and, where that asks for it, adjusted p with them filled "
        "against the claim.",
        _columns("Model", "#Wave", "#Unadjusted gap", "#Its adjusted p", "#Variance taken off",
                 "#90 % interval", "#Missing, public and private", "#p of missing",
                 "#Adverse bound, p"),
        rows,
        _fold("Behind each verdict", rows),
    )  # fmt: skip


test_grid.__test__ = False  # type: ignore[attr-defined]  # its name is not pytest's


def excluded_grid(report: Report) -> Grid:
    looks = () if report.standard is None else report.standard.looks
    return Grid(
        "excluded",
        "Left out of a look, as the plan says.",
        _columns("Model", "#Wave", "Why"),
        tuple((model, str(look.wave), why) for look in looks for model, why in look.excluded),
    )


def burned_grid(report: Report) -> Grid:
    return Grid(
        "burned",
        "Private instances whose inputs the model's provider may have kept from an earlier run, or "
        "that have leaked. Left out: of the primary test, with the public ones of their tranche.",
        _columns("Model", "#Wave", "#Burned", "#Virgin", "#Left out", "#Staying in the test"),
        tuple(
            (b.model, *map(str, (b.wave, b.burned, b.virgin, b.left_out, b.staying)))
            for b in report.burned
        ),
    )


def burn_test_grid(report: Report) -> Grid | None:
    """Burned against virgin private instances; None where no look has both."""
    asides = () if report.standard is None else report.standard.sensitivity
    own = [aside for aside in asides if aside.analysis == "burned-versus-virgin"]
    return _sensitivity_grid("burned-versus-virgin", own) if own else None


def sensitivity_grids(report: Report) -> tuple[Grid, ...]:
    """A table for each sensitivity analysis; of strata left out, the ends of what they gave."""
    asides = () if report.standard is None else report.standard.sensitivity
    grouped: dict[str, list[SensitivityResult]] = defaultdict(list)
    for aside in asides:
        grouped[aside.analysis].append(aside)
    return tuple(_sensitivity_grid(name, own) for name, own in grouped.items())


def served_grid(report: Report) -> Grid:
    return Grid(
        "served",
        "Models: the version asked for, and what the provider said it served; the tranches run (0: "
        "the panel), and what is documented of what the provider keeps.",
        _columns("Model", "#Wave", "Provider", "Asked for", "Served", "Settings", "Tranches",
                 "Data kept"),
        tuple(
            (
                s.model, str(s.wave), s.provider, s.asked, ", ".join(s.served) or "nothing served",
                ", ".join(f"{name} {json.loads(value)}" for name, value in s.settings) or NONE,
                ", ".join(map(str, s.tranches)), s.retention or NONE,
            )
            for s in report.served
        ),
    )  # fmt: skip


def _verdict_row(v: Verdict) -> tuple[Cell, ...]:
    return (
        v.model, str(v.wave), Said(v.verdict), _signed(v.estimate), range_words(v.interval),
        p_words(v.p), p_words(v.p_adjusted), f"{v.n_public} + {v.n_private}",
    )  # fmt: skip


def _test_row(each: PrimaryResult) -> tuple[str, ...]:
    verdict, plain, missing = each.verdict, each.unadjusted, each.missing
    first = each.outcomes[0] if each.outcomes else None
    equal = each.equivalence
    return (
        verdict.model,
        str(verdict.wave),
        NONE if plain is None else signed(plain.gap),
        NONE if plain is None else p_words(each.p_adjusted_unadjusted),
        NONE if first is None else _percent(first.rho2),
        NONE if equal is None else range_words(equal.interval90),
        f"{_percent(missing.share_public)}, {_percent(missing.share_private)}",
        p_words(missing.p),
        NONE if missing.bound_p_adjusted is None else p_words(missing.bound_p_adjusted),
    )


def _sensitivity_grid(name: str, own: Sequence[SensitivityResult]) -> Grid:
    make: Callable[[Sequence[SensitivityResult]], Iterable[tuple[str, ...]]] = _aside_rows
    columns = _columns("Model", "#Wave", "Part", "#Gap", "#95 % interval", "#p", "#Adjusted p",
                       "Note")  # fmt: skip
    if name == "leave-one-stratum-out":
        make = _left_out_rows
        columns = _columns("Model", "#Wave", "#Smallest gap", "Without", "#Largest p", "Without")
    rows = tuple(make(own))
    said = _ASIDES.get(name) or SENSITIVITY.get(name, name)
    columns, rows = _without_empty(columns, rows)
    return Grid(f"aside-{name}", f"{said[:1].upper()}{said[1:]}.", columns, rows, _fold(name, rows))


def _without_empty(
    columns: tuple[Column, ...], rows: tuple[tuple[str, ...], ...]
) -> tuple[tuple[Column, ...], tuple[tuple[str, ...], ...]]:
    """Columns that say something: not those in which every row has a dash, or is whole."""
    kept = [place for place in range(len(columns)) if {row[place] for row in rows} - {NONE, _WHOLE}]
    return tuple(columns[place] for place in kept), tuple(
        tuple(row[place] for place in kept) for row in rows
    )


def _aside_rows(own: Sequence[SensitivityResult]) -> Iterable[tuple[str, ...]]:
    for a in own:
        yield (
            a.model, str(a.wave), a.detail or _WHOLE, _signed(a.estimate),
            range_words(a.interval), NONE if a.p is None else p_words(a.p),
            NONE if a.p_adjusted is None else p_words(a.p_adjusted), a.note or NONE,
        )  # fmt: skip


def _left_out_rows(own: Sequence[SensitivityResult]) -> Iterable[tuple[str, ...]]:
    by_model: dict[tuple[int, str], list[SensitivityResult]] = defaultdict(list)
    for aside in own:
        by_model[aside.wave, aside.model].append(aside)
    for (wave, model), parts in by_model.items():
        gaps = [(a.estimate, a.detail) for a in parts if a.estimate is not None]
        ps = [(a.p, a.detail) for a in parts if a.p is not None]
        if gaps and ps:
            low, high = min(gaps), max(ps)
            yield (
                model, str(wave), signed(low[0]), low[1].removeprefix("without "),
                p_words(high[0]), high[1].removeprefix("without "),
            )  # fmt: skip


def _columns(*labels: str) -> tuple[Column, ...]:
    """Columns by label; ``#`` before one marks numbers."""
    return tuple(Column(label.removeprefix("#"), label.startswith("#")) for label in labels)


def _fold(what: str, rows: Sequence[object]) -> str:
    return f"{what}: {len(rows)} rows" if len(rows) > _OPEN_ROWS else ""


def _adjusted_words(report: Report) -> str:
    looks = () if report.standard is None else report.standard.looks
    return ", adjusted for the instances' difficulty" if any(k.covered for k in looks) else ""


def _public_first(row: FunnelRow) -> tuple[int, str, bool]:
    return row.wave, row.model, row.arm != Arm.PUBLIC


def _passed(control: ControlResult) -> str:
    return {True: "passed", False: "failed", None: "not run"}[control.passed]


def _rejection(wave: int, rejected: int | None) -> str:
    if rejected is None or wave < rejected:
        return "does not reject"
    return "rejects" if wave == rejected else f"rejected at wave {rejected}"


def _window(first: int, last: int) -> str:
    return f"wave {last}" if first == last else f"waves {first} to {last}"


def _signed(value: float | None) -> str:
    return NONE if value is None else signed(value)


def _percent(share: float) -> str:
    return NONE if share != share else f"{points(share)} %"


def _usd(value: float | None, *, free: bool) -> str:
    if value is not None:
        return f"{value:.2f}" if value >= 0.1 or value == 0 else f"{value:.4f}"
    return "built-in, none" if free else "unknown"


def _count(value: int | None) -> str:
    return "unknown" if value is None else f"{value:,}"


__all__ = ["Cell", "Column", "Grid", "Said", "short"]
