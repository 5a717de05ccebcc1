"""A calibration as the ledger keeps it, read for a report (C2)."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from analysis.calibration.calibrate import Calibration, Dose
from analysis.errors import AnalysisError

RESAMPLED, RUN = "resampled", "run"


@dataclass(frozen=True, slots=True)
class RecordedCalibration:
    """Size of the leak that a study detects, and its basis.

    ``known`` is the score gained by knowing an instance, ``beside`` the look's other models,
    ``body`` the whole result as ``calibrate --json`` prints it, ``result`` its digest in the
    ledger, ``made`` the time of the first run.
    """

    how: str  # RESAMPLED or RUN
    model: str
    wave: int
    known: str
    beside: tuple[str, ...]
    multiplicity: str  # of the plan
    notes: tuple[str, ...]
    found: Calibration
    body: Mapping[str, Any]
    result: str
    made: str

    def as_json(self) -> dict[str, Any]:
        """As a report's JSON has it."""
        return {"result": self.result, "made": self.made, **self.body}


def read_calibration(
    body: Mapping[str, Any], place: str, result: str, made: str
) -> RecordedCalibration:
    """What ``calibrate --json`` wrote. Raises AnalysisError where it has not that form."""
    try:
        return RecordedCalibration(
            how=str(body["how"]),
            model=str(body["model"]),
            wave=int(body["wave"]),
            known=str(body["known"]),
            beside=tuple(map(str, body["beside"])),
            multiplicity=str(body["plan"]["multiplicity"]),
            notes=tuple(map(str, body["notes"])),
            found=_read_found(body),
            body=body,
            result=result,
            made=made,
        )
    except (KeyError, TypeError, ValueError) as error:
        raise AnalysisError(f"{place}: not a calibration: {error!r}") from error


def _read_found(body: Mapping[str, Any]) -> Calibration:
    low, high = body["dose_at_80_interval"]
    return Calibration(
        alpha=float(body["alpha"]),
        doses=tuple(map(_read_dose, body["doses"])),
        n_public=int(body["n_public"]),
        n_private=int(body["n_private"]),
        se=_maybe(body["se"]),
        spread=_maybe(body["sd_of_blanks"]),
        blank=_maybe(body["limit_of_blank"]),
        limit=_maybe(body["limit_of_detection"]),
        limit_dose=_maybe(body["dose_at_limit"]),
        enough=_maybe(body["dose_at_80"]),
        enough_interval=(_maybe(low), _maybe(high)),
        family=int(body["models_adjusted_over"]),
    )


def _read_dose(body: Mapping[str, Any]) -> Dose:
    low, high = body["interval"]
    return Dose(
        dose=float(body["dose"]),
        replicates=int(body["replicates"]),
        detected=int(body["detected"]),
        rate=float(body["rate"]),
        interval=(float(low), float(high)),
        gap=float(body["gap"]),
        fitted=_maybe(body["fitted"]),
        unbound=int(body["lost_to_missing_runs"]),
    )


def _maybe(value: Any) -> float | None:
    return None if value is None else float(value)
