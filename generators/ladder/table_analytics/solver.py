"""Answer the questions of questions.txt on orders.csv and chain.sqlite; write answer.json.

A program of its own: reads the input files alone, with the standard library. The orders become a
table beside the others, and each question a query.
"""

from __future__ import annotations

import csv
import json
import re
import sqlite3
from contextlib import closing
from pathlib import Path

VIEWS = """
CREATE TABLE orders (day INTEGER, shop_id INTEGER, product_id INTEGER, units INTEGER);
CREATE VIEW sales AS
    SELECT day, units, units * price_cents AS cents, category, town,
           shops.name AS shop, products.name AS product
    FROM orders JOIN shops ON shops.id = shop_id JOIN products ON products.id = product_id;
CREATE VIEW daily AS
    WITH RECURSIVE days(day) AS (
        SELECT 1 UNION ALL SELECT day + 1 FROM days WHERE day < (SELECT max(day) FROM orders)
    )
    SELECT days.day, name AS shop, total(units) AS units, total(cents) AS cents
    FROM days JOIN shops LEFT JOIN sales ON sales.day = days.day AND sales.shop = name
    GROUP BY days.day, name;
"""
PLACES = {"second": 1, "third": 2, "fourth": 3}  # after the first

QUERIES = (
    (
        r"How many units did (?P<shop>\S+) sell of all products but (?P<product>\S+)\?",
        "SELECT coalesce(sum(units), 0) FROM sales WHERE shop = :shop AND product <> :product",
    ),
    (
        r"How many units of (?P<product>\S+) were sold on days (?P<first>\d+) to (?P<last>\d+)\?",
        "SELECT sum(units) FROM sales WHERE product = :product AND day BETWEEN :first AND :last",
    ),
    (
        r"What was the turnover of (?P<shop>\S+) from day (?P<first>\d+) on, in cents\?",
        "SELECT sum(cents) FROM sales WHERE shop = :shop AND day >= :first",
    ),
    (
        r"Which product did (?P<shop>\S+) sell the most units of from day (?P<first>\d+) on\?",
        "SELECT product FROM sales WHERE shop = :shop AND day >= :first "
        "GROUP BY product ORDER BY sum(units) DESC",
    ),
    (
        r"What was the turnover of (?P<category>\S+) in (?P<town>\S+), in cents\?",
        "SELECT sum(cents) FROM sales WHERE category = :category AND town = :town",
    ),
    (
        r"Which shop had the smallest turnover of all (?P<category>\S+) but (?P<product>\S+) from "
        r"day (?P<first>\d+) on\?",
        "SELECT shop FROM sales WHERE category = :category AND product <> :product "
        "AND day >= :first GROUP BY shop ORDER BY sum(cents)",
    ),
    (
        r"What was the (?P<place>\w+) largest turnover that a shop had with (?P<product>\S+), "
        r"in cents\?",
        "SELECT sum(cents) FROM sales WHERE product = :product GROUP BY shop "
        "ORDER BY 1 DESC LIMIT 1 OFFSET :place",
    ),
    (
        r"What is the largest number of units that (?P<shop>\S+) sold in (?P<width>\d+) days in a "
        r"row\?",
        "SELECT CAST(max(total) AS INTEGER) FROM (SELECT sum(units) OVER "
        "(ORDER BY day RANGE BETWEEN :width - 1 PRECEDING AND CURRENT ROW) AS total "
        "FROM daily WHERE shop = :shop)",
    ),
    (
        r"What is the largest rise of the turnover of (?P<shop>\S+) over the day before, "
        r"in cents\?",
        "SELECT CAST(max(cents - before) AS INTEGER) FROM "
        "(SELECT cents, lag(cents) OVER (ORDER BY day) AS before FROM daily WHERE shop = :shop)",
    ),
    (
        r"Which product has the (?P<place>\w+) largest turnover in (?P<shop>\S+)\?",
        "SELECT product FROM sales WHERE shop = :shop GROUP BY product "
        "ORDER BY sum(cents) DESC LIMIT 1 OFFSET :place",
    ),
)


def connect(database: bytes, orders: list[tuple[int, ...]]) -> sqlite3.Connection:
    """The database in memory, with the orders beside its tables."""
    connection = sqlite3.connect(":memory:")
    connection.deserialize(database)
    connection.executescript(VIEWS)
    connection.executemany("INSERT INTO orders VALUES (?, ?, ?, ?)", orders)
    return connection


def read_orders(text: str) -> list[tuple[int, ...]]:
    """The lines of orders.csv below its header."""
    _, *lines = csv.reader(text.splitlines())
    return [tuple(map(int, line)) for line in lines]


def answer(question: str, connection: sqlite3.Connection) -> str | int | None:
    """The answer to a question; None if there is none. Raises LookupError for a question of no
    known kind."""
    for pattern, query in QUERIES:
        if match := re.fullmatch(pattern, question):
            parts: dict[str, str | int] = {
                name: int(part) if part.isdigit() else PLACES.get(part, part)
                for name, part in match.groupdict().items()
            }
            row = connection.execute(query, parts).fetchone()
            return row[0] if row else None
    raise LookupError(question)


def solve(folder: Path) -> dict[str, object]:
    """The answer block for the files in the folder."""
    orders = read_orders((folder / "orders.csv").read_text(encoding="ascii"))
    asked = (folder / "questions.txt").read_text(encoding="ascii").splitlines()
    with closing(connect((folder / "chain.sqlite").read_bytes(), orders)) as connection:
        answers = [
            {"id": id, "answer": answer(question, connection)}
            for id, question in (line.split(": ") for line in asked)
        ]
    return {"task": "table_analytics", "answers": answers}


if __name__ == "__main__":
    Path("answer.json").write_text(json.dumps(solve(Path())), encoding="utf-8")
