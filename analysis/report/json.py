"""How the parts of a report look as JSON, where that is not the form of their dataclasses.

Pydantic writes a ``Report`` by its fields; the annotated types here say how it writes those that
readers of ``report.json`` know in another form.
"""

from __future__ import annotations

import math
from dataclasses import asdict
from typing import Annotated, Any

from pydantic import PlainSerializer

from analysis.calibration import RecordedCalibration
from analysis.picard import TableSet
from analysis.plan import ArmMean, BurnedSeeds, LookResult, PrimaryResult, Verdict
from registry.canonical import digest_value
from registry.ledger import RunManifest, record_body

_VERDICT = (
    *("model", "wave", "verdict", "estimate", "interval", "upper", "p", "p_adjusted"),
    *("n_public", "n_private", "alpha", "note"),
)


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
        "commit": provenance.commit,
        "dirty": provenance.dirty,
        "lock": provenance.lock,
        "image": provenance.image,
        "python": provenance.python,
        "packages": dict(provenance.packages),
        "sandbox": run.sandbox,
        "runtime": run.runtime,
        "prices": run.prices or None,
        "replicates": run.replicates,
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
        "covariate": {"models": look.covariate_models, "share_of_instances": look.covered},
        "excluded": [{"model": model, "why": why} for model, why in look.excluded],
        "models": [_tested_body(result) for result in look.results],
    }


def _tested_body(result: PrimaryResult) -> dict[str, Any]:
    plain = result.unadjusted
    return {
        **_verdict_body(result.verdict),
        "se": result.verdict.se,
        "outcomes": result.outcomes,
        "unadjusted": plain
        and {
            "estimate": plain.gap,
            "interval": plain.interval,
            "p": result.p_unadjusted,
            "p_adjusted": result.p_adjusted_unadjusted,
        },
        "equivalence": result.equivalence,
        "missing": {
            name: None if value is None or math.isnan(value) else value  # a share of nothing
            for name, value in asdict(result.missing).items()
        },
    }


def _burned_body(row: BurnedSeeds) -> dict[str, object]:
    return {
        "wave": row.wave,
        "model": row.model,
        "burned": row.burned,
        "unexposed": row.unexposed,
        "left_out": row.left_out,
        "staying": row.staying,
    }


VerdictBody = Annotated[Verdict, PlainSerializer(_verdict_body)]
ExploratoryBody = Annotated[Verdict, PlainSerializer(_exploratory_body)]
MeanBody = Annotated[ArmMean, PlainSerializer(_mean_body)]
RunBody = Annotated[RunManifest, PlainSerializer(_run_body)]
LookBody = Annotated[LookResult, PlainSerializer(_look_body)]
BurnedBody = Annotated[BurnedSeeds, PlainSerializer(_burned_body)]
CalibrationBody = Annotated[RecordedCalibration, PlainSerializer(RecordedCalibration.as_json)]
TablesBody = Annotated[TableSet, PlainSerializer(TableSet.as_json)]
