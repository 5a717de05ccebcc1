"""The progress of a running sweep: its history, with times on one clock, and its view, a table on a
terminal, else lines, and JSON lines with --json."""

from __future__ import annotations

import json
import sys
import time
from collections import deque
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import asdict, dataclass, field
from decimal import Decimal
from typing import TYPE_CHECKING, Any, Protocol

from study import printing as output
from study.printing import Watch, progress_bar, styled
from study.steps.sweep.accounts import accounts_json

if TYPE_CHECKING:
    from rich.console import Console, RenderableType
    from rich.live import Live
    from rich.table import Table

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
        waiting = ""
        if pause.objects:
            count = "1 object waits" if pause.objects == 1 else f"{pause.objects:,} objects wait"
            waiting = f"; {count} in its outbox"
        words.setdefault(pause.host, f"paused: no store on {pause.host} ({pause.reason}){waiting}")
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


_FRAME_SECONDS = 0.4  # between two frames of a table
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


def sweep_screen(history: SweepHistory, step: str, seconds: float, width: int) -> RenderableType:
    """Return the view of a sweep at work since ``seconds``, for a terminal of this width: a bar,
    the state in words, a table with a row for each model, and what models wait for."""
    from rich.console import Group
    from rich.progress_bar import ProgressBar
    from rich.table import Table

    latest = history.latest
    bar = Table.grid(padding=(0, 1), expand=True)
    bar.add_column(no_wrap=True)
    bar.add_column(ratio=1)
    bar.add_column(no_wrap=True)
    done = 100 * latest.finished / latest.owed if latest.owed else 100.0
    line = ProgressBar(total=latest.owed or 1, completed=latest.finished)
    bar.add_row(step, line, f"{done:.0f} %, {duration_words(seconds)}")
    facts = styled(", ".join(sweep_facts(history)))
    table = [_models_table(history)] if width >= _NARROW and latest.models else []
    notes = [styled(note, "yellow") for note in sweep_notes(latest)]
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
        "owed": latest.owed,
        "finished": latest.finished,
        "running": latest.leased,
        "waiting": latest.waiting,
        "exhausted": latest.exhausted,
        "lost": latest.lost,
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
        "model": model.model,
        "owed": model.owed,
        "finished": model.finished,
        "running": model.running,
        "waiting": model.waiting,
        "exhausted": model.exhausted,
        "waits_for": model.reason.value or None,
        "failure": model.failure or None,
        "next_try_seconds": model.seconds,
        "failures": {each.error_class: each.attempts for each in model.failures},
        **_used_json(model.used),
    }


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


class SweepDisplay(Protocol):
    """Shows a sweep: the steps before its first episode, its progress, then closing."""

    def begin(self, what: str) -> None:
        """Show a step before the first episode."""

    def count(self, what: str, done: int, of: int) -> None:
        """Show the progress of a step after the last episode; ``of`` is 0 if it is not known."""

    def __call__(self, progress: Progress) -> None:
        """Show the progress of the sweep."""


@contextmanager
def sweep_watch(step: str) -> Iterator[SweepDisplay]:
    """Show a sweep on stderr: on a terminal by a table that is refreshed in place, else by a line
    every ``output.LOG_SECONDS``; with --json these are JSON."""
    console = output.stderr()
    if output.wants_json() or not console.is_terminal or console.is_dumb_terminal:
        lines = _Lines(step, console)
        try:
            yield lines
        finally:
            lines.end()
    else:
        screen = _Screen(step, console)
        with screen.stack:
            yield screen


@dataclass(slots=True)
class _Screen:
    """A bar for the steps before and after the sweep, and the table in between."""

    step: str
    console: Console
    stack: ExitStack = field(default_factory=ExitStack)
    history: SweepHistory = field(default_factory=SweepHistory)
    begun: float = field(default_factory=time.monotonic)
    _bar: Watch | None = None
    _live: Live | None = None
    _drawn: float = 0.0  # time of the last frame

    def begin(self, what: str) -> None:
        self.count(what, 0, 0)

    def count(self, what: str, done: int, of: int) -> None:
        if self._bar is None:
            self._end_part()
            # The bar of the steps before the sweep makes room for the table.
            bar = progress_bar(transient=not self.history.samples)
            self._bar = self.stack.enter_context(bar)
        self._bar(f"{self.step}: {what}", done, of)

    def __call__(self, progress: Progress) -> None:
        from rich.live import Live

        now = time.monotonic()
        self.history.add(progress, now)
        if self._live is None:
            self._end_part()
            self._live = self.stack.enter_context(Live(console=self.console, auto_refresh=False))
            self._drawn = 0.0
        if progress.done or now - self._drawn >= _FRAME_SECONDS:
            seconds, width = now - self.begun, self.console.width
            frame = sweep_screen(self.history, self.step, seconds, width)
            self._live.update(frame, refresh=True)
            self._drawn = now

    def _end_part(self) -> None:
        self.stack.close()
        self._bar = self._live = None


@dataclass(slots=True)
class _Lines:
    """A line every ``output.LOG_SECONDS``, and one at once if a host begins or ends to wait for the
    store; with --json the first and the last progress too."""

    step: str
    console: Console
    history: SweepHistory = field(default_factory=SweepHistory)
    _as_json: bool = field(default_factory=output.wants_json)
    _printed: float = field(default_factory=time.monotonic)  # time of the last line
    _last_is_printed: bool = True

    def begin(self, what: str) -> None:
        self.count(what, 0, 0)

    def count(self, what: str, done: int, of: int) -> None:
        self.end()
        if self._is_due() or (self._as_json and not self.history.samples):
            count = f": {done} of {of}" if of else f": {done}" if done else ""
            self._print(f"{what}{count}", {"doing": what, "done": done, "of": of or None})

    def __call__(self, progress: Progress) -> None:
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
