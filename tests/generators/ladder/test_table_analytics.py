"""table_analytics: the database, answers by another way, and no question without one answer."""

from __future__ import annotations

import sqlite3
from contextlib import closing

import pytest

from generators.ladder.table_analytics import FAMILY
from generators.ladder.table_analytics.parameters import BY_DIFFICULTY
from generators.ladder.table_analytics.questions import draw_questions
from generators.ladder.table_analytics.sample import (
    Order,
    Product,
    Sample,
    Shop,
    draw_sample,
    write_chain,
    write_orders,
)
from generators.ladder.table_analytics.solver import answer, connect, read_orders
from generators.seed import SeedStreams
from generators.task import DIFFICULTIES
from generators.validation.validate import public_seeds
from harness.agent.single_turn import single_turn
from tests.cases import cases


def drawn(difficulty: str, count: int = 10):
    for seed in public_seeds(count):
        streams = SeedStreams(seed, "table_analytics", "test", difficulty)
        parameters = BY_DIFFICULTY[difficulty]
        sample = draw_sample(parameters, streams)
        yield parameters, sample, draw_questions(parameters, sample, streams)[0]


def small_chain() -> Sample:
    """Two shops and five products, with sums that can be done by head."""
    corner, depot = Shop("Corner-1", "Ashby"), Shop("Depot-2", "Calder")
    jam, soap, mug, lamp, tea = (
        Product(name, category, cents) for name, category, cents in cases(__file__, "products")
    )
    orders = (
        Order(1, corner, jam, 3),
        Order(1, corner, soap, 4),
        Order(2, corner, mug, 5),
        Order(4, corner, lamp, 1),
        Order(4, depot, jam, 7),
        Order(5, depot, soap, 2),
        Order(6, corner, tea, 9),
    )
    return Sample((corner, depot), (jam, soap, mug, lamp, tea), orders, 0)


@pytest.mark.parametrize(("question", "expected"), cases(__file__, "by_head"))
def test_queries_on_sums_done_by_head(question, expected):
    sample = small_chain()
    orders = read_orders(write_orders(sample).decode())
    with closing(connect(write_chain(sample), orders)) as connection:
        assert answer(question, connection) == expected


@pytest.mark.parametrize("difficulty", DIFFICULTIES)
def test_the_queries_answer_every_question_as_the_generator_does(difficulty):
    kinds = set()
    for _, sample, questions in drawn(difficulty):
        orders = read_orders(write_orders(sample).decode())
        with closing(connect(write_chain(sample), orders)) as connection:
            assert [answer(each.text, connection) for each in questions] == [
                each.answer for each in questions
            ]
        kinds |= {each.kind for each in questions}
    assert kinds == set(BY_DIFFICULTY[difficulty].kinds)


def test_the_database_is_whole_and_holds_the_chain():
    _, sample, _ = next(drawn("hard", 1))
    with closing(sqlite3.connect(":memory:")) as connection:
        connection.deserialize(write_chain(sample))
        assert connection.execute("PRAGMA integrity_check").fetchall() == [("ok",)]
        shops = connection.execute("SELECT * FROM shops").fetchall()
        products = connection.execute("SELECT * FROM products").fetchall()
    assert shops == [(at, each.name, each.town) for at, each in enumerate(sample.shops, 1)]
    assert products == [
        (at, each.name, each.category, each.cents) for at, each in enumerate(sample.products, 1)
    ]


def test_a_message_shows_the_database_as_statements_that_make_it_again():
    instance = FAMILY.generate("medium", public_seeds(1)[0])
    database = next(a for a in instance.brief.assets if a.path == "chain.sqlite")
    text = single_turn(instance.brief).messages[-1].text
    statements = text.split('<file name="chain.sqlite">\n')[1].split("</file>")[0]
    with closing(sqlite3.connect(":memory:")) as made, closing(sqlite3.connect(":memory:")) as own:
        made.executescript(statements)
        own.deserialize(database.data)
        for table in ("shops", "products"):
            query = f"SELECT * FROM {table}"
            assert made.execute(query).fetchall() == own.execute(query).fetchall() != []
