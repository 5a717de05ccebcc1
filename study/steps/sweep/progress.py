"""The progress of a running sweep: its history, with times on one clock, and its state in words."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, field
from decimal import Decimal
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from harness.sweep.governor import Consumption, ModelProgress
    from harness.sweep.leases import Progress

RATE_SECONDS = 300.0  # over which replies per minute are counted
_ETA_SECONDS = 1800.0  # over which finished episodes are counted
_SAMPLE_SECONDS = 5.0  # between two values of progress that are kept


@dataclass(slots=True)
class SweepHistory:
    """Progress of a sweep with times in seconds: the latest, and samples of the last half hour."""

    samples: deque[tuple[float, Progress]] = field(default_factory=deque)

    def add(self, progress: Progress, now: float) -> None:
        """Add the latest progress. Counts that fall are those of another sweep, and its history
        begins here."""
        if self.samples:
            last = self.samples[-1][1]
            if progress.used.replies < last.used.replies or progress.finished < last.finished:
                self.samples.clear()
        if len(self.samples) > 1 and now - self.samples[-2][0] < _SAMPLE_SECONDS:
            self.samples.pop()
        self.samples.append((now, progress))
        while now - self.samples[0][0] > _ETA_SECONDS:
            self.samples.popleft()

    @property
    def latest(self) -> Progress:
        """The latest progress."""
        return self.samples[-1][1]

    def replies_per_minute(self, model: str = "") -> float | None:
        """Return the rate of a model, or of all; None in the first seconds. The replies of an
        episode are counted when its attempt ends."""
        return self._per_minute(lambda each: each.used.replies, model, RATE_SECONDS)

    def seconds_left(self) -> float | None:
        """Return the seconds until all models that may go on are done, at their present rates; None
        if one of them has finished nothing lately, if the sweep is paused, or if all are done."""
        seconds = [0.0]
        if _is_paused(self.latest):
            return None
        for model in self.latest.models:
            left = model.owed - model.finished - model.exhausted
            if left == 0 or (model.running == 0 and model.reason.value in ("stopped", "budget")):
                continue
            rate = self._per_minute(lambda each: each.finished, model.model, _ETA_SECONDS)
            if not rate:
                return None
            seconds.append(60 * left / rate)
        return max(seconds) or None

    def _per_minute(
        self, count: Callable[[ModelProgress], int], model: str, seconds: float
    ) -> float | None:
        now, latest = self.samples[-1]
        begun, first = next(each for each in self.samples if now - each[0] <= seconds)
        if now - begun < _SAMPLE_SECONDS:
            return None
        before, after = (
            sum(count(each) for each in progress.models if model in ("", each.model))
            for progress in (first, latest)
        )
        return 60 * (after - before) / (now - begun)


# --- In words ---


def sweep_facts(history: SweepHistory) -> list[str]:
    """Return the state of a sweep in short phrases."""
    latest, rate, left = history.latest, history.replies_per_minute(), history.seconds_left()
    facts = [f"{latest.finished:,} of {latest.owed:,} done"]
    if latest.exhausted:
        facts.append(f"{latest.exhausted:,} given up")
    if rate is not None:
        facts.append(f"{rate:,.0f} replies/min")
    if latest.used.replies:
        facts.append(f"{tokens_words(latest.used)} tokens")
        facts.append(f"USD {usd_words(latest.used)}")
    facts += [f"{a.name} budget: USD {_money(a.spent)} of {a.limit:,.2f}" for a in latest.accounts]
    if left is not None:
        facts.append(f"about {duration_words(left)} left")
    return facts


def sweep_notes(progress: Progress) -> list[str]:
    """Return a line if the sweep is paused, one for each host that waits for the store, and one for
    each model that waits or has failed attempts."""
    paused = ["paused; continue it with `dosimeter wave resume`"] if _is_paused(progress) else []
    hosts = pause_words(progress).values()
    return [*paused, *hosts, *(words for model in progress.models if (words := _note(model)))]


def _is_paused(progress: Progress) -> bool:
    return progress.asked.value == "pause"


def pause_words(progress: Progress) -> dict[str, str]:
    """Return the hosts that wait for the store, each with a line that gives the reason."""
    words: dict[str, str] = {}
    for pause in progress.pauses:
        spooled = ""
        if pause.objects:
            count = "1 object waits" if pause.objects == 1 else f"{pause.objects:,} objects wait"
            spooled = f"; {count} in its spool"
        words.setdefault(pause.host, f"paused: no store on {pause.host} ({pause.reason}){spooled}")
    return words


def _note(model: ModelProgress) -> str:
    parts = [wait] if (wait := _wait_words(model)) else []
    if model.failures:
        counts = ", ".join(
            f"{e.attempts:,} × {_class_words(e.error_class)}" for e in model.failures
        )
        parts.append(f"failed attempts: {counts}")
    return f"{model.model}: {'; '.join(parts)}" if parts else ""


def _class_words(error_class: str) -> str:
    boundary, _, kind = error_class.partition(":")
    return kind if boundary == "provider" else f"{kind} ({boundary})"


def _wait_words(model: ModelProgress) -> str:
    """Return the reason why cells of a model wait, in words; "" if they wait for a worker."""
    kind = model.failure.rpartition(":")[2]
    match model.reason.value:
        case "outage":
            return f"waits ({kind}); next try in {duration_words(model.seconds)}"
        case "limit":
            return f"is slowed down to {model.running} at once"
        case "pause" if model.running == 0:
            return f"pauses for {duration_words(model.seconds)}"
        case "budget":
            return "waits: the budget pays for no more at once"
        case "stopped":
            return "is stopped: its key is refused"
    return ""


def duration_words(seconds: float) -> str:
    """Return a duration in words, to two or three digits."""
    if seconds < 100:
        return f"{seconds:.0f} s"
    minutes = round(seconds / 60)
    if minutes < 100:
        return f"{minutes} min"
    hours, minutes = divmod(minutes, 60)
    return f"{hours} h {minutes:02} min" if hours < 48 else f"{hours / 24:.1f} days"


def tokens_words(used: Consumption) -> str:
    """Return tokens in and out, as far as they are known."""
    if used.uncounted == used.replies:
        return "unknown" if used.replies else "–"
    least = "≥" if used.uncounted else ""
    return f"{least}{_short(used.input_tokens)}+{_short(used.output_tokens)}"


def _short(count: int) -> str:
    for unit, size in (("G", 10**9), ("M", 10**6), ("k", 10**3)):
        if count >= size:
            return f"{count / size:.{1 if count < 100 * size else 0}f}{unit}"
    return str(count)


def usd_words(used: Consumption) -> str:
    """Return the cost in USD, as far as it is known."""
    if used.unpriced == used.replies:
        return "unknown" if used.replies else "–"
    return ("≥" if used.unpriced else "") + _money(used.usd)


def _money(usd: Decimal) -> str:
    return f"{usd:,.2f}" if usd == 0 or usd >= 1 else f"{usd:.4f}"
