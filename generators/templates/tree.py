"""A set of paths drawn as a tree, as ``{{expected_structure}}`` shows it."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import takewhile


def draw_tree(paths: Sequence[str]) -> str:
    """The paths as a fenced tree; a path that ends in ``/`` is a folder.

    Folders that all paths share are left out, since the question names them.
    """
    held = [[part for part in path.split("/") if part] for path in paths]
    folders = {tuple(parts) for path, parts in zip(paths, held, strict=True) if path.endswith("/")}
    above = zip(*(parts[:-1] for parts in held), strict=False)
    shared = sum(1 for _ in takewhile(lambda names: len(set(names)) == 1, above))
    nodes: dict[tuple[str, ...], None] = {}
    for parts in held:
        for depth in range(shared + 1, len(parts) + 1):
            nodes.setdefault(tuple(parts[:depth]))
    inner = {node[:-1] for node in nodes}
    lines = [
        f"{'    ' * (len(node) - shared - 1)}{node[-1]}{'/' if node in folders | inner else ''}"
        for node in _in_order(nodes)
    ]
    return "\n".join(["", "```", *lines, "```"])


def _in_order(nodes: dict[tuple[str, ...], None]) -> list[tuple[str, ...]]:
    """Each folder before what it holds, siblings in the order that they were named."""
    place = {node: index for index, node in enumerate(nodes)}
    return sorted(
        nodes,
        key=lambda node: [
            place[node[:depth]] for depth in range(1, len(node) + 1) if node[:depth] in place
        ],
    )
