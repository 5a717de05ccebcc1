#!/usr/bin/env python3
"""Write the tables and results of docs/template-reference.md from the code that reads templates.

Sentences and examples are written by hand. What stands between ``<!-- made: NAME -->`` and
``<!-- end -->`` is made here: tables, and after each example its first question and key. With
``--check`` nothing is written, and a stale page gives exit code 1.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Callable, Iterator, Mapping
from functools import cache
from pathlib import Path

from generators.seed import Seed
from generators.templates.check import check_text
from generators.templates.language.data_types import _BY_WHOLE, DATA_TYPES, POOLS
from generators.templates.language.keys import CONTENT_KEYS
from generators.templates.language.parse import parse_template
from generators.templates.language.variables import NUMBER_KINDS
from generators.templates.prepare import compile_question, prepare

ROOT = Path(__file__).resolve().parent.parent
PAGE = ROOT / "docs/template-reference.md"
SEED = Seed(bytes(31) + b"\1")
MOST_LISTED = 8  # values of a data type that are listed in full
_MADE = re.compile(r"(<!-- made: ([a-z ]+) -->\n).*?(<!-- end -->)", re.S)
EXAMPLE = re.compile(r"^```yaml\n(tests:\n.*?|values:\n.*?)^```$", re.M | re.S)


def _table(head: str, rows: Iterator[str]) -> str:
    rule = "|".join("---" for _ in head.strip("| ").split(" | "))
    return "\n".join([head, f"|{rule}|", *rows]) + "\n"


def _component_rows() -> Iterator[str]:
    for name, keys in CONTENT_KEYS.items():
        yield f"| `{name}` | {', '.join(f'`{key}`' for key in keys)} |"


def _pool_rows() -> Iterator[str]:
    for name, words in POOLS.items():
        yield f"| `{name}` | {len(words)} | {', '.join(words[:4])}, … |"


def _kind_rows() -> Iterator[str]:
    for name, (step, places) in NUMBER_KINDS.items():
        yield f"| `{name}` | {step} | {places} |"


def _type_rows() -> Iterator[str]:
    """Each data type with all its values, or their count and three that the seed draws."""
    for name, kind in DATA_TYPES.items():
        if kind.texts is not None and kind.size <= MOST_LISTED:
            values = ", ".join(map(str, kind.texts()))
        else:
            drawn = kind.as_text.draw(SEED.child("page", name).rng(), 3)
            values = f"{', '.join(drawn)}, …"
        count = f"{kind.size:,}" if kind.size else "many"
        yield f"| `{name}` | {kind.sql} | {count} | {values} |"


def _header_rows() -> Iterator[str]:
    for name in dict.fromkeys(_BY_WHOLE.values()):
        headers = [header for header, kind in _BY_WHOLE.items() if kind == name]
        yield f"| {', '.join(f'`{header}`' for header in headers)} | `{name}` |"


TABLES: Mapping[str, Callable[[], str]] = {
    "components": lambda: _table("| type | keys of `content` |", _component_rows()),
    "pools": lambda: _table("| pool | words | for instance |", _pool_rows()),
    "numbers": lambda: _table("| kind | multiples of | decimals |", _kind_rows()),
    "data types": lambda: _table("| type | in SQL | values | for instance |", _type_rows()),
    "headers": lambda: _table("| header | type |", _header_rows()),
}


@cache
def example_result(text: str) -> str:
    """The first question of an example, and its key. Raises ValueError for errors or warnings."""
    report = check_text(text, "mine.yml")
    if found := (*report.errors, *report.warnings):
        raise ValueError("\n".join(problem.text("mine.yml") for problem in found))
    file = parse_template(text, "mine.yml")
    sample = prepare(compile_question(file, file.questions[0]), SEED)
    key = sample.key.expected or "\n     ".join(sample.key.paths)
    return f"```text\nquestion: {sample.prompt.strip()}\nkey: {key}\n```\n"


def render_page(page: str) -> str:
    """The page with everything made anew. Raises LookupError for an example without a result."""
    examples = [(match.end(), match[1]) for match in EXAMPLE.finditer(page)]
    results = sum(match[2] == "result" for match in _MADE.finditer(page))
    if results != len(examples):
        raise LookupError(f"{len(examples)} examples, {results} results")

    def made(match: re.Match[str]) -> str:
        if match[2] != "result":
            return f"{match[1]}\n{TABLES[match[2]]()}\n{match[3]}"
        text = next(text for end, text in reversed(examples) if end < match.start())
        return f"{match[1]}\n{example_result(text)}\n{match[3]}"

    return _MADE.sub(made, page)


def main() -> int:
    written = PAGE.read_text()
    page = render_page(written)
    if "--check" not in sys.argv[1:]:
        PAGE.write_text(page)
    elif written != page:
        print(f"{PAGE.relative_to(ROOT)} is stale: run `make reference`", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
