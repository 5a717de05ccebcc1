"""The report: what a study found, as a frozen value, as JSON and as one HTML file.

It holds aggregates only. No instance id, seed or per-seed score of either arm enters a Report.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from importlib.resources import files
from pathlib import Path
from typing import Any

from analysis.breakdown import APART, GOOD, POOR
from analysis.breakdowntables import TableSet, write_tables
from analysis.departures import deviations
from analysis.figures import NARROW, WIDE, plot_arms, plot_gaps
from analysis.judgecolumns import JudgeColumn, column_json, judge_departures
from analysis.load import Table
from analysis.look import Analysis, ArmMean
from analysis.means import ArmCount
from analysis.plan import look_alpha
from analysis.planwords import describe_plan
from analysis.samplesize import Guidance
from analysis.verdict import CONTAMINATED, NO_INFLATION, Verdict
from analysis.wholefile import write_whole
from registry.canon import digest_value
from registry.records import Plan, Preregistration, RunManifest, SealedSet, record_body
from registry.tables import Arm, Status

TEMPLATES = "templates"  # the folder of the tables of templated strata, beside the report
_DECIMALS = 9  # of every number in report.json: beyond it lies the order of summation

LIMITS = (
    "The test shows whether a model does better on published instances than on held-back ones of "
    "the same draw. It does not show how the published ones reached the model.",
    "A gap that does not reach significance is inconclusive, not proof of a clean model; and a "
    "null gap shows no resistance to contamination unless the model was exposed.",
    "If private instances leak, for instance through a provider that trains on what it is sent, "
    "the gap shrinks: leakage biases towards finding nothing, never towards a false alarm.",
    "The planning figures behind the design (variance shares of instance and run) come from four "
    "models and 16 repeated pairs, and partly from simulated regimes. They should be estimated "
    "again in a pilot that is blind to the arms, and the study sized by it.",
    "Small gaps need many instances. At a one-sided alpha of 0.025 a gap of 5 points needs about "
    "448 instances an arm for 80 % power; shared over eight looks, about 729.",
    "The adjusted p-values hold the chance of any false accusation over the models of a look. They "
    "do not speak about models, tasks or versions that were not run.",
    "No positive or negative control and no second judge is part of the plan basic-v1.",
)


@dataclass(frozen=True, slots=True)
class FunnelRow:
    """What became of the episodes that one model owed in one arm."""

    wave: int
    model: str
    arm: Arm
    owed: int  # by the plan
    scored: int
    model_failure: int
    missing: int
    absent: int  # owed, and not in the table
    seeds: int
    seeds_dropped: int


@dataclass(frozen=True, slots=True)
class ServedModel:
    wave: int
    model: str
    provider: str
    asked: str
    served: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Report:
    """All that the report says, and nothing that it may not."""

    study: str
    issued: str  # UTC, ISO 8601
    plan: Plan
    registration: str  # digest of the Preregistration
    registered: Preregistration
    sealed_root: str
    entropy: str
    runs: tuple[RunManifest, ...]
    served: tuple[ServedModel, ...]
    verdicts: tuple[Verdict, ...]
    exploratory: tuple[Verdict, ...]
    means: tuple[ArmMean, ...]
    funnel: tuple[FunnelRow, ...]
    deviations: tuple[str, ...]
    templates: TableSet | None = None  # of strata that come from template files
    judges: tuple[JudgeColumn, ...] = ()

    @property
    def through_wave(self) -> int:
        return max(row.wave for row in self.funnel)


def build_report(
    *,
    registered: Preregistration,
    sealed: SealedSet,
    runs: Sequence[RunManifest],
    table: Table,
    analysis: Analysis,
    issued: str,
    explored: Sequence[Analysis] = (),
    templates: TableSet | None = None,
    judges: Sequence[JudgeColumn] = (),
) -> Report:
    """The report of an analysis of the registered plan. ``issued`` is the time, UTC ISO 8601;
    the registration is named by the digest that the analysis was given.

    Verdicts that are exploratory, whether from ``explored`` or from a look beyond the registered
    ones, are listed apart. Deviations are worked out here, from the records.
    """
    plan = registered.plan
    found = [*analysis.verdicts, *(v for other in explored for v in other.verdicts)]
    return Report(
        study=registered.study,
        issued=issued,
        plan=plan,
        registration=analysis.registration,
        registered=registered,
        sealed_root=sealed.root,
        entropy=sealed.entropy,
        runs=tuple(sorted(runs, key=lambda run: run.wave)),
        served=_served(runs, table),
        verdicts=tuple(v for v in found if not v.exploratory),
        exploratory=tuple(v for v in found if v.exploratory),
        means=analysis.means,
        funnel=tuple(_funnel_row(plan, count) for count in analysis.counts),
        deviations=(
            *_deviations(registered, sealed, runs, table, analysis),
            *judge_departures(plan, judges, sorted({run.wave for run in runs})),
        ),
        templates=templates,
        judges=tuple(judges),
    )


def report_json(report: Report) -> dict[str, Any]:
    """The report as plain JSON values, numbers rounded to 9 decimals.

    ``models`` lists the registered verdicts: ``model``, ``wave``, ``verdict``, ``estimate`` (null
    where not testable), ``interval`` [lo, hi], ``upper``, ``p``, ``p_adjusted``, ``n_public``,
    ``n_private``, ``alpha``, ``note``. ``exploratory`` lists others in the same form, with their
    ``hypothesis``. ``deviations`` is a list of sentences. ``templates``, where the study has any,
    holds the tables of its templated strata; ``judges`` what each judge of the study is worth, and
    the gaps that it sees (``judgecolumns.column_json``).
    """
    body = {
        "study": report.study,
        "issued": report.issued,
        "through_wave": report.through_wave,
        "registration": report.registration,
        "sealed_root": report.sealed_root,
        "entropy": report.entropy,
        "plan": asdict(report.plan),
        "plan_in_words": describe_plan(report.plan).split("\n"),
        "models": [_verdict_body(v) for v in report.verdicts],
        "exploratory": [_exploratory_body(v) for v in report.exploratory],
        "deviations": list(report.deviations),
        "scores": [_mean_body(mean) for mean in report.means],
        "episodes": [asdict(row) for row in report.funnel],
        "runs": [_run_body(run) for run in report.runs],
        "served": [asdict(model) for model in report.served],
        "limits": list(LIMITS),
        "judges": [column_json(column) for column in report.judges],
    }
    if report.templates is not None:
        body["templates"] = report.templates.as_json()
    plain: dict[str, Any] = _plain(body)
    return plain


def render_html(report: Report) -> str:
    """The report as one self-contained HTML file: no script, no network, light and dark."""
    from jinja2 import Environment, StrictUndefined
    from markupsafe import Markup

    page = Environment(
        autoescape=True, undefined=StrictUndefined, trim_blocks=True, lstrip_blocks=True
    )
    page.filters.update(points=_points, signed=_signed, p=_p_words, short=_short)
    source = _source("report")
    gaps = [v for v in report.verdicts if v.estimate is not None]
    return page.from_string(source).render(
        report=report,
        alpha=look_alpha(report.plan),
        summary=[summarise(v) for v in report.verdicts],
        counts=_verdict_counts(report.verdicts),
        paragraphs=[line.split(". ", 1) for line in describe_plan(report.plan).split("\n")],
        limits=LIMITS,
        # Our own SVG, in which matplotlib and html.escape have escaped every name.
        gap_plots=[Markup(plot_gaps(gaps, report.plan.margin, w)) for w in (WIDE, NARROW)],  # noqa: S704
        arm_plots=[Markup(plot_arms(report.means, w)) for w in (WIDE, NARROW)],  # noqa: S704
        strata=_score_rows(report),
        whole=_score_rows(report, by_stratum=False),
        # From the same environment, which has escaped every name in it.
        templated=Markup(_render_templated(page, report.templates)),  # noqa: S704
        judged=Markup(_render_judges(page, report.judges)),  # noqa: S704
    )


def write_report(folder: Path, report: Report) -> tuple[Path, Path]:
    """Write report.html and report.json into the folder, each whole or not at all; and, where
    there are tables of templated strata, those as CSV into ``templates/`` in it."""
    folder.mkdir(parents=True, exist_ok=True)
    body = json.dumps(report_json(report), indent=2, ensure_ascii=False, allow_nan=False) + "\n"
    page, data = folder / "report.html", folder / "report.json"
    html = render_html(report)
    if report.templates is not None:
        write_tables(folder / TEMPLATES, report.templates)
    write_whole(data, body)
    write_whole(page, html)
    return page, data


def summarise(verdict: Verdict) -> str:
    """One verdict in a sentence or two of plain words."""
    if verdict.estimate is None:
        return "Not testable: an arm of a stratum holds no scored instance."
    gap, (low, high) = verdict.estimate, verdict.interval
    direction = "higher" if gap >= 0 else "lower"
    said = f"Scores {_points(abs(gap))} points {direction} on public than on private instances"
    said += f" (95 % interval {_signed(low)} to {_signed(high)})."
    if verdict.verdict == CONTAMINATED:
        more = f" Chance alone gives so much with probability {_p_words(verdict.p_adjusted)}"
        said += f"{more}, adjusted for the models of this look."
    elif verdict.verdict == NO_INFLATION:
        bound = f"An inflation above {_points(verdict.upper)} points"
        said += f" {bound if verdict.upper > 0 else 'Any inflation'} is ruled out (95 % bound)."
    else:
        said += f" Neither is a gap shown, nor one up to {_signed(verdict.upper)} points ruled out."
    return said + (f" Note: {verdict.note}." if verdict.note else "")


def _source(name: str) -> str:
    return files("analysis").joinpath(f"templates/{name}.html.j2").read_text("utf-8")


def _render_templated(page: Any, templates: TableSet | None) -> str:
    """The section on templated strata; empty without any."""
    if templates is None:
        return ""
    found, guidance = templates.breakdown, templates.guidance
    rendered: str = page.from_string(_source("breakdown")).render(
        found=found,
        formats={row.group: [name for name, _ in row.formats] for row in found.failure_modes},
        good=GOOD,
        poor=POOR,
        apart=APART,
        widths=list(dict.fromkeys(need.width for need in guidance.needs)),
        needs=_need_rows(guidance),
    )
    return rendered


def _render_judges(page: Any, columns: Sequence[JudgeColumn]) -> str:
    """The section on judges; empty without any."""
    rendered: str = page.from_string(_source("judges")).render(columns=columns) if columns else ""
    return rendered


def _need_rows(guidance: Guidance) -> list[dict[str, Any]]:
    """What each question asks for at most, over all who were asked it."""
    rows = []
    for question in dict.fromkeys(curve.question for curve in guidance.curves):
        curves = [curve for curve in guidance.curves if curve.question == question]
        needs: dict[float, tuple[int, int]] = {}
        for need in guidance.needs:
            if need.question == question:
                most = needs.get(need.width, (0, 0))
                both = need.samples, need.samples_cautious
                needs[need.width] = max(most[0], both[0]), max(most[1], both[1])
        rows.append({
            "question": question,
            "seen": max(curve.points[-1].samples for curve in curves),
            "elbow": max((c.elbow for c in curves if c.elbow is not None), default=None),
            "needs": list(needs.values()),
        })  # fmt: skip
    return rows


def _deviations(
    registered: Preregistration,
    sealed: SealedSet,
    runs: Sequence[RunManifest],
    table: Table,
    analysis: Analysis,
) -> tuple[str, ...]:
    found = deviations(
        registered.plan, table, runs, entropy=sealed.entropy, dirty=registered.provenance.dirty
    )
    for run in runs:
        if run.plan != analysis.registration:
            found += (f"Wave {run.wave} was run under another registration than this one.",)
    if analysis.plan != registered.plan:
        found += ("The plan that was run is not the plan that was registered.",)
    return found


def _funnel_row(plan: Plan, count: ArmCount) -> FunnelRow:
    owed = len(plan.strata) * plan.seeds_per_arm * plan.replicates
    present = count.scored + count.model_failure + count.missing
    return FunnelRow(
        count.wave, count.model, count.arm, owed, count.scored, count.model_failure,
        count.missing, max(0, owed - present), count.seeds, count.seeds_dropped,
    )  # fmt: skip


def _served(runs: Sequence[RunManifest], table: Table) -> tuple[ServedModel, ...]:
    found = []
    for run in sorted(runs, key=lambda run: run.wave):
        for pin in run.models:
            here = (table["wave"] == run.wave) & (table["model"] == pin.name)
            here &= table["status"] != Status.MISSING
            served = tuple(sorted(set(table["served_version"][here]) - {""}))
            found.append(ServedModel(run.wave, pin.name, pin.provider, pin.version, served))
    return tuple(found)


def _verdict_body(verdict: Verdict) -> dict[str, Any]:
    names = (
        "model", "wave", "verdict", "estimate", "interval", "upper", "p", "p_adjusted",
        "n_public", "n_private", "alpha", "note",
    )  # fmt: skip
    return {name: getattr(verdict, name) for name in names}


def _exploratory_body(verdict: Verdict) -> dict[str, Any]:
    return {"hypothesis": verdict.hypothesis, "exploratory": True, **_verdict_body(verdict)}


def _mean_body(mean: ArmMean) -> dict[str, Any]:
    return {
        "wave": mean.wave,
        "model": mean.model,
        "stratum": mean.stratum or "all",
        "arm": mean.arm,
        "mean": mean.estimate.mean,
        "interval": mean.estimate.interval,
        "seeds": mean.estimate.seeds,
    }


def _run_body(run: RunManifest) -> dict[str, Any]:
    made = run.provenance
    return {
        "wave": run.wave,
        "manifest": digest_value(record_body(run)),
        "commit": made.commit,
        "dirty": made.dirty,
        "lock": made.lock,
        "image": made.image,
        "python": made.python,
        "packages": dict(made.packages),
        "sandbox": run.sandbox,
        "runtime": run.runtime,
        "replicates": run.replicates,
        "judges": [judge.name for judge in run.judges],
    }


def _score_rows(report: Report, by_stratum: bool = True) -> list[dict[str, Any]]:
    """Rows of the table of scores: both arms beside each other."""
    held = {(m.wave, m.model, m.stratum, m.arm): m.estimate for m in report.means}
    keys = sorted({key[:3] for key in held if bool(key[2]) == by_stratum})
    return [
        {"wave": wave, "model": model, "stratum": stratum,
         "public": held.get((wave, model, stratum, Arm.PUBLIC)),
         "private": held.get((wave, model, stratum, Arm.PRIVATE))}
        for wave, model, stratum in keys
    ]  # fmt: skip


def _verdict_counts(verdicts: Sequence[Verdict]) -> dict[str, int]:
    words = [verdict.verdict for verdict in verdicts]
    return {word: words.count(word) for word in dict.fromkeys(sorted(words))}


def _plain(value: Any) -> Any:
    """JSON values: floats rounded, tuples to lists, text enums to text."""
    if isinstance(value, dict):
        return {str(key): _plain(item) for key, item in value.items()}
    if isinstance(value, tuple | list):
        return [_plain(item) for item in value]
    if isinstance(value, float):
        return round(value, _DECIMALS) + 0.0  # no negative zero
    return str(value) if isinstance(value, str) else value


def _points(value: float) -> str:
    return f"{100 * value:.1f}"


def _signed(value: float) -> str:
    text = f"{100 * value:+.1f}"
    return "0.0" if text in ("+0.0", "-0.0") else text.replace("-", "−")


def _p_words(value: float) -> str:
    return f"{value:.4f}" if value >= 0.001 else f"{value:.5f}"


def _short(text: str) -> str:
    """A digest or commit, shortened for reading; the JSON has it whole."""
    head, _, digits = text.rpartition(":")
    return f"{head}:{digits[:12]}…" if head and len(digits) > 20 else text
