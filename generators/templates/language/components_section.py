"""The sandboxes of template files: their components, checked for form and put in order."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from graphlib import CycleError, TopologicalSorter
from heapq import heappop, heappush
from typing import Any

from generators.errors import nearest
from generators.templates.language.diagnostics import MOST_PROBLEMS, Form, fault_of_name, shown
from generators.templates.language.keys import (
    CLUTTER_KEYS,
    COMPONENT_KEYS,
    CONTENT_KEYS,
    MAX_ROWS,
    SANDBOX_KEYS,
    SIZES,
)
from generators.templates.language.template import Component, texts_within
from generators.templates.language.values import BUILT_IN, ValueSet
from generators.yaml_lines import Place

_MOST_IN_CIRCLE = 12  # components of a circle in an error

# Keys of a content that name columns, tables and elements.
_LABELS = frozenset(
    (
        *("headers", "columns", "name", "table_name", "table", "column", "foreign_key"),
        *("root_element", "element_name", "namespace"),
    )
)
_NAME = re.compile(r"[A-Za-z][A-Za-z0-9_-]{0,49}")
_TARGET = re.compile(r":\s*TARGET_FILE(\[[^\]\n{}]*\]?)?")


@dataclass(slots=True)
class SandboxForm(Form):
    """The reading of ``sandbox_setup``."""

    values: ValueSet = BUILT_IN
    misnamed: set[Place] = field(default_factory=set)  # sandboxes with a component of no right name

    def sandbox(self, place: Place, setup: Any) -> tuple[Component, ...]:
        """The components, in an order that keeps every depends_on."""
        if not isinstance(setup, dict) or not setup:
            self.error(place, f"a type, or a list of components, is wanted, not {shown(setup)}")
            return ()
        if "components" in setup and "type" in setup:
            self.error(place, "has both a type and components: write all as components")
            return ()
        if "components" not in setup:
            one = self.component(place, setup, named=False)
            return () if one is None else (one,)
        self.known_keys(place, setup, SANDBOX_KEYS)
        given, within = setup["components"], (*place, "components")
        if not isinstance(given, list) or not given:
            self.error(within, f"a list of at least one component is wanted, not {shown(given)}")
            return ()
        made = [
            self.component((*within, i), component, named=True) for i, component in enumerate(given)
        ]
        components = tuple(component for component in made if component is not None)
        self.names(components)
        self.files(components)
        if any(not component.name for component in components):
            self.misnamed.add(place)
        return components if place in self.misnamed else self.ordered(components)

    def component(self, place: Place, given: Any, named: bool) -> Component | None:
        """One component; None, and an error, for something else."""
        given = self.mapping(place, given, COMPONENT_KEYS)
        if not given:
            return None
        kind = self.text(place, given, "type")
        if kind is not None and kind not in CONTENT_KEYS:
            self.error(
                (*place, "type"),
                f"unknown component type {shown(kind)}; {nearest(kind, CONTENT_KEYS)}",
            )
            kind = None
        name = self.name(place, given, named)
        target = self.text(place, given, "target_file")
        if target is not None:
            self.path((*place, "target_file"), target, folder=kind in (None, "create_tree"))
        content = self.content(place, given, kind)
        config = self.config(place, given)
        depends_on = self.depends_on(place, given)
        return Component(
            kind or "?",
            name or "",
            target or "",
            content,
            config,
            depends_on=depends_on,
            place=place,
            values=self.values,
        )

    def name(self, place: Place, given: Mapping[str, Any], named: bool) -> str | None:
        """The name of a component; None, and an error, for a bad one."""
        if "name" not in given and not named:
            return ""
        name = self.text(place, given, "name")
        if name is not None and not _NAME.fullmatch(name):
            self.error(
                (*place, "name"),
                f"{shown(name)} is no name: a letter, then letters, digits, _ and -, "
                "at most 50 characters in all",
            )
            return None
        return name

    def content(self, place: Place, given: Mapping[str, Any], kind: str | None) -> dict[str, Any]:
        """The content, with the rows or count that stand beside it put into it."""
        known = CONTENT_KEYS.get(kind or "", ())
        within = (*place, "content")
        beside = {key: given[key] for key in SIZES if key in given}
        if "content" not in given:
            if kind != "create_tree" and kind is not None:
                self.lacks(place, "content", f", which {kind} needs")
            content: dict[str, Any] = {}
        else:
            content = dict(self.mapping(within, given["content"]))
        content.pop("clutter", None)
        self.labels(within, content)
        if kind is not None:
            self.known_keys(within, content, known)
        for key, value in beside.items():
            if key in content and content[key] != value:
                self.error((*place, key), f"{key} stands in `content` too, with another value")
            elif kind is not None and key not in known:
                self.error((*place, key), f"{kind} has no {key}")
            content.setdefault(key, value)
        for key in SIZES:
            if key in content:
                self.size((*(within if key not in beside else place), key), content[key])
        return content

    def labels(self, place: Place, value: Any, label: bool = False) -> None:
        """Check the names of columns, tables and elements in a content."""
        if isinstance(value, str):
            if label and (fault := fault_of_name(value)) is not None:
                self.error(place, f"{shown(value)} {fault}")
        elif isinstance(value, Mapping):
            for key, inner in value.items():
                self.labels((*place, key), inner, key in _LABELS)
        elif isinstance(value, list):
            for index, inner in enumerate(value):
                self.labels((*place, index), inner, label)

    def size(self, place: Place, value: Any) -> None:
        """A number of rows, lines or files: whole, or a placeholder."""
        if isinstance(value, str) and ("{{" in value or value.strip().isdecimal()):
            return
        whole = isinstance(value, int) and not isinstance(value, bool)
        if not whole or not 0 <= value <= MAX_ROWS:
            self.error(
                place,
                f"a whole number from 0 to {MAX_ROWS}, or a placeholder such as "
                f"{{{{number1:10:50}}}}, is wanted, not {shown(value)}",
            )

    def config(self, place: Place, given: Mapping[str, Any]) -> dict[str, Any]:
        """The config, with the clutter that is written elsewhere put into it."""
        config: dict[str, Any] = {}
        if given.get("config") is not None:
            config = dict(
                self.mapping((*place, "config"), given["config"], ("clutter", *CLUTTER_KEYS))
            )
        flat = {key: config.pop(key) for key in CLUTTER_KEYS if key in config}
        # How clutter was written before it had a key of its own.
        settings: list[tuple[Place, Any]] = [((*place, "config"), flat)] if flat else []
        levels = (("config",), config), ((), given), (("content",), given.get("content"))
        settings += [
            ((*place, *level, "clutter"), holder["clutter"])
            for level, holder in levels
            if isinstance(holder, dict) and "clutter" in holder
        ]
        for where, _ in settings[1:]:
            self.error(where, "clutter is written twice; write it once, under `config:`")
        if settings:
            place, config["clutter"] = settings[0]
            if isinstance(config["clutter"], dict):
                self.known_keys(place, config["clutter"], CLUTTER_KEYS)
        return config

    def depends_on(self, place: Place, given: Mapping[str, Any]) -> tuple[str, ...]:
        """The components that must be made before this one."""
        value = given.get("depends_on")
        if value is None:
            return ()
        names = [value] if isinstance(value, str) else value
        if not isinstance(names, list) or not all(isinstance(name, str) for name in names):
            self.error(
                (*place, "depends_on"), f"a list of component names is wanted, not {shown(value)}"
            )
            return ()
        return tuple(names)

    def names(self, components: tuple[Component, ...]) -> None:
        """Report names that are given twice."""
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
                self.misnamed.add(component.place[:-2])
            seen.setdefault(component.name, line)

    def files(self, components: tuple[Component, ...]) -> None:
        """Refuse two components that make one file, or one inside the other's."""
        seen: dict[str, str] = {}
        holding: dict[str, str] = {}  # those that are files, not folders
        for component in components:
            path, place = component.target_file, (*component.place, "target_file")
            if not path:
                continue
            if path in seen:
                self.error(place, f"component {seen[path]!r} makes this file already")
            for other in _above(path):
                if other in holding:
                    self.error(
                        place, f"lies inside the file that component {holding[other]!r} makes"
                    )
            if component.type != "create_tree":
                holding.setdefault(path, component.name)
            seen.setdefault(path, component.name)

    def ordered(self, components: tuple[Component, ...]) -> tuple[Component, ...]:
        """The components, each after those it needs; else as they were written."""
        names = {component.name: component for component in components if component.name}
        needs = {name: self.needs(component, names) for name, component in names.items()}
        try:
            order = in_order(needs)
        except CycleError as error:
            circle: list[str] = error.args[1][::-1]  # each needs the next
            place = names[circle[0]].place
            key = (*place, "depends_on") if names[circle[0]].depends_on else place
            if len(circle) > _MOST_IN_CIRCLE:
                circle[_MOST_IN_CIRCLE - 2 : -1] = ["…"]
            self.error(key, f"components need each other in a circle: {' → '.join(circle)}")
            return components
        if len(order) < len(components):  # names are missing, or given twice
            return components
        return tuple(names[name] for name in order)

    def needs(self, component: Component, known: Mapping[str, Component]) -> set[str]:
        """Components to make before this one: those it depends on, and those its content reads."""
        place = (*component.place, "depends_on")
        for name in component.depends_on:
            if name not in known:
                many = len(self.errors) > MOST_PROBLEMS  # of which the first are reported
                hint = "" if many else f"; {nearest(name, known)}"
                self.error(place, f"unknown component {shown(name)}{hint}")
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
            elif (*place, "sandbox_setup") in self.misnamed:
                continue
            elif name and components and name not in known:
                hint = nearest(name, known) if known else "write TARGET_FILE: there is one only"
                self.error(where, f"TARGET_FILE[{name[:60]}] names no component; {hint}")
            elif name is None:
                self.error(where, "TARGET_FILE[ lacks its closing ] or the name in it")


def _target_names(value: Any, place: Place) -> Iterator[tuple[Place, str | None]]:
    """Find the places with ``TARGET_FILE`` as a function's file, and the name in its brackets:
    "" without brackets, None for brackets without a name."""
    for where, text, is_key in texts_within(value, place):
        for match in _TARGET.finditer(text) if "{{" in text and not is_key else ():
            bracket = match[1]
            if bracket is None:
                yield where, ""
            else:
                yield where, (bracket[1:-1].strip() if bracket.endswith("]") else "") or None


def _above(path: str) -> Iterator[str]:
    """The folders that a path lies in, the nearest first."""
    while (path := path.rpartition("/")[0]) != "":
        yield path


def in_order(needs: Mapping[str, set[str]]) -> list[str]:
    """The names, each after those it needs and else in their order. Raises CycleError."""
    sorter = TopologicalSorter(needs)
    sorter.prepare()
    names, place = list(needs), {name: place for place, name in enumerate(needs)}
    ready: list[int] = []
    order: list[str] = []
    while sorter.is_active():
        for name in sorter.get_ready():
            heappush(ready, place[name])
        order.append(names[heappop(ready)])
        sorter.done(order[-1])
    return order
