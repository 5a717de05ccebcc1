"""YAML by the core schema of 1.2: what a plain scalar is; what is written is read again."""

from __future__ import annotations

from typing import Any

import pytest
import yaml

from generators.yaml_lines import YamlLimits, dump_yaml, parse_yaml

LIMITS = YamlLimits("a file", 10_000)
TEXTS = (
    "12:30 190:20:30 1:2:3.5 1_000 0b11 0o8 08:15 yes NO on Off y = << 2024-01-01 -- . +. 1e 1.2.3"
)
VALUES: dict[str, Any] = {
    **{text: text for text in TEXTS.split()},
    **dict.fromkeys(["", "~", "null", "Null", "NULL"]),
    **dict.fromkeys(["true", "True", "TRUE"], True),
    **dict.fromkeys(["false", "False", "FALSE"], False),
    **{"0": 0, "-12": -12, "+1": 1, "010": 10, "0o17": 15, "0x1F": 31},
    **{"3.20": 3.2, "1e3": 1000.0, ".5": 0.5, "1.": 1.0, "-1E-2": -0.01, "-.inf": float("-inf")},
    **{"!!str 010": "010", "! 1": "1", "!!float 7": 7.0, "'yes'": "yes"},
}


@pytest.mark.parametrize(("written", "value"), VALUES.items())
def test_a_scalar_is_what_the_core_schema_says(written: str, value: Any) -> None:
    document = parse_yaml(f"a: {written}".encode(), "f.yaml", LIMITS)
    assert document.faults == ()
    assert document.value["a"] == value
    assert isinstance(document.value["a"], type(value))


def test_what_is_written_is_read_again_as_it_was_by_1_2_and_1_1() -> None:
    content = [*VALUES, *VALUES.values(), *parse_yaml(b"[010, 3.20]", "f.yaml", LIMITS).value]
    written = dump_yaml(content)
    assert parse_yaml(written.encode(), "f.yaml", LIMITS).value == content
    assert yaml.safe_load(written) == content
