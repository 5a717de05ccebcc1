"""Reports as JSON: the form of their parts, where it is not that of the dataclasses, and the
changes from one report to the next.

Pydantic writes a ``Report`` by its fields; the annotated types here say how it writes those that
readers of ``report.json`` know in another form.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Annotated, Any

from pydantic import PlainSerializer

from analysis.plan.burned import BurnedSeeds
from analysis.plan.look import ArmMean
from analysis.plan.results import PrimaryResult
from analysis.plan.standard import LookResult
from analysis.plan.verdict import Verdict
from registry.canonical import digest_value
from registry.ledger.records import RunManifest, record_body

_PROVENANCE = ("commit", "dirty", "lock", "image", "python")


def _verdict_body(verdict: Verdict) -> dict[str, Any]:
    left_out = ("hypothesis", "exploratory", "se")  # of some verdicts only
    return {name: value for name, value in asdict(verdict).items() if name not in left_out}


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


@dataclass(frozen=True, slots=True)
class Turned:
    """A verdict on one model at one wave that is another now."""

    model: str
    wave: int
    before: str
    now: str
    note: str


@dataclass(frozen=True, slots=True)
class Changes:
    """``added`` are models and waves that had no verdict; ``study`` describes the
    change in monitoring."""

    through_wave: int  # of the report before
    issued: str
    digest: str  # of its report.json, as the ledger has it
    turned: tuple[Turned, ...]
    added: tuple[tuple[str, int, str], ...]  # model, wave, verdict
    deviations: tuple[str, ...]  # new
    settled: tuple[str, ...]  # deviations that are no longer reported
    study: str


def changes_since(before: Mapping[str, Any], now: Mapping[str, Any], digest: str) -> Changes:
    """Compare two reports of one study in the form of ``report_json``; ``digest`` names the
    earlier."""
    old = {(row["model"], row["wave"]): row["verdict"] for row in before["models"]}
    new = {(row["model"], row["wave"]): row for row in now["models"]}
    return Changes(
        through_wave=int(before["through_wave"]),
        issued=str(before["issued"]),
        digest=digest,
        turned=tuple(_turned(old, new)),
        added=tuple((m, w, row["verdict"]) for (m, w), row in new.items() if (m, w) not in old),
        deviations=_without(now["deviations"], before["deviations"]),
        settled=_without(before["deviations"], now["deviations"]),
        study=_study_words(before.get("monitoring"), now.get("monitoring")),
    )


def _turned(
    old: Mapping[tuple[str, int], str], new: Mapping[tuple[str, int], Mapping[str, Any]]
) -> Iterator[Turned]:
    for (model, wave), word in old.items():
        row = new.get((model, wave))
        if row is None:
            yield Turned(model, wave, word, "no verdict", "")
        elif row["verdict"] != word:
            yield Turned(model, wave, word, row["verdict"], row["note"])


def _without(these: Sequence[str], those: Sequence[str]) -> tuple[str, ...]:
    return tuple(line for line in these if line not in those)


def _study_words(before: Mapping[str, Any] | None, now: Mapping[str, Any] | None) -> str:
    """One sentence on the monitoring of the study; "" where no plan asks for it."""
    if now is None:
        return ""
    was, is_now = before and before["rejected_at"], now["rejected_at"]
    if is_now is None:
        return "The study-level monitoring has still not rejected."
    if was is None:
        return f"The study-level monitoring rejects, at wave {is_now}."
    return f"The study-level monitoring rejected at wave {is_now} already."
