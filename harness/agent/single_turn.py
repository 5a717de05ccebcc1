"""The single-turn form of a task: one message that holds prompt and input files, no tools.

Its number of tokens is estimated before it is sent, on the safe side:

- text: a token for every four letters and blanks, and for every two bytes of anything else,
  since tokenizers split digits and signs into shorter pieces;
- a picture: the larger of two counts in use: 85 and 170 for each tile of 512 pixels once the
  shorter side is brought to 768, or the longer to 2048 where that comes first; and one for each
  patch of 28 × 28 pixels as it is.
"""

from __future__ import annotations

import math
import sqlite3
from collections.abc import Callable
from contextlib import closing
from dataclasses import dataclass

from generators.grading.answer import parse_answer
from generators.seed import Seed
from generators.task import Asset, Brief
from harness.agent.conversation import MAX_PICTURE_BYTES, MAX_PICTURES
from harness.agent.images import ImageRefused, ShownImage, show_image
from harness.agent.loop import AgentRun, buy_reply
from harness.episode import SECONDS_DIGITS, StopReason, Turn
from harness.errors import AttemptFailed, HarnessError
from harness.model import Message, Model, ModelRequest, Role, estimate_text
from harness.models.providers.verdict import CUT_OFF
from harness.spending.purchases import Journal
from registry.files import read_beside

REPLY_TOKENS = 4096  # of the context, reserved for the answer

SYSTEM: str = read_beside(__file__, "prompts.yaml")["single_turn"]
_SQLITE = b"SQLite format 3\0"  # how a database file begins
_SHORT_CONTEXT, _MORE_PICTURES = 200_000, 500  # with a longer one Anthropic takes 600
_TILE, _SHORT_SIDE, _LONG_SIDE, _PATCH = 512, 768, 2048, 28


@dataclass(frozen=True, slots=True)
class ContextWindow:
    """The context window of a model: of ``tokens``, ``reply`` are reserved for its reply."""

    tokens: int
    reply: int = REPLY_TOKENS


@dataclass(frozen=True, slots=True)
class SingleTurn:
    """The messages, and their estimated size in tokens."""

    messages: tuple[Message, ...]
    text_tokens: int
    picture_tokens: int

    @property
    def tokens(self) -> int:
        """Estimated tokens of text and pictures."""
        return self.text_tokens + self.picture_tokens


def single_turn(brief: Brief) -> SingleTurn:
    """Put the brief into one message after the rules, pictures as pictures, a SQLite database as
    the SQL statements that make it, all else as text.

    Raises HarnessError for a file that is neither.
    """
    if not brief.answer_schema:
        raise HarnessError("this task is for agents that leave files: give it in `mode: agentic`")
    parts, images, picture_tokens = [brief.prompt.rstrip()], [], 0
    for asset in brief.assets:
        if asset.media_type.startswith("image/"):
            shown = _show_picture(asset)
            images.append(shown.image)
            picture_tokens += estimate_picture(*shown.size)
            place = f"picture {len(images)} of this message"
            parts.append(f"File `{asset.path}`: {place}{shown.scaled}.")
        else:
            parts.append(_quote(asset))
    system = Message(Role.SYSTEM, SYSTEM.format(schema=brief.answer_schema))
    user = Message(Role.USER, "\n\n".join(parts), tuple(images))
    text_tokens = estimate_text(system.text) + estimate_text(user.text)
    return SingleTurn((system, user), text_tokens, picture_tokens)


def fit_context(made: SingleTurn, window: ContextWindow) -> SingleTurn:
    """Return it if it and a reply fit into a context window, and its pictures into one request.
    Raises HarnessError."""
    images = made.messages[-1].images
    most = MAX_PICTURES if window.tokens <= _SHORT_CONTEXT else _MORE_PICTURES
    if len(images) > most or sum(len(image.data) for image in images) > MAX_PICTURE_BYTES:
        raise HarnessError(
            f"in its single-turn form the task has {len(images)} pictures; one request to a model "
            f"with this context takes at most {most}, of {MAX_PICTURE_BYTES:,} bytes in all: give "
            "it in `mode: agentic` or take an easier difficulty"
        )
    if made.tokens + window.reply > window.tokens:
        raise HarnessError(
            f"in its single-turn form the task takes about {made.tokens:,} tokens "
            f"({made.text_tokens:,} of text, {made.picture_tokens:,} of "
            f"{len(made.messages[-1].images)} pictures) and {window.reply:,} for the reply and to "
            f"spare; the context of the model is {window.tokens:,}: give it in `mode: agentic`, "
            "take an easier difficulty, or a model with a larger context"
        )
    return made


def estimate_picture(width: int, height: int) -> int:
    """Tokens of a picture of this size in pixels, on the safe side."""
    scale = min(_LONG_SIDE / max(width, height), _SHORT_SIDE / min(width, height))
    tiles = math.ceil(width * scale / _TILE) * math.ceil(height * scale / _TILE)
    patches = math.ceil(width / _PATCH) * math.ceil(height / _PATCH)
    return max(85 + 170 * tiles, patches)


def turn_request(brief: Brief, window: ContextWindow, seed: Seed) -> ModelRequest:
    """Return the one request of a task in its single-turn form; ``seed`` is the attempt's. Raises
    HarnessError if the task has no such form, or does not fit the context window."""
    return ModelRequest(fit_context(single_turn(brief), window).messages, (), seed.child("turn", 0))


def run_single_turn(
    model: Model, request: ModelRequest, journal: Journal, tick: Callable[[], float]
) -> AgentRun:
    """Make the one request of ``turn_request``. An AttemptFailed ends the run as FAILED."""
    messages, begun = request.messages, tick()
    try:
        reply = buy_reply(model, journal, 0, request)
    except AttemptFailed as failed:
        error = f"{failed.boundary}:{failed.error_class}"
        return AgentRun(messages, (), StopReason.FAILED, error)
    step = Turn(reply, (), round(tick() - begun, SECONDS_DIGITS))
    cut_off = reply.finish == CUT_OFF and parse_answer(reply.message.text) is None
    return AgentRun(messages, (step,), StopReason.TRUNCATED if cut_off else StopReason.ANSWERED)


def _dump(database: bytes) -> str:
    """The SQL statements that make a SQLite database, a line each."""
    with closing(sqlite3.connect(":memory:")) as connection:
        connection.deserialize(database)
        return "".join(f"{statement}\n" for statement in connection.iterdump())


def _show_picture(asset: Asset) -> ShownImage:
    try:
        return show_image(asset.data).value()
    except ImageRefused as refused:
        raise HarnessError(f"input file {asset.path!r} cannot be shown: {refused}") from None


def _quote(asset: Asset) -> str:
    try:
        text = _dump(asset.data) if asset.data.startswith(_SQLITE) else asset.data.decode("utf-8")
    except UnicodeDecodeError:
        raise HarnessError(
            f"input file {asset.path!r} ({asset.media_type}) is neither text nor a picture, so "
            "the task has no single-turn form: give it in `mode: agentic`"
        ) from None
    end = "" if text.endswith("\n") else "\n"
    return f'<file name="{asset.path}">\n{text}{end}</file>'
