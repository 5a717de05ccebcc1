"""Writing ``precheck.jsonl``: what each sample asked, and the key to it."""

from __future__ import annotations

import json
from collections.abc import Callable
from functools import lru_cache
from json.encoder import encode_basestring
from typing import Any

from generators.templates.model import Question
from generators.templates.prepare import Prepared, precheck_record, written_components


class Json(str):
    """A text that is JSON already."""

    __slots__ = ()


def precheck_writer(question: Question) -> Callable[[Prepared], str]:
    """What writes the samples of a question, each as ``json.dumps(precheck_record(prepared),
    ensure_ascii=False)`` would.

    Most of a line is the question as it was written, which is put into JSON once.
    """
    components = Json(_dumps(written_components(question)))
    template = encode_basestring(question.template)

    def line(prepared: Prepared) -> str:
        record = precheck_record(prepared, components)
        record["template"] = Json(template)
        return "{" + ", ".join([_start(name) + _json(each) for name, each in record.items()]) + "}"

    return line


@lru_cache(maxsize=1024)
def _start(name: str) -> str:
    return f"{encode_basestring(name)}: "


def _json(value: Any) -> str:
    kind = type(value)
    if kind is str:
        return encode_basestring(value)
    if kind is Json:
        return str(value)
    if kind is int:
        return repr(value)
    return f"[{', '.join(map(_json, value))}]" if kind is list else _dumps(value)


def _dumps(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False)
