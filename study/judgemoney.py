"""What a study's judges have cost, wave by wave, read from the replies that lie in the store."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass
from decimal import Decimal

from harness.budget import Spend, Tariff
from harness.judgement import Purpose
from harness.judgepurse import Bought, read_bought_of_judges, spend_on
from harness.model import Usage
from harness.prices import PriceList
from registry.records import JudgePin, record_digest
from study.folder import Study
from study.money import price_of


@dataclass(frozen=True, slots=True)
class JudgeSpend:
    """What a judge's replies on one episode, or on one answer sheet, have cost."""

    digest: str  # of the judge's pin
    tariff: Tariff
    episode: str  # "" where that was not kept
    spend: Spend


def read_spent(study: Study, wave: int | None, prices: PriceList | None) -> Iterator[JudgeSpend]:
    """What each judge has cost a wave, episode by episode; or the checks of judges, where ``wave``
    is None. Replies that do not tell what they were bought for count for every wave, and for the
    checks: rather twice than not at all. Needs the study's key."""
    own: dict[str, JudgePin] = {record_digest(pin): pin for pin in study.protocol.judges}
    groups: dict[tuple[str, Purpose], list[Usage]] = defaultdict(list)
    for bought in read_bought_of_judges(study.store, study.identities()):
        purpose = _purpose(bought, own)
        if purpose is not None and (bought.purpose is None or purpose.wave == wave):
            groups[bought.judge, purpose].append(bought.usage)
    for (digest, purpose), usages in groups.items():
        pin = JudgePin(purpose.judge, purpose.provider, purpose.version, "")
        tariff = Tariff(pin.name, pin.provider, price_of(prices, pin), kind="judge")
        yield JudgeSpend(digest, tariff, purpose.episode, spend_on(usages, tariff.price))


def _purpose(bought: Bought, own: dict[str, JudgePin]) -> Purpose | None:
    """What a reply was bought for; of older ones who gave it, where study.yaml still tells."""
    if bought.purpose is not None:
        return bought.purpose
    pin = own.get(bought.judge)
    return None if pin is None else Purpose(pin.name, pin.provider, pin.version)


def spent_by_judges(
    study: Study, wave: int, prices: PriceList | None
) -> tuple[tuple[Tariff, Spend], ...]:
    """What judges have cost a wave, a sum each."""
    sums: dict[Tariff, Spend] = {}
    for each in read_spent(study, wave, prices):
        before = sums.get(each.tariff, Spend(Decimal()))
        sums[each.tariff] = Spend(before.usd + each.spend.usd, before.unknown + each.spend.unknown)
    return tuple(sums.items())
