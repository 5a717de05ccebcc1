"""Retired words stay out of names and prose; tests/retired_words.toml lists them."""

from __future__ import annotations

import ast
import io
import re
import tokenize
import tomllib
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from pathlib import Path

import pytest
from _pytest.mark import ParameterSet

from registry.provenance import PACKAGES

ROOT = Path(__file__).resolve().parent.parent
# Records of the past keep their words, and generated pages follow their sources.
_HISTORY = ("CHANGELOG.md", "docs/gallery.md", "build/", ".venv/")


@dataclass(frozen=True, slots=True)
class RetiredWord:
    """Words of names and a pattern of prose, with the term that replaces them."""

    names: frozenset[str]
    prose: re.Pattern[str]
    use: str
    exceptions: tuple[str, ...]

    def applies(self, path: str) -> bool:
        return not path.startswith(self.exceptions)


def retired_words() -> list[RetiredWord]:
    words = tomllib.loads((ROOT / "tests/retired_words.toml").read_text())["word"]
    return [
        RetiredWord(
            frozenset(word["names"]),
            re.compile(word["prose"], re.IGNORECASE),
            word["use"],
            tuple(word.get("except", ())),
        )
        for word in words
    ]


WORDS = retired_words()


def parameters() -> list[ParameterSet]:
    """A test for each word."""
    return [pytest.param(word, id=min(word.names)) for word in WORDS]


def split_name(name: str) -> set[str]:
    """The words of an identifier in snake_case or CamelCase."""
    spaced = re.sub(r"(?<=[a-z0-9])(?=[A-Z])|(?<=[A-Z])(?=[A-Z][a-z])", "_", name)
    return {word.lower() for word in spaced.split("_") if word}


def defined_names(tree: ast.AST) -> Iterator[tuple[int, str]]:
    """Names of classes, functions, parameters, variables and fields, with their lines."""
    for node in ast.walk(tree):
        if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)):
            yield node.lineno, node.name
        elif isinstance(node, ast.arg):
            yield node.lineno, node.arg
        elif isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
            yield node.lineno, node.id


def prose_of(source: str) -> Iterator[tuple[int, str]]:
    """Comments and strings of a program, with their lines."""
    for token in tokenize.generate_tokens(io.StringIO(source).readline):
        if token.type in (tokenize.COMMENT, tokenize.STRING):
            yield token.start[0], token.string


@cache
def modules() -> dict[str, str]:
    paths = [path for package in PACKAGES for path in sorted((ROOT / package).rglob("*.py"))]
    return {str(path.relative_to(ROOT)): path.read_text() for path in paths}


@cache
def names_in(path: str) -> list[tuple[int, str]]:
    return list(defined_names(ast.parse(modules()[path])))


@cache
def prose_in(path: str) -> list[tuple[int, str]]:
    return list(prose_of(modules()[path]))


@cache
def pages() -> dict[str, str]:
    """Documentation, and the text of templates and examples that users read."""
    paths = [*ROOT.glob("*.md"), *(ROOT / "docs").rglob("*.md")]
    for package in PACKAGES:
        paths += [*(ROOT / package).rglob("*.j2"), *(ROOT / package).rglob("*.yaml")]
    named = {str(path.relative_to(ROOT)): path.read_text() for path in sorted(paths)}
    return {name: text for name, text in named.items() if not name.startswith(_HISTORY)}


@pytest.mark.parametrize("word", parameters())
def test_no_name_has_a_retired_word(word: RetiredWord) -> None:
    hits = []
    anywhere = re.compile("|".join(word.names), re.IGNORECASE)  # quicker than to parse
    for path, text in modules().items():
        if word.applies(path):
            if split_name(Path(path).stem) & word.names:
                hits.append(f"{path}: the module's name")
            for line, name in names_in(path) if anywhere.search(text) else ():
                if split_name(name) & word.names:
                    hits.append(f"{path}:{line}: {name}")
    assert not hits, f"use {word.use}:\n" + "\n".join(hits)


@pytest.mark.parametrize("word", parameters())
def test_no_prose_has_a_retired_word(word: RetiredWord) -> None:
    hits = []
    for path, source in modules().items():
        if word.applies(path) and word.prose.search(source):
            for line, text in prose_in(path):
                hits += [
                    f"{path}:{line + text.count(chr(10), 0, match.start())}: {match[0]}"
                    for match in word.prose.finditer(text)
                ]
    for path, text in pages().items():
        if word.applies(path):
            hits += [
                f"{path}:{1 + text.count(chr(10), 0, match.start())}: {match[0]}"
                for match in word.prose.finditer(text)
            ]
    assert not hits, f"use {word.use}:\n" + "\n".join(hits)
