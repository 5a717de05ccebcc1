"""The progress of a running sweep: its history, with times on one clock, and its view, a table on a
terminal, else lines, and JSON lines with --json."""

from __future__ import annotations

import json
import sys
import time
from collections import deque
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field
from decimal import Decimal
from typing import TYPE_CHECKING, Any

from study import printing as output
from study.printing import styled
from study.steps.sweep.accounts import accounts_json

if TYPE_CHECKING:
    from rich.console import Console, RenderableType
    from rich.live import Live
    from rich.progress import Progress
    from rich.table import Table

    from harness.sweep.governor import Consumption, ModelProgress
    from harness.sweep.leases import Progress as SweepProgress

RATE_SECONDS = 300.0  # over which replies per minute are counted
_ETA_SECONDS = 1800.0  # over which finished episodes are counted
_SAMPLE_SECONDS = 5.0  # between two values of progress that are kept


@dataclass(slots=True)
class SweepHistory:
    """Progress of a sweep with times in seconds: the latest, and samples of the last half hour."""

    samples: deque[tuple[float, SweepProgress]] = field(default_factory=deque)

    def add(self, progress: SweepProgress, now: float) -> None:
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
    def latest(self) -> SweepProgress:
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
        if self.latest.asked.value == "pause":
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
        awaited = sum(each.running for each in latest.models)
        none = f"no reply for a while, {awaited} awaited"
        facts += [f"{rate:,.0f} replies/min"] if rate >= 0.5 else [none] * (awaited > 0)
    if latest.used.replies:
        facts.append(f"{tokens_words(latest.used)} tokens")
        facts.append(f"USD {usd_words(latest.used)}")
    facts += [f"{a.name} budget: USD {_money(a.spent)} of {a.limit:,.2f}" for a in latest.accounts]
    if left is not None:
        facts.append(f"about {duration_words(left)} left")
    return facts


_ASKED = {
    "pause": "paused; continue it with `dosimeter wave resume`",
    "stop": "ends once the replies that are on their way are stored",
}


def sweep_notes(progress: SweepProgress) -> list[str]:
    """Return a line if the sweep is paused or ends, one for each host that waits for the store, and
    one for each model that waits or has failed attempts."""
    asked = [words] if (words := _ASKED.get(progress.asked.value)) else []
    hosts = pause_words(progress).values()
    return [*asked, *hosts, *(words for model in progress.models if (words := _note(model)))]


def pause_words(progress: SweepProgress) -> dict[str, str]:
    """Return the hosts that wait for store or sandboxes, each with a line that gives the reason."""
    words: dict[str, str] = {}
    for pause in progress.pauses:
        waiting = ""
        if pause.objects:
            count = "1 object waits" if pause.objects == 1 else f"{pause.objects:,} objects wait"
            waiting = f"; {count} in its outbox"
        paused = f"paused: no {pause.lacks} on {pause.host}"
        words.setdefault(pause.host, f"{paused} ({pause.reason}){waiting}")
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
            return "waits: the budget covers no further request now"
        case "stopped":
            return "is stopped: its key is refused"
    return ""


def duration_words(seconds: float) -> str:
    """Return a duration in words, to two or three digits."""
    if seconds < 100:
        return f"{seconds:.0f} s"
    if (minutes := round(seconds / 60)) < 100:
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


_COLUMNS = (
    "done",
    "at\nwork",
    "waiting",
    "failed\nattempts",
    "replies\n/min",
    "tokens\nin+out",
    "USD",
)
_NARROW = 72  # columns; a narrower terminal has no table


# --- On a terminal ---


def sweep_screen(history: SweepHistory, bar: Progress, width: int) -> RenderableType:
    """Return the view of a sweep at work, for a terminal of this width: the bar of its step, the
    state in words, a table with a row for each model, and what models wait for."""
    from rich.console import Group

    if not history.samples:
        return bar
    facts = styled(", ".join(sweep_facts(history)))
    table = [_models_table(history)] if width >= _NARROW and history.latest.models else []
    notes = [styled(note, "yellow") for note in sweep_notes(history.latest)]
    return Group(bar, facts, *table, *notes)


def _models_table(history: SweepHistory) -> Table:
    from rich.table import Table

    table = Table(box=None, padding=(0, 2, 0, 0), pad_edge=False, header_style="bold")
    table.add_column("model", overflow="fold", vertical="bottom")
    for name in _COLUMNS:
        table.add_column(name, justify="right", no_wrap=True)
    for model in history.latest.models:
        rate = history.replies_per_minute(model.model)
        failed = sum(each.attempts for each in model.failures)
        table.add_row(
            styled(model.model),
            f"{model.finished:,}/{model.owed:,}",
            f"{model.running:,}",
            f"{model.waiting:,}",
            styled(f"{failed:,}", "yellow" if failed else ""),
            "–" if rate is None else f"{rate:,.0f}",
            tokens_words(model.used),
            usd_words(model.used),
        )
    return table


# --- For scripts ---


def sweep_json(history: SweepHistory) -> dict[str, Any]:
    """Return the state of a sweep for scripts; unknown values are null."""
    latest = history.latest
    return {
        **_counts(latest, "owed", "finished", "waiting", "exhausted", "lost"),
        "running": latest.leased,
        "asked": latest.asked.value,
        "no_store": [asdict(pause) for pause in latest.pauses],
        **_used_json(latest.used),
        "replies_per_minute": history.replies_per_minute(),
        "seconds_left": history.seconds_left(),
        "budget": accounts_json(latest.accounts),
        "models": [
            model_json(model) | {"replies_per_minute": history.replies_per_minute(model.model)}
            for model in latest.models
        ],
    }


def model_json(model: ModelProgress) -> dict[str, Any]:
    """Return the state of one model in a sweep for scripts."""
    return {
        **_counts(model, "model", "owed", "finished", "running", "waiting", "exhausted"),
        "waits_for": model.reason.value or None,
        "failure": model.failure or None,
        "next_try_seconds": model.seconds,
        "failures": {each.error_class: each.attempts for each in model.failures},
        **_used_json(model.used),
    }


def _counts(progress: SweepProgress | ModelProgress, *names: str) -> dict[str, Any]:
    return {name: getattr(progress, name) for name in names}


def _used_json(used: Consumption) -> dict[str, Any]:
    counted, priced = used.uncounted < used.replies, used.unpriced < used.replies
    return {
        "replies": used.replies,
        "input_tokens": used.input_tokens if counted or not used.replies else None,
        "output_tokens": used.output_tokens if counted or not used.replies else None,
        "replies_without_tokens": used.uncounted,
        "usd": float(used.usd) if priced or not used.replies else None,
        "replies_of_unknown_cost": used.unpriced,
    }


# --- Displays ---


@dataclass(slots=True)
class _Screen:
    """A bar of the present step and, from the first progress on, the table, refreshed in place."""

    step: str
    live: Live
    bar: Progress
    history: SweepHistory = field(default_factory=SweepHistory)

    def steps(self, what: str, done: int, of: int) -> None:
        self._show(f"{self.step}: {what}", done, of)

    def __call__(self, progress: SweepProgress) -> None:
        self.history.add(progress, time.monotonic())
        self._show(self.step, progress.finished, progress.owed)

    def _show(self, what: str, done: int, of: int) -> None:
        output.move_bar(self.bar, what, done, of)
        self.live.update(sweep_screen(self.history, self.bar, self.live.console.width))
        self.live.start()


@dataclass(slots=True)
class _Lines:
    """A line every ``output.LOG_SECONDS``, and one at once if a host begins or ends to wait for the
    store; with --json each step before the episodes, and the first and the last progress too."""

    step: str
    console: Console
    history: SweepHistory = field(default_factory=SweepHistory)
    _as_json: bool = field(default_factory=output.wants_json)
    _printed: float = field(default_factory=time.monotonic)  # time of the last line
    _last_is_printed: bool = True

    def steps(self, what: str, done: int, of: int) -> None:
        self.end()
        if self._is_due() or (self._as_json and not self.history.samples):
            words = output.count_words(what, done, of)
            self._print(words, {"doing": what, "done": done, "of": of or None})

    def __call__(self, progress: SweepProgress) -> None:
        first = self._as_json and not self.history.samples
        before = pause_words(self.history.latest).keys() if self.history.samples else set()
        self._last_is_printed = False
        self.history.add(progress, time.monotonic())
        if first or before != pause_words(progress).keys() or self._is_due():
            self._print_progress()

    def end(self) -> None:
        """Print the last progress, if that has not been done."""
        if self._as_json:
            self._print_progress()

    def _print_progress(self) -> None:
        if not self._last_is_printed:
            notes = [", ".join(sweep_facts(self.history)), *sweep_notes(self.history.latest)]
            self._print("; ".join(notes), sweep_json(self.history))
            self._last_is_printed = True

    def _is_due(self) -> bool:
        return time.monotonic() - self._printed >= output.LOG_SECONDS

    def _print(self, words: str, value: dict[str, Any]) -> None:
        if self._as_json:
            print(json.dumps({"step": self.step, **value}), file=sys.stderr, flush=True)
        else:
            line = f"{self.step}: {words}"
            self.console.print(line, soft_wrap=True, markup=False, highlight=False)
        self._printed = time.monotonic()


@contextmanager
def sweep_watch(step: str) -> Iterator[_Screen | _Lines]:
    """Show a sweep on stderr: on a terminal by a table that is refreshed in place, else by a line
    every ``output.LOG_SECONDS``; with --json these are JSON. The display is called with progress of
    the episodes, and its ``steps`` with that of steps before the first and after the last."""
    console = output.stderr()
    if output.wants_json() or not console.is_terminal or console.is_dumb_terminal:
        lines = _Lines(step, console)
        try:
            yield lines
        finally:
            lines.end()
    else:
        from rich.live import Live

        screen = _Screen(step, Live(console=console), output.progress_bar(console))
        try:
            yield screen
        finally:
            screen.live.stop()
