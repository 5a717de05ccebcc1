"""Components of a sandbox: from what a template says to a maker of files.

Everything is checked when a component is compiled; a maker draws and writes, and cannot fail.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from generators.errors import nearest
from generators.stream import Stream
from generators.templates.components.csv_table import CsvTable, compile_csv
from generators.templates.components.distractors import Distractors, compile_distractors
from generators.templates.components.documents import (
    StructuredFile,
    compile_json,
    compile_xml,
    compile_yaml,
)
from generators.templates.components.sqlite.database import Database, compile_sqlite
from generators.templates.components.text_files import TextFile, Tree, compile_files, compile_tree
from generators.templates.language.diagnostics import gathered, mapping, refuse
from generators.templates.language.template import Component, MadeFile
from generators.templates.language.values import ValueSet

Writer = CsvTable | Database | StructuredFile | TextFile  # of the single file of a component

_COMPILERS: Mapping[str, Callable[[Mapping[str, Any], ValueSet], Writer | Tree]] = {
    "create_files": lambda content, _: compile_files(content),
    "create_tree": lambda content, _: compile_tree(content),
    "create_csv": compile_csv,
    "create_sqlite": compile_sqlite,
    "create_json": compile_json,
    "create_yaml": compile_yaml,
    "create_xml": compile_xml,
}
COMPONENTS = tuple(_COMPILERS)


@dataclass(frozen=True, slots=True)
class ComponentMaker:
    """Makes a component's file, or the files of its tree, and the distractors beside them."""

    writer: Writer | Tree
    distractors: Distractors | None

    @property
    def log10_space(self) -> float:
        """log10 of the number of distinct contents."""
        return self.writer.log10_space + (self.distractors.log10_space if self.distractors else 0.0)

    def make(self, stream: Stream, target: str) -> tuple[MadeFile, ...]:
        """The file, or the tree with the target as its folder, and distractors."""
        if isinstance(self.writer, Tree):
            files = self.writer.make(stream, target)
        else:
            files = (MadeFile(target, self.writer.content(stream)),)
        if self.distractors is None:
            return files
        return (*files, *self.distractors.make(stream, target))


def compile_component(component: Component) -> ComponentMaker:
    """Return the maker of a component with its placeholders replaced (by ``Given`` text, if a
    schema holds them).

    A component's own draws come before those of its distractors, so that these change no key.
    Raises TemplateError, a line for each complaint, which begins with the key's path inside the
    component: ``content.columns[2].type: unknown …``.
    """
    if component.type not in COMPONENTS:
        refuse(
            "type", f"unknown component {component.type!r}; {nearest(component.type, COMPONENTS)}"
        )

    def writer() -> Writer | Tree:
        content = mapping("content", component.content)
        return _COMPILERS[component.type](content, component.values)

    def distractors() -> Distractors | None:
        return compile_distractors(mapping("config", component.config))

    return ComponentMaker(*gathered((writer, distractors)))
