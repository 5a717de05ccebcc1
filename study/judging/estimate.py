"""Cost estimate for grading a wave by the study's judges: an interval from what they have graded
already, else bounds from an example of each stratum."""

from __future__ import annotations

import json
import math
from collections import Counter, defaultdict
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from decimal import Decimal

from analysis.plan import control_models
from generators.catalog import Catalog
from generators.task import TaskInstance
from harness.agent import estimate_text
from harness.episode import Cell
from harness.judging import MAX_CHARS, TRIES, Submission, call_texts, chunks_of, questions_of
from harness.model import Usage
from harness.spending import CallKind, Price, PricedModel, read_paid_calls, total_cost
from harness.store_keys import JUDGE_CALLS
from registry.ledger import JudgePin, record_digest
from study.judging.drift import archived_cells
from study.judging.records import FIRST, graded_by, judge_pin
from study.protocol import Protocol, Task
from study.sweeps import (
    BOUNDS,
    FREE,
    OWN,
    QUANTITIES,
    Forecast,
    Interval,
    Owed,
    Pilot,
    groups_of,
    price_judges,
    sum_interval,
)
from study.tasks import EXAMPLE_SEED
from study.workspace import Study, cells_of, closed_wave, manifest_of

REPLY = 60  # typical tokens of a verdict with its evidence
_BYTES = 4  # the most of a character


def estimate_judges(study: Study, wave: int) -> tuple[Forecast, ...]:
    """Return for each judge of study.yaml what grading the whole wave still takes. Raises
    HarnessError, RegistryError."""
    judges = study.protocol.judges
    models = price_judges(study.folder, study.protocol, judges, True).models
    return tuple(
        _forecast(study, pin, priced, _owed(study, wave, record_digest(pin)))
        for pin, priced in zip(judges, models, strict=True)
    )


def estimate_regrading(study: Study, wave: int) -> Forecast | None:
    """Return what it still takes to have the second grader grade the first wave's answers again
    for the look at a wave; None if the plan has no regrading there. Raises HarnessError,
    RegistryError."""
    plan = study.protocol.registered_plan()
    tested = set(study.protocol.waves[wave]) - control_models(plan)
    if wave <= FIRST or not tested or plan.standard is None or not plan.standard.regrade:
        return None
    pin = judge_pin(study, plan.standard.second_grader)
    (priced,) = price_judges(study.folder, study.protocol, [pin], True).models
    owed = _owed_again(study, wave, record_digest(pin), plan.standard.regrade)
    return _forecast(study, pin, priced, owed)


def _forecast(study: Study, pin: JudgePin, priced: PricedModel, owed: Owed) -> Forecast:
    episodes = sum(map(sum, owed.values()))
    if priced.free or not episodes:
        basis = FREE if priced.free else OWN
        return Forecast(pin.name, episodes, basis, 0, "", (), priced.price, *([None] * 4))
    pilots = tuple(_pilots(study, pin, priced.price))
    if len({pilot.instance for pilot in pilots}) < 2:
        return _by_example(study, pin, priced.price, owed)
    groups, pooled = groups_of(owed, pilots)
    sums = {name: sum_interval(groups, name) for name in QUANTITIES}
    return Forecast(pin.name, episodes, OWN, len(pilots), pin.name, pooled, priced.price, **sums)


def _owed(study: Study, wave: int, digest: str) -> Owed:
    """By stratum, how many episodes of each instance the judge has not graded; by the plan if the
    wave has not begun."""
    manifest = manifest_of(study.ledger, wave)
    if manifest is None:
        counts = _planned(study.protocol, wave)
        return {task.stratum: counts for task in study.protocol.tasks}
    return _left(cells_of(study.entries(), manifest), graded_by(study, digest))


def _owed_again(study: Study, wave: int, digest: str, share: float) -> Owed:
    """The same of the archive, by the plan until the first wave is closed: a share of the
    instances of each arm, spread over the tranches."""
    if closed_wave(study.ledger, FIRST) is not None:
        return _left(archived_cells(study, share), graded_by(study, digest, wave))
    counts = _planned(study.protocol, FIRST)
    drawn = 2 * math.ceil(share * len(counts) / 2 - 1e-9)
    spread = [counts[place * len(counts) // drawn] for place in range(drawn)]
    return {task.stratum: spread for task in study.protocol.tasks}


def _left(cells: Iterable[Cell], done: Collection[str]) -> Owed:
    left = Counter((cell.spec.stratum, cell.instance) for cell in cells if cell.episode not in done)
    owed: dict[str, list[int]] = defaultdict(list)
    for (stratum, _), count in left.items():
        owed[stratum].append(count)
    return owed


def _planned(protocol: Protocol, wave: int) -> list[int]:
    """Of a stratum's instances of both arms, how many episodes each will have."""
    runs = Counter(each for own in protocol.wave_tranches(wave).values() for each in own)
    return [
        protocol.replicates * models
        for tranche, models in sorted(runs.items())
        for _ in range(protocol.tranche_size(tranche))
    ]


def _pilots(study: Study, pin: JudgePin, price: Price | None) -> Iterator[Pilot]:
    """The episodes that this judge has graded, with any prompt and settings, and their usage."""
    usages: dict[tuple[int | None, str], list[Usage]] = defaultdict(list)
    if next(iter(study.store.list(JUDGE_CALLS)), None) is None:
        return  # and no key is needed
    for call in read_paid_calls(study.store, study.identities(), CallKind.JUDGE):
        charge, payer = call.charge, call.charge.payer
        if (payer.provider, payer.version) == (pin.provider, pin.version):
            # An answer that is graded again is charged to another wave than its own.
            usages[charge.wave, charge.subject].append(call.reply.usage)
    for wave, cell in _cells(study):
        if values := _values(usages.get((wave, cell.episode), ()), price):
            yield Pilot(cell.spec.stratum, cell.instance, values)


def _cells(study: Study) -> Iterator[tuple[int, Cell]]:
    for wave in range(len(study.protocol.waves)):
        manifest = manifest_of(study.ledger, wave)
        for cell in () if manifest is None else cells_of(study.entries(), manifest):
            yield wave, cell


def _values(usages: Sequence[Usage], price: Price | None) -> Mapping[str, float] | None:
    """The usage of one episode; None if a reply has no token counts."""
    inputs = [usage.input_tokens for usage in usages if usage.input_tokens is not None]
    outputs = [usage.output_tokens for usage in usages if usage.output_tokens is not None]
    if not usages or not len(inputs) == len(outputs) == len(usages):
        return None
    values: dict[str, float] = {
        "input_tokens": sum(inputs),
        "cached_tokens": sum(usage.cached_tokens or 0 for usage in usages),
        "output_tokens": sum(outputs),
    }
    cost = total_cost(price, usages)
    return values if cost is None else {**values, "cost_usd": float(cost)}


def _by_example(study: Study, pin: JudgePin, price: Price | None, owed: Owed) -> Forecast:
    """Between nothing and the most that may be requested; the mean is that of one request a call,
    about an answer as long as the key of an example."""
    longest, catalog = dict(pin.settings).get("max_tokens"), study.protocol.catalog
    counts = {stratum: sum(each) for stratum, each in owed.items()}
    tasks = [task for task in study.protocol.tasks if counts.get(task.stratum)]
    likely = _sum((counts[task.stratum], _likely(task, catalog)) for task in tasks)
    most = _sum(
        (counts[task.stratum], _most(task, int(longest) if longest else 0, catalog))
        for task in tasks
    )
    reading = Interval(0.0, likely[0], most[0])
    writing = Interval(0.0, likely[1], most[1] if longest else None)
    cost = None
    if price is not None:
        high = _cost(price, most) if longest else None
        cost = Interval(0.0, _cost(price, likely), high)
    episodes = sum(counts.values())
    cached = Interval(0.0, None, most[0])
    return Forecast(pin.name, episodes, BOUNDS, 0, "", (), price, reading, cached, writing, cost)


_Tokens = tuple[int, int]  # read, and written


def _likely(task: Task, catalog: Catalog) -> _Tokens:
    instance = _example(task, catalog)
    key = json.dumps(catalog.family(task.family, task.version).key(instance.truth))
    texts = list(call_texts(Submission(instance.brief.prompt, key), questions_of(instance.rubric)))
    return sum(map(estimate_text, texts)), REPLY * len(questions_of(instance.rubric))


def _most(task: Task, longest: int, catalog: Catalog) -> _Tokens:
    instance = _example(task, catalog)
    questions = questions_of(instance.rubric)
    texts = call_texts(Submission(instance.brief.prompt, ""), questions)
    calls = len(list(chunks_of(questions)))
    read = sum(len(text.encode()) for text in texts) + calls * _BYTES * MAX_CHARS
    return TRIES * read, TRIES * calls * longest


def _example(task: Task, catalog: Catalog) -> TaskInstance:
    return catalog.family(task.family, task.version).generate(task.difficulty, EXAMPLE_SEED)


def _sum(parts: Iterable[tuple[int, _Tokens]]) -> _Tokens:
    counted = list(parts)
    return sum(n * read for n, (read, _) in counted), sum(n * wrote for n, (_, wrote) in counted)


def _cost(price: Price, tokens: _Tokens) -> float:
    return float(price.cost(Usage(*tokens)) or Decimal())
