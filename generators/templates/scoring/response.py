"""Cleaning of a response before it is compared: a model's reasoning and its markers are removed.

The rules and their order are those of the run folders that people have; strict verdicts agree only
if nothing more is cleaned."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from generators.templates.scoring.scorer import AnswerScore, Key, Workspace

_CHANNEL, _MESSAGE = "<|channel|>", "<|message|>"
_TAGS = ("thinking", "think", "reasoning", "thought", "internal", "reflection", "analysis")
_PAIRS = tuple(
    (re.compile(f"<{tag}>", re.IGNORECASE), re.compile(f"</{tag}>", re.IGNORECASE)) for tag in _TAGS
)
_CLOSING = re.compile("</(?:" + "|".join(f"({tag})" for tag in _TAGS) + ")>", re.IGNORECASE)
_THINK = _TAGS.index("think") + 1  # its group in that


def clean(text: str) -> str:
    """The answer in a response, stripped; takes time linear in its length.

    With both channel markers in it, what follows the last message marker. Else without its
    paired reasoning tags (one kind after the other, any case, the shortest span), and of that
    what follows the last ``</think>`` that is left.
    """
    return clean_telling(text)[0]


def clean_telling(text: str) -> tuple[str, bool]:
    """The same, and whether paired reasoning tags were removed from it."""
    if "<" not in text:
        return text.strip(), False
    if _MESSAGE in text and _CHANNEL in text:
        return text[text.rindex(_MESSAGE) + len(_MESSAGE) :].strip(), False
    if "</" not in text:
        return text.strip(), False
    left = text
    for opening, closing in _PAIRS:  # a removal may join the two halves of another tag
        left = _without(left, opening, closing)
    answer = _after_orphan(left) if "</" in left else left
    return answer.strip(), len(left) != len(text)


def _without(text: str, opening: re.Pattern[str], closing: re.Pattern[str]) -> str:
    """A search for the whole span would look through the rest of the text at each opening."""
    kept, place = [], 0
    while (begun := opening.search(text, place)) and (ended := closing.search(text, begun.end())):
        kept.append(text[place : begun.start()])
        place = ended.end()
    kept.append(text[place:])
    return "".join(kept)


def _after_orphan(text: str) -> str:
    end = 0
    for closing in _CLOSING.finditer(text):
        if closing.lastindex == _THINK:
            end = closing.end()
    return text[end:]


MOST_RESPONSE = 1 << 21  # characters; a longer one is wrong
MOST_READ = 1 << 24  # bytes of a file; a longer one is wrong
_MOST_QUOTED = 200  # characters of an answer in a reason
_MOST_KEPT = 4000  # characters of an answer in the details


def cleaned_response(response: object) -> str | AnswerScore:
    """The answer in a response, cleaned, or why there is none. Accepts any value."""
    if isinstance(response, bytes) and len(response) <= 4 * MOST_RESPONSE:
        try:
            response = response.decode()
        except UnicodeDecodeError:
            return AnswerScore(False, "the response is no UTF-8 text")
    if not isinstance(response, str | bytes):
        return AnswerScore(False, "the response is no text")
    if isinstance(response, bytes) or len(response) > MOST_RESPONSE:
        return _too_long("the response", len(response), MOST_RESPONSE)
    return clean(response)


def file_text(key: Key, workspace: Workspace) -> str | AnswerScore:
    """The text of the key's file, its line ends as one, or why there is none."""
    if not key.file:
        return AnswerScore(False, "the key names no file to read")
    data = workspace.read(key.file)
    details: dict[str, Any] = {"expected_file": key.file, "expected_content": key.expected.strip()}
    if data is None:
        kind = workspace.kind(key.file)
        lack = {None: "does not exist", "folder": "is a folder"}.get(kind, "cannot be read")
        return AnswerScore(
            False, f"{key.file}: {lack}", {**details, "file_exists": kind is not None}
        )
    details["file_exists"] = True
    if len(data) > MOST_READ:
        return _too_long(key.file, len(data), MOST_READ, details)
    try:
        text = data.decode()
    except UnicodeDecodeError:
        return AnswerScore(False, f"{key.file}: is no UTF-8 text", details)
    return text.replace("\r\n", "\n").replace("\r", "\n") if "\r" in text else text


def kept(text: str) -> str:
    """A text for the details: its two ends, if it is long."""
    if len(text) <= _MOST_KEPT:
        return text
    return f"{text[: _MOST_KEPT // 2]} … ({len(text):,} characters) … {text[-_MOST_KEPT // 2 :]}"


def quoted(text: str) -> str:
    """A text for a reason, quoted: its beginning, if it is long."""
    return repr(text if len(text) <= _MOST_QUOTED else f"{text[:_MOST_QUOTED]}…")


def _too_long(
    what: str, size: int, most: int, details: Mapping[str, Any] | None = None
) -> AnswerScore:
    reason = f"{what} is too long to be scored: {size:,}, at most {most:,}"
    return AnswerScore(False, reason, details or {})
