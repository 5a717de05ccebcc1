"""A judge's paid reply with what it was bought for, so that a budget can tell whose cost it is."""

from __future__ import annotations

from dataclasses import dataclass, field

from harness.model import Reply
from harness.models import Membership


@dataclass(frozen=True, slots=True)
class Purpose:
    """Who was asked, and about which episode of which wave. ``wave`` is None for an answer sheet
    of a check, whose name then stands for the episode."""

    judge: str
    provider: str
    version: str
    wave: int | None = None
    episode: str = ""


@dataclass(frozen=True, slots=True)
class Judgement:
    """``purpose`` is None for replies of before it was kept."""

    reply: Reply
    purpose: Purpose | None


@dataclass(frozen=True, slots=True)
class Probe:
    """What one exposure probe came to: ``score`` is the share of the instance's own values that the
    reply had right."""

    call: str  # digest that names it
    wave: int
    model: str
    instance: str = field(repr=False)
    score: float
    served_version: str


@dataclass(frozen=True, slots=True)
class TextProbe:
    """How likely a model finds the text of one instance."""

    call: str  # digest that names it
    wave: int
    model: str
    instance: str = field(repr=False)
    membership: Membership
    served_version: str
