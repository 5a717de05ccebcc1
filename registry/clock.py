"""The registry's one look at the clock."""

from __future__ import annotations

from datetime import UTC, datetime


def utc_now() -> str:
    """The time, UTC, ISO 8601 to the second, with ``Z``."""
    return datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
