"""The report as plain JSON values, for scripts and for the ledger's digest."""

from __future__ import annotations

from dataclasses import asdict
from typing import Any

from analysis.judges import column_json
from analysis.plan import ArmMean, LookResult, PrimaryResult, StandardResult, Verdict, describe_plan
from analysis.probes import exposure_json, text_exposure_json
from analysis.report.report import ModelFact, Report, ServedModel
from analysis.report.sections import DimensionMean
from registry.canonical import digest_value
from registry.ledger import RunManifest, record_body

# --- Values as plain JSON, the way reports and their parts are written ---

DECIMALS = 9  # of every number: beyond it lies the order of summation


def plain_values(value: Any) -> Any:
    """JSON values: floats rounded, tuples to lists, text enums to text."""
    if isinstance(value, dict):
        return {str(key): plain_values(item) for key, item in value.items()}
    if isinstance(value, tuple | list):
        return [plain_values(item) for item in value]
    if isinstance(value, float):
        return round(value, DECIMALS) + 0.0  # no negative zero
    return str(value) if isinstance(value, str) else value


def report_json(report: Report) -> dict[str, Any]:
    """The report as plain JSON values, numbers rounded to 9 decimals.

    ``models`` lists the registered verdicts: ``model``, ``wave``, ``verdict``, ``estimate`` (null
    where not testable), ``interval`` [lo, hi], ``upper``, ``p``, ``p_adjusted``, ``n_public``,
    ``n_private``, ``alpha``, ``note``. ``exploratory`` lists others in the same form, with their
    ``hypothesis``. ``deviations`` is a list of sentences. ``templates``, where the study has any,
    holds the tables of its templated strata; ``judges`` what each judge of the study is worth, and
    the gaps that it sees (``judgecolumns.column_json``). ``looks``, ``controls``, ``monitoring``
    and ``sensitivity`` are of a plan standard-v1; empty or null otherwise. ``dimensions`` are mean
    scores by dimension and arm; ``causes`` tell why episodes have no score of their own;
    ``effort``, ``tools`` and ``costs`` what models did and took, blind to the arms; ``facts`` what
    is documented of models; ``changes`` what is new since the last report, null in the first.
    ``burned`` counts private instances that are (B1), by model and wave.
    ``exposure`` are the probes from memory (S1): a row for each model asked about every instance.
    ``calibration`` is how large a leak the study sees (C2), of stored scores and of agents one
    each, in the form of ``calibrate --json``.
    ``texts`` are loss, Min-K% and Min-K%++ of public against private text, a row for each model and
    measure, all exploratory; ``text_notes`` say of whom there are none.
    """
    body = {
        "study": report.study,
        "description": report.description or None,
        "issued": report.issued,
        "through_wave": report.through_wave,
        "registration": report.registration,
        "sealed_root": report.sealed_root or None,
        "reserve": list(report.reserve),
        "entropy": report.entropy or None,
        "plan": asdict(report.plan),
        "plan_in_words": describe_plan(report.plan).split("\n"),
        "models": [_verdict_body(v) for v in report.verdicts],
        "exploratory": [_exploratory_body(v) for v in report.exploratory],
        "deviations": list(report.deviations),
        "scores": [_mean_body(mean) for mean in report.means],
        "episodes": [asdict(row) for row in report.funnel],
        "runs": [_run_body(run) for run in report.runs],
        "served": [_served_body(model) for model in report.served],
        "limits": list(report.limits),
        "judges": [column_json(column) for column in report.judges],
        **_standard_bodies(report.standard),
        **_episode_bodies(report),
        "published": report.published or None,
        "ledger_head": report.ledger_head or None,
        "facts": [_fact_body(each) for each in report.facts],
        "changes": report.changes and asdict(report.changes),
        "burned": [{**asdict(each), "staying": each.staying} for each in report.burned],
        "exposure": exposure_json(report.exposure),
        "calibration": [each.as_json() for each in report.calibrations],
        "texts": text_exposure_json(report.texts),
        "text_notes": list(report.text_notes),
    }
    if report.templates is not None:
        body["templates"] = report.templates.as_json()
    plain: dict[str, Any] = plain_values(body)
    return plain


def _standard_bodies(found: StandardResult | None) -> dict[str, Any]:
    """What standard-v1 adds; the same keys, empty, for any other plan."""
    if found is None:
        return {"looks": [], "controls": [], "monitoring": None, "sensitivity": []}
    return {
        "looks": [_look_body(look) for look in found.looks],
        "controls": [asdict(control) for control in found.controls],
        "monitoring": asdict(found.monitored),
        "sensitivity": [asdict(aside) for aside in found.sensitivity],
    }


def _episode_bodies(report: Report) -> dict[str, Any]:
    tools = report.tools
    return {
        "dimensions": [_dimension_body(mean) for mean in report.dimensions],
        "causes": [asdict(loss) for loss in report.losses],
        "effort": [asdict(row) for row in report.effort],
        "costs": [asdict(cost) for cost in report.costs],
        "tools": tools
        and {
            "models": [asdict(row) for row in tools.models],
            "by_tool": [asdict(row) for row in tools.by_tool],
            "by_task": [asdict(row) for row in tools.by_task],
            "left_out": tools.left_out,
        },
    }


def _dimension_body(mean: DimensionMean) -> dict[str, Any]:
    return {
        "wave": mean.wave,
        "model": mean.model,
        "dimension": mean.dimension,
        "arm": mean.arm,
        "strata": mean.strata,
        "mean": mean.estimate.mean,
        "interval": mean.estimate.interval,
        "seeds": mean.estimate.seeds,
    }


def _fact_body(fact: ModelFact) -> dict[str, Any]:
    return {
        "model": fact.name,
        "family": fact.family or None,
        "released": fact.released or None,
        "cutoff": fact.cutoff or None,
    }


def _look_body(look: LookResult) -> dict[str, Any]:
    return {
        "number": look.number,
        "wave": look.wave,
        "exploratory": look.beyond,
        "alpha": look.alpha,
        "covariate": {"models": list(look.covariate_models), "share_of_instances": look.covered},
        "excluded": [{"model": model, "why": why} for model, why in look.excluded],
        "models": [_tested_body(each) for each in look.results],
    }


def _tested_body(each: PrimaryResult) -> dict[str, Any]:
    plain, equal = each.unadjusted, each.equivalence
    return {
        **_verdict_body(each.verdict),
        "se": each.verdict.se,
        "outcomes": [asdict(outcome) for outcome in each.outcomes],
        "unadjusted": plain
        and {
            "estimate": plain.gap,
            "interval": plain.interval,
            "p": each.p_unadjusted,
            "p_adjusted": each.p_adjusted_unadjusted,
        },
        "equivalence": equal and asdict(equal),
        "missing": {name: _number(value) for name, value in asdict(each.missing).items()},
    }


def _number(value: float | None) -> float | None:
    """A share of nothing is null."""
    return None if value is None or value != value else value


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


def _served_body(model: ServedModel) -> dict[str, Any]:
    return asdict(model) | {"settings": dict(model.settings)}


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
        "prices": run.prices or None,
        "replicates": run.replicates,
        "tranches": {
            pin.name: list(own) for pin, own in zip(run.models, run.tranches, strict=False)
        },
        "retention": dict(run.retention),
        "judges": [judge.name for judge in run.judges],
    }
