"""XPath 1.0 over XML documents: the elementpath library.

A path is steps between ``/`` (children) or ``//`` (at any depth): a name, ``*``, ``.``, ``..``,
and last ``@name``, ``@*`` or ``text()``. Names may be ``prefix:name`` (prefixes as the file
declares them), ``{namespace}name``, ``{*}name`` and ``prefix:*``; one without a prefix is in no
namespace or in the document's default one. After a step stand any number of predicates: a position
(``[2]``, ``[last()]``, ``[last()-1]``), or a condition of paths, texts in quotes, numbers, ``= !=
< <= > >=``, ``+ -``, ``and``, ``or``, brackets, and the functions ``not contains starts-with
position last count number string string-length normalize-space true false``.

Comparisons, sums, and the texts and numbers of nodes are our own: where a text is no number,
elementpath 5.1 refuses to compare, and it puts the text behind an element before the text of the
element's children.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from copy import copy
from functools import cached_property, lru_cache
from itertools import product
from math import nan
from typing import Any, TypeVar
from xml.etree.ElementTree import Element, ElementTree, ParseError, XMLPullParser, fromstring

from elementpath import (
    ElementNode,
    ElementPathError,
    XPath1Parser,
    XPathContext,
    XPathNode,
    XPathToken,
    build_node_tree,
)

from generators.errors import TemplateError, TemplateLimitError
from generators.templates.functions.base import ORDERS, QUOTED
from generators.templates.functions.numbers import to_number

MAX_PATH = 2_000  # characters
MAX_DEPTH = 200  # of elements

T = TypeVar("T")

_UNRESOLVED = "{prefix:"  # before a prefix, in names of which no document has said the namespace
_PATHS = frozenset(("(name)", ":", "{", "*", ".", "..", "/", "//", "[", "@", "text"))
_FUNCTIONS = (
    *("not", "contains", "starts-with", "position", "last", "count", "number", "string"),
    *("string-length", "normalize-space", "true", "false"),
)
_ORDERS = ("<", "<=", ">", ">=")
_COMPARISONS = {"=": ORDERS["=="]} | {sign: ORDERS[sign] for sign in ("!=", *_ORDERS)}
_SYMBOLS = (
    *("(start)", "(end)", "(invalid)", "(unknown)"),
    *("(string)", "(float)", "(decimal)", "(integer)"),
    *("]", "(", ")", "}", ",", "+", "-", "and", "or"),
    *_PATHS,
    *_COMPARISONS,
    *_FUNCTIONS,
)


class XmlDocument:
    """The nodes of a document, and the namespaces of its prefixes."""

    def __init__(self, root: Element, text: str) -> None:
        self.top = build_node_tree(ElementTree(root))
        self.root = self.top.children[0]
        self._text = text
        self._full_names: dict[str, tuple[str, ...]] = {}

    @cached_property
    def namespaces(self) -> dict[str, str]:
        """The namespace of each prefix, ``""`` for the default, as first declared."""
        prefixes = {"xml": "http://www.w3.org/XML/1998/namespace"}
        if "xmlns" in self._text:
            parser: Any = XMLPullParser(["start-ns"])
            parser.feed(self._text)  # the text has been parsed once, so it is well-formed
            for _, (prefix, namespace) in parser.read_events():
                prefixes.setdefault(prefix or "", namespace)
        return prefixes

    def expand(self, name: str) -> str:
        """``prefix:name`` as ``{namespace}name``; other names as they are."""
        prefix, colon, local = name.rpartition(":")
        if not colon or name.startswith("{"):
            return name
        if prefix not in self.namespaces:
            raise TemplateError(f"the file declares no prefix {prefix[:40]!r}")
        return f"{{{self.namespaces[prefix]}}}{local}"

    def attribute(self, node: XPathNode, name: str) -> str | None:
        """The text of an element's attribute; None if there is none."""
        element = node.value
        return element.get(self.expand(name)) if isinstance(element, Element) else None

    def full_names(self, name: str) -> tuple[str, ...]:
        """The names that one in a path stands for; if it is an attribute's, the first of them."""
        if name not in self._full_names:
            names = [self.expand(name.removeprefix(_UNRESOLVED).replace("}", ":"))]
            if not name.startswith("{"):
                names = [name, f"{{{self.namespaces.get('', '')}}}{name}"]
            elif not name.startswith(_UNRESOLVED):
                names = [name]
            self._full_names[name] = tuple(names)
        return self._full_names[name]

    def select(self, path: str, start: XPathNode | None = None) -> list[XPathNode]:
        """All that a path leads to, each once, in the document's order. Raises TemplateError."""
        context = _Context(self, self.root if start is None else start)
        try:
            nodes: set[Any] = set(compile_xpath(path).select(context)) - {self.top}
        except ElementPathError as error:
            raise TemplateError(f"the path cannot be computed: {error}") from None
        if not all(isinstance(node, XPathNode) for node in nodes):
            raise TemplateError("the path leads to a value that is not in the file")
        return sorted(nodes, key=lambda node: node.position)

    def texts(self, path: str) -> list[str]:
        """The texts of all that a path leads to, without white space round them."""
        return [string_of(node).strip() for node in self.select(path)]

    def texts_by_label(self, labels: str, values: str) -> list[tuple[str, list[str]]]:
        """The text of each label with those of its values, in the document's order.

        A relative path of values starts from the element that a label stands in; a value of an
        absolute path belongs to the nearest such element that it lies in. Raises TemplateError.
        """
        label_nodes = self.select(labels)
        holders = [
            label.parent if isinstance(label.parent, ElementNode) else label
            for label in label_nodes
        ]
        owned: dict[XPathNode, list[XPathNode]] = {holder: [] for holder in holders}
        if values.lstrip().startswith("/"):
            for value in self.select(values):
                ancestor: XPathNode | None = value
                while ancestor is not None and ancestor not in owned:
                    ancestor = ancestor.parent
                if ancestor is not None:
                    owned[ancestor].append(value)
        else:
            owned = {holder: self.select(values, holder) for holder in owned}
        return [
            (string_of(label).strip(), [string_of(value).strip() for value in owned[holder]])
            for label, holder in zip(label_nodes, holders, strict=True)
        ]


def read_document(text: str) -> XmlDocument:
    """The document of an XML text. Raises TemplateError, for a DOCTYPE too: without one there are
    no entities of a document's own."""
    if _has_doctype(text):
        raise TemplateError("the file has a DOCTYPE, which is refused")
    try:
        root = fromstring(text)  # noqa: S314 - without a DOCTYPE there are no entities
    except ParseError as error:
        raise TemplateError(f"the file is not XML: {error}") from None
    except (ValueError, LookupError) as error:  # an encoding that is none
        raise TemplateError(f"the file is not XML that can be read: {error}") from None
    level, depth = [root], 1
    while level := [child for element in level for child in element]:
        depth += 1
        if depth > MAX_DEPTH:
            raise TemplateLimitError(f"the file is nested deeper than {MAX_DEPTH}")
    return XmlDocument(root, text)


def _has_doctype(text: str) -> bool:
    """True if the text has a doctype before its root, among comments and instructions."""
    at = 0
    while at >= 0:
        at = text.find("<", at)
        if text.startswith("<?", at):
            at = text.find("?>", at)
        elif text.startswith("<!--", at):
            at = text.find("-->", at + 4)
        else:
            return text.startswith("<!", at)
    return False


class _Context(XPathContext):
    """The place where an expression is evaluated."""

    def __init__(self, document: XmlDocument, item: XPathNode) -> None:
        super().__init__(document.top, item=item)
        self.source = document

    def iter_matching_nodes(self, name: str, default_namespace: str | None = None) -> Iterator[Any]:
        first, *more_names = self.source.full_names(name)
        nodes: Iterator[Any] = self.iter_children_or_self()
        for node in nodes:
            names = (first, *more_names) if isinstance(node, ElementNode) else (first,)
            if any(node.match_name(full_name) for full_name in names):
                yield node


class _Comparison(XPathToken):
    """A comparison as in section 3.4 of XPath 1.0: a list of nodes stands for any of them."""

    def evaluate(self, context: Any = None) -> bool:
        sides = [[*operand.select(copy(context))] for operand in self]
        firsts = [value for side in sides for value in side[:1]]
        value_of: Callable[[Any], Any] = string_of
        if self.symbol in _ORDERS or not all(isinstance(v, XPathNode | str) for v in firsts):
            value_of = number_of
        if any(isinstance(value, bool) for value in firsts):
            sides = [[bool(side)] if _are_nodes(side) else side for side in sides]
            value_of = number_of if self.symbol in _ORDERS else self.boolean_value
        left, right = sides
        compare = _COMPARISONS[self.symbol]
        return any(compare(*pair) for pair in product(map(value_of, left), map(value_of, right)))


def _are_nodes(values: list[Any]) -> bool:
    return not values or isinstance(values[0], XPathNode)


class _Sum(XPathToken):
    """The sum or difference of two operands, or one operand with its sign."""

    def evaluate(self, context: Any = None) -> float:
        values = [next(operand.select(copy(context)), "") for operand in self]
        *first, last = map(number_of, values)
        return sum(first) + (last if self.symbol == "+" else -last)


class _Function(XPathToken):
    """A function of XPath: its arguments as texts and numbers."""

    def string_value(self, obj: Any) -> str:
        return string_of(obj) if isinstance(obj, XPathNode) else super().string_value(obj)

    def number_value(self, obj: Any) -> float:
        return number_of(obj)


def string_of(value: Any) -> str:
    """The text of a node with all text in it, as XPath's ``string`` has it; a text as it is."""
    if isinstance(value, XPathNode):
        value = value.value
    return "".join(value.itertext()) if isinstance(value, Element) else str(value)


def number_of(value: Any) -> float:
    """The number of a value, as XPath's ``number`` has it; NaN for a text that is none."""
    if not isinstance(value, XPathNode | str):
        return nan if value is None else float(value)
    number = to_number(string_of(value))
    return nan if number is None else number


_PARSER = XPath1Parser.create_restricted_parser("Template", _SYMBOLS)
for _base, _signs in ((_Comparison, _COMPARISONS), (_Sum, "+-"), (_Function, _FUNCTIONS)):
    for _sign in _signs:
        _PARSER.symbol_table[_sign] = type(_sign, (_base, _PARSER.symbol_table[_sign]), {})


class _Prefixes(dict[str, str]):
    """A namespace for every prefix: the document says later which it is."""

    def __missing__(self, prefix: str) -> str:
        return _UNRESOLVED[1:] + prefix


@lru_cache(maxsize=4096)
def compile_xpath(text: str) -> XPathToken:
    """The parsed path. Raises TemplateError that shows where it stops being one.

    It may be called in any process: the worst paths of MAX_PATH characters that were tried took
    0.04 s.
    """
    if len(text) > MAX_PATH:
        raise TemplateError(f"the path has {len(text)} characters; at most {MAX_PATH} are read")
    bare = QUOTED.sub("", text)
    if bare.count("[") > bare.count("]"):
        raise TemplateError(f"in the path, ] is missing: {text[:60]!r}")
    if "==" in bare:
        raise TemplateError(f"the path cannot be read: write = for == in {text[:60]!r}")
    parser = _PARSER(strict=False)
    parser.namespaces = _Prefixes()
    try:
        path = parser.parse(text)
    except ElementPathError as error:
        raise TemplateError(f"in the path {text[:60]!r}, {error}") from None
    except RecursionError:
        raise TemplateLimitError("the path is nested too deep") from None
    if path.symbol not in _PATHS:
        raise TemplateError("a path has steps; functions stand within [ ]")
    return path
