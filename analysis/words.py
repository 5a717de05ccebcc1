"""Texts of reports and plans that stand in files beside the code that fills them in."""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping
from importlib import import_module
from typing import Any

from registry.files import read_beside


@functools.cache
def words_in(package: str, name: str) -> Mapping[str, Any]:
    """The texts of a file beside the modules of a package, by their names."""
    words: Mapping[str, Any] = read_beside(str(import_module(package).__file__), name)
    return words


def sentence_of(part: str, key: str, **values: Any) -> str:
    """A sentence of the report's words."""
    return str(words_in("analysis.report", "words.yaml")[part][key].format(**values))


@functools.cache
def templates_in(package: str, *, escape: bool = True, **filters: Callable[..., Any]) -> Any:
    """The Jinja templates in the folder ``templates`` of a package. With ``escape`` all that is
    filled in is text, never markup."""
    from jinja2 import Environment, PackageLoader, StrictUndefined

    environment = Environment(
        autoescape=escape,  # noqa: S701 - off for Markdown, which has escapes of its own
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        loader=PackageLoader(package),
    )
    environment.filters.update(filters)
    return environment
