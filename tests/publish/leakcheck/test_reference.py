"""The check finds at least what a plain search finds that is handed the content without its
wrapping."""

from __future__ import annotations

import base64
import html
import json
import os
import quopri
import random
import re
import urllib.parse
from collections.abc import Callable

import pytest

from publish.leakcheck.check import leaks_in
from publish.leakcheck.secrets import Needles
from tests.publish.leakcheck.test_check import release_table

VIEWS: dict[str, Callable[[bytes], bytes]] = {
    "raw": lambda data: data,
    "folded": lambda data: re.sub(rb"[ \t\r\n\v\f\0\\]", b"", data).lower(),
    "bare": lambda data: (
        re.sub(rb"[^0-9a-z]", b"", data.lower()).replace(b"0x", b"").replace(b"x", b"")
    ),
}
WORDS = ["the", "model", "reads", "<b>of</b>", "12", "numbers,", "0x7f", "&", "writes", "sum\n"]
Rng = random.Random

# Text to text, and bytes to bytes.
SPELLINGS: list[Callable[[str, Rng], str]] = [
    lambda text, rng: json.dumps({"n": 1, "text": text}, indent=rng.choice([None, 2])),
    lambda text, rng: "[]\n" + json.dumps([text]) + "\n",
    lambda text, rng: f"<p>{html.escape(text)}</p>",
    lambda text, rng: f"q={urllib.parse.quote(text, safe='')}",
    lambda text, rng: quopri.encodestring(f"a=b\n{text}\n".encode()).decode(),
    lambda text, rng: "a" * rng.randrange(9) + base64.b64encode(text.encode()).decode(),
    lambda text, rng: base64.encodebytes(text.encode()).decode(),
    lambda text, rng: "id " + base64.b32encode(text.encode()).decode(),
    lambda text, rng: f"{text.encode().hex()}{'0' * 130}",
    lambda text, rng: repr(text),
]
WRAPPINGS: list[Callable[[bytes, Rng], bytes]] = [
    lambda data, rng: release_table(input_files=[{"data": data}]),
    lambda data, rng: release_table(images=[{"bytes": data}]),
    lambda data, rng: b"see " + base64.b64encode(data),
    lambda data, rng: b"see " + data.hex().encode(),
    lambda data, rng: str(list(data)).encode() if len(data) < 20_000 else data,
]


def filler(rng: Rng) -> str:
    return " ".join(rng.choices(WORDS, k=rng.randrange(60)))


def planted(rng: Rng, patterns: list[bytes]) -> bytes:
    return b"".join(filler(rng).encode() + rng.choice(patterns) for _ in range(3)) + b" end"


def wrapped(rng: Rng, content: bytes) -> bytes:
    """The content in up to five wrappings: of text, while it is, and of bytes."""
    if content.isascii():
        for spell in rng.choices(SPELLINGS, k=rng.randrange(3)):
            content = spell(content.decode(), rng).encode()
        if rng.random() < 0.2:
            content = content.decode().encode(rng.choice(["utf-16", "utf-16-le", "utf-32"]))
    for wrap in rng.choices(WRAPPINGS, k=rng.randrange(4)):
        content = wrap(content, rng)
    return content


@pytest.mark.parametrize("number", range(200 if "DOSIMETER_ALL_SEEDS" in os.environ else 40))
def test_finds_what_a_plain_search_finds(needles: Needles, number: int) -> None:
    rng = Rng(number)
    owners = needles._owners
    ascii_only = rng.random() < 0.7
    content = planted(rng, sorted(p.data for p in owners if p.data.isascii() or not ascii_only))
    views = {view: plain(content) for view, plain in VIEWS.items()}
    expected = {trace for pattern, trace in owners.items() if pattern.data in views[pattern.view]}
    assert expected
    found = {(leak.kind, leak.leaf) for leak in leaks_in("file", wrapped(rng, content), needles)}
    assert found >= {(trace.kind, trace.leaf) for trace in expected}
