"""Template files: read whole, every error of form at once (spec/templates.md, "Template files").

What a placeholder, a function or a data type is, ``check`` says; this says whether the file has
the keys, kinds and names that a template has.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import PurePath
from typing import Any

from generators.errors import TemplateError, nearest
from generators.templates.model import SCORING_TYPES, Component, Place, Question, TemplateFile
from generators.yamlfile import Document, Limits, YamlError, key_of, parse_yaml

MAX_BYTES = 4_000_000
MAX_SAMPLES = 100_000  # of one question
MAX_ROWS = 1_000_000
_LIMITS = Limits("a template file", MAX_BYTES, aliases=True)
_MOST_PROBLEMS = 200  # that are told of one file

_NOTES = ("title", "description", "notes", "tags", "metadata")  # for people; nothing reads them
_FILE_KEYS = ("tests", "name", "version", *_NOTES)
_TEXTS, _PATHS = ("expected_response", "expected_content"), ("file_to_read",)
_LISTS = ("files_to_check", "expected_structure")
_ANSWERS = (*_TEXTS, *_PATHS, *_LISTS)
_TEST_KEYS = (
    "question_id",
    "samples",
    "template",
    "scoring_type",
    *_ANSWERS,
    "sandbox_setup",
    *_NOTES,
)
# Scoring type → the keys that it cannot do without.
_NEEDS: Mapping[str, tuple[str, ...]] = {
    "stringmatch": ("expected_response",),
    "jsonmatch": ("expected_response",),
    "readfile_stringmatch": ("file_to_read", "expected_content"),
    "readfile_jsonmatch": ("file_to_read", "expected_content"),
    "readfile_jsonedit": ("file_to_read", "expected_content"),
    "files_exist": ("files_to_check",),
    "directory_structure": ("expected_structure",),
}
# Component type → the keys of its content.
_SCHEMA = ("schema",)
CONTENT_KEYS: Mapping[str, tuple[str, ...]] = {
    "create_files": ("type", "count", "content"),
    "create_csv": ("headers", "header_types", "rows"),
    "create_sqlite": ("table_name", "columns", "rows", "tables"),
    "create_json": _SCHEMA,
    "create_yaml": _SCHEMA,
    "create_xml": ("schema", "root_element", "namespace"),
    "create_tree": ("depth", "breadth", "files"),
}
COMPONENT_TYPES = tuple(CONTENT_KEYS)
_SIZES = ("rows", "count")
_COMPONENT_KEYS = (
    "type",
    "name",
    "target_file",
    "content",
    "config",
    "depends_on",
    "clutter",
    *_SIZES,
    "description",
)
_CLUTTER = ("count", "pattern")
_ID = re.compile(r"[A-Za-z0-9_-][A-Za-z0-9._-]{0,63}")
_NAME = re.compile(r"[A-Za-z][A-Za-z0-9_-]{0,49}")
_TARGET = re.compile(r":\s*TARGET_FILE(\[[^\]\n{}]*\]?)?")
_DRIVE = re.compile(r"[A-Za-z]:")
_INNERMOST = re.compile(r"\{\{[^{}]*\}\}")


@dataclass(frozen=True, slots=True)
class Problem:
    """Something wrong at a place of a template file."""

    line: int
    place: Place
    what: str

    @property
    def key(self) -> str:
        return key_of(self.place)

    def text(self, path: str) -> str:
        """``file:line: key: what is wrong; what would be right``."""
        key = f"{self.key}: " if self.place else ""
        return f"{path}:{self.line}: {key}{self.what}"


@dataclass(frozen=True, slots=True)
class Reading:
    """A template file as far as it could be read, and all that is wrong with its form."""

    file: TemplateFile
    errors: tuple[Problem, ...]
    warnings: tuple[Problem, ...]


def parse_template(text: str | bytes, path: str) -> TemplateFile:
    """The template file of some text; ``path`` is what errors call it.

    Raises TemplateError with all errors of form, one a line:
    ``file:line: key: what is wrong; what would be right``.
    """
    reading = read_template(text, path)
    if reading.errors:
        raise TemplateError("\n".join(problem.text(path) for problem in reading.errors))
    return reading.file


def read_template(text: str | bytes, path: str) -> Reading:
    """The questions as far as they could be read, and everything that is wrong with their form.

    Where something is wrong, what is missing is "?" or empty: enough to look at the rest of it.
    Raises nothing.
    """
    data = text if isinstance(text, bytes) else text.encode("utf-8", "replace")
    name = PurePath(path).name
    name = name.removesuffix(".yml").removesuffix(".yaml")
    digest = f"sha256:{hashlib.sha256(data).hexdigest()}"
    try:
        document = parse_yaml(data, path, _LIMITS)
    except YamlError as error:
        held = TemplateFile(name, digest, "", (), {})
        return Reading(held, (_problem_of(str(error), path),), ())
    form = _Form(document)
    questions = form.questions()
    form.errors += [Problem(fault.line, (), fault.what) for fault in document.faults]
    file = TemplateFile(name, digest, data.decode("utf-8-sig"), questions, document.lines)
    return Reading(file, form.told(), tuple(form.warnings))


def _problem_of(message: str, path: str) -> Problem:
    """The problem of an error's text, which starts with the file and most often its line."""
    found = re.match(r":([0-9]+): ", message[len(path) :])
    if not message.startswith(path) or found is None:
        return Problem(1, (), message.removeprefix(f"{path}: "))
    return Problem(int(found[1]), (), message[len(path) + found.end() :])


@dataclass(slots=True)
class _Form:
    """One reading of a document: what was found wrong so far."""

    document: Document
    errors: list[Problem] = field(default_factory=list)
    warnings: list[Problem] = field(default_factory=list)
    ids: dict[str, int] = field(default_factory=dict)

    def told(self) -> tuple[Problem, ...]:
        """The errors by line; of very many the first, and how many there are beyond."""
        ordered = sorted(self.errors, key=lambda problem: problem.line)
        beyond = len(ordered) - _MOST_PROBLEMS
        if beyond <= 0:
            return tuple(ordered)
        last = ordered[_MOST_PROBLEMS]
        return (*ordered[:_MOST_PROBLEMS], Problem(last.line, (), f"and {beyond} more errors"))

    def error(self, place: Place, what: str) -> None:
        self.errors.append(Problem(self.document.line(place), place, what))

    def warn(self, place: Place, what: str) -> None:
        self.warnings.append(Problem(self.document.line(place), place, what))

    # -- the file -------------------------------------------------------------------------------

    def questions(self) -> tuple[Question, ...]:
        value = self.document.value
        if not isinstance(value, dict):
            self.error(
                (), f"a template file is a mapping with a list under `tests:`, not {_shown(value)}"
            )
            return ()
        self.known_keys((), value, _FILE_KEYS)
        tests = value.get("tests")
        if "tests" not in value:
            self.error((), "the key 'tests' is missing: a list of questions")
        elif not isinstance(tests, list) or not tests:
            self.error(
                ("tests",), f"a list of at least one question is wanted, not {_shown(tests)}"
            )
        if not isinstance(tests, list):
            return ()
        made = [self.question(("tests", index), test) for index, test in enumerate(tests)]
        return tuple(question for question in made if question is not None)

    def known_keys(self, place: Place, value: Mapping[str, Any], known: Collection[str]) -> None:
        for key in value:
            if key not in known:
                self.error((*place, key), f"unknown key; {nearest(key, known)}")

    def mapping(self, place: Place, value: Any, known: Collection[str] = ()) -> dict[str, Any]:
        """The mapping at a place; an empty one, and an error, where there is something else."""
        if not isinstance(value, dict):
            self.error(place, f"a mapping is wanted, not {_shown(value)}")
            return {}
        if known:
            self.known_keys(place, value, known)
        return value

    # -- a question -----------------------------------------------------------------------------

    def question(self, place: Place, test: Any) -> Question | None:
        if not isinstance(test, dict) or not test:
            self.error(place, f"a question is a mapping, not {_shown(test)}")
            return None
        id = self.id(place, test)
        samples = self.samples(place, test)
        template = self.text(place, test, "template")
        scoring_type = self.scoring_type(place, test)
        answers = self.answers(place, test, scoring_type)
        self.known_keys(place, test, _TEST_KEYS)
        components: tuple[Component, ...] = ()
        if "sandbox_setup" in test:
            components = self.sandbox((*place, "sandbox_setup"), test["sandbox_setup"])
        self.targets(place, test, components, "sandbox_setup" in test)
        return Question(
            id=id or "?",
            samples=samples,
            template=template or "",
            scoring_type=scoring_type or "?",
            components=components,
            place=place,
            **answers,
        )

    def id(self, place: Place, test: Mapping[str, Any]) -> str | None:
        place = (*place, "question_id")
        if "question_id" not in test:
            self.error(place[:-1], "the key 'question_id' is missing: a number or a short name")
            return None
        value = test["question_id"]
        if isinstance(value, bool) or not isinstance(value, int | str):
            self.error(place, f"a number or a short name is wanted, not {_shown(value)}")
            return None
        id = str(value)
        if not _ID.fullmatch(id):
            self.error(
                place,
                f"{_shown(id)} is no id: up to 64 letters, digits, and . _ - are wanted, "
                "since it becomes part of file names",
            )
            return None
        if id in self.ids:
            self.error(place, f"{id} was given on line {self.ids[id]} already; ids are unique")
        self.ids.setdefault(id, self.document.line(place))
        return id

    def samples(self, place: Place, test: Mapping[str, Any]) -> int:
        if "samples" not in test:
            self.error(place, "the key 'samples' is missing: how many instances are drawn")
            return 1
        value = test["samples"]
        whole = isinstance(value, int) and not isinstance(value, bool)
        if not whole or not 1 <= value <= MAX_SAMPLES:
            self.error(
                (*place, "samples"),
                f"a whole number from 1 to {MAX_SAMPLES} is wanted, not {_shown(value)}",
            )
            return 1
        return int(value)

    def text(
        self, place: Place, mapping: Mapping[str, Any], key: str, empty: bool = False
    ) -> str | None:
        """A key's text; None, and an error, where it is missing, empty, or no text."""
        if key not in mapping:
            self.error(place, f"the key {key!r} is missing")
            return None
        value = mapping[key]
        if not isinstance(value, str):
            quoted = isinstance(value, int | float)
            self.error(
                (*place, key),
                f"text is wanted, not {_shown(value)}{'; put it in quotes' if quoted else ''}",
            )
            return None
        if not value.strip() and not empty:
            self.error((*place, key), "is empty")
            return None
        return value

    def scoring_type(self, place: Place, test: Mapping[str, Any]) -> str | None:
        value = self.text(place, test, "scoring_type")
        if value is None or value in _NEEDS:
            return value
        known = _scoring_types()
        if value not in known:
            self.error(
                (*place, "scoring_type"),
                f"unknown scoring type {_shown(value)}; {nearest(value, known)}",
            )
            return None
        return value

    def answers(
        self, place: Place, test: Mapping[str, Any], scoring_type: str | None
    ) -> dict[str, Any]:
        """The keys that say what is right, those only that the scoring type reads."""
        needed = _NEEDS.get(scoring_type or "")
        for key in needed or ():
            if key not in test:
                self.error(place, f"the key {key!r} is missing, which {scoring_type} needs")
        found: dict[str, Any] = {}
        for key in _ANSWERS:
            if key not in test:
                continue
            value = self.answer(place, test, key, scoring_type)
            if needed is not None and key not in needed:
                self.warn((*place, key), f"{scoring_type} does not read it")
            elif value is not None:
                found[key] = value
        return found

    def answer(
        self, place: Place, test: Mapping[str, Any], key: str, scoring_type: str | None
    ) -> str | tuple[str, ...] | None:
        if key in _LISTS:
            return self.paths((*place, key), test[key])
        empty = key == "expected_content" and scoring_type == "readfile_stringmatch"
        value = self.text(place, test, key, empty)
        if value is not None and key in _PATHS:
            self.path((*place, key), value, folder=False)
        return value

    def paths(self, place: Place, value: Any) -> tuple[str, ...]:
        if not isinstance(value, list) or not value:
            self.error(place, f"a list of at least one path is wanted, not {_shown(value)}")
            return ()
        for index, path in enumerate(value):
            if isinstance(path, str):
                self.path((*place, index), path)
            else:
                self.error((*place, index), f"a path is wanted, not {_shown(path)}")
        return tuple(path for path in value if isinstance(path, str))

    def path(self, place: Place, path: str, folder: bool = True) -> None:
        """Refuse what leads, or might lead on some system, out of the sandbox."""
        reason = refusal_of_path(path)
        if reason is None and not folder and path.endswith("/"):
            reason = "is a folder's path; a file's is wanted, without / at its end"
        if reason is not None:
            self.error(place, f"{_shown(path)} {reason}")

    # -- the sandbox ----------------------------------------------------------------------------

    def sandbox(self, place: Place, setup: Any) -> tuple[Component, ...]:
        """The components, in an order that keeps every depends_on."""
        if not isinstance(setup, dict) or not setup:
            self.error(place, f"a type, or a list of components, is wanted, not {_shown(setup)}")
            return ()
        if "components" in setup and "type" in setup:
            self.error(place, "has both a type and components: write all as components")
            return ()
        if "components" not in setup:
            one = self.component(place, setup, named=False)
            return () if one is None else (one,)
        self.known_keys(place, setup, ("components", "description"))
        given, within = setup["components"], (*place, "components")
        if not isinstance(given, list) or not given:
            self.error(within, f"a list of at least one component is wanted, not {_shown(given)}")
            return ()
        made = [self.component((*within, i), each, named=True) for i, each in enumerate(given)]
        components = tuple(component for component in made if component is not None)
        self.names(components)
        self.files(components)
        return self.ordered(components)

    def component(self, place: Place, given: Any, named: bool) -> Component | None:
        given = self.mapping(place, given, _COMPONENT_KEYS)
        if not given:
            return None
        kind = self.text(place, given, "type")
        if kind is not None and kind not in CONTENT_KEYS:
            self.error(
                (*place, "type"),
                f"unknown component type {_shown(kind)}; {nearest(kind, COMPONENT_TYPES)}",
            )
            kind = None
        name = self.name(place, given, named)
        target = self.text(place, given, "target_file")
        if target is not None:
            self.path((*place, "target_file"), target, folder=kind in (None, "create_tree"))
        content = self.content(place, given, kind)
        config = self.config(place, given)
        depends_on = self.depends_on(place, given)
        return Component(kind or "?", name or "", target or "", content, config, depends_on, place)

    def name(self, place: Place, given: Mapping[str, Any], named: bool) -> str | None:
        if "name" not in given and not named:
            return ""
        name = self.text(place, given, "name")
        if name is not None and not _NAME.fullmatch(name):
            self.error(
                (*place, "name"),
                f"{_shown(name)} is no name: a letter, then letters, digits, _ and -, "
                "at most 50 characters in all",
            )
            return None
        return name

    def content(self, place: Place, given: Mapping[str, Any], kind: str | None) -> dict[str, Any]:
        """The content, with the rows or count that stand beside it put into it."""
        known = CONTENT_KEYS.get(kind or "", ())
        within = (*place, "content")
        beside = {key: given[key] for key in _SIZES if key in given}
        if "content" not in given:
            if kind != "create_tree" and kind is not None:
                self.error(place, f"the key 'content' is missing, which {kind} needs")
            content: dict[str, Any] = {}
        else:
            content = dict(self.mapping(within, given["content"]))
        content.pop("clutter", None)
        if kind is not None:
            self.known_keys(within, content, known)
        for key, value in beside.items():
            if key in content and content[key] != value:
                self.error((*place, key), f"{key} stands in `content` too, with another value")
            elif kind is not None and key not in known:
                self.error((*place, key), f"{kind} has no {key}")
            content.setdefault(key, value)
        for key in _SIZES:
            if key in content:
                self.size((*(within if key not in beside else place), key), content[key])
        return content

    def size(self, place: Place, value: Any) -> None:
        """A number of rows, lines or files: whole, or a placeholder."""
        if isinstance(value, str) and ("{{" in value or value.strip().isdecimal()):
            return
        whole = isinstance(value, int) and not isinstance(value, bool)
        if not whole or not 0 <= value <= MAX_ROWS:
            self.error(
                place,
                f"a whole number from 0 to {MAX_ROWS}, or a placeholder such as "
                f"{{{{number1:10:50}}}}, is wanted, not {_shown(value)}",
            )

    def config(self, place: Place, given: Mapping[str, Any]) -> dict[str, Any]:
        """The config, with the clutter that is written elsewhere put into it."""
        config: dict[str, Any] = {}
        if given.get("config") is not None:
            config = dict(self.mapping((*place, "config"), given["config"], ("clutter", *_CLUTTER)))
        found: list[tuple[Place, Any]] = []
        flat = {key: config.pop(key) for key in _CLUTTER if key in config}
        if flat:  # how clutter was written before it had a key of its own
            found.append(((*place, "config"), flat))
        if "clutter" in config:
            found.append(((*place, "config", "clutter"), config["clutter"]))
        if "clutter" in given:
            found.append(((*place, "clutter"), given["clutter"]))
        inner = given.get("content")
        if isinstance(inner, dict) and "clutter" in inner:
            found.append(((*place, "content", "clutter"), inner["clutter"]))
        for where, _ in found[1:]:
            self.error(where, "clutter is written twice; write it once, under `config:`")
        if found:
            place, config["clutter"] = found[0]
            if isinstance(config["clutter"], dict):
                self.known_keys(place, config["clutter"], _CLUTTER)
        return config

    def depends_on(self, place: Place, given: Mapping[str, Any]) -> tuple[str, ...]:
        value = given.get("depends_on")
        if value is None:
            return ()
        names = [value] if isinstance(value, str) else value
        if not isinstance(names, list) or not all(isinstance(name, str) for name in names):
            self.error(
                (*place, "depends_on"), f"a list of component names is wanted, not {_shown(value)}"
            )
            return ()
        return tuple(names)

    def names(self, components: tuple[Component, ...]) -> None:
        seen: dict[str, int] = {}
        for component in components:
            if not component.name:
                continue
            place = (*component.place, "name")
            line = self.document.line(place)
            if component.name in seen:
                self.error(
                    place,
                    f"{component.name!r} was given on line {seen[component.name]} already; "
                    "names are unique",
                )
            seen.setdefault(component.name, line)

    def files(self, components: tuple[Component, ...]) -> None:
        """Refuse two components that make one file, or one inside the other's."""
        seen: dict[str, str] = {}
        for component in components:
            path, place = component.target_file, (*component.place, "target_file")
            if not path:
                continue
            if path in seen:
                self.error(place, f"component {seen[path]!r} makes this file already")
            for other, name in seen.items():
                if f"{path}/".startswith(f"{other}/") and path != other:
                    self.error(place, f"lies inside the file that component {name!r} makes")
            seen.setdefault(path, component.name)

    def ordered(self, components: tuple[Component, ...]) -> tuple[Component, ...]:
        """The components, each after those it needs; else as they were written."""
        names = {component.name: component for component in components if component.name}
        needs = {name: self.needs(component, names) for name, component in names.items()}
        done: dict[str, Component] = {}
        left = list(names)
        while ready := next((name for name in left if needs[name] <= done.keys()), None):
            done[ready] = names[ready]
            left.remove(ready)
        if len(done) == len(components):
            return tuple(done.values())
        if not left:  # names are missing, or given twice
            return components
        circle = _circle(left, needs)
        place = names[circle[0]].place
        key = (*place, "depends_on") if names[circle[0]].depends_on else place
        self.error(key, f"components need each other in a circle: {' → '.join(circle)}")
        return components

    def needs(self, component: Component, known: Mapping[str, Component]) -> set[str]:
        """What a component waits for: what it depends on, and files that its content reads."""
        place = (*component.place, "depends_on")
        for name in component.depends_on:
            if name not in known:
                self.error(place, f"unknown component {_shown(name)}; {nearest(name, known)}")
        read = {name for _, name in _target_names(component.content, ()) if name}
        return {*component.depends_on, *read} & known.keys()

    def targets(
        self,
        place: Place,
        test: Mapping[str, Any],
        components: tuple[Component, ...],
        sandbox: bool,
    ) -> None:
        """Check the components that ``TARGET_FILE[name]`` names, wherever it stands."""
        known = [component.name for component in components if component.name]
        for where, name in _target_names(dict(test), place):
            if not sandbox:
                self.error(where, "TARGET_FILE stands for nothing: there is no sandbox_setup")
            elif name == "" and len(components) > 1:
                self.error(
                    where,
                    "TARGET_FILE may be any of several files; write "
                    f"TARGET_FILE[NAME] with one of {', '.join(known)}",
                )
            elif name and components and name not in known:
                hint = nearest(name, known) if known else "write TARGET_FILE: there is one only"
                self.error(where, f"TARGET_FILE[{name[:60]}] names no component; {hint}")
            elif name is None:
                self.error(where, "TARGET_FILE[ lacks its closing ] or the name in it")


def _target_names(value: Any, place: Place) -> Iterator[tuple[Place, str | None]]:
    """Where ``TARGET_FILE`` is a function's file, and the name in its brackets: "" for none, None
    for brackets that hold none."""
    if isinstance(value, str):
        if "{{" not in value:
            return
        for found in _TARGET.finditer(value):
            bracket = found[1]
            if bracket is None:
                yield place, ""
            else:
                inner = bracket[1:-1].strip() if bracket.endswith("]") else ""
                yield place, inner or None
        return
    items: Any = ()
    if isinstance(value, Mapping):
        items = value.items()
    elif isinstance(value, list | tuple):
        items = enumerate(value)
    for key, inner in items:
        yield from _target_names(inner, (*place, key))


def _circle(left: list[str], needs: Mapping[str, set[str]]) -> list[str]:
    """One circle of names that wait for each other, its first name again at its end."""
    path = [left[0]]
    while True:
        following = next(name for name in sorted(needs[path[-1]]) if name in left)
        if following in path:
            return [*path[path.index(following) :], following]
        path.append(following)


def refusal_of_path(path: str) -> str | None:
    """Why a path may not stand in a template; None for one that may.

    A placeholder counts as a word: no pool or data type gives a value with ``..`` in it.
    """
    plain = path
    while (fewer := _INNERMOST.sub("x", plain)) != plain:
        plain = fewer
    if not path.strip():
        return "is empty; a path below {{artifacts}} is wanted"
    if any(ord(letter) < 32 or ord(letter) == 127 for letter in plain):
        return "holds a control character"
    if "\\" in plain:
        return "holds a backslash; write / between folders"
    if plain.startswith(("/", "~")) or _DRIVE.match(plain):
        return "is absolute; write it below {{artifacts}}/"
    if ".." in plain.split("/"):
        return "leads out of its folder: .. is not allowed"
    if len(plain) > 1000 or any(len(part.encode()) > 200 for part in plain.split("/")):
        return "is too long for a file system"
    return None


def _scoring_types() -> tuple[str, ...]:
    """The types that may be scored; installed packages may bring more than ours."""
    from generators.templates.scoring import scoring_types

    return tuple(dict.fromkeys((*SCORING_TYPES, *_NEEDS, *scoring_types())))


def _shown(value: Any) -> str:
    if value is None:
        return "nothing"
    if isinstance(value, dict):
        return "a mapping" if value else "an empty mapping"
    if isinstance(value, list):
        return "a list" if value else "an empty list"
    text = repr(value)
    return text if len(text) <= 80 else f"{text[:77]}…"
