"""Texts of reports and plans that stand in files beside the code that fills them in."""

from __future__ import annotations

import functools
from collections.abc import Mapping
from importlib.resources import files
from typing import Any

import yaml


@functools.cache
def words_in(package: str, name: str) -> Mapping[str, Any]:
    """The texts of a file beside the modules of a package, by their names."""
    words: Mapping[str, Any] = yaml.safe_load(files(package).joinpath(name).read_text("utf-8"))
    return words


def templates_in(package: str, filters: Mapping[str, Any], *, escape: bool = True) -> Any:
    """The Jinja templates in the folder ``templates`` of a package. With ``escape`` all that is
    filled in is text, never markup."""
    from jinja2 import Environment, PackageLoader, StrictUndefined

    environment = Environment(
        autoescape=escape,  # noqa: S701 - off for Markdown, which has escapes of its own
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        loader=PackageLoader(package),
        bytecode_cache=_compiled(escape),
    )
    environment.filters.update(filters)
    return environment


@functools.cache
def _compiled(escape: bool) -> Any:
    """The code of templates that this process has compiled, with ``escape`` or without."""
    from jinja2 import BytecodeCache

    class Compiled(BytecodeCache):
        def __init__(self) -> None:
            self.code: dict[str, bytes] = {}

        def load_bytecode(self, bucket: Any) -> None:
            if bucket.key in self.code:
                bucket.bytecode_from_string(self.code[bucket.key])

        def dump_bytecode(self, bucket: Any) -> None:
            self.code[bucket.key] = bucket.bytecode_to_string()

    return Compiled()
