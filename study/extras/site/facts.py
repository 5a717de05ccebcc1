"""What a site shows of a study, read without a key: its public objects, reports and release.

A store is copied in memory, its public names alone, and all else works on that copy: nothing that
is sealed is ever read. Texts of studies are not trusted.
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import date
from pathlib import Path
from typing import Any

from pydantic import TypeAdapter, ValidationError

from analysis.plan.controls import ControlResult
from analysis.plan.history import EarlyGap
from analysis.plan.monitoring import Monitored
from analysis.plan.verdict import Verdict
from analysis.report.write import DATA
from publish.release import CHECKSUMS
from registry.canonical import digest_bytes
from registry.checkpoints.checkpoint import CHECKPOINTS
from registry.checkpoints.timestamp import STAMPS, Authorities, Stamp, read_stamps
from registry.errors import BrokenPromise
from registry.ledger.chain import LEDGER, Entry, Ledger
from registry.ledger.records import Release, ReportIssued
from registry.stores import open_store
from registry.stores.base import MemoryStore, Store
from registry.stores.parallel import parallel_map
from registry.verify.findings import Findings, Promise
from registry.verify.promises import selection_promises
from study.errors import StudyError
from study.steps.report.context import REPORTS
from study.workspace.address import open_study, store_address
from study.workspace.study import is_study

_SHOWN = (LEDGER, STAMPS, CHECKPOINTS, "revealed/")
_PUBLIC = (*_SHOWN, "begun/", "inventory/", "calibrations/", "checks/")
_SMALL = 4 << 20  # bytes of other public objects, or of a release, that a site takes along
_CONTROL = re.compile(
    "[\0-\x08\x0b-\x1f\x7f-\x9f\u200e\u200f\u202a-\u202e\u2066-\u2069\ud800-\udfff\ufffe\uffff]"
)


@dataclass(frozen=True, slots=True)
class PlanFacts:
    """What a page says of a plan beside its words."""

    margin: float = 0.05
    strata: tuple[str, ...] = ()
    chances: str = ""


@dataclass(frozen=True, slots=True)
class ModelDates:
    """Documented facts of a model."""

    model: str
    family: str | None = None
    released: date | None = None
    cutoff: date | None = None


@dataclass(frozen=True, slots=True)
class Served:
    """The provider of a model at a wave."""

    wave: int
    model: str
    provider: str
    asked: str


@dataclass(frozen=True, slots=True)
class Score:
    """The mean score of a model in an arm; ``stratum`` is "all" over all of them."""

    wave: int
    model: str
    stratum: str
    arm: str
    mean: float
    interval: tuple[float, float] | None = None


@dataclass(frozen=True, slots=True)
class LookFacts:
    """A look of the registered test: its verdicts, with standard errors."""

    models: tuple[Verdict, ...]


@dataclass(frozen=True, slots=True)
class LevelFinding:
    """A model at a level above the instance; the gap is that of published units."""

    level: str
    finding: str
    verdict: Verdict
    why: str = ""


@dataclass(frozen=True, slots=True)
class Calibration:
    """How large a leak the study's test finds."""

    model: str
    wave: int
    limit_of_detection: float | None = None
    dose_at_80: float | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class ReportFacts:
    """What pages show of a report.json, by the names that it has there."""

    study: str
    models: tuple[Verdict, ...]
    deviations: tuple[str, ...]
    issued: str = ""  # this and more is not known of a table of counts
    through_wave: int = 0
    registration: str = ""
    plan: PlanFacts = PlanFacts()
    plan_in_words: tuple[str, ...] = ()
    scores: tuple[Score, ...] = ()
    facts: tuple[ModelDates, ...] = ()
    limits: tuple[str, ...] = ()
    description: str | None = None
    before_publication: tuple[EarlyGap, ...] = ()
    served: tuple[Served, ...] = ()
    looks: tuple[LookFacts, ...] = ()
    controls: tuple[ControlResult, ...] = ()
    monitoring: Monitored | None = None
    published: str | None = None
    selection: str | None = None
    remarks: tuple[str, ...] = ()
    levels: tuple[LevelFinding, ...] = ()
    calibration: tuple[Calibration, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class StudyFacts:
    """A study: its reports, oldest first, and the bytes of the newest; and, unless it is a table
    from elsewhere, its ledger, what that promises, and the public files by which that is
    checked."""

    name: str
    reports: tuple[ReportFacts, ...]
    entries: tuple[Entry, ...] = ()
    stamps: tuple[Stamp, ...] = ()
    promises: tuple[Promise, ...] = ()
    numbers: bytes = b""
    evidence: Mapping[str, bytes] = field(default_factory=dict)

    @property
    def newest(self) -> ReportFacts | None:
        """The newest report that is there."""
        return self.reports[-1] if self.reports else None


def read_study(place: str) -> StudyFacts:
    """Read a study by its folder, the address of its store, or the folder of a report. Raises
    StudyError for a place that is none, RegistryError, BrokenPromise for a ledger that does not
    hold and for files that are not as it has them."""
    folder = Path(place)
    if (address := store_address(place)) is not None:
        return _read_store(open_store(address), None, None)
    if is_study(folder):
        study = open_study(folder)
        return _read_store(study.store, folder, folder / study.protocol.release.folder)
    if (folder / DATA).is_file():
        return _read_table(folder / DATA)
    raise StudyError(
        f"{place}: no study: give a folder with study.yaml, the address of a store, or a folder "
        f"with {DATA}"
    )


def _read_table(path: Path) -> StudyFacts:
    data = path.read_bytes()
    report = _read_report(data, path)
    return StudyFacts(name=report.study, reports=(report,), numbers=data)


def _read_store(store: Store, folder: Path | None, release: Path | None) -> StudyFacts:
    public = public_copy(store)
    entries = Ledger(public).entries()
    if not entries:
        raise StudyError(
            f"{store.uri}: nothing is recorded yet: run `dosimeter register` in the study's folder"
        )
    records = [(entry, entry.record) for entry in entries]
    stamps = read_stamps(public, entries, Authorities.known(), lambda doubt: None)
    found = Findings(public, None, entries, records, stamps=stamps)
    reports = [*_read_reports(folder, records)] if folder else []
    evidence = {key: public.get(key) for key in public.list()}
    if sum(map(len, evidence.values())) > _SMALL:
        evidence = {key: data for key, data in evidence.items() if key.startswith(_SHOWN)}
    evidence |= dict(_read_release(release, records)) if release else {}
    return StudyFacts(
        name=inert(str(entries[0].body.get("study", ""))),
        reports=tuple(report for _, report in reports),
        entries=entries,
        stamps=stamps,
        promises=selection_promises(found, stamps),
        numbers=reports[-1][0] if reports else b"",
        evidence=evidence,
    )


def public_copy(store: Store) -> MemoryStore:
    """Return the objects of a store that anyone may read and that a site rests on. Raises
    StoreError."""
    copy = MemoryStore()
    for prefix in _PUBLIC:
        keys = [key for key in store.list(prefix) if not key.endswith(".age")]
        for key, data in zip(keys, parallel_map(store, store.get, keys), strict=True):
            copy.put(key, data)
    return copy


def _read_reports(
    folder: Path, records: Sequence[tuple[Entry, Any]]
) -> Iterator[tuple[bytes, ReportFacts]]:
    """Yield the newest report through each wave that is in the folder. Raises BrokenPromise for
    one that is not as the ledger has it."""
    issued: dict[int, ReportIssued] = {
        record.through_wave: record for entry, record in records if entry.kind == "report"
    }
    for wave, record in sorted(issued.items()):
        if (path := folder / REPORTS / f"wave-{wave}" / DATA).is_file():
            data = _read_promised(path, record.report)
            yield data, _read_report(data, path)


def _read_release(
    folder: Path, records: Sequence[tuple[Entry, Any]]
) -> Iterator[tuple[str, bytes]]:
    """Yield the files of the newest release by their paths in ``release/``, if they are there and
    small. Raises BrokenPromise as ``_read_reports``."""
    released: list[Release] = [record for entry, record in records if entry.kind == "release"]
    if not released or not (folder / CHECKSUMS).is_file():
        return
    listed = _read_promised(folder / CHECKSUMS, released[-1].content)
    promised = json.loads(listed)
    paths = [folder / name for name in promised]
    if sum(path.stat().st_size for path in paths if path.is_file()) <= _SMALL:
        yield f"release/{CHECKSUMS}", listed
        for path, (name, digest) in zip(paths, promised.items(), strict=True):
            yield f"release/{name}", _read_promised(path, f"sha256:{digest}")


def _read_promised(path: Path, digest: str) -> bytes:
    try:
        data = path.read_bytes()
    except OSError as error:
        raise BrokenPromise(f"{path}: cannot be read ({error.strerror})") from error
    if (found := digest_bytes(data)) != digest:
        raise BrokenPromise(
            f"{path}: was altered: digest {digest} expected, {found} found; see `dosimeter verify`"
        )
    return data


def _read_report(data: bytes, path: Path) -> ReportFacts:
    try:
        body = inert(json.loads(data))
        for row in body.get("levels", ()):
            row["verdict"] = {**row, "verdict": row["finding"]}
            row["verdict"] |= dict.fromkeys(("n_public", "n_private"), row["units"])
        return _REPORT.validate_python(body)
    except ValidationError as error:
        place = ".".join(str(part) for part in error.errors(include_input=False)[0]["loc"])
        problem = f"{path}: {place}: not as a report has it"
    except (ValueError, TypeError, LookupError, AttributeError, RecursionError):
        problem = f"{path}: not JSON of that form"
    raise StudyError(f"{problem}: give a report of `dosimeter report` or `dosimeter analyze`")


_REPORT = TypeAdapter(ReportFacts)


def inert(value: Any) -> Any:
    """Return a JSON value without control characters and marks of direction in its texts. Raises
    ValueError for a number that is none."""
    if isinstance(value, str):
        return _CONTROL.sub("\ufffd", value)
    if isinstance(value, Mapping):
        return {inert(name): inert(item) for name, item in value.items()}
    if isinstance(value, list | tuple):
        return [inert(item) for item in value]
    if isinstance(value, float) and not math.isfinite(value):
        raise ValueError(value)
    return value
