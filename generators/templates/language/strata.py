"""``for_each:`` of a question: one stratum for each value of a list, or combination of several.

``for_each: {rows: [50, 500]}`` makes two questions of one, with the ids ``ID-rows-50`` and
``ID-rows-500``. A name stands for its value as ``{{rows}}``; if it does not occur so, ``rows`` and
``count`` are those of the question's components.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from itertools import product
from typing import Any

from generators.templates.functions import FUNCTIONS
from generators.templates.language.components_section import SandboxForm
from generators.templates.language.diagnostics import fault_of_name, shown
from generators.templates.language.keys import MOST_STRATA, SIZES, STRATUM
from generators.templates.language.placeholders import CONSTANTS
from generators.templates.language.template import strings_of
from generators.yaml_lines import Place, fault_of_form

MOST_IN_FILE = 5_000
MOST_TEXT = 32 << 20  # characters of all strata of a file
_NOT_IN_ID = re.compile(r"[^A-Za-z0-9.]+")


@dataclass(slots=True)
class StrataForm(SandboxForm):
    """The reading of ``for_each``, beside that of sandboxes."""

    strata_made: int = 0
    strata_text: int = 0  # characters
    beyond: bool = False  # the bounds, which is reported once

    def strata(self, place: Place, test: Any) -> list[Any]:
        """The questions that a question with ``for_each`` makes; of others the question itself."""
        if not isinstance(test, dict) or "for_each" not in test:
            return [test]
        bare = {key: value for key, value in test.items() if key != "for_each"}
        within = (*place, "for_each")
        lists = self.mapping(within, test["for_each"])
        if not lists:
            if isinstance(test["for_each"], dict):
                self.error(within, "is empty; a list for each name is wanted")
            return [bare]
        before = len(self.errors)
        for name, values in lists.items():
            self.list_of_values((*within, name), name, values)
        if len(self.errors) > before:
            return [_with_stand_ins(bare, lists)]
        if (count := math.prod(map(len, lists.values()))) > MOST_STRATA:
            self.error(within, f"{count} strata; at most {MOST_STRATA} are made of one question")
            return [_with_stand_ins(bare, lists)]
        longest = max(len(str(value)) for values in lists.values() for value in values)
        text = sum(len(part) + part.count("{{") * longest for part in strings_of(bare))
        self.strata_made += count
        self.strata_text += count * text
        if self.strata_made > MOST_IN_FILE or self.strata_text > MOST_TEXT:
            what = f"at most {MOST_IN_FILE} strata, of {MOST_TEXT} characters in all"
            if not self.beyond:
                self.error(within, f"a file has {what}; split it")
            self.beyond = True
            return []
        sizes = {name for name in lists if not _occurs(name, bare)}
        for name in sorted(sizes):
            if name not in SIZES or not _sets_size(name, bare.get("sandbox_setup")):
                self.error((*within, name), f"nothing in the question uses {{{{{name}}}}}")
                return [bare]
        return [
            _stratum(bare, dict(zip(lists, values, strict=True)), sizes)
            for values in product(*lists.values())
        ]

    def list_of_values(self, place: Place, name: str, values: Any) -> None:
        """Check a name and the list of its values."""
        if not STRATUM.fullmatch(name) or name in CONSTANTS or name in FUNCTIONS:
            self.error(
                place, f"{shown(name)} is no name of a value: small letters and _, no other's name"
            )
        if not isinstance(values, list) or not values:
            self.error(place, f"a list of at least one value is wanted, not {shown(values)}")
        elif len(values) > MOST_STRATA:
            self.error(place, f"{len(values)} values; at most {MOST_STRATA} are possible")
        elif not all(_is_plain(value) for value in values):
            self.error(place, "numbers and texts are wanted; put true and null in quotes")
        elif len(set(map(str, values))) < len(values):
            self.error(place, "a value stands there twice")
        else:
            for index, value in enumerate(values):
                if (fault := fault_of_form(value) or fault_of_name(str(value))) is not None:
                    self.error((*place, index), f"{shown(value)} {fault}")


def _is_plain(value: Any) -> bool:
    return isinstance(value, int | float | str) and not isinstance(value, bool)


def _placeholder(name: str) -> re.Pattern[str]:
    return re.compile(rf"\{{\{{\s*{re.escape(name)}\s*\}}\}}")


def _with_stand_ins(test: dict[str, Any], names: Iterable[str]) -> dict[str, Any]:
    """The question with 1 for each name, so that what else is wrong with it is found."""
    for name in names:
        test = _filled(test, _placeholder(name), 1)
    return test


def _occurs(name: str, test: Any) -> bool:
    form = _placeholder(name)
    return any(form.search(text) for text in strings_of(test))


def _sets_size(name: str, value: Any) -> bool:
    """Report whether a key of this name sets a size in a sandbox, schemas let be."""
    if isinstance(value, Mapping):
        inner = (inner for key, inner in value.items() if key != "schema")
        return name in value or any(_sets_size(name, part) for part in inner)
    return isinstance(value, list) and any(_sets_size(name, part) for part in value)


def _stratum(test: Mapping[str, Any], values: Mapping[str, Any], sizes: set[str]) -> dict[str, Any]:
    """The question with the values in it, and an id that names them."""
    stratum = dict(test)
    for name, value in values.items():
        if name in sizes:
            stratum["sandbox_setup"] = _sized(stratum["sandbox_setup"], name, value)
        else:
            stratum = _filled(stratum, _placeholder(name), value)
    named = [f"{name}-{_NOT_IN_ID.sub('-', str(value))}" for name, value in values.items()]
    if "question_id" in test:
        stratum["question_id"] = "-".join((str(test["question_id"]), *named))
    return stratum


def _filled(value: Any, form: re.Pattern[str], given: Any) -> Any:
    if isinstance(value, str):
        return form.sub(lambda _: str(given), value)
    if isinstance(value, Mapping):
        return {
            form.sub(lambda _: str(given), str(key)): _filled(inner, form, given)
            for key, inner in value.items()
        }
    return [_filled(inner, form, given) for inner in value] if isinstance(value, list) else value


def _sized(value: Any, name: str, size: Any) -> Any:
    """The value, with this size wherever one of its name stands, schemas let be."""
    if isinstance(value, Mapping):
        return {
            key: size if key == name else inner if key == "schema" else _sized(inner, name, size)
            for key, inner in value.items()
        }
    return [_sized(inner, name, size) for inner in value] if isinstance(value, list) else value
