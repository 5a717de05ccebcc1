"""Parameters of each difficulty."""

from __future__ import annotations

from dataclasses import dataclass

from generators.family import FamilyParameters
from generators.task import Limits

NAME = "table_analytics"

ORDERS, DATABASE, QUESTIONS = "orders.csv", "chain.sqlite", "questions.txt"
MOST_UNITS = 40  # of an order
PRICES = (120, 4999)  # cents

# Kinds of questions: filters and a join; groups; windows.
UNITS, PERIOD, TURNOVER, BEST = "units", "period", "turnover", "best"
CATEGORY, LEAST, SECOND = "category", "least", "second"
STREAK, RISE, RANKED = "streak", "rise", "ranked"


@dataclass(frozen=True, slots=True)
class Parameters(FamilyParameters):
    """Numbers of orders, days, towns, shops, categories, products and questions; kinds of
    questions, which come in turn."""

    orders: int
    days: int
    towns: int
    shops: int
    categories: int
    products: int
    questions: int
    kinds: tuple[str, ...]

    def described(self) -> dict[str, int | float | str]:
        """The parameters as people read them."""
        return {
            "orders": self.orders,
            "days": self.days,
            "towns": self.towns,
            "shops": self.shops,
            "categories": self.categories,
            "products": self.products,
            "questions": self.questions,
            "kinds": ", ".join(self.kinds),
        }


BY_DIFFICULTY = {
    "easy": Parameters(
        orders=60,
        days=14,
        towns=2,
        shops=5,
        categories=3,
        products=8,
        questions=16,
        kinds=(UNITS, PERIOD, TURNOVER, BEST),
        limits=Limits(turns=15),
    ),
    "medium": Parameters(
        orders=160,
        days=28,
        towns=3,
        shops=9,
        categories=4,
        products=16,
        questions=24,
        kinds=(UNITS, PERIOD, TURNOVER, BEST, CATEGORY, LEAST),
        limits=Limits(turns=20),
    ),
    "hard": Parameters(
        orders=480,
        days=60,
        towns=3,
        shops=15,
        categories=6,
        products=18,
        questions=40,
        kinds=(PERIOD, TURNOVER, CATEGORY, LEAST, SECOND, STREAK, RISE, RANKED),
        limits=Limits(turns=25, working_seconds=1800.0),
    ),
}
