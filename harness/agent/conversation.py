"""The conversation of an episode, and what of it a request leaves out so that a provider takes it.

The oldest go first: pictures, then tool results, each with a marker in its place. Half of what is
left goes at a time, so that later requests fit too and share a prefix that the provider caches.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace
from itertools import accumulate

from harness.episode import Turn
from harness.model import Message, Omission, Role

# Of one request, for all providers alike. Anthropic takes 100 pictures (600 where the context is
# longer than 200,000 tokens), OpenAI 500, Google 3,000, Bedrock 20 in each message, which holds the
# results of one turn.
MAX_PICTURES = 100
# Google takes 20 MB in all, Bedrock 20, Vertex 30, Anthropic 32, OpenAI 50; base64 takes a third.
MAX_PICTURE_BYTES = 12_000_000

_NOTHING = Omission()
NO_PICTURE = "[picture left out: the provider does not take the conversation with it]"
NO_RESULT = "[left out: the provider does not take the conversation with it]"


def conversation(opening: Iterable[Message], steps: Iterable[Turn]) -> list[Message]:
    """Return all messages after these turns, nothing left out."""
    messages = list(opening)
    for step in steps:
        if step.prompt:
            messages.append(Message(Role.USER, step.prompt))
        messages += [step.reply.message, *(use.result for use in step.uses)]
    return messages


def leave_out(messages: Sequence[Message], left_out: Omission | None) -> tuple[Message, ...]:
    """Return the messages with markers for the oldest pictures and tool results."""
    if left_out is None:
        return tuple(messages)
    pictures, results = left_out.pictures, left_out.results
    made = []
    for message in messages:
        if message.role is Role.TOOL:
            gone = min(pictures, len(message.images))
            pictures -= gone
            if results:
                results -= 1
                message = replace(message, text=NO_RESULT, images=())
            elif gone:
                text = "\n".join([message.text, *[NO_PICTURE] * gone])
                message = replace(message, text=text, images=message.images[gone:])
        made.append(message)
    return tuple(made)


def fit_pictures(messages: Sequence[Message], left_out: Omission | None) -> Omission | None:
    """Return what to leave out so that the pictures are within every provider's limits: half of
    those shown, or more, if they are not."""
    sizes = [len(image.data) for message in messages for image in message.images]
    before = left_out or _NOTHING
    shown = sizes[before.pictures :]
    if len(shown) <= MAX_PICTURES and sum(shown) <= MAX_PICTURE_BYTES:
        return left_out
    # Sizes of the newest one, two, three …: as many of them stay as are within half of each limit.
    newest = accumulate(reversed(shown[-(MAX_PICTURES // 2) :]))
    stay = sum(total <= MAX_PICTURE_BYTES // 2 for total in newest)
    return replace(before, pictures=len(sizes) - max(stay, 1))


def leave_out_more(messages: Sequence[Message], left_out: Omission | None) -> Omission | None:
    """Return the next step after a request that was too long or refused: half of the pictures it
    showed, or, if it showed none, of the tool results; None if nothing is left."""
    before = left_out or _NOTHING
    pictures = sum(len(message.images) for message in messages)
    if pictures > before.pictures:
        return replace(before, pictures=pictures - (pictures - before.pictures) // 2)
    results = sum(message.role is Role.TOOL for message in messages)
    if results > before.results:
        return replace(before, results=results - (results - before.results) // 2)
    return None
