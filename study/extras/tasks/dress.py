"""``dosimeter tasks dress``: drafts of dressings, with other names from lists of words."""

from __future__ import annotations

import json
import re
import secrets
from collections.abc import Iterator, Mapping
from pathlib import Path, PurePosixPath
from textwrap import indent
from typing import Any

from generators.catalog import Catalog
from generators.dressings.family import dressed_family, names_in
from generators.errors import unknown
from generators.seed import EXAMPLE_SEED, SEED_BYTES, Seed
from generators.stream import Stream
from generators.task import DIFFICULTIES
from generators.yaml_lines import dump_yaml
from registry.files import read_beside
from study.errors import StudyError
from study.files import write_file

_WORDS: Any = read_beside(__file__, "dressing_words.yaml")
_DRAFT = """\
# A draft: the prompt is the family's own with other names in it. Reword it, and check the file by
# `dosimeter tasks check`. It is secret until it is published.
{names}prompt: |
{prompt}
"""


def dress_task(name: str, count: int, out: Path, seed: Seed | None = None) -> tuple[Path, ...]:
    """Write drafts of dressings of a built-in family into a folder, no two alike; return their
    paths. A seed makes the same drafts each time. Raises GeneratorError for another family,
    StudyError for another file that is there already."""
    entries = {each.partition("@")[0]: each for each in Catalog.built_in().entries()}
    base: Any = Catalog.built_in().family(entries.get(name, name))
    if base.name not in entries:
        raise unknown("built-in family", name, entries)
    paths = tuple(out / f"{base.name}_{number:02d}.yaml" for number in range(1, count + 1))
    chance = (seed or Seed(secrets.token_bytes(SEED_BYTES))).rng()
    texts: dict[str, None] = {}
    while len(texts) < count:
        texts |= {_draft(base, chance): None}
    for path, text in zip(paths, texts, strict=True):
        if path.exists() and path.read_text(encoding="utf-8") != text:
            raise StudyError(f"{path}: is there already; move it away, or give another folder")
    for path, text in zip(paths, texts, strict=True):
        dressed_family(path.name, text)
        write_file(path, text)
    return paths


def demo_pairs(folder: Path) -> Iterator[str]:
    """Write the demo's dressings into its folder, the same for everybody; yield the line of each
    in ``tasks``. Each two that follow each other are a pair."""
    paths = dress_task("compute_average", 20, folder / "dressings", EXAMPLE_SEED.child("demo"))
    for number, path in enumerate(paths, 2):
        of = f"template: dressings/{path.name}, questions: [medium]"
        yield f"  - {{{of}, pair: pair-{number // 2}}}\n"


def _draft(base: Any, chance: Stream) -> str:
    seeds = EXAMPLE_SEED, EXAMPLE_SEED.child(1)
    example, other = (base.generate(DIFFICULTIES[0], seed) for seed in seeds)
    lasting = {asset.path for asset in other.brief.assets}
    answer = json.dumps(base.key(example.truth))
    old = dict.fromkeys(
        path if path in lasting and f'"{path}"' not in answer else _pattern(PurePosixPath(path))
        for path in (asset.path for asset in example.brief.assets)
    )
    first, second = (chance.shuffle(_WORDS[key])[: len(old)] for key in ("first", "second"))
    files = {path: _new_path(path, *pair) for path, *pair in zip(old, first, second, strict=True)}
    columns: dict[str, str] = {}
    stated = frozenset().union(*(names_in(a.path, a.data) for a in example.brief.assets))
    for name in sorted(stated):
        free = [new for new in _WORDS["columns"].get(name, ()) if new not in columns.values()]
        if free and re.search(_in_prompt(name), base.prompt):
            columns[name] = chance.choice(free)
    names = {"dresses": f"{base.name}@{base.version}", "files": files, "columns": columns}
    prompt = indent(_reworded(base.prompt, files, columns).strip(), "  ")
    return _DRAFT.format(names=dump_yaml({k: v for k, v in names.items() if v}), prompt=prompt)


def _pattern(path: PurePosixPath) -> str:
    """The pattern of files whose names differ between instances, or stand in answers."""
    return f"*{path.suffix}" if path.parent == PurePosixPath() else f"{path.parent}/*"


def _new_path(path: str, first: str, second: str) -> str:
    return f"{first}_{second}{'/*' * ('*' in path)}{PurePosixPath(path).suffix}"


def _reworded(prompt: str, files: Mapping[str, str], columns: Mapping[str, str]) -> str:
    """The prompt with new names of files, or of their folders, and of columns."""
    named = {re.escape(old.partition("*")[0]): new.partition("*")[0] for old, new in files.items()}
    if folder := named.pop("", ""):
        prompt = f"The files lie in the folder `{folder}`.\n\n{prompt}"
    named |= {_in_prompt(old): new for old, new in columns.items()}
    news = list(named.values())
    pattern = "|".join(f"({old})" for old in named)
    return re.sub(pattern, lambda m: news[int(m.lastindex or 0) - 1], prompt) if news else prompt


def _in_prompt(column: str) -> str:
    """The pattern of a column's name in a prompt: an English word is one in quotes only."""
    english = column.isalpha() and column.islower()
    return f"(?<=[`<]){column}(?=[`>])" if english else rf"(?<!\w){re.escape(column)}(?!\w|,\w)"
