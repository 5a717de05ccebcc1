"""A key that was pasted into study.yaml is refused by one line, and never printed."""

from __future__ import annotations

import re
from itertools import cycle
from pathlib import Path

import pytest

from harness.errors import HarnessError
from harness.spending.prices import read_prices
from study.errors import LIKE_KEY, StudyError, error_line, without_keys
from study.protocol.protocol import examine_protocol
from tests.cases import cases

STUDY = cases(__file__, "study")
PREFIXED = [
    *("sk-proj-abcDEF12_ghi-JKL78", "hf_AbCdEfGhIjKlMnOpQr", "AIzaSyA1234567890abcdefg"),
    *("xai-AbCdEf1234567890", "gsk_AbCdEf1234567890", "AKIAIOSFODNN7EXAMPLE"),
]
RANDOM = [
    *("wJalrXUtnFEMI/K7MDENG/bPxRfiCYEXAMPLEKEY", "D41D8CD98F00B204E9800998ECF8427E"),
    *("3f2504e0-4f89-11d3-9a0c-0305e82c3301", "qTrWpLmNzXvBcKjHgFdSaYuIoPqTrWpL"),
]
PLACES = cases(__file__, "places")


@pytest.mark.parametrize(
    ("place", "key"), list(zip([*PLACES] * 2, cycle([*PREFIXED, *RANDOM]), strict=False))
)
def test_a_pasted_key_is_refused_and_not_printed(tmp_path: Path, place: str, key: str) -> None:
    old, new = PLACES[place]
    (tmp_path / "study.yaml").write_text(STUDY.replace(old, new.format(key)))
    try:
        errors = [str(error) for error in examine_protocol(tmp_path)[1]]
    except StudyError as error:
        errors = [str(error)]
    assert errors or key in RANDOM
    assert not [line for line in errors if key[:12].lower() in line.lower() or "\n" in line]


@pytest.mark.parametrize("key", [*PREFIXED, *RANDOM, "0123456789abcdef" * 2])
@pytest.mark.parametrize(
    "pasted", ["1{}", "{}", "1, {}: 1", "1, {0}: 1, {0}: 1", "!!int {}", "*{}", "1, date: {}"]
)
def test_a_key_that_was_pasted_into_a_price_file_is_not_printed(
    tmp_path: Path, pasted: str, key: str
) -> None:
    price = f"output: 1, provider: p, model: m, source: s, input: {pasted.format(key)}"
    (tmp_path / "prices.yaml").write_text(f"prices:\n  - {{{price}}}\n")
    with pytest.raises(HarnessError) as caught:
        read_prices(tmp_path / "prices.yaml")
    line = error_line(str(caught.value))
    assert line.startswith(f"{tmp_path}/prices.yaml:2: ")
    assert key[:12] not in line


@pytest.mark.parametrize("key", PREFIXED)
def test_a_key_that_was_typed_as_a_path_or_an_option_is_not_printed(key: str) -> None:
    for typed in (f"/home/me/{key}: no such file", f"No such option '--{key}'"):
        assert key not in error_line(typed)


def test_ordinary_words_are_printed() -> None:
    text = "meta-llama/Llama-3.1-405B-Instruct-Turbo, claude-haiku-4-5-20251001, sk-learn, USD 1.25"
    text += ", hf-internal-testing/tiny, sk-nlp-7b-instruct, fw-mixtral-8x7b, a bearer of messages"
    assert (without_keys(text), LIKE_KEY.search(text)) == (text, None)


@pytest.mark.parametrize(
    "end", ["chat/completions", "completions/", "responses", "v1/messages", ":generateContent"]
)
def test_an_address_of_one_kind_of_request_is_refused(tmp_path: Path, end: str) -> None:
    (tmp_path / "study.yaml").write_text(STUDY.replace("/v1", f"/v1/m/{end}"))
    (error,) = examine_protocol(tmp_path)[1]
    assert re.search(
        rf"study.yaml:5: models.m.base_url: the address ends before .*{end}", str(error)
    )
