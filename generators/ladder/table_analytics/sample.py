"""Draws: shops, products and orders; how they are written."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TypeVar

from generators.ladder.table_analytics.parameters import MOST_UNITS, PRICES, Parameters
from generators.seed import Streams, redraw
from generators.stream import Stream

T = TypeVar("T")

_SHOP_WORDS = ("Arcade", "Basket", "Corner", "Depot", "Larder", "Market", "Pantry", "Stall")
_PRODUCT_WORDS = ("Biscuit", "Candle", "Jam", "Kettle", "Lamp", "Pencil", "Soap", "Teapot")
_TOWNS = ("Ashby", "Brendon", "Calder", "Dunmore", "Elston", "Farley", "Gilford")
_CATEGORIES = ("bedding", "crockery", "drinks", "garden", "lighting", "office", "snacks")
_DIGITS = 6


@dataclass(frozen=True, slots=True)
class Shop:
    """A shop; its id is its place among them, from 1."""

    name: str
    town: str


@dataclass(frozen=True, slots=True)
class Product:
    """A product; its id is its place among them, from 1."""

    name: str
    category: str
    cents: int


@dataclass(frozen=True, slots=True)
class Order:
    """Units of one product, sold in one shop on one day."""

    day: int
    shop: Shop
    product: Product
    units: int

    @property
    def turnover(self) -> int:
        """Units times price, in cents."""
        return self.units * self.product.cents


@dataclass(frozen=True, slots=True)
class Sample:
    """The chain, and its orders by day."""

    shops: tuple[Shop, ...]
    products: tuple[Product, ...]
    orders: tuple[Order, ...]
    redraws: int


def draw_sample(parameters: Parameters, streams: Streams) -> Sample:
    """Towns and categories have as many shops and products each as the others, or one more."""
    towns = streams.at("towns").shuffle(_TOWNS)[: parameters.towns]
    categories = streams.at("categories").shuffle(_CATEGORIES)[: parameters.categories]
    shop_names, shop_redraws = _names(_SHOP_WORDS, parameters.shops, "shops", streams)
    product_names, redraws = _names(_PRODUCT_WORDS, parameters.products, "products", streams)
    shops = tuple(
        Shop(name, towns[index % len(towns)])
        for index, name in enumerate(streams.at("shop order").shuffle(shop_names))
    )
    products = tuple(
        Product(
            name, categories[index % len(categories)], streams.at("price", index).integer(*PRICES)
        )
        for index, name in enumerate(streams.at("product order").shuffle(product_names))
    )
    sold_in = _in_turn(shops, parameters.orders, streams.at("sold in"))
    sold = _in_turn(products, parameters.orders, streams.at("sold"))
    orders = (
        _order(parameters, shop, product, streams.at("order", index))
        for index, (shop, product) in enumerate(zip(sold_in, sold, strict=True))
    )
    by_day = tuple(sorted(orders, key=lambda order: order.day))
    return Sample(shops, products, by_day, shop_redraws + redraws)


def _names(
    words: Sequence[str], count: int, what: str, streams: Streams
) -> tuple[tuple[str, ...], int]:
    """Names such as Larder-041287, each once, and how many draws gave one that was there."""

    def draw(attempt: int) -> tuple[str, ...] | None:
        stream = streams.at(what, 0, attempt)
        names = tuple(
            f"{stream.choice(words)}-{stream.integer(0, 10**_DIGITS - 1):0{_DIGITS}d}"
            for _ in range(count)
        )
        return names if len(set(names)) == count else None

    return redraw(draw, what)


def _in_turn(items: Sequence[T], count: int, stream: Stream) -> Iterator[T]:
    """So many of the items in random order, each as often as the others or once more, so that the
    instances of a level are equally hard."""
    return (items[turn % len(items)] for turn in stream.shuffle(range(count)))


def _order(parameters: Parameters, shop: Shop, product: Product, stream: Stream) -> Order:
    day = stream.integer(1, parameters.days)
    return Order(day, shop, product, stream.integer(1, MOST_UNITS))


def write_orders(sample: Sample) -> bytes:
    """A header, and a line for each order."""
    shops = {shop: number for number, shop in enumerate(sample.shops, 1)}
    products = {product: number for number, product in enumerate(sample.products, 1)}
    lines = (
        f"{order.day},{shops[order.shop]},{products[order.product]},{order.units}\n"
        for order in sample.orders
    )
    return "".join(("day,shop_id,product_id,units\n", *lines)).encode()


def write_chain(sample: Sample) -> bytes:
    """The database of shops and products."""
    # Imported here: listing the families should not cost the components of templates.
    from generators.templates.components.sqlite.database import write_database

    return write_database(
        (
            (
                "shops",
                "CREATE TABLE shops (id INTEGER PRIMARY KEY, name TEXT, town TEXT)",
                [(shop.name, shop.town) for shop in sample.shops],
            ),
            (
                "products",
                "CREATE TABLE products "
                "(id INTEGER PRIMARY KEY, name TEXT, category TEXT, price_cents INTEGER)",
                [(each.name, each.category, each.cents) for each in sample.products],
            ),
        )
    )
