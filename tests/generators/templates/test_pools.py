"""The word lists, which every instance's bytes depend on."""

from __future__ import annotations

import hashlib
import json
import re

import pytest

from generators.templates.language.data_types import LISTS, POOLS
from generators.templates.prepare import VERSION

_VALUE_LISTS = """
    FIRST_NAMES LAST_NAMES MAIL_DOMAINS CITIES COMPANIES PRODUCTS STATUSES DEPARTMENTS REGIONS
    COURSES SEASONS CATEGORIES LATIN
"""
VALUE_LISTS = _VALUE_LISTS.split()


def test_there_are_as_many_words_as_the_paper_counts():
    assert len(POOLS["default"]) >= 154
    assert all(len(POOLS[name]) >= 24 for name in ("colors", "nature", "metals", "gems"))
    assert all(len(POOLS[name]) >= 60 for name in ("person", "place", "business", "technology"))


@pytest.mark.parametrize("name", POOLS)
def test_entity_words_are_unique_and_safe_in_file_names(name: str):
    words = POOLS[name]
    assert len(set(words)) == len(words)
    assert all(re.fullmatch("[a-z]{2,14}", word) for word in words)
    assert not {"con", "nul", "prn", "aux"} & set(words)  # names of devices on Windows


@pytest.mark.parametrize("name", VALUE_LISTS)
def test_values_need_no_quotes_anywhere(name: str):
    values = LISTS[name.lower()]
    assert len(set(values)) == len(values)
    # No comma, quote, colon, brace, dollar, backslash or angle bracket; never read as a number.
    assert all(re.fullmatch(r"[A-Za-z][A-Za-z0-9 .&]*[A-Za-z0-9]", value) for value in values)


def test_filters_that_templates_use_find_something():
    assert "Engineering" in LISTS["departments"]
    assert {"active", "inactive", "pending", "completed"} <= set(LISTS["statuses"])


def test_no_list_changes():
    """A changed list changes every instance: it is a new version of how samples are drawn."""
    assert VERSION == "2"
    lists = [list(POOLS[name]) for name in sorted(POOLS)]
    lists += [list(LISTS[name.lower()]) for name in VALUE_LISTS]
    digest = hashlib.sha256(json.dumps(lists).encode()).hexdigest()
    assert digest == "b81e6c3be74a31eaaf5fa986b0b70e83aa884ac5553b5a8fdd139a3dd530aefd"
