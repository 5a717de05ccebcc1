"""The draw of a study: announced in the ledger, then allotted by the announced value."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from dataclasses import asdict, dataclass, replace
from datetime import datetime, timedelta
from pathlib import Path

from generators.catalog import Catalog
from generators.items.item import item_bytes
from generators.seed import Seed
from generators.title import split_headline
from harness.sweep.schedule import INSTANCES_CODEC
from registry.draws.allocation import pending_draw, place_seeds
from registry.draws.beacon import (
    RELAYS,
    check_ahead,
    read_signature,
    round_at,
    round_of,
    round_time,
)
from registry.draws.seeds import (
    Entropy,
    FixedEntropy,
    Identify,
    SystemEntropy,
    allot_draw,
    announce_draw,
    draw,
    record_draw,
)
from registry.errors import RegistryError
from registry.ledger.chain import Entry
from registry.ledger.draw_records import Announcement, Beacon, DrawTerms, SealedSet, Unit
from registry.sealing import DrawnSeed, SealedSeeds, unit_digest, unit_key
from study.errors import StudyError, WorkOwedError
from study.protocol.pool import read_pool
from study.protocol.protocol import Protocol
from study.steps.register.agent_tasks import pin_bases_of
from study.workspace.address import open_study
from study.workspace.checkpoints import stamp_ledger
from study.workspace.setup import Gate, Watch, check_drawn, check_parties, open_gate
from study.workspace.snapshot import without_arms
from study.workspace.study import Study, drawn_key, is_study

logger = logging.getLogger(__name__)
_AHEAD = timedelta(seconds=45)  # of a round that is chosen here: in it the announcement is stamped
PILOTS = "pilot"  # folder of a study's pilots
Stratum = tuple[str, str, str]  # family, version, difficulty


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
        return _allot(study, pending, study.open_announced(pending), request, now, watch), True
    record, sealed = _announce(study, watch, now, gate, request, announced)
    return _allot(study, record, sealed, request, now, watch), True


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
    if (beacon := round_of(request.beacon) if request.beacon else None) is not None:
        check_ahead(beacon, now())
    underpowered, unproved = gate("", "")
    if beacon is None and protocol.stamps:
        beacon = _coming_round(request, now())
    strata = [(task.family, task.version, task.difficulty) for task in protocol.tasks]
    size = protocol.drawn.total()

    identify = identify_in(protocol.catalog)
    drawn_before = (seed for seed in (study.drawn_seeds() if before else ()) if not seed.has_item)
    excluded = names_of(drawn_before, strata, identify)
    for other in _relatives(study):
        excluded |= names_of(other.drawn_seeds(), strata, identify)
    logger.info("drawing %d seeds in %d strata", size, len(strata))
    drawn = draw(
        strata,
        protocol.seeds_per_arm,
        entropy_of(protocol),
        identify,
        lambda count: watch("drawing", count, size),
        reserve=protocol.reserve,
        excluded=excluded,
        pools=_pools(protocol),
    )
    terms = DrawTerms(
        study=protocol.name,
        recipients=tuple(recipients),
        beacon=beacon,
        again=request.again,
        underpowered=underpowered,
        unproved=unproved,
        **asdict(protocol.parties),
        units=_units(study),
    )
    after = before[-1].sequence if before else -1
    if beacon is not None and not request.beacon:  # seeds may have taken a while to draw
        terms = replace(terms, beacon=round_at(datetime.fromisoformat(now()) + _AHEAD))
    announced = announce_draw(study.store, study.ledger, drawn, terms, now, after=after)
    stamp_ledger(study)
    sealed = SealedSeeds(drawn.seeds, "" if beacon else drawn.secret)
    return announced, sealed


def _units(study: Study) -> tuple[Unit, ...]:
    """Return the units of the study, each with the digest of its files under a key of its own."""
    own, files_of = study.own_identities()[0], study.protocol.files_of
    return tuple(
        replace(unit, digest=unit_digest(unit_key(own, unit.name), files)) if files else unit
        for unit in study.protocol.units
        for files in [files_of(unit)]
    )


def _coming_round(request: DrawRequest, now: str) -> Beacon | None:
    """Return a round of drand's if a relay answers: the draw names one to come instead."""
    before = round_at(datetime.fromisoformat(now) - _AHEAD)
    try:
        read_signature(before, request.relays)
    except RegistryError as error:
        logger.warning("warning: no public beacon, so a secret allots the arms: %s", error)
        return None
    return before


def _allot(
    study: Study,
    announced: Announcement,
    sealed: SealedSeeds,
    request: DrawRequest,
    now: Callable[[], str],
    watch: Watch = lambda what, done, of: None,
) -> SealedSet:
    value = sealed.secret
    if announced.beacon is not None:
        due = round_time(announced.beacon)
        while study.protocol.stamps and not request.beacon:
            left = (due - datetime.fromisoformat(now())).total_seconds()
            if not 0 < left <= 2 * _AHEAD.total_seconds():
                break
            watch(f"waiting for drand round {announced.beacon.round}, {left:.0f} s", 0, 0)
            time.sleep(1)
        if datetime.fromisoformat(now()) < due:
            raise WorkOwedError(
                f"the draw is announced: its arms follow from drand round {announced.beacon.round},"
                f" public at {due:%F %T} UTC; then run `dosimeter register` again"
            )
        value = read_signature(announced.beacon, request.relays)
    record = allot_draw(announced, sealed, value)
    instances = without_arms(place_seeds(sealed.seeds, record))
    INSTANCES_CODEC.write(study.store, drawn_key(record.root), instances, study.keys())
    record_draw(study.ledger, record, now())
    return check_drawn(study)


def entropy_of(protocol: Protocol) -> Entropy:
    """Return the source of a study's randomness: the system, or a fixed one for demonstrations."""
    if protocol.entropy == "system":
        return SystemEntropy()
    return FixedEntropy(bytes.fromhex(protocol.entropy.removeprefix("fixed:")))


def identify_in(catalog: Catalog) -> Identify:
    """Return a function from a seed to the name of its instance. Instances that an agent cannot
    distinguish but by their titles get the name of the first of them, so that the draw takes them
    for one: a question with few variables must not be asked in both arms."""
    first: dict[str | bytes, str] = {}

    def identify(name: str, version: str, difficulty: str, value: bytes) -> str:
        seed = Seed(value)
        instance = catalog.family(name, version).generate(difficulty, seed)
        _, task = split_headline(instance.brief.prompt)
        asked = seed.item or replace(instance.brief, prompt=task).digest
        return first.setdefault(asked, instance.id)

    return identify


def _pools(protocol: Protocol) -> dict[str, list[bytes]]:
    """Return the items of each stratum that has a pool. Raises StudyError."""
    pools: dict[str, list[bytes]] = {}
    for source in protocol.pools:
        for group in read_pool(source):
            items = group.data or item_bytes(pin_bases_of(group.items))
            pools.setdefault(f"{source.family}/{group.stratum}", []).append(items)
    return pools


def pilots_of(folder: Path) -> list[Study]:
    """Return the pilots of a study: scratch studies in folders of its own folder, by name."""
    return [open_study(each) for each in sorted((folder / PILOTS).glob("*")) if is_study(each)]


def _relatives(study: Study) -> Iterator[Study]:
    """Yield the studies that must have no instance of this one: its pilots; of a pilot, its study
    and the other pilots."""
    folder = study.folder.resolve()
    if folder.parent.name == PILOTS and is_study(folder.parent.parent):
        yield open_study(folder.parent.parent)
        yield from (each for each in pilots_of(folder.parent.parent) if each.folder != folder)
    else:
        yield from pilots_of(folder)


def names_of(
    entries: Iterable[DrawnSeed], strata: Collection[Stratum], identify: Identify
) -> set[str]:
    """Return the names and the seeds, in hexadecimal, of the entries of some strata."""
    names: set[str] = set()
    for entry in entries:
        stratum = (entry.family, entry.version, entry.difficulty)
        if stratum in strata:
            names |= {entry.seed, identify(*stratum, bytes.fromhex(entry.seed))}
    return names
