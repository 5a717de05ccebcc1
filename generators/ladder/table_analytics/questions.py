"""Questions about the orders, and their answers."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import pairwise

from generators.ladder.answers import question_ids
from generators.ladder.table_analytics.parameters import (
    BEST,
    CATEGORY,
    LEAST,
    PERIOD,
    RANKED,
    RISE,
    SECOND,
    STREAK,
    TURNOVER,
    UNITS,
    Parameters,
)
from generators.ladder.table_analytics.sample import Order, Sample
from generators.seed import Streams, redraw
from generators.stream import Stream

WIDTHS = (3, 7)  # days in a row: least and most
_ORDINALS = ("second", "third", "fourth")
Answer = str | int | None  # None if two are tied, or there is nothing to compare


@dataclass(frozen=True, slots=True)
class Question:
    """A question with its answer."""

    kind: str
    text: str
    answer: str | int


@dataclass(frozen=True, slots=True)
class _Draw:
    """What a kind of question draws from."""

    parameters: Parameters
    sample: Sample
    stream: Stream

    def orders(self, keep: Callable[[Order], bool]) -> list[Order]:
        return [order for order in self.sample.orders if keep(order)]


def draw_questions(
    parameters: Parameters, sample: Sample, streams: Streams
) -> tuple[tuple[Question, ...], int]:
    """Kinds come in turn, in random order; no question stands twice. Also returns the number of
    draws that were refused. Raises GuardExhausted."""
    turns = streams.at("turns").shuffle(range(parameters.questions))
    asked: dict[str, Question] = {}
    redraws = 0

    def draw(index: int, kind: str, attempt: int) -> Question | None:
        stream = streams.at("question", index, attempt)
        text, answer = _KINDS[kind](_Draw(parameters, sample, stream))
        return None if answer is None or text in asked else Question(kind, text, answer)

    for index, turn in enumerate(turns):
        kind = parameters.kinds[turn % len(parameters.kinds)]
        question, attempt = redraw(partial(draw, index, kind), "question")
        asked[question.text] = question
        redraws += attempt
    return tuple(asked.values()), redraws


def write_questions(questions: Sequence[Question]) -> bytes:
    """A line for each question."""
    asked = zip(question_ids(len(questions)), questions, strict=True)
    return "".join(f"{id}: {question.text}\n" for id, question in asked).encode()


# --- the kinds


def _units(draw: _Draw) -> tuple[str, Answer]:
    shop, product = draw.stream.choice(draw.sample.shops), draw.stream.choice(draw.sample.products)
    return (
        f"How many units did {shop.name} sell of all products but {product.name}?",
        _total_units(draw.orders(lambda o: o.shop == shop and o.product != product)),
    )


def _period(draw: _Draw) -> tuple[str, Answer]:
    days = draw.parameters.days
    product = draw.stream.choice(draw.sample.products)
    first = draw.stream.integer(1, days // 3)
    last = draw.stream.integer(2 * days // 3, days)
    orders = draw.orders(lambda o: o.product == product and first <= o.day <= last)
    text = f"How many units of {product.name} were sold on days {first} to {last}?"
    return text, _total_units(orders) or None


def _turnover(draw: _Draw) -> tuple[str, Answer]:
    shop = draw.stream.choice(draw.sample.shops)
    day = draw.stream.integer(1, draw.parameters.days // 3)
    orders = draw.orders(lambda o: o.shop == shop and o.day >= day)
    text = f"What was the turnover of {shop.name} from day {day} on, in cents?"
    return text, _total_turnover(orders) or None


def _best(draw: _Draw) -> tuple[str, Answer]:
    shop = draw.stream.choice(draw.sample.shops)
    day = draw.stream.integer(1, draw.parameters.days // 3)
    orders = draw.orders(lambda o: o.shop == shop and o.day >= day)
    text = f"Which product did {shop.name} sell the most units of from day {day} on?"
    return text, _place(_sums((o.product.name, o.units) for o in orders), 1)


def _category(draw: _Draw) -> tuple[str, Answer]:
    shop, product = draw.stream.choice(draw.sample.shops), draw.stream.choice(draw.sample.products)
    orders = draw.orders(
        lambda o: o.shop.town == shop.town and o.product.category == product.category
    )
    text = f"What was the turnover of {product.category} in {shop.town}, in cents?"
    return text, _total_turnover(orders) or None


def _least(draw: _Draw) -> tuple[str, Answer]:
    product = draw.stream.choice(draw.sample.products)
    day = draw.stream.integer(1, draw.parameters.days // 3)
    category = draw.orders(lambda o: o.product.category == product.category and o.day >= day)
    turnover = _sums((o.shop.name, -o.turnover) for o in category if o.product != product)
    text = (
        f"Which shop had the smallest turnover of all {product.category} but {product.name} from "
        f"day {day} on?"
    )
    return text, _place(turnover, 1)


def _second(draw: _Draw) -> tuple[str, Answer]:
    product = draw.stream.choice(draw.sample.products)
    place = draw.stream.integer(2, 1 + len(_ORDINALS))
    orders = draw.orders(lambda o: o.product == product)
    totals = sorted(_sums((o.shop.name, o.turnover) for o in orders).values(), reverse=True)
    ordinal = _ORDINALS[place - 2]
    text = f"What was the {ordinal} largest turnover that a shop had with {product.name}, in cents?"
    return text, totals[place - 1] if len(totals) >= place else None


def _streak(draw: _Draw) -> tuple[str, Answer]:
    shop, width = draw.stream.choice(draw.sample.shops), draw.stream.integer(*WIDTHS)
    daily = _daily(draw, ((o.day, o.units) for o in draw.orders(lambda o: o.shop == shop)))
    sums = (sum(daily[at : at + width]) for at in range(len(daily) - width + 1))
    text = f"What is the largest number of units that {shop.name} sold in {width} days in a row?"
    return text, max(sums)


def _rise(draw: _Draw) -> tuple[str, Answer]:
    shop = draw.stream.choice(draw.sample.shops)
    daily = _daily(draw, ((o.day, o.turnover) for o in draw.orders(lambda o: o.shop == shop)))
    text = f"What is the largest rise of the turnover of {shop.name} over the day before, in cents?"
    return text, max(after - before for before, after in pairwise(daily))


def _ranked(draw: _Draw) -> tuple[str, Answer]:
    shop, place = draw.stream.choice(draw.sample.shops), draw.stream.integer(2, 1 + len(_ORDINALS))
    orders = draw.orders(lambda o: o.shop == shop)
    turnover = _sums((o.product.name, o.turnover) for o in orders)
    text = f"Which product has the {_ORDINALS[place - 2]} largest turnover in {shop.name}?"
    return text, _place(turnover, place)


_KINDS: dict[str, Callable[[_Draw], tuple[str, Answer]]] = {
    UNITS: _units,
    PERIOD: _period,
    TURNOVER: _turnover,
    BEST: _best,
    CATEGORY: _category,
    LEAST: _least,
    SECOND: _second,
    STREAK: _streak,
    RISE: _rise,
    RANKED: _ranked,
}


def _total_units(orders: Iterable[Order]) -> int:
    return sum(order.units for order in orders)


def _total_turnover(orders: Iterable[Order]) -> int:
    return sum(order.turnover for order in orders)


def _sums(values: Iterable[tuple[str, int]]) -> dict[str, int]:
    """The sum of the values of each name."""
    sums: dict[str, int] = defaultdict(int)
    for name, value in values:
        sums[name] += value
    return sums


def _place(sums: dict[str, int], place: int) -> str | None:
    """The name with the largest sum but place - 1; None if it ties with another, or if fewer than
    four have one, since a guess would often be right."""
    ordered = sorted(sums.items(), key=lambda item: -item[1])
    totals = [total for _, total in ordered]
    if len(ordered) < max(place, 4) or totals.count(totals[place - 1]) > 1:
        return None
    return ordered[place - 1][0]


def _daily(draw: _Draw, values: Iterable[tuple[int, int]]) -> list[int]:
    """The sum of each day."""
    daily = [0] * draw.parameters.days
    for day, value in values:
        daily[day - 1] += value
    return daily
