"""Evaluation of XPath: steps over ElementTree's elements, and the values of predicates."""

from __future__ import annotations

import operator
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property
from math import nan
from typing import TYPE_CHECKING, Any, Literal, NamedTuple, TypeAlias

from generators.errors import TemplateError, TemplateLimitError
from generators.templates.functions.numbers import to_number

if TYPE_CHECKING:
    from xml.etree.ElementTree import Element

_XML = "http://www.w3.org/XML/1998/namespace"
MAX_WORK = 1_000_000  # elements looked at for one path


class XmlDocument:
    """A root element, and what paths need to know of the whole, found when first needed."""

    def __init__(self, root: Element, text: str) -> None:
        self.root = root
        self._text = text
        self.matchers: dict[str, Callable[[str], bool]] = {}  # of names in paths, as they come

    @cached_property
    def order(self) -> dict[Element, int]:
        """Where each element stands in the document."""
        return {element: place for place, element in enumerate(self.root.iter())}

    @cached_property
    def parents(self) -> dict[Element, Element]:
        """The parent of each element but the root."""
        return {child: parent for parent in self.root.iter() for child in parent}

    @cached_property
    def namespaces(self) -> dict[str, str]:
        """The namespace of each prefix, ``""`` for the default, as first declared."""
        from xml.etree.ElementTree import XMLPullParser

        prefixes = {"xml": _XML}
        if "xmlns" in self._text:
            parser: Any = XMLPullParser(["start-ns"])
            parser.feed(self._text)  # the text has been parsed once, so it is well-formed
            for _, (prefix, namespace) in parser.read_events():
                prefixes.setdefault(prefix or "", namespace)
        return prefixes

    def tags(self, name: str) -> tuple[str, ...]:
        """The tags that an element's name in a path may mean.

        A name without prefix is one in no namespace or in the document's default one.
        """
        default = "" if name.startswith("{") or ":" in name else self.namespaces.get("", "")
        return (name, f"{{{default}}}{name}") if default else (self.expand(name),)

    def expand(self, name: str) -> str:
        """``prefix:name`` as ``{namespace}name``; other names as they are."""
        prefix, colon, local = name.rpartition(":")
        if not colon or name.startswith("{"):
            return name
        if prefix not in self.namespaces:
            raise TemplateError(f"the file declares no prefix {prefix[:40]!r}")
        return f"{{{self.namespaces[prefix]}}}{local}"


class Attribute(NamedTuple):
    """An attribute that a path leads to, or (without a name) a text."""

    owner: Element
    name: str
    text: str


Node: TypeAlias = "Element | Attribute"
Place: TypeAlias = "Element | None"  # None is the document, above its root
Value: TypeAlias = "float | str | bool | list[Node]"


@dataclass(slots=True)
class Work:
    """How many elements may still be looked at. Mutable."""

    left: int

    def spend(self, count: int) -> None:
        """Raise TemplateLimitError where so many are no longer left."""
        self.left -= count
        if self.left < 0:
            raise TemplateLimitError("the path looks at too many elements")


@dataclass(slots=True)
class Context:
    """Where an expression is evaluated. Mutable: it moves along the nodes of a step."""

    document: XmlDocument
    work: Work
    node: Place
    position: int = 1
    size: int = 1


Expression: TypeAlias = Callable[[Context], Value]


@dataclass(frozen=True, slots=True)
class XPathStep:
    """One step: by which axis, to what name, through which predicates, and whether after //."""

    axis: Literal["child", "self", "parent", "attribute", "text"]
    name: str
    deep: bool
    predicates: tuple[Expression, ...] = ()


@dataclass(frozen=True, slots=True)
class XPath:
    """The steps of a path, from the root element or, if absolute, from above it."""

    steps: tuple[XPathStep, ...]
    absolute: bool


def select(document: XmlDocument, path: XPath) -> list[Node]:
    """All that a path leads to, each once, in the document's order. Raises TemplateError."""
    return select_from(path, Context(document, Work(MAX_WORK), document.root))


def string_of(node: Node) -> str:
    """The text of a node with all text in it, as XPath's ``string`` has it."""
    if isinstance(node, Attribute):
        return node.text
    return "".join(node.itertext()) if len(node) else node.text or ""


def select_from(path: XPath, context: Context) -> list[Node]:
    """All that a path leads to from a place."""
    places: list[Place] = [None if path.absolute else context.node]
    nested = False  # whether some may lie within others, so that their children are not in order
    for step in path.steps:
        if step.axis in ("attribute", "text"):  # the last
            owners = _descend(places, context) if step.deep else places
            return [
                leaf
                for owner in owners
                if owner is not None
                for leaf in _leaves(owner, step, context)
            ]
        nested = nested or step.deep
        places = _take(places, step, context, nested)
    return [place for place in places if place is not None]


def _take(places: list[Place], step: XPathStep, context: Context, nested: bool) -> list[Place]:
    if step.deep and step.axis == "child" and not step.predicates and len(places) == 1:
        inside = _inside(places[0], context)
        return _named(inside, step.name, context)
    if step.deep:
        places = _descend(places, context)
    reached: list[Place] = []
    for place in places:
        near = _near(place, step, context)
        for predicate in step.predicates if near else ():
            near = _keep(near, predicate, context)
        reached += near
    if nested and len(places) > 1:
        order = context.document.order
        return sorted(set(reached), key=lambda place: -1 if place is None else order[place])
    return list(dict.fromkeys(reached)) if step.axis == "parent" else reached


def _inside(place: Place, context: Context) -> list[Place]:
    """All elements below a place, in order."""
    inside: list[Place] = list((context.document.root if place is None else place).iter())
    return inside if place is None else inside[1:]


def _descend(places: list[Place], context: Context) -> list[Place]:
    """The places and all elements in them, each once, in order."""
    reached: dict[Place, None] = {}
    for place in places:
        if place not in reached or place is None:
            reached[place] = None
            inside = _inside(place, context)
            context.work.spend(len(inside))
            reached.update(dict.fromkeys(inside))
    if len(places) == 1:
        return list(reached)
    order = context.document.order
    return sorted(reached, key=lambda place: -1 if place is None else order[place])


def _near(place: Place, step: XPathStep, context: Context) -> list[Place]:
    if step.axis == "self":
        return [place]
    if step.axis == "parent":
        return [] if place is None else [context.document.parents.get(place)]
    children: list[Place] = [context.document.root] if place is None else list(place)
    return _named(children, step.name, context)


def _named(places: Sequence[Place], name: str, context: Context) -> list[Place]:
    context.work.spend(len(places) + 1)
    if name == "*":
        return list(places)
    matchers = context.document.matchers
    matches = matchers.get(name)
    if matches is None:
        matches = matchers[name] = _matcher(name, context.document)
    return [place for place in places if place is not None and matches(place.tag)]


def _matcher(name: str, document: XmlDocument) -> Callable[[str], bool]:
    if name.startswith("{*}"):
        local = name[3:]
        return lambda tag: tag.rpartition("}")[2] == local
    if name.endswith(":*"):
        start = document.expand(name)[:-1]
        return lambda tag: tag.startswith(start)
    if name.endswith("}*"):
        return lambda tag: tag.startswith(name[:-1])
    tags = document.tags(name)
    return tags.__contains__ if len(tags) > 1 else tags[0].__eq__


def _leaves(element: Element, step: XPathStep, context: Context) -> list[Attribute]:
    context.work.spend(1)
    if step.axis == "text":
        texts = [element.text, *(child.tail for child in element)]
        return [Attribute(element, "", text) for text in texts if text]
    if step.name == "*":
        return [Attribute(element, name, text) for name, text in element.items()]
    name = context.document.expand(step.name)
    text = element.get(name)
    return [] if text is None else [Attribute(element, name, text)]


def _keep(places: list[Place], predicate: Expression, context: Context) -> list[Place]:
    context.work.spend(len(places))
    inner = Context(context.document, context.work, None, 0, len(places))
    kept = []
    for place in places:
        inner.node = place
        inner.position += 1
        value = predicate(inner)
        if value == inner.position if isinstance(value, float) else value:
            kept.append(place)
    return kept


def is_true(value: Value) -> bool:
    """As XPath's ``boolean``: what is not a number is false."""
    return bool(value) and value == value


def number_from(value: Value) -> float:
    """As XPath's ``number``; not a number where the text is none."""
    if isinstance(value, list):
        value = string_of(value[0]) if value else ""
    if isinstance(value, str):
        number = to_number(value)
        return nan if number is None else number
    return float(value)


def _string(value: Value) -> str:
    if isinstance(value, list):
        return string_of(value[0]) if value else ""
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, float):
        return str(int(value)) if value.is_integer() else repr(value)
    return value


def compare(sign: str, one: Value, other: Value, work: Work) -> bool:
    """As section 3.4 of XPath 1.0: nodes stand for any of them."""
    if isinstance(one, list) and isinstance(other, bool):
        one = bool(one)
    if isinstance(other, list) and isinstance(one, bool):
        other = bool(other)
    if isinstance(one, list):
        work.spend(len(one))
        return any(compare(sign, string_of(node), other, work) for node in one)
    if isinstance(other, list):
        work.spend(len(other))
        return any(compare(sign, one, string_of(node), work) for node in other)
    order = ORDERS[sign]
    if sign not in ("=", "!="):
        return order(number_from(one), number_from(other))
    if isinstance(one, bool) or isinstance(other, bool):
        return order(bool(one), bool(other))
    if isinstance(one, float) or isinstance(other, float):
        return order(number_from(one), number_from(other))
    return order(one, other)


ORDERS: dict[str, Callable[[Any, Any], bool]] = {
    "=": operator.eq,
    "!=": operator.ne,
    "<": operator.lt,
    "<=": operator.le,
    ">": operator.gt,
    ">=": operator.ge,
}


def _size(value: Value) -> float:
    if not isinstance(value, list):
        raise TemplateError("count() takes a path")
    return float(len(value))


def _only(arguments: Sequence[Value], context: Context) -> Value:
    """The argument of a function that without one means the node."""
    if arguments:
        return arguments[0]
    return [] if context.node is None else [context.node]


Apply = Callable[[Sequence[Any], Context], Value]
CALLS: dict[str, tuple[int, int, Apply]] = {  # arguments at least and at most
    "last": (0, 0, lambda _, context: float(context.size)),
    "position": (0, 0, lambda _, context: float(context.position)),
    "true": (0, 0, lambda _, context: True),
    "false": (0, 0, lambda _, context: False),
    "not": (1, 1, lambda values, _: not is_true(values[0])),
    "count": (1, 1, lambda values, _: _size(values[0])),
    "contains": (2, 2, lambda values, _: _string(values[1]) in _string(values[0])),
    "starts-with": (2, 2, lambda values, _: _string(values[0]).startswith(_string(values[1]))),
    "number": (0, 1, lambda values, context: number_from(_only(values, context))),
    "string": (0, 1, lambda values, context: _string(_only(values, context))),
    "string-length": (0, 1, lambda values, context: float(len(_string(_only(values, context))))),
    "normalize-space": (
        0,
        1,
        lambda values, context: " ".join(_string(_only(values, context)).split()),
    ),
}
