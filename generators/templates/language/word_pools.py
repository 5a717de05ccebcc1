"""Word lists that entity placeholders and data types draw from, read from word_pools.yml.

Entity words are lower case ASCII letters, so that any of them may stand in a file name, in SQL or
in a path expression. No value of a data type holds a comma, a quote, a colon or a brace, so that
each may stand in CSV, in SQL and as an argument of a function without being quoted. The short
lists (statuses, departments, regions, categories) hold the values that people's templates filter
by.
"""

from __future__ import annotations

from collections.abc import Mapping
from importlib.resources import files
from types import MappingProxyType

import yaml


def _read() -> dict[str, tuple[str, ...]]:
    text = files(__package__).joinpath("word_pools.yml").read_text(encoding="utf-8")
    lists: dict[str, dict[str, str]] = yaml.safe_load(text)
    words = {name: tuple(words_text.split()) for name, words_text in lists["words"].items()}
    return words | {
        name: tuple(phrases_text.splitlines()) for name, phrases_text in lists["phrases"].items()
    }


_LISTS = _read()

# Colours, landscape, things, abstract and descriptive words are mixed in "default" on purpose: the
# names that an agent meets in the wild are seldom tidy (section 4.3.2 of the paper).
_ENTITIES = (
    *("default", "colors", "nature", "metals", "gems"),
    *("person", "place", "business", "technology"),
)
POOLS: Mapping[str, tuple[str, ...]] = MappingProxyType({name: _LISTS[name] for name in _ENTITIES})

FIRST_NAMES, LAST_NAMES = _LISTS["first_names"], _LISTS["last_names"]
MAIL_DOMAINS = _LISTS["mail_domains"]
CITIES = _LISTS["cities"]
COMPANIES = _LISTS["companies"]
PRODUCTS = _LISTS["products"]
STATUSES = _LISTS["statuses"]
DEPARTMENTS = _LISTS["departments"]
REGIONS = _LISTS["regions"]
COURSES = _LISTS["courses"]
SEASONS = _LISTS["seasons"]
CATEGORIES = _LISTS["categories"]
LATIN = _LISTS["latin"]  # for filler text
