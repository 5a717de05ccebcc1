"""``create_json``, ``create_yaml`` and ``create_xml``: documents drawn by a schema."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from generators.stream import Stream
from generators.templates.components.emit import json_text, xml_text, yaml_text
from generators.templates.components.fields import check_size, line, mapping, refuse
from generators.templates.components.nodes import Array, Node, Object
from generators.templates.components.schema import (
    DEEPEST,
    DEFAULT_SCHEMA,
    compile_schema,
    element_name,
    is_xml_character,
)

DEFAULT_ROOT = "root"


@dataclass(frozen=True, slots=True)
class Document:
    """A schema, and how what it draws is written."""

    schema: Node
    write: Callable[[Any], str]
    log10_space: float

    def content(self, stream: Stream) -> bytes:
        return self.write(self.schema.draw(stream, 1)[0]).encode()


def compile_json(content: Mapping[str, Any]) -> Document:
    """The JSON document that a component's ``content`` describes. Raises TemplateError."""
    mapping("content", content, ("schema",))
    node = _schema(content, False)
    return Document(node, lambda value: json_text(value) + "\n", node.log10)


def compile_yaml(content: Mapping[str, Any]) -> Document:
    """The YAML document that a component's ``content`` describes. Raises TemplateError."""
    mapping("content", content, ("schema",))
    node = _schema(content, False)
    return Document(node, yaml_text, node.log10)


def compile_xml(content: Mapping[str, Any]) -> Document:
    """The XML document that a component's ``content`` describes. Raises TemplateError."""
    mapping("content", content, ("schema", "root_element", "namespace"))
    root = element_name("content.root_element", content.get("root_element", DEFAULT_ROOT))
    namespace = content.get("namespace")
    if namespace is not None:
        namespace = line("content.namespace", namespace)
        if not all(map(is_xml_character, namespace)):
            refuse("content.namespace", "a character that XML cannot hold")
    node = _schema(content, True)
    return Document(node, lambda value: xml_text(node, value, root, namespace), node.log10)


def _schema(content: Mapping[str, Any], xml: bool) -> Node:
    node = compile_schema("content.schema", content.get("schema") or DEFAULT_SCHEMA, xml)
    # Each value may stand on a line of its own, indented.
    deepest = 2 * min(_depth(node), DEEPEST) + 2
    check_size("content.schema", node.values, node.size + node.values * deepest)
    return node


def _depth(node: Node) -> int:
    if isinstance(node, Array):
        return 1 + _depth(node.items)
    if isinstance(node, Object):
        inner = (*node.nodes, *([node.extra] if node.extra else []))
        return 1 + max(map(_depth, inner), default=0)
    return DEEPEST if node.values > 1 else 1
