"""What a report says that the one before it did not."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any


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
    settled: tuple[str, ...]  # deviations that are no longer told
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
