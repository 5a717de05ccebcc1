"""Values of XML files by XPath; see ``xpath`` for the part of it that is there.

Paths start at the root element: ``users/user`` are its grandchildren, ``//user`` are elements
anywhere, ``/system/users`` names the root. A value is an element's text with that of the
elements in it, white space round it left out; the first match in document order is the one.

As in the public implementation: no match is an error for ``xpath_value`` and ``xpath_attr``, the
first match decides whether there is an attribute; sums, averages, maxima and minima are floats
in full, skip what is no number, and are ``0`` of none. Its code of these functions is not
public, only its tests and pages, so these are ours: values that are empty are left out of
``xpath_collect``; ``path/@name`` is a path wherever one may stand; ``xpath_max_value`` and
``xpath_min_value`` give the number as the file has it; ``xpath_max_count`` is the largest number
of matches that one parent has (the most members of any one team). Public templates give these
three two paths, labels and values, and mean the label (``texts_by_label``).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING

from generators.errors import TemplateError
from generators.templates.functions import numbers as numeric
from generators.templates.functions.base import Function, Match, OpenFile, parts_paths, table_of
from generators.templates.functions.matches import match_numbers, match_xml

if TYPE_CHECKING:
    from elementpath import XPathNode

    from generators.templates.functions.xpath import XmlDocument


def parse_document(file: OpenFile) -> XmlDocument:
    """The elements of an XML file (a parser of OpenFile)."""
    from generators.templates.functions.xpath import read_document

    return read_document(file.text)


def xpath_value(arguments: Sequence[str], file: OpenFile) -> str:
    """The text of the first match."""
    texts = _texts(arguments[0], file)
    if not texts:
        raise TemplateError("the path leads to nothing in the file")
    return texts[0]


def xpath_attr(arguments: Sequence[str], file: OpenFile) -> str:
    """An attribute of the first match: ``path@name``; ``path/@name`` of the first that has it."""
    path, name = _split_attribute(arguments[0])
    if path.endswith("/"):
        return xpath_value(arguments, file)
    nodes = _matches(path or ".", file)
    if not nodes:
        raise TemplateError("the path leads to nothing in the file")
    value = file.parsed(parse_document).attribute(nodes[0], name)
    if value is None:
        raise TemplateError(f"the first match has no attribute {name[:80]!r}")
    return value


def xpath_count(arguments: Sequence[str], file: OpenFile) -> str:
    """Number of matches."""
    return str(len(_matches(arguments[0], file)))


def xpath_exists(arguments: Sequence[str], file: OpenFile) -> str:
    """``true`` where there is a match, else ``false``."""
    return "true" if _matches(arguments[0], file) else "false"


def xpath_collect(arguments: Sequence[str], file: OpenFile) -> str:
    """The texts of all matches joined by commas, empty ones left out."""
    return ",".join(filter(None, _texts(arguments[0], file)))


def xpath_max_count(arguments: Sequence[str], file: OpenFile) -> str:
    """The largest number of matches that have one parent, ``0`` where there is none; of two paths
    the label that has the most."""
    if len(arguments) > 1:
        groups = _groups(arguments, file)
        return max(groups, key=lambda group: len(group[1]))[0]
    counts = Counter(node.parent for node in _matches(arguments[0], file))
    return str(max(counts.values(), default=0))


def _matches(path: str, file: OpenFile) -> list[XPathNode]:
    return _document(path, file).select(path)


def _document(path: str, file: OpenFile) -> XmlDocument:
    _check([path])  # first: errors of the path itself are reported before those of a file
    return file.parsed(parse_document)


def _texts(path: str, file: OpenFile) -> list[str]:
    return _document(path, file).texts(path)


def _numbers(verb: str) -> Callable[[Sequence[str], OpenFile], str]:
    def compute(arguments: Sequence[str], file: OpenFile) -> str:
        return numeric.aggregate(verb, numeric.numbers_in(_texts(arguments[0], file)))

    return compute


def _extreme(largest: bool) -> Callable[[Sequence[str], OpenFile], str]:
    def compute(arguments: Sequence[str], file: OpenFile) -> str:
        if len(arguments) > 1:
            pairs = [(text, label) for label, texts in _groups(arguments, file) for text in texts]
        else:
            pairs = [(text, text) for text in _texts(arguments[0], file)]
        numbered = [(numeric.to_number(text), label) for text, label in pairs]
        return numeric.find_extreme(numbered, largest)

    return compute


def _groups(arguments: Sequence[str], file: OpenFile) -> list[tuple[str, list[str]]]:
    _check(arguments)
    groups = file.parsed(parse_document).texts_by_label(*arguments)
    if not groups:
        raise TemplateError("the first path leads to no label in the file")
    return groups


def _split_attribute(text: str) -> tuple[str, str]:
    path, at, name = text.rpartition("@")
    if not at or not name.strip() or "]" in name:
        raise TemplateError("the argument is path@attribute, as in users/user[1]@id")
    return path.strip(), name.strip()


def _check(arguments: Sequence[str]) -> None:
    from generators.templates.functions.xpath import compile_xpath

    for path in arguments:
        compile_xpath(path)


def _check_attribute(arguments: Sequence[str]) -> None:
    path, _ = _split_attribute(arguments[0])
    _check([arguments[0] if path.endswith("/") else path or "."])


def _matches_in(arguments: Sequence[str], file: OpenFile) -> Iterator[Match]:
    """What the paths meet; a relative one after the first may start anywhere in the file."""
    document = file.parsed(parse_document)
    for index, path in enumerate(arguments):
        relative = index > 0 and not path.lstrip().startswith("/")
        yield from match_xml(f"//{path.strip().removeprefix('./')}" if relative else path, document)


def _matches_numbers(arguments: Sequence[str], file: OpenFile) -> Iterator[Match]:
    """The same, and how many of the values are numbers."""
    yield from _matches_in(arguments, file)
    if len(arguments) == 1:
        yield match_numbers(arguments[0], _texts(arguments[0], file))


def _matches_attribute(arguments: Sequence[str], file: OpenFile) -> Iterator[Match]:
    path, name = _split_attribute(arguments[0])
    start = path.removesuffix("/") or "."
    return match_xml(f"{start}/@{name}", file.parsed(parse_document))


def _function(name: str, compute: Callable[[Sequence[str], OpenFile], str]) -> Function:
    if name == "xpath_attr":
        return Function(
            name, 1, 1, compute, _check_attribute, rest=True, matches=_matches_attribute
        )
    adds = name.rpartition("_")[2] in numeric.AGGREGATES
    matches = _matches_numbers if adds else _matches_in
    return Function(name, 1, 1, compute, _check, rest=True, matches=matches)


def _of_labels(name: str, compute: Callable[[Sequence[str], OpenFile], str]) -> Function:
    return Function(
        name, 1, 2, compute, _check, rest=True, split=parts_paths("./@"), matches=_matches_in
    )


XML = table_of(
    _function("xpath_value", xpath_value),
    _function("xpath_attr", xpath_attr),
    _function("xpath_count", xpath_count),
    _function("xpath_exists", xpath_exists),
    _function("xpath_collect", xpath_collect),
    *(_function(f"xpath_{verb}", _numbers(verb)) for verb in numeric.AGGREGATES),
    _of_labels("xpath_max_value", _extreme(True)),
    _of_labels("xpath_min_value", _extreme(False)),
    _of_labels("xpath_max_count", xpath_max_count),
)
