"""The draw of a study: announced in the ledger, then allotted by the announced value."""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import datetime

from harness.sweep import INSTANCES_CODEC
from registry.draws import (
    RELAYS,
    allot_draw,
    announce_draw,
    check_ahead,
    draw,
    pending_draw,
    place_seeds,
    read_signature,
    record_draw,
    round_of,
    round_time,
)
from registry.ledger import Announcement, Entry, SealedSet
from registry.sealing import SealedSeeds
from study.errors import StudyError, WorkOwedError
from study.workspace.pilot_draw import entropy_of, excluded_by_pilots, identify_in, names_of
from study.workspace.setup import Gate, Watch, check_drawn, check_parties, open_gate
from study.workspace.snapshot import without_arms
from study.workspace.study import Study, drawn_key

logger = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class DrawRequest:
    """How a draw is allotted, and why it is made again."""

    beacon: str = ""  # such as "drand:34567890"; "" for a secret of the study's own
    relays: tuple[str, ...] = RELAYS  # addresses, or files with a relay's reply
    again: str = ""  # reason to replace the draw before; "" for the first


def draw_seeds(
    study: Study,
    watch: Watch,
    now: Callable[[], str],
    gate: Gate = open_gate,
    request: DrawRequest | None = None,
) -> tuple[SealedSet, bool]:
    """Draw, seal and announce the seeds, if the gate lets the plan pass, and allot them to the
    arms; or allot those that are announced already. Return the sealed set, and whether it is new.

    Raises StudyError for a second draw without a reason or after the registration, WorkOwedError
    until the announced round of the beacon is public, RegistryError.
    """
    request = request or DrawRequest()
    entries = study.ledger.entries()
    announced = [entry for entry in entries if entry.kind == "announcement"]
    pending = pending_draw(entries)
    if request.again:
        _check_again(request.again, entries)
    check_parties(study)
    fresh = not announced or (request.again and announced[-1].body.get("again") != request.again)
    if not fresh:
        _check_beacon(request, announced[-1].record)
        if pending is None:
            return check_drawn(study), False
        return _allot(study, pending, study.open_announced(pending), request, now), True
    record, sealed = _announce(study, watch, now, gate, request, announced)
    return _allot(study, record, sealed, request, now), True


def is_drawn(study: Study) -> bool:
    """Report whether seeds are drawn, and none are announced that still wait for their arms."""
    entries = study.ledger.entries()
    return any(entry.kind == "sealed-set" for entry in entries) and pending_draw(entries) is None


def _check_again(reason: str, entries: Sequence[Entry]) -> None:
    kinds = {entry.kind for entry in entries}
    if not reason.strip() or not reason.isprintable():  # it stays for good, and is public
        raise StudyError("--again: give the reason in words, on one line")
    if "announcement" not in kinds:
        raise StudyError("--again: nothing is drawn yet; leave it out for the first draw")
    if "preregistration" in kinds:
        raise StudyError(
            "--again: the plan is registered, for the draw that was made; a new draw needs a new "
            "study"
        )


def _check_beacon(request: DrawRequest, announced: Announcement) -> None:
    """Raise StudyError if a beacon is asked for that the draw was not announced with."""
    if request.beacon and round_of(request.beacon) != announced.beacon:
        name = f"drand:{announced.beacon.round}" if announced.beacon else "a secret of its own"
        raise StudyError(
            f"--beacon {request.beacon}: this study's draw is announced with {name} already; leave "
            "--beacon out, or give the reason of another draw by --again REASON"
        )


def _announce(
    study: Study,
    watch: Watch,
    now: Callable[[], str],
    gate: Gate,
    request: DrawRequest,
    before: Sequence[Entry],
) -> tuple[Announcement, SealedSeeds]:
    """Draw new seeds, unlike those that pilots and earlier draws had, and announce them."""
    protocol = study.protocol
    study.own_identities()  # first, so that nothing is drawn that cannot be signed and sealed
    recipients = study.recipients()
    beacon = round_of(request.beacon) if request.beacon else None
    if beacon is not None:
        check_ahead(beacon, now())
    underpowered, unproved = gate("", "")
    strata = [(task.family, task.version, task.difficulty) for task in protocol.tasks]
    size = 2 * (protocol.seeds_per_arm + sum(protocol.reserve)) * len(strata)

    def progress(count: int) -> None:
        watch("drawing", count, size)

    identify = identify_in(protocol.catalog)
    excluded = excluded_by_pilots(study, identify)
    if before:
        excluded |= names_of(study.drawn_seeds(), strata, identify)
    logger.info("drawing %d seeds in %d strata", size, len(strata))
    entropy = entropy_of(protocol)
    drawn = draw(
        strata, protocol.seeds_per_arm, entropy, identify, progress, protocol.reserve, excluded
    )
    announced = announce_draw(
        study.store,
        study.ledger,
        drawn,
        protocol.name,
        recipients,
        now,
        beacon=beacon,
        after=before[-1].sequence if before else -1,
        again=request.again,
        underpowered=underpowered,
        unproved=unproved,
        parties=protocol.parties,
    )
    sealed = SealedSeeds(drawn.seeds, "" if beacon else drawn.secret)
    return announced, sealed


def _allot(
    study: Study,
    announced: Announcement,
    sealed: SealedSeeds,
    request: DrawRequest,
    now: Callable[[], str],
) -> SealedSet:
    value = sealed.secret
    if announced.beacon is not None:
        due = round_time(announced.beacon)
        if datetime.fromisoformat(now()) < due:
            raise WorkOwedError(
                f"the draw is announced: its arms follow from drand round {announced.beacon.round},"
                f" public at {due:%F %T} UTC; then run `dosimeter draw` again"
            )
        value = read_signature(announced.beacon, request.relays)
    record = allot_draw(announced, sealed, value)
    instances = without_arms(place_seeds(sealed.seeds, record))
    INSTANCES_CODEC.write(study.store, drawn_key(record.root), instances, study.keys())
    record_draw(study.ledger, record, now())
    return check_drawn(study)
