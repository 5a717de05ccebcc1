"""Texts of a template as PICARD reads them: placeholders, and the functions of answers.

PICARD replaces placeholders by regular expressions: no spaces, no nesting, and the values of the
question's own text. It computes functions in answers only, and it splits their arguments at each
``:``.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from generators.templates.language.placeholders import (
    Call,
    Constant,
    Text,
    parse_text,
    target_name,
    variables_of,
)
from generators.templates.language.template import Component, Question, strings_of
from generators.templates.language.values import BUILT_IN
from generators.templates.language.variables import Variable
from generators.yaml_lines import Place

# What PICARD's newest public version knows. If its pages promise more than its code does, the code
# counts.
COMPONENTS = frozenset(
    ("create_files", "create_csv", "create_sqlite", "create_json", "create_yaml", "create_xml")
)
POOLS = frozenset(("default", "colors", "nature", "metals", "gems"))
DATA_TYPES = frozenset(
    (
        *("person_name", "first_name", "last_name", "entity_pool", "email", "age", "city"),
        *("city_name", "company", "company_name", "product", "product_name", "currency"),
        *("salary", "price", "phone", "date", "status", "department", "region", "id"),
        *("experience", "score", "course", "semester", "category", "boolean", "lorem_word"),
        "lorem_words",
    )
)
COLUMN_TYPES = ("TEXT", "INTEGER", "REAL", "BOOLEAN", "DATE", "DATETIME", "auto_id")

# Functions by the language of their first argument.
PLAIN_PATHS = ("path", "value", "count", "keys")
WILDCARD_PATHS = ("sum", "avg", "max", "min", "collect")
FILTERS = ("count_where", "filter")
_XPATHS = ("value", "attr", "count", "exists", "collect", "sum", "avg", "max", "min")
TREES = {
    f"{kind}_{verb}": verb
    for kind in ("json", "yaml")
    for verb in (*PLAIN_PATHS, *WILDCARD_PATHS, *FILTERS)
}
XPATHS = frozenset(f"xpath_{verb}" for verb in _XPATHS)
CSV_FILTERS = frozenset(("csv_count_where", "csv_sum_where", "csv_avg_where"))
FUNCTIONS = frozenset(
    (
        *("file_line", "file_word", "file_line_count", "file_word_count"),
        *("csv_cell", "csv_row", "csv_value", "csv_column", "csv_count", "csv_sum", "csv_avg"),
        *CSV_FILTERS,
        *("sqlite_query", "sqlite_value"),
        *TREES,
        *XPATHS,
    )
)

Refuse = Callable[[Place, str], None]  # a place, and what PICARD lacks there

ONLY = "file"  # the name that a component without one gets
_NUMBERED = re.compile(r"(?:entity|semantic|number)(?:0|[1-9][0-9]*)")
_WHOLE = re.compile(r"0|[1-9][0-9]*")
_LOREM = re.compile(r"\{\{lorem:\s*([0-9]+)\s*([lsp])\s*\}\}")
_KEY = r"[^.\[\]'\"*@?]+"
_STEP = rf"(?:{_KEY}(?:\[[0-9]+\])?|\[[0-9]+\])"
_PLAIN = rf"\$?\.?(?:{_STEP}(?:\.{_STEP})*)?"
_ANY = rf"(?:{_KEY}(?:\[(?:[0-9]+|\*)\])?|\[(?:[0-9]+|\*)\])"
_FIELD, _WORD = r"[^.\[\]@'\"<>=!&|?]", "(?:contains|startswith|endswith)"
_SIGNED = rf"{_FIELD}++(?:>=|<=|!=|==|>|<)|{_FIELD}(?:(?!{_WORD}){_FIELD})*+{_WORD}"
_TEST = rf"\[\?(?:{_SIGNED})[^\]<>=!&|]*\]"
_PATHS = {
    "plain": re.compile(_PLAIN),
    "wildcard": re.compile(rf"\$?\.?(?:{_ANY}(?:\.{_ANY})*)?"),
    "count_where": re.compile(_PLAIN + _TEST),
    "filter": re.compile(rf"{_PLAIN}{_TEST}(?:\.{_STEP}(?:\.{_STEP})*)?"),
}
_ELEMENT = r"[A-Za-z_][\w.-]*"
_TEXT = r"(?:'[^']*'|\"[^\"]*\")"
_PREDICATE = rf"\[(?:[0-9]+|last\(\)(?:-[0-9]+)?|@?{_ELEMENT}(?:!?={_TEXT})?|\.!?={_TEXT})\]"
_NODE = rf"(?:\*|\.\.?|{_ELEMENT})(?:{_PREDICATE})*"
_XPATH = re.compile(rf"(?:\.//?)?{_NODE}(?://?{_NODE})*")
_JOINED = re.compile(r"\s(?:and|or)\s")


@dataclass(frozen=True, slots=True)
class QuestionTexts:
    """The texts of one question. ``drawn`` are the variables that PICARD draws with the question;
    ``apart`` are those that it draws with a component's content by itself; ``shared`` are those of
    a content that stand elsewhere too."""

    question: Question
    refuse: Refuse
    drawn: frozenset[str]
    apart: frozenset[str]
    shared: frozenset[str]

    @classmethod
    def of(cls, question: Question, refuse: Refuse) -> QuestionTexts:
        """Find the variables of a question's texts."""

        def keys(*values: Any) -> set[str]:
            texts = [parse_text(x, True, question.values) for x in strings_of(values)]
            return {variable.key for text in texts for variable in variables_of(text)}

        asked = keys(question.template, question.expected_structure)
        outside = asked | keys(
            question.expected_response,
            question.expected_content,
            question.file_to_read,
            question.files_to_check,
            *[(component.target_file, component.config) for component in question.components],
        )
        contents = [keys(component.content) for component in question.components]
        shared = {
            key
            for index, content in enumerate(contents)
            for key in content
            if key in outside or any(key in other for other in contents[index + 1 :])
        }
        apart = set[str]().union(*contents)
        return cls(question, refuse, frozenset(asked), frozenset(apart), frozenset(shared))

    def text(self, place: Place, written: str, *, answer: bool = False) -> str:
        """A text outside of contents, and what is wrong with it reported."""
        parts = parse_text(written, False, self.question.values)
        for variable in variables_of(parts):
            if variable.key not in self.drawn | self.apart:
                self.refuse(
                    place,
                    f"{form_of(variable)}: PICARD draws what stands in the question's text or in "
                    "expected_structure; name it there",
                )
        return self._joined(place, parts, answer)

    def path(self, place: Place, written: str) -> str:
        """A path, which starts in the folder that PICARD's configuration names."""
        if not written.lstrip().startswith("{{artifacts}}/"):
            self.refuse(place, "PICARD looks for such a path elsewhere; write {{artifacts}}/ first")
        return self.text(place, written)

    def content(self, place: Place, value: Any) -> Any:
        """Plain data of a component's content, the texts in it written as PICARD reads them."""
        if isinstance(value, str):
            parts = parse_text(value, True, self.question.values)
            for part in parts:
                if isinstance(part, Constant):
                    self.refuse(place, f"{{{{{part.name}}}}}: PICARD fills it in no content")
            for variable in variables_of(parts):
                if variable.key in self.shared:
                    self.refuse(
                        place,
                        f"{form_of(variable)} stands outside of this content too: PICARD draws "
                        "contents apart, so that the two would differ",
                    )
            return _LOREM.sub(r"{{lorem:\1\2}}", self._joined(place, parts, False))
        if isinstance(value, Mapping):
            return {
                self.content((*place, key), str(key)): self.content((*place, key), inner)
                for key, inner in value.items()
            }
        if isinstance(value, list | tuple):
            return [self.content((*place, index), inner) for index, inner in enumerate(value)]
        return value

    def _joined(self, place: Place, parts: Text, answer: bool) -> str:
        written = ""
        for part in parts:
            if isinstance(part, str):
                written += part
            elif isinstance(part, Constant):
                written += f"{{{{{part.name}}}}}"
            elif isinstance(part, Variable):
                self._check_variable(place, part)
                written += form_of(part)
            else:
                name = part.function.name
                if not answer:
                    self.refuse(place, f"{name}: PICARD computes functions in answers only")
                elif written.endswith("{"):
                    what = "PICARD takes the brace before it for its own; put a space between"
                    self.refuse(place, f"{name}: {what}")
                written += self._call(place, part)
        return written

    def _check_variable(self, place: Place, variable: Variable) -> None:
        form, name = form_of(variable), variable.key.partition(":")[0]
        if not _NUMBERED.fullmatch(name):
            self.refuse(place, f"{form}: PICARD knows no number that begins with 0")
        if variable.kind == "entity" and variable.choice in BUILT_IN.pools.keys() - POOLS:
            self.refuse(place, f"{form}: PICARD has no pool {variable.choice}")
        if variable.kind == "semantic" and variable.choice in BUILT_IN.types.keys() - DATA_TYPES:
            self.refuse(place, f"{form}: PICARD has no data type {variable.choice}")
        if variable.kind == "number":
            bounds = variable.key.split(":")[1:3]
            if not all(_WHOLE.fullmatch(bound) for bound in bounds):
                self.refuse(place, f"{form}: PICARD takes whole numbers from 0 on as bounds")

    # -- functions ------------------------------------------------------------------------------

    def _call(self, place: Place, call: Call) -> str:
        name = call.function.name
        if name not in FUNCTIONS:
            self.refuse(place, f"{name}: PICARD has no such function")
            return f"{{{{{name}}}}}"
        if any(isinstance(part, Call) for text in call.texts for part in text):
            self.refuse(place, f"{name}: PICARD computes no function within another")
            return f"{{{{{name}}}}}"
        arguments = [self._argument(place, name, text) for text in call.arguments]
        if name in CSV_FILTERS and not arguments[2]:
            arguments[2] = "=="
        if name in TREES and arguments:
            arguments[0] = self._tree_path(place, name, arguments[0])
        if name in XPATHS:
            arguments[0] = self._xpath(place, name, arguments[0], call)
        return f"{{{{{':'.join((name, *arguments, self._file(place, call)))}}}}}"

    def _argument(self, place: Place, name: str, text: Text) -> str:
        literal = "".join(part for part in text if isinstance(part, str))
        if sign := next((sign for sign in ":}" if sign in literal), None):
            self.refuse(place, f"{name}: {sign} in an argument, where PICARD's ends")
        return self._joined(place, text, False)

    def _file(self, place: Place, call: Call) -> str:
        written = self._joined(place, call.file or (), False)
        name = target_name(written)
        if name is None:
            return self.path(place, written)
        return f"TARGET_FILE[{name or self.question.components[0].name or ONLY}]"

    def _tree_path(self, place: Place, name: str, path: str) -> str:
        verb = TREES[name]
        kind = verb if verb in FILTERS else "plain" if verb in PLAIN_PATHS else "wildcard"
        plain = _plain(path)
        if not _PATHS[kind].fullmatch(plain) or (kind in FILTERS and _JOINED.search(plain)):
            self.refuse(place, f"{name}: PICARD cannot follow {path}; {_LANGUAGES[kind]}")
        return re.sub(r"^\$\.?", "", path) or path if verb == "value" else path

    def _xpath(self, place: Place, name: str, path: str, call: Call) -> str:
        path = f".{path}" if path.startswith("//") else path
        steps = path.rpartition("@")[0] if name == "xpath_attr" else path
        if not _XPATH.fullmatch(_plain(steps)):
            self.refuse(
                place,
                f"{name}: PICARD reads paths by Python's ElementTree, which cannot follow {path}",
            )
        component = self._component(call)
        if component is not None and component.content.get("namespace"):
            self.refuse(place, f"{name}: PICARD finds no element of a file with a namespace")
        return path

    def _component(self, call: Call) -> Component | None:
        name = target_name("".join(part for part in call.file or () if isinstance(part, str)))
        known = self.question.components
        return next((part for part in known if name is not None and name in ("", part.name)), None)


_LANGUAGES = {
    "plain": "it knows keys and one index after each, as in $.a.b[0]",
    "wildcard": "it knows keys and one [0] or [*] after each, as in $.a[*].b",
    "count_where": "it knows one comparison of a key with a value, at the end, as in $.a[?b>1]",
    "filter": "it knows one comparison of a key with a value, as in $.a[?b>1].c",
}


def _plain(text: str) -> str:
    """The text with 1 for each placeholder."""
    return re.sub(r"\{\{[^{}]*\}\}", "1", text)


def form_of(variable: Variable) -> str:
    """The placeholder as PICARD finds it in every place: the usual kind and pool left out."""
    return f"{{{{{variable.key.removesuffix(':integer')}}}}}"
