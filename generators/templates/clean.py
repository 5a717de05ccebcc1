"""What is taken off a response before it is compared: a model's reasoning, and its markers.

The rules and their order are those of the run folders that people have (spec/templates.md,
Cleaning); strict verdicts agree only if nothing more is cleaned.
"""

from __future__ import annotations

import re

_CHANNEL, _MESSAGE = "<|channel|>", "<|message|>"
_TAGS = ("thinking", "think", "reasoning", "thought", "internal", "reflection", "analysis")
_PAIRS = tuple(
    (re.compile(f"<{tag}>", re.IGNORECASE), re.compile(f"</{tag}>", re.IGNORECASE)) for tag in _TAGS
)
_ORPHAN = re.compile("</think>", re.IGNORECASE)


def clean(text: str) -> str:
    """The answer in a response, stripped; takes time linear in its length.

    With both channel markers in it, what follows the last message marker. Else without its
    paired reasoning tags (one kind after the other, any case, the shortest span), and of that
    what follows the last ``</think>`` that is left.
    """
    if "<" not in text:
        return text.strip()
    if _MESSAGE in text and _CHANNEL in text:
        return text[text.rindex(_MESSAGE) + len(_MESSAGE) :].strip()
    if "</" in text:
        text = _after_orphan(_without_pairs(text))
    return text.strip()


def has_reasoning(text: str) -> bool:
    """Whether a paired reasoning tag stands in it."""
    return "</" in text and any(_first_pair(text, *pair) for pair in _PAIRS)


def _without_pairs(text: str) -> str:
    for opening, closing in _PAIRS:
        if _first_pair(text, opening, closing):
            text = _without(text, opening, closing)
    return text


def _first_pair(text: str, opening: re.Pattern[str], closing: re.Pattern[str]) -> bool:
    begun = opening.search(text)
    return begun is not None and closing.search(text, begun.end()) is not None


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
    for closing in _ORPHAN.finditer(text):
        end = closing.end()
    return text[end:]
