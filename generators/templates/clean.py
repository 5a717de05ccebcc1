"""What is taken off a response before it is compared: a model's reasoning, and its markers.

The rules and their order are those of the run folders that people have (spec/templates.md,
Cleaning); strict verdicts agree only if nothing more is cleaned.
"""

from __future__ import annotations

import re
from functools import lru_cache

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


@lru_cache(maxsize=1)  # the lenient comparison cleans what the strict one just did
def clean_telling(text: str) -> tuple[str, bool]:
    """The same, and whether paired reasoning tags were removed from it."""
    if "<" not in text:
        return text.strip(), False
    if _MESSAGE in text and _CHANNEL in text:
        return text[text.rindex(_MESSAGE) + len(_MESSAGE) :].strip(), False
    if "</" not in text:
        return text.strip(), False
    left = _without_pairs(text)
    answer = _after_orphan(left) if "</" in left else left
    return answer.strip(), len(left) != len(text)


def _closed(text: str) -> list[int]:
    """The kinds of tags that are closed somewhere, in the order in which they are removed."""
    return sorted({int(found.lastindex or 0) - 1 for found in _CLOSING.finditer(text)})


def _without_pairs(text: str) -> str:
    done = -1
    while "</" in text and (rest := [tag for tag in _closed(text) if tag > done]):
        done = rest[0]  # what is removed may join the two halves of another tag: look again
        text = _without(text, *_PAIRS[done])
    return text


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
