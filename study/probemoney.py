"""What a study's exposure probes have cost, read from the replies that lie in the store."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator

from harness.budget import Spend, Tariff
from harness.codec import decode_judgement
from harness.judgepurse import spend_on
from harness.keys import PROBES
from harness.model import Usage
from harness.prices import PriceList
from registry.records import ModelPin
from registry.seal import decrypt
from study.folder import Study


def bought_probes(study: Study, wave: int) -> Iterator[tuple[ModelPin, str, Usage]]:
    """Every reply to a probe of a wave: who was asked, the probe's name, the tokens. Needs the
    study's key. Raises RegistryError."""
    identities = study.identities()
    for key in study.store.list(PROBES):
        if not key.endswith("-reply.age"):
            continue
        kept = decode_judgement(decrypt(study.store.get(key), identities, key), key)
        if kept.purpose is not None and kept.purpose.wave == wave:
            of = kept.purpose
            yield ModelPin(of.judge, of.provider, of.version), of.episode, kept.reply.usage


def probe_tariff(prices: PriceList | None, pin: ModelPin) -> Tariff:
    """What a model costs by a price file."""
    return Tariff(pin.name, pin.provider, None if prices is None else prices.of(pin))


def spent_on_probes(
    study: Study, wave: int, prices: PriceList | None
) -> tuple[tuple[Tariff, Spend], ...]:
    """What a wave's probes have cost, a sum for each model."""
    usages: dict[ModelPin, list[Usage]] = defaultdict(list)
    for pin, _, usage in bought_probes(study, wave):
        usages[pin].append(usage)
    tariffs = {pin: probe_tariff(prices, pin) for pin in usages}
    return tuple((tariffs[pin], spend_on(held, tariffs[pin].price)) for pin, held in usages.items())
