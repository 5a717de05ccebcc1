"""Labels of XML elements, each with the values that are its own.

A label's values are looked for where the label stands: in ``//team/name:./members/member`` the
path of the values starts at the element that holds the name, the team, as it does in
``//team/@name:./members/member``. An absolute path, as in ``//team/name://member``, is followed
once, and a value belongs to the nearest holder of a label that it lies in.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from generators.templates.functions.xpathwalk import (
    MAX_WORK,
    Attribute,
    Context,
    Node,
    Work,
    XPath,
    select_from,
)

if TYPE_CHECKING:
    from xml.etree.ElementTree import Element

    from generators.templates.functions.xmlfile import Document


def group_by_label(
    document: Document, labels: XPath, values: XPath
) -> list[tuple[Node, list[Node]]]:
    """Each label with its values, in the document's order. Raises TemplateError."""
    work = Work(MAX_WORK)
    top = Context(document, work, document.root)
    found = [(label, _holder(label, document)) for label in select_from(labels, top)]
    if not values.absolute:
        return [
            (label, select_from(values, Context(document, work, holder))) for label, holder in found
        ]
    owned: dict[Element, list[Node]] = {holder: [] for _, holder in found}
    for node in select_from(values, top):
        held: Element | None = _start(node)
        while held is not None and held not in owned:
            work.spend(1)
            held = document.parents.get(held)
        if held is not None:
            owned[held].append(node)
    return [(label, owned[holder]) for label, holder in found]


def _holder(label: Node, document: Document) -> Element:
    """The element that a label stands in; the root stands in itself."""
    if isinstance(label, Attribute):
        return label.owner
    return document.parents.get(label, label)


def _start(node: Node) -> Element:
    return node.owner if isinstance(node, Attribute) else node
