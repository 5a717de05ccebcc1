"""Writing JSON, YAML and XML. Our own, so that the bytes change with no library's taste."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from json.encoder import encode_basestring
from typing import Any

from generators.stream import Stream
from generators.templates.components.schema import (
    DEEPEST,
    DEFAULT_SCHEMA,
    Array,
    Leaf,
    Node,
    Object,
    Rules,
    compile_schema,
    element_name,
    is_xml_text,
)
from generators.templates.language.data_types import text
from generators.templates.language.diagnostics import check_size, line, mapping, refuse
from generators.templates.language.keys import CONTENT_KEYS
from generators.templates.language.values import ValueSet

# Letters first, then nothing that YAML could read as other than text.
_PLAIN = re.compile(r"[A-Za-z][A-Za-z0-9_./@()&+-]*(?: [A-Za-z0-9_./@()+-]+)*", re.ASCII)
_NOT_TEXT = frozenset(
    ["y", "n", "yes", "no", "on", "off", "true", "false", "null", "nan", "inf", "none"]
)  # in any case, for readers of every age
# Characters that YAML does not allow unescaped in double quotes, beside those that JSON escapes.
_UNPRINTABLE = re.compile("[\x7f-\x9f\u2028\u2029\ufeff\ufffe\uffff]")


def json_text(value: Any) -> str:
    """JSON, indented by two, keys in the order in which they were drawn."""
    return json.dumps(value, indent=2, ensure_ascii=False)


def yaml_text(value: Any) -> str:
    """YAML in block style, indented by two, keys in the order in which they were drawn."""
    if (one := _yaml_scalar(value)) is not None:
        return one + "\n"
    return "\n".join(_yaml_lines(value, "")) + "\n"


def _yaml_lines(value: Any, indent: str) -> Iterator[str]:
    if isinstance(value, dict):
        for key, item in value.items():
            yield from _yaml_entry(f"{indent}{_yaml_string(key)}:", item, indent, True)
    else:
        for item in value:
            yield from _yaml_entry(f"{indent}-", item, indent, False)


def _yaml_entry(head: str, value: Any, indent: str, in_mapping: bool) -> Iterator[str]:
    if (one := _yaml_scalar(value)) is not None:
        yield f"{head} {one}"
    elif in_mapping:
        yield head
        yield from _yaml_lines(value, indent if isinstance(value, list) else indent + "  ")
    else:
        inner = _yaml_lines(value, indent + "  ")
        yield head + next(inner)[len(indent) + 1 :]
        yield from inner


def _yaml_scalar(value: Any) -> str | None:
    """A value on one line; None for one that needs more lines."""
    if isinstance(value, str):
        return _yaml_string(value)
    if isinstance(value, dict | list):
        return None if value else ("{}" if isinstance(value, dict) else "[]")
    if isinstance(value, float):
        return _yaml_float(value)
    return "null" if value is None else text(value)


def _yaml_float(value: float) -> str:
    """With the point that YAML 1.1 wants before an exponent: 1.0e+20, not 1e+20."""
    written = repr(value)
    mantissa, e, exponent = written.partition("e")
    if not e:
        return written
    return f"{mantissa if '.' in mantissa else mantissa + '.0'}e{exponent}"


def _yaml_string(value: str) -> str:
    if _PLAIN.fullmatch(value) and value.lower() not in _NOT_TEXT:
        return value
    return _UNPRINTABLE.sub(lambda match: f"\\u{ord(match[0]):04x}", encode_basestring(value))


def xml_text(node: Node, value: Any, root: str, namespace: str | None) -> str:
    """XML, indented by two: a key is an element, an array's items are elements of one name."""
    quoted = None if namespace is None else _escape(namespace).replace('"', "&quot;")
    attributes = "" if quoted is None else f' xmlns="{quoted}"'
    lines = _xml_lines(node, value, root, attributes, "")
    return "\n".join(('<?xml version="1.0" encoding="UTF-8"?>', *lines, ""))


def _escape(text: str) -> str:
    """The text of an element. That of the standard library would import a client of HTTP."""
    return text.replace("&", "&amp;").replace(">", "&gt;").replace("<", "&lt;")


def _xml_lines(node: Node, value: Any, name: str, more: str, indent: str) -> Iterator[str]:
    if isinstance(node, Leaf) and not isinstance(value, dict | list):
        written = _escape((node.write or text)(value))
        yield f"{indent}<{name}{more}>{written}</{name}>" if written else f"{indent}<{name}{more}/>"
        return
    children = list(_children(node, value))
    if not children:
        yield f"{indent}<{name}{more}/>"
        return
    yield f"{indent}<{name}{more}>"
    for child, item, tag in children:
        yield from _xml_lines(child, item, tag, "", indent + "  ")
    yield f"{indent}</{name}>"


def _children(node: Node, value: Any) -> Iterable[tuple[Node, Any, str]]:
    if isinstance(node, Array):
        return [(node.items, item, node.element) for item in value]
    if isinstance(node, Object):
        known = dict(zip(node.keys, node.nodes, strict=True))
        return [(known.get(key, node.extra or node), item, key) for key, item in value.items()]
    if isinstance(value, dict):  # a literal
        return [(node, item, key) for key, item in value.items()]
    return [(node, item, "item") for item in value]


# --- ``create_json``, ``create_yaml`` and ``create_xml``: documents drawn by a schema ---

DEFAULT_ROOT = "root"


@dataclass(frozen=True, slots=True)
class StructuredFile:
    """A schema, and how what it draws is written."""

    schema: Node
    write: Callable[[Any], str]
    log10_space: float

    def content(self, stream: Stream) -> bytes:
        """The bytes of the file."""
        return self.write(self.schema.draw(stream, 1)[0]).encode()


def compile_json(content: Mapping[str, Any], values: ValueSet) -> StructuredFile:
    """The JSON document that a component's ``content`` describes. Raises TemplateError."""
    return _compiled(content, values, lambda value: json_text(value) + "\n")


def compile_yaml(content: Mapping[str, Any], values: ValueSet) -> StructuredFile:
    """The YAML document that a component's ``content`` describes. Raises TemplateError."""
    return _compiled(content, values, yaml_text)


def _compiled(
    content: Mapping[str, Any], values: ValueSet, write: Callable[[Any], str]
) -> StructuredFile:
    mapping("content", content, CONTENT_KEYS["create_json"])
    node = _schema(content, Rules(False, values))
    return StructuredFile(node, write, node.log10)


def compile_xml(content: Mapping[str, Any], values: ValueSet) -> StructuredFile:
    """The XML document that a component's ``content`` describes. Raises TemplateError."""
    mapping("content", content, CONTENT_KEYS["create_xml"])
    root = element_name("content.root_element", content.get("root_element", DEFAULT_ROOT))
    namespace = content.get("namespace")
    if namespace is not None:
        namespace = line("content.namespace", namespace)
        if not is_xml_text(namespace):
            refuse("content.namespace", "a character that XML cannot hold")
    node = _schema(content, Rules(True, values))
    return StructuredFile(node, lambda value: xml_text(node, value, root, namespace), node.log10)


def _schema(content: Mapping[str, Any], rules: Rules) -> Node:
    node = compile_schema("content.schema", content.get("schema") or DEFAULT_SCHEMA, rules)
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
