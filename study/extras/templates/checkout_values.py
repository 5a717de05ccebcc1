"""``dosimeter template values``: a values file of the words of a PICARD checkout, so that its
templates draw the values that they were written for.

The checkout's code is read as text and parsed, never imported or run.
"""

from __future__ import annotations

import ast
import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from generators.templates.language.keys import FORMAT
from generators.templates.language.values import BUILT_IN, fault_of_text, fault_of_word
from generators.yaml_lines import dump_yaml, fault_of_utf8
from registry.files import write_whole
from study.errors import StudyError
from study.protocol.yaml import read_bounded

POOL = "config/entity_pool.txt"
GENERATORS = ("data_generator.py", "file_generators.py")
_FOLDERS = ("src", ".")
_MOST_BYTES = 4_000_000
_MOST_VALUES = 90_000  # of a values file, which is read again as YAML
_HEADER = (
    "# Values of a PICARD checkout, for a line `values: FILE` in a template beside this one.\n"
)
# Label of a list → its data type, if the name of the type does not say it.
_LABELS: Mapping[str, str] = {"domain": "mail_domain", "word": "lorem_word"}


@dataclass(frozen=True, slots=True)
class CheckoutValues:
    """The values that a checkout has, by data type and pool, and how many texts are left out, since
    they may be no value of a template."""

    types: Mapping[str, list[str]]
    pools: Mapping[str, list[str]]
    left_out: int

    @property
    def counts(self) -> dict[str, int]:
        """The count of values by data type and pool."""
        lists = {**self.types, **{f"pool {name}": words for name, words in self.pools.items()}}
        return {name: len(values) for name, values in lists.items()}


def write_checkout_values(checkout: Path, out: Path) -> CheckoutValues:
    """Write the values file of a checkout, which must not be there yet, and return its values.
    Raises StudyError."""
    if os.path.lexists(out):
        raise StudyError(f"{out}: is there already; give a file that is not")
    if out.suffix not in (".yml", ".yaml"):
        raise StudyError(f"{out}: a values file ends in .yml or .yaml")
    values = read_checkout(checkout)
    content: dict[str, Any] = {"format": FORMAT}
    content |= {"types": dict(values.types)} if values.types else {}
    content |= {"pools": dict(values.pools)} if values.pools else {}
    try:
        write_whole(out, _HEADER + dump_yaml(content, flow=None))
    except OSError as error:
        raise StudyError(f"{out}: {error.strerror}") from error
    return values


def read_checkout(checkout: Path) -> CheckoutValues:
    """Return the words of a checkout's entity pool, and the lists of texts in its data generator.
    Raises StudyError, which names file and line, for a folder that has neither."""
    words = _pool_words(checkout / POOL) if (checkout / POOL).is_file() else []
    lists: dict[str, list[str]] = {}
    for path in (checkout / folder / name for name in GENERATORS for folder in _FOLDERS):
        for name, values in _typed_lists(path).items() if path.is_file() else ():
            lists.setdefault(name, values)
    if not words and not lists:
        known = " or ".join(GENERATORS)
        raise StudyError(
            f"{checkout}: no PICARD checkout: there is neither {POOL} nor a src/{known} with lists "
            "of values"
        )
    pool = [word for word in words if fault_of_word(word) is None]
    fit = {
        name: [value for value in values if fault_of_text(value) is None]
        for name, values in lists.items()
    }
    types = {name: values for name, values in fit.items() if values}
    kept = sum(map(len, (pool, *types.values())))
    if kept > _MOST_VALUES:
        raise StudyError(f"{checkout}: more than {_MOST_VALUES} values")
    left_out = sum(map(len, (words, *lists.values()))) - kept
    return CheckoutValues(types, {"default": pool} if pool else {}, left_out)


def _text(path: Path) -> str:
    data = read_bounded(path, _MOST_BYTES, "a checkout's file")
    try:
        return data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise StudyError(f"{path}:{fault_of_utf8(data, error)}") from None


def _pool_words(path: Path) -> list[str]:
    lines = (line.strip() for line in _text(path).splitlines())
    return [line for line in lines if line and not line.startswith("#")]


def _parsed(path: Path) -> ast.Module:
    try:
        return ast.parse(_text(path))
    except SyntaxError as error:
        raise StudyError(f"{path}:{error.lineno or 1}: no Python that can be parsed") from None
    except (ValueError, RecursionError, MemoryError) as error:
        raise StudyError(f"{path}:1: no Python that can be parsed: {error}") from None


def _typed_lists(path: Path) -> dict[str, list[str]]:
    """Return a module's lists of texts by data type, the first one of each."""
    module, visitor = _parsed(path), _Lists()
    try:
        visitor.visit(module)
    except RecursionError:
        raise StudyError(f"{path}:1: nested too deeply") from None
    typed: dict[str, list[str]] = {}
    for labels, values in visitor.lists:
        name = next((name for label in labels if (name := _type_of(label))), None)
        if name is not None and name != "semester":
            typed.setdefault(name, values)
    parts = {labels[0]: values for labels, values in visitor.lists if "semester" in labels}
    if {"seasons", "years"} <= parts.keys():
        typed["semester"] = [f"{s} {y}" for s in parts["seasons"] for y in parts["years"]]
    elif "semester" in parts:
        typed["semester"] = parts["semester"]
    return typed


def _type_of(label: str) -> str | None:
    """Return the data type that a name stands for: ``self.cities`` are those of ``city``."""
    name = label.lower().strip("_")
    for prefix in ("generate_", "random_", "get_"):
        name = name.removeprefix(prefix)
    stems = [name, name.removesuffix("s"), name.removesuffix("es")]
    stems += [f"{name.removesuffix('ies')}y"] if name.endswith("ies") else []
    names = (_LABELS.get(stem, stem) for stem in stems)
    return next((stem for stem in names if stem in BUILT_IN.types), None)


@dataclass(slots=True)
class _Lists(ast.NodeVisitor):
    """Gathers the lists of texts in a module, each with the names that it stands under, the
    innermost first: what it is assigned to, the key of a mapping, the text that a branch compares
    with, the function."""

    labels: tuple[str, ...] = ()
    lists: list[tuple[tuple[str, ...], list[str]]] = field(default_factory=list)

    def within(self, label: str | None, nodes: Sequence[ast.AST]) -> None:
        before = self.labels
        self.labels = before if label is None else (label, *before)
        for node in nodes:
            self.visit(node)
        self.labels = before

    def visit_FunctionDef(self, node: ast.FunctionDef) -> None:
        self.within(node.name, node.body)

    def visit_If(self, node: ast.If) -> None:
        self.within(_compared(node.test), node.body)
        self.within(None, node.orelse)

    def visit_Assign(self, node: ast.Assign) -> None:
        self.within(_target(node.targets[0]), [node.value])

    def visit_AnnAssign(self, node: ast.AnnAssign) -> None:
        self.within(_target(node.target), [node.value] if node.value else [])

    def visit_Dict(self, node: ast.Dict) -> None:
        for key, value in zip(node.keys, node.values, strict=True):
            self.within(_constant(key), [value])

    def visit_Compare(self, node: ast.Compare) -> None:
        """A list that something is looked up in holds no values to draw."""

    def visit_List(self, node: ast.List | ast.Tuple) -> None:
        texts = [_constant(item) for item in node.elts]
        if len(texts) > 1 and all(text is not None for text in texts) and self.labels:
            self.lists.append((self.labels, [text for text in texts if text is not None]))
        else:
            self.within(None, node.elts)

    visit_Tuple = visit_List  # noqa: N815


def _constant(node: ast.AST | None) -> str | None:
    return node.value if isinstance(node, ast.Constant) and isinstance(node.value, str) else None


def _target(node: ast.AST) -> str | None:
    if isinstance(node, ast.Attribute):
        return node.attr
    return node.id if isinstance(node, ast.Name) else None


def _compared(test: ast.AST) -> str | None:
    """Return the text that a condition compares a name with."""
    if isinstance(test, ast.Compare) and isinstance(test.ops[0], ast.Eq):
        return _constant(test.comparators[0])
    return None
