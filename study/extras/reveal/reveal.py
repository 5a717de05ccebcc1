"""The reveal of a draw: its seeds and nonces, of both arms, or the files of one of its units, into
ledger, store and a file."""

from __future__ import annotations

import logging
from collections.abc import Callable, Collection, Iterator
from pathlib import Path

from generators.catalog import Catalog
from generators.dressings.family import task_family
from generators.errors import GeneratorError
from publish.errors import PublishError
from publish.leakcheck.check import regenerate
from registry.canonical import digest_bytes
from registry.draws.allocation import sealed_units
from registry.draws.reveal import (
    RevealedUnit,
    check_reveal,
    is_whole,
    read_reveal,
    reveal_bytes,
    write_reveal,
)
from registry.errors import BrokenPromise
from registry.files import write_whole
from registry.ledger.draw_records import Revealed, Unit
from registry.sealing import DrawnInstance, unit_key
from study.errors import StudyError
from study.steps.sweep.waves import list_waves
from study.workspace.setup import Watch, find_registration
from study.workspace.study import Study

logger = logging.getLogger(__name__)
MOST_BYTES = 1 << 30  # of a reveal's file


def tranches_to_reveal(study: Study, tranche: int | None) -> tuple[int, ...]:
    """Return the tranches of a draw that a number names, all if there is none. Raises
    StudyError."""
    drawn = tuple(range(len(study.sealed_set().reserve) + 1))
    if tranche is not None and tranche not in drawn:
        raise StudyError(f"--tranche: there is no tranche {tranche}; 0 to {drawn[-1]} were drawn")
    return drawn if tranche is None else (tranche,)


def unit_to_reveal(study: Study, name: str) -> Unit:
    """Return the sealed unit of a name, which has files of its own. Raises StudyError."""
    sealed = study.sealed_set()
    hidden = {u.name: u for u in sealed_units(sealed.units, sealed.allocation_seed)}
    own = {n: unit for n, unit in hidden.items() if unit.digest}
    if name in own:
        return own[name]
    why = "has no file of its own"
    if name not in hidden:
        drawn = any(unit.name == name for unit in sealed.units)
        why = "is published" if drawn else "was not drawn"
    raise StudyError(f"unit {name!r} {why}; sealed, with files: {', '.join(sorted(own)) or 'none'}")


def check_revealable(study: Study, tranches: Collection[int], reason: str) -> None:
    """Raise StudyError for tranches that are still needed secret, unless there is a reason or each
    of them is declared to have leaked."""
    if reason and (not reason.strip() or not reason.isprintable()):  # it stays, and is public
        raise StudyError("--reason: give it in words, on one line")
    entries = study.ledger.entries()
    leaked = {entry.body["tranche"] for entry in entries if entry.kind == "leak"}
    if reason or leaked.issuperset(tranches):
        return
    if find_registration(study.ledger) is None:
        raise StudyError(f"no plan is registered, so that nothing was run on these seeds; {_ASKED}")
    open_waves = [
        f"wave {wave.wave} ({wave.state})"
        for wave in list_waves(study)
        if wave.state != "closed"
        and not set(tranches).isdisjoint(number for run in wave.tranches.values() for number in run)
    ]
    if open_waves:
        raise StudyError(
            f"still to run on these seeds: {', '.join(open_waves)}; close each, or take it out of "
            f"study.yaml; {_ASKED}"
        )


_ASKED = "--reason TEXT reveals them all the same, and the ledger records it"


def reveal(
    study: Study,
    tranches: Collection[int],
    reason: str,
    now: Callable[[], str],
    alone: Unit | None = None,
) -> tuple[Revealed, Path]:
    """Publish the seeds and nonces of some tranches; or no seed, but the files of a unit ``alone``
    that runs in these. Return the record, and the file. Needs the study's key. Raises StudyError
    as ``check_revealable`` and for changed files of a unit, RegistryError, OSError."""
    check_revealable(study, tranches, reason)
    sealed = study.sealed_set()
    own = study.own_identities()[0]
    whole = is_whole(sealed, tranches)
    units = [
        RevealedUnit(unit.name, unit_key(own, unit.name), study.protocol.files_of(unit))
        for unit in ([alone] if alone else sealed.units if whole else ())
        if unit.digest
    ]
    chosen = () if alone else tranches
    data = reveal_bytes(study.protocol.name, sealed, study.entries(), chosen, units)
    for problem in check_reveal(read_reveal(data, "the reveal"), sealed):
        raise StudyError(f"{problem}; nothing is revealed")
    entry = write_reveal(study.store, study.ledger, data, reason, now())
    name = "study" if whole else "-".join(map(str, sorted(tranches)))
    name = "unit-" + alone.name.replace("/", "-") if alone else name
    path = study.folder / f"reveal-{name}.json"
    write_whole(path, data.decode())
    record: Revealed = entry.record
    logger.info("revealed %d seeds of tranches %s%s", record.count, record.tranches, record.units)
    return record, path


def check_revealed(study: Study, path: Path, watch: Watch) -> tuple[int, tuple[str, ...]]:
    """Check the file of a reveal against the ledger, and make every instance again. Return the
    number of instances, and what does not hold. Needs no key. Raises StudyError, BrokenPromise."""
    try:
        with path.open("rb") as file:
            data = file.read(MOST_BYTES)
    except OSError as error:
        raise StudyError(f"{path}: {error.strerror}") from None
    revealed = read_reveal(data, str(path))
    problems = [*check_reveal(revealed, study.sealed_set())]
    if revealed.study != study.protocol.name:
        problems.append(f"of the study {revealed.study!r}, and this is {study.protocol.name!r}")
    if not any(
        entry.record.content == digest_bytes(data) for entry in study.ledger.find("revealed")
    ):
        problems.append("no record of the ledger names this reveal")
    try:
        families = [task_family(*file) for unit in revealed.units for file in unit.files]
    except GeneratorError as error:
        raise BrokenPromise(f"{path}: a file of a unit: {error}") from error
    catalog = study.protocol.catalog.with_templates(families)
    return len(revealed.seeds), (*problems, *_remade(catalog, revealed.seeds, watch))


def _remade(catalog: Catalog, seeds: Collection[DrawnInstance], watch: Watch) -> Iterator[str]:
    """Yield the seeds whose instance is another one, or none, when it is made again."""
    for done, seed in enumerate(seeds, 1):
        watch("making instances again", done, len(seeds))
        try:
            regenerate(seed, catalog.family)
        except PublishError as error:
            yield f"{seed.instance}: {error}"
