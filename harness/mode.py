"""The ways in which a task is given. A module of its own, since reading study.yaml needs no more of
an episode."""

from __future__ import annotations

from enum import StrEnum


class Mode(StrEnum):
    """The way in which a task is given."""

    AGENTIC = "agentic"  # in a sandbox, with tools, over several turns
    SINGLE_TURN = "single_turn"  # one message with all input files, one reply, no tools
