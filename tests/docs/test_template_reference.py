"""The template reference: its tables and results are what the code makes, its examples hold."""

from __future__ import annotations

import re

import pytest

from generators.templates.language.keys import (
    COMPONENT_KEYS,
    CONTENT_KEYS,
    FILE_KEYS,
    NEEDS,
    TEST_KEYS,
)
from scripts import template_page as script

TEXT = script.PAGE.read_text()


def test_the_page_is_what_the_code_makes() -> None:
    assert script.render_page(TEXT) == TEXT, "run `make reference`"


def test_another_key_or_an_example_without_its_result_is_noticed() -> None:
    stale = re.sub(r"^key: .*$", "key: 999999", TEXT, count=1, flags=re.M)
    assert script.render_page(stale) == TEXT
    with pytest.raises(LookupError):
        script.render_page(TEXT.replace("<!-- made: result -->", "", 1))


def test_an_example_with_a_fault_stops_the_script() -> None:
    with pytest.raises(ValueError, match="stringmach"):
        script.render_page(TEXT.replace("stringmatch\n", "stringmach\n", 1))


def test_every_example_is_checked_with_the_page() -> None:
    """And so has neither errors nor warnings."""
    examples = re.findall(r"^```yaml\n(.*?)^```$", TEXT, re.M | re.S)
    assert [match[1] for match in script.EXAMPLE.finditer(TEXT)] == examples


def test_every_key_and_scoring_type_is_on_the_page() -> None:
    keys = {*FILE_KEYS, *TEST_KEYS, *NEEDS, *COMPONENT_KEYS}.union(*CONTENT_KEYS.values())
    assert {key for key in keys if f"`{key}`" not in TEXT} == set()
