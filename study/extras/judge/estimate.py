"""Estimates of what judges still have to grade, as intervals."""

from __future__ import annotations

import json
import math
from collections import defaultdict
from decimal import Decimal
from functools import partial
from typing import Any

from analysis.plan.presets import control_models
from harness.judge.judge import MAX_CHARS, TRIES, Submission, call_texts, chunks_of, questions_of
from harness.model import Usage, estimate_text
from harness.spending.budget import PricedModel
from harness.spending.prices import Price
from harness.spending.purchases import CallKind, read_usages
from harness.storage import JUDGE_CALLS
from registry.ledger.records import JudgePin, record_digest
from study.extras.judge.records import FIRST, archived_cells, graded_by, judge_pin
from study.protocol.protocol import Protocol
from study.steps.sweep.estimate import (
    Forecast,
    Interval,
    Owed,
    Pilot,
    Pilots,
    count_owed,
    forecast_of,
    planned_episodes,
    quantities_of,
)
from study.steps.sweep.spending import example_of, price_pins
from study.workspace.snapshot import StudySnapshot

REPLY = 60  # typical tokens of a verdict with its evidence


_BYTES = 4  # the most of a character


def estimate_grading(
    study: StudySnapshot, wave: int
) -> tuple[tuple[Forecast, ...], Forecast | None]:
    """Return the forecast of each judge's grading of a wave, and of the regrading of the first wave
    for its look, None without one. Raises StudyError."""
    judges = tuple(
        _judge_forecast(study, pin, _owed_grades(study, wave, record_digest(pin)))
        for pin in study.protocol.judges
    )
    return judges, _regrading_forecast(study, wave)


def _judge_forecast(study: StudySnapshot, pin: JudgePin, owed: Owed) -> Forecast:
    (priced,) = price_pins(study, [pin], allow_unknown=True).models
    pilots = partial(_judge_pilots, study, pin, priced.price)
    return forecast_of(priced, owed, pilots, partial(_judge_bounds, study.protocol, pin, priced))


def _regrading_forecast(study: StudySnapshot, wave: int) -> Forecast | None:
    """Return the forecast for the second grader's regrading of the first wave's answers;
    None if the plan has no regrading at this wave."""
    plan = study.protocol.registered_plan()
    tested = set(study.protocol.waves[wave]) - control_models(plan)
    if wave <= FIRST or not tested or plan.standard is None or not plan.standard.regrade:
        return None
    pin = judge_pin(study, plan.standard.second_grader)
    return _judge_forecast(study, pin, _owed_regrades(study, wave, pin, plan.standard.regrade))


def _owed_grades(study: StudySnapshot, wave: int, judge: str) -> Owed:
    """Return the episodes that a judge has not graded, by the plan before the wave is begun."""
    begun = study.waves.get(wave)
    if begun is None:
        return planned_episodes(study.protocol, wave)
    done = graded_by(study, judge)
    return count_owed(cell for cell in begun.cells if cell.episode not in done)


def _owed_regrades(study: StudySnapshot, wave: int, judge: JudgePin, share: float) -> Owed:
    """Return the same of the archive, by the plan until the first wave is closed: a share of the
    instances of each arm, spread over the tranches."""
    first = study.waves.get(FIRST)
    if first is not None and first.closed is not None:
        done = graded_by(study, record_digest(judge), wave)
        cells = archived_cells(study, share)
        return count_owed(cell for cell in cells if cell.episode not in done)
    owed = {}
    for stratum, counts in planned_episodes(study.protocol, FIRST).items():
        drawn = 2 * math.ceil(share * len(counts) / 2 - 1e-9)
        owed[stratum] = [counts[place * len(counts) // drawn] for place in range(drawn)]
    return owed


def _judge_pilots(study: StudySnapshot, pin: JudgePin, price: Price | None) -> Pilots:
    """Return the episodes that this judge has graded, with any prompt and settings."""
    if next(iter(study.store.list(JUDGE_CALLS)), None) is None:
        return ()  # and no key is needed
    usages: dict[tuple[int | None, str], list[Usage]] = defaultdict(list)
    for charge, usage in read_usages(study.store, study.keys(), CallKind.JUDGE):
        payer = charge.payer
        if (payer.provider, payer.version) == (pin.provider, pin.version):
            # An answer that is graded again is charged to another wave than its own.
            usages[charge.wave, charge.subject].append(usage)
    return [
        Pilot(cell.spec.stratum, cell.instance, values)
        for wave in study.waves.values()
        for cell in wave.cells
        if (values := quantities_of(usages.get((wave.number, cell.episode), ()), price))
    ]


def _judge_bounds(
    protocol: Protocol, pin: JudgePin, priced: PricedModel, owed: Owed
) -> dict[str, Any]:
    """Return bounds: between nothing and the most that may be requested; the mean is that of one
    request a call, about an answer as long as the key of an example."""
    longest, price = dict(pin.settings).get("max_tokens"), priced.price
    likely_read = likely_written = most_read = requests = 0
    for task in protocol.tasks:
        episodes = sum(owed.get(task.stratum, ()))
        instance = example_of(task, protocol.catalog)
        questions, prompt = questions_of(instance.rubric), instance.brief.prompt
        key = json.dumps(protocol.catalog.family(task.family, task.version).key(instance.truth))
        texts = call_texts(Submission(prompt, key), questions)
        likely_read += episodes * sum(map(estimate_text, texts))
        likely_written += episodes * REPLY * len(questions)
        calls = len(list(chunks_of(questions)))
        texts = call_texts(Submission(prompt, ""), questions)
        size = sum(len(text.encode()) for text in texts) + calls * _BYTES * MAX_CHARS
        most_read += episodes * TRIES * size
        requests += episodes * TRIES * calls
    most_written = None if longest is None else requests * int(longest)
    cost = None
    if price is not None:
        high = None if most_written is None else _cost(price, most_read, most_written)
        cost = Interval(0.0, _cost(price, likely_read, likely_written), high)
    return {
        "input_tokens": Interval(0.0, likely_read, most_read),
        "cached_tokens": Interval(0.0, None, most_read),
        "output_tokens": Interval(0.0, likely_written, most_written),
        "cost_usd": cost,
    }


def _cost(price: Price, read: int, written: int) -> float:
    return float(price.cost(Usage(read, written)) or Decimal())
