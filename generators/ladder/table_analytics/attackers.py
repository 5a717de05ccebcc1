"""Shortcuts that must not pay, and solvers that pass over orders."""

from __future__ import annotations

from contextlib import closing
from functools import partial

from generators.attackers import Access, AnswerBlock, Attacker, Files, NoisySolver
from generators.ladder.answers import answer_block, question_ids
from generators.ladder.table_analytics.parameters import (
    DATABASE,
    MOST_UNITS,
    NAME,
    ORDERS,
    QUESTIONS,
)
from generators.ladder.table_analytics.solver import answer, connect, read_orders
from generators.stream import Stream

# Probability that an order is passed over, by solver.
_PASSED_OVER = (0.02, 0.05, 0.1, 0.19)
_LINE, _SHOPS, _ASKED = 9, 8, 50  # bytes of an order; shops and questions as a guess has them
_BY_NAME = """
UPDATE shops SET name = by_name.name FROM
    (SELECT name, row_number() OVER (ORDER BY name) AS id FROM shops) AS by_name
    WHERE by_name.id = shops.id;
UPDATE products SET name = by_name.name FROM
    (SELECT name, row_number() OVER (ORDER BY name) AS id FROM products) AS by_name
    WHERE by_name.id = products.id;
"""
Orders = list[tuple[int, ...]]


def guess_mean(files: Files) -> AnswerBlock:
    """The mean units of a shop, from the size of the orders, to every question."""
    units = len(files[ORDERS]) // _LINE * (1 + MOST_UNITS) // 2 // _SHOPS
    return answer_block(NAME, ((id, units) for id in question_ids(_ASKED)))


def skip_half(files: Files) -> AnswerBlock:
    """Answers on the first half of the orders."""
    orders = read_orders(files[ORDERS].decode())
    return _answers(files, orders[: len(orders) // 2])


def skip_join(files: Files) -> AnswerBlock:
    """Answers with shops and products numbered by the alphabet, not by the database."""
    return _answers(files, read_orders(files[ORDERS].decode()), in_order=True)


def pass_over(probability: float, files: Files, draws: Stream) -> AnswerBlock:
    """Answers without some of the orders, each passed over with the probability."""
    orders = read_orders(files[ORDERS].decode())
    return _answers(files, [order for order in orders if not draws.chance(probability)])


def _answers(files: Files, orders: Orders, in_order: bool = False) -> AnswerBlock:
    lines = (line.split(": ") for line in files[QUESTIONS].decode().splitlines())
    with closing(connect(files[DATABASE], orders)) as connection:
        if in_order:
            connection.executescript(_BY_NAME)
        answers = [(id, answer(question, connection)) for id, question in lines]
    return answer_block(NAME, ((id, value) for id, value in answers if value is not None))


ATTACKERS = (
    Attacker("mean of a shop", Access.METADATA, guess_mean),
    Attacker("half of the orders", Access.STEP_SKIPPED, skip_half),
    Attacker("no join", Access.STEP_SKIPPED, skip_join),
)
NOISY = tuple(
    NoisySolver(f"passes over {probability:.1%} of the orders", partial(pass_over, probability))
    for probability in _PASSED_OVER
)
