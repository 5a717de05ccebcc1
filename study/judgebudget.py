"""The purse that judges pay from: a wave's budget, with all that the wave has cost so far."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor

from harness.budget import Purse, Spend, Tariff, read_bought, spend_of
from harness.episode import Cell
from harness.judgepurse import JudgePurse
from registry.records import JudgePin, record_digest
from study.folder import Study
from study.judgemoney import read_spent
from study.money import Money, money_of
from study.probemoney import spent_on_probes
from study.runs import cells_of, manifest_of

_READERS = 8  # of the store at once


def open_judge_purse(
    study: Study,
    wave: int | None,
    money: Money,
    judges: Sequence[JudgePin],
    graded: Mapping[str, Collection[str]],
) -> JudgePurse | None:
    """The purse of a wave for its judges, or of the check of one, where ``wave`` is None; None
    without a budget. ``graded`` tells of each judge's digest what it is done with.

    Raises HarnessError where the budget cannot be kept, RegistryError.
    """
    if money.budget is None:
        return None
    purse = Purse.open(money.budget, money.tariffs, money.allow_unknown)
    own: dict[str, str] = {record_digest(pin): pin.name for pin in judges}
    prior: dict[tuple[str, str], Spend] = {}
    for each in read_spent(study, wave, money.prices):
        name = own.get(each.digest)
        if name is not None:
            done = each.episode in graded[each.digest]
            purse.settle(f"{name}/{each.episode}", name, each.spend, done)
            prior[name, each.episode] = each.spend
        elif wave is not None:  # the check of another judge is none of this one's
            purse.charge(each.tariff, each.spend)
    for tariff, spend in _spent_by_models(study, wave, money, purse) if wave is not None else ():
        purse.charge(tariff, spend)
    return JudgePurse(purse, prior)


def _spent_by_models(
    study: Study, wave: int, money: Money, purse: Purse
) -> Iterator[tuple[Tariff, Spend]]:
    """What the wave's episodes and exposure probes have cost."""
    yield from spent_on_probes(study, wave, money.prices)
    yield from _swept(study, wave, money, purse)


def _swept(study: Study, wave: int, money: Money, purse: Purse) -> Iterator[tuple[Tariff, Spend]]:
    """What the wave's models have cost, episode by episode, where a limit asks."""
    manifest = manifest_of(study, wave)
    if manifest is None:
        return
    priced = money_of(study.folder, study.protocol, manifest.models, True, bounds=False)
    tariffs = {
        each.model: each
        for each in priced.tariffs
        if each.price is not None and purse.limits_of(each)
    }
    identities = study.identities()

    def spent(cell: Cell) -> tuple[Tariff, Spend]:
        tariff = tariffs[cell.model]
        bought = read_bought(study.store, identities, cell.episode, tariff.provider)
        return tariff, spend_of(bought, tariff.price) if tariff.price else Spend()

    cells = [cell for cell in cells_of(study, manifest) if cell.model in tariffs]
    with ThreadPoolExecutor(_READERS, thread_name_prefix="spent") as pool:
        yield from pool.map(spent, cells)
