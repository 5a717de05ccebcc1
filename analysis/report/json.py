"""Reports as JSON: the form of their parts, where it is not that of the dataclasses.

Pydantic writes a ``Report`` by its fields; the annotated types here say how it writes those that
readers of ``report.json`` know in another form.
"""

from __future__ import annotations

import math
from dataclasses import asdict
from typing import Annotated, Any

from pydantic import PlainSerializer

from analysis.plan.burned import BurnedSeeds
from analysis.plan.look import ArmMean
from analysis.plan.results import PrimaryResult
from analysis.plan.standard import LookResult
from analysis.plan.verdict import Verdict
from registry.canonical import digest_value
from registry.ledger.records import RunManifest, record_body

_VERDICT = (
    *("model", "wave", "verdict", "estimate", "interval", "upper", "p", "p_adjusted"),
    *("n_public", "n_private", "alpha", "note", "outcome", "deciding_bound", "bound_outcome"),
    *("deciding_lower", "p_clear", "p_floor"),
)
_PROVENANCE = ("commit", "dirty", "lock", "image", "python")


def _verdict_body(verdict: Verdict) -> dict[str, Any]:
    return {name: getattr(verdict, name) for name in _VERDICT}


def _exploratory_body(verdict: Verdict) -> dict[str, Any]:
    return {"hypothesis": verdict.hypothesis, "exploratory": True, **_verdict_body(verdict)}


def _mean_body(mean: ArmMean) -> dict[str, Any]:
    return {
        "wave": mean.wave,
        "model": mean.model,
        "stratum": mean.stratum or "all",
        "arm": mean.arm,
        **asdict(mean.estimate),
    }


def _run_body(run: RunManifest) -> dict[str, Any]:
    provenance = run.provenance
    return {
        "wave": run.wave,
        "manifest": digest_value(record_body(run)),
        **{name: getattr(provenance, name) for name in _PROVENANCE},
        "packages": dict(provenance.packages),
        "sandbox": run.sandbox,
        "runtime": run.runtime,
        "prices": run.prices or None,
        "replicates": {
            pin.name: count for pin, count in zip(run.models, run.replicates, strict=True)
        },
        "tranches": {
            pin.name: tranches for pin, tranches in zip(run.models, run.tranches, strict=False)
        },
        "retention": dict(run.retention),
        "judges": [judge.name for judge in run.judges],
    }


def _look_body(look: LookResult) -> dict[str, Any]:
    return {
        "number": look.number,
        "wave": look.wave,
        "exploratory": look.beyond,
        "alpha": look.alpha,
        "calibrated_by": {
            "models": look.control_models,
            "share_of_instances": look.covered,
            "runs_of_this_look_alone": look.changed,
        },
        "excluded": [{"model": model, "why": why} for model, why in look.excluded],
        "models": [_tested_body(result) for result in look.results],
    }


def _tested_body(result: PrimaryResult) -> dict[str, Any]:
    plain = result.unadjusted
    return {
        **_verdict_body(result.verdict),
        "se": result.verdict.se,
        "outcomes": result.outcomes,
        "strata": result.strata,
        "unadjusted": plain
        and {
            "estimate": plain.gap,
            "interval": plain.interval,
            "p": result.p_unadjusted,
            "p_adjusted": result.p_adjusted_unadjusted,
        },
        "equivalence": result.equivalence,
        "missing": {
            name: None if isinstance(value, float) and math.isnan(value) else value  # of nothing
            for name, value in asdict(result.missing).items()
        },
    }


def _burned_body(row: BurnedSeeds) -> dict[str, object]:
    return {**asdict(row), "staying": row.staying}


VerdictBody = Annotated[Verdict, PlainSerializer(_verdict_body)]
ExploratoryBody = Annotated[Verdict, PlainSerializer(_exploratory_body)]
MeanBody = Annotated[ArmMean, PlainSerializer(_mean_body)]
RunBody = Annotated[RunManifest, PlainSerializer(_run_body)]
LookBody = Annotated[LookResult, PlainSerializer(_look_body)]
BurnedBody = Annotated[BurnedSeeds, PlainSerializer(_burned_body)]
