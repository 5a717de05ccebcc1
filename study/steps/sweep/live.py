"""The view of a running sweep: a table on a terminal, else lines, and JSON lines with --json."""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import asdict, dataclass, field
from typing import TYPE_CHECKING, Any, Protocol

from study import printing as output
from study.encoding import plain_text
from study.printing import Watch, progress_bar, styled
from study.steps.sweep.accounts import accounts_json
from study.steps.sweep.progress import (
    SweepHistory,
    duration_words,
    pause_words,
    sweep_facts,
    sweep_notes,
    tokens_words,
    usd_words,
)

if TYPE_CHECKING:
    from rich.console import Console, RenderableType
    from rich.live import Live
    from rich.table import Table

    from harness.sweep.governor import Consumption, ModelProgress
    from harness.sweep.leases import Progress

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
    facts = styled("\n".join(_fill_lines(sweep_facts(history), width)))
    table = [_models_table(history)] if width >= _NARROW and latest.models else []
    notes = [styled(plain_text(note), "yellow") for note in sweep_notes(latest)]
    return Group(bar, facts, *table, *notes)


def _fill_lines(phrases: Iterable[str], width: int) -> list[str]:
    """Return lines shorter than a width, broken between phrases if possible."""
    lines: list[str] = []
    for phrase in map(plain_text, phrases):
        joined = f"{lines[-1]}, {phrase}" if lines else phrase
        if lines and len(joined) >= width:
            lines[-1] += ","
            lines.append(phrase)
        else:
            lines[-1:] = [joined]
    return lines


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
            styled(plain_text(model.model)),
            f"{model.finished:,}/{model.owed:,}",
            f"{model.running:,}",
            f"{model.waiting:,}",
            styled(f"{failed:,}", "yellow" if failed else ""),
            "–" if rate is None else f"{rate:,.0f}",
            plain_text(tokens_words(model.used)),
            plain_text(usd_words(model.used)),
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
    if output.wants_json():
        lines = _JsonLines(step)
        try:
            yield lines
        finally:
            lines.end()
    elif not console.is_terminal or console.is_dumb_terminal:
        yield _Lines(step, console)
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
    """A line every ``output.LOG_SECONDS``."""

    step: str
    console: Console
    history: SweepHistory = field(default_factory=SweepHistory)
    _printed: float = field(default_factory=time.monotonic)

    def begin(self, what: str) -> None:
        self.count(what, 0, 0)

    def count(self, what: str, done: int, of: int) -> None:
        count = f": {done} of {of}" if of else f": {done}" if done else ""
        self._print(lambda: f"{what}{count}")

    def __call__(self, progress: Progress) -> None:
        before = pause_words(self.history.latest) if self.history.samples else {}
        now = pause_words(progress)
        self.history.add(progress, time.monotonic())
        self._print(
            lambda: "; ".join([", ".join(sweep_facts(self.history)), *sweep_notes(progress)]),
            at_once=bool(now.keys() - before.keys()),
        )
        if ended := sorted(before.keys() - now.keys()):
            again = f"the store is back on {', '.join(ended)}"
            self._print(lambda: again, at_once=True)

    def _print(self, words: Callable[[], str], at_once: bool = False) -> None:
        if at_once or time.monotonic() - self._printed >= output.LOG_SECONDS:
            line = plain_text(f"{self.step}: {words()}")
            self.console.print(line, soft_wrap=True, markup=False, highlight=False)
            self._printed = time.monotonic()


@dataclass(slots=True)
class _JsonLines:
    """The first and the last progress, and one every ``output.LOG_SECONDS``."""

    step: str
    history: SweepHistory = field(default_factory=SweepHistory)
    _printed: float | None = None  # time of the last line
    _last_is_printed: bool = True

    def begin(self, what: str) -> None:
        self.count(what, 0, 0)

    def count(self, what: str, done: int, of: int) -> None:
        self.end()
        if self._is_due():
            self._print({"doing": what, "done": done, "of": of or None})

    def __call__(self, progress: Progress) -> None:
        before = self.history.latest if self.history.samples else None
        self._last_is_printed = False
        self.history.add(progress, time.monotonic())
        changed = before is None or bool(before.pauses) != bool(progress.pauses)
        if changed or self._is_due():
            self.end()

    def end(self) -> None:
        """Print the last progress, if that has not been done."""
        if not self._last_is_printed:
            self._print(sweep_json(self.history))
            self._last_is_printed = True

    def _is_due(self) -> bool:
        return self._printed is None or time.monotonic() - self._printed >= output.LOG_SECONDS

    def _print(self, value: dict[str, Any]) -> None:
        print(json.dumps({"step": self.step, **value}), file=sys.stderr, flush=True)
        self._printed = time.monotonic()
