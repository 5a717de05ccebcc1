"""The page of ``dosimeter tasks check``: one HTML file, plots drawn as SVG, nothing loaded."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from html import escape
from pathlib import Path

from generators.task import DIFFICULTIES
from generators.validation import (
    CRITERION_RATE,
    NOISE_RATE,
    NULL_SCORE,
    SOLVER_SCORE,
    MeanScore,
    Survey,
    Validation,
)
from study.errors import StudyError

_STYLE = """
:root { --ink: #1c2329; --soft: #5c6873; --line: #d5dbe0; --good: #1f7a4d; --bad: #b3261e;
  --easy: #4c8fbf; --medium: #2f6690; --hard: #16324f; --paper: #ffffff; --band: #f4f6f8; }
@media (prefers-color-scheme: dark) { :root { --ink: #e6ebef; --soft: #9aa7b2; --line: #37424c;
  --good: #58c48d; --bad: #ff8a80; --easy: #9fd0f0; --medium: #62a8d8; --hard: #3f7fb5;
  --paper: #14191e; --band: #1d242b; } }
body { margin: 0 auto; max-width: 60rem; padding: 1.5rem; background: var(--paper);
  color: var(--ink); font: 16px/1.5 system-ui, sans-serif; }
h1 { font-size: 1.5rem; margin: 0 0 .3rem; } h2 { font-size: 1.15rem; margin: 2.2rem 0 .4rem; }
p { margin: .3rem 0; } .soft { color: var(--soft); } .good { color: var(--good); }
.bad { color: var(--bad); } .wide { overflow-x: auto; }
table { border-collapse: collapse; font-variant-numeric: tabular-nums; font-size: .9rem; }
th, td { padding: .25rem .8rem .25rem 0; text-align: right; border-bottom: 1px solid var(--line);
  white-space: nowrap; }
th { font-weight: 600; color: var(--soft); } .text { text-align: left; }
svg { display: block; min-width: 40rem; max-width: 100%; height: auto; margin: .5rem 0; }
svg text { fill: var(--ink); font: 13px system-ui, sans-serif; } svg .soft { fill: var(--soft); }
.easy { fill: var(--easy); stroke: var(--easy); } .medium { fill: var(--medium);
  stroke: var(--medium); } .hard { fill: var(--hard); stroke: var(--hard); }
.grid { stroke: var(--line); } .bound { stroke: var(--bad); stroke-dasharray: 4 3; }
"""

_LEGEND = (
    "Key and solver: the lowest score of any seed. Guess: the mean of the best answer that opens "
    "no file, outside instructions-following. Noisy: the mean of the key with "
    f"{NOISE_RATE:.0%} of its numbers wrong. Redrawn: degenerate draws that the guards refused, "
    "in all and most in one instance."
)

_LEFT, _RIGHT, _ROW, _PLOT = 270, 50, 22, 460
_WIDTH = _LEFT + _PLOT + _RIGHT


def write_page(found: Survey, path: Path) -> None:
    """Raises StudyError where the file cannot be written."""
    try:
        path.write_text(render_page(found), encoding="utf-8")
    except OSError as error:
        raise StudyError(f"{path}: {error.strerror}; give a file that you may write") from error


def render_page(found: Survey) -> str:
    """The whole page."""
    first = found.strata[0]
    verdict = (
        '<p class="good">Every bound holds.</p>'
        if found.holds
        else f'<p class="bad">{len(found.problems)} out of bounds:</p>'
        + _list(found.problems, "bad")
    )
    families = dict.fromkeys(f"{each.family}@{each.version}" for each in found.strata)
    sections = (
        _family_section(name, [s for s in found.strata if f"{s.family}@{s.version}" == name])
        for name in families
    )
    return (
        "<!doctype html>\n"
        '<html lang="en"><head><meta charset="utf-8">'
        '<meta name="viewport" content="width=device-width, initial-scale=1">'
        f"<title>Task families, checked</title><style>{_STYLE}</style></head><body>\n"
        "<h1>Task families, checked</h1>\n"
        f'<p class="soft">{first.seeds} public seeds at each difficulty, '
        f"{first.null_seeds} for guesses.</p>\n"
        f"{verdict}\n{_table(found.strata)}\n{''.join(sections)}</body></html>\n"
    )


def _table(strata: Sequence[Validation]) -> str:
    heads = ("key", "solver", "best guess", "", "noisy", "redrawn", "same bytes", "distinct")
    head = "".join(f"<th>{name}</th>" for name in heads)
    rows = []
    for each in strata:
        guess, earned = each.best_guess
        cells = (
            _mark(f"{each.key:.3f}", each.key == 1),
            _mark(f"{each.solver:.3f}", each.solver >= SOLVER_SCORE),
            _mark(f"{earned:.3f}", earned <= NULL_SCORE),
            f'<span class="soft">{escape(guess)}</span>',
            "–" if each.noisy is None else f"{each.noisy.mean:.3f}",
            _redraws(each.redraws),
            _mark("yes" if each.same_elsewhere else "no", each.same_elsewhere),
            _mark("yes" if each.distinct else "no", each.distinct),
        )
        name = f"{escape(each.family)} {escape(each.difficulty)}"
        rows.append(
            f'<tr><td class="text">{name}</td>'
            + "".join(f"<td>{cell}</td>" for cell in cells)
            + "</tr>"
        )
    return (
        f'<div class="wide"><table><tr><th class="text">task</th>{head}</tr>'
        f"{''.join(rows)}</table></div>\n"
        f'<p class="soft">{_LEGEND}</p>'
    )


def _redraws(redraws: Sequence[int]) -> str:
    return f"{sum(redraws)} ({max(redraws, default=0)})"


def _family_section(name: str, levels: Sequence[Validation]) -> str:
    return (
        f"<h2>{escape(name)}</h2>\n"
        "<p>Criteria that the reference solver meets, with the Wilson interval at 95 %</p>"
        f"{_solver_plot(levels)}"
        "<p>What answers earn that open no file, and the key with "
        f"{NOISE_RATE:.0%} of its numbers wrong (mean and twice its standard error)</p>"
        f"{_guess_plot(levels)}"
    )


def _solver_plot(levels: Sequence[Validation]) -> str:
    names = dict.fromkeys(rate.metarubric for each in levels for rate in each.criteria)
    rows = []
    for name in names:
        for each in levels:
            for rate in each.criteria:
                if rate.metarubric == name:
                    note = f"{rate.passed}/{rate.total}"
                    rows.append((name, each.difficulty, rate.rate, rate.interval, note))
    return _dots(rows, CRITERION_RATE)


def _guess_plot(levels: Sequence[Validation]) -> str:
    scores = [(each.difficulty, _scores(each)) for each in levels]
    best = (sorted(each.nulls, key=lambda null: -null[1])[:_MOST_GUESSES] for each in levels)
    shown = dict.fromkeys(name for nulls in best for name, _ in nulls) | {_NOISY: None}
    rows = []
    for name in shown:
        for difficulty, named in scores:
            if name in named:
                score = named[name]
                low, high = score.mean - 2 * score.error, score.mean + 2 * score.error
                interval = max(low, 0.0), min(high, 1.0)
                rows.append((name, difficulty, score.mean, interval, f"{score.mean:.3f}"))
    return _dots(rows, NULL_SCORE)


_MOST_GUESSES = 3  # the best of each difficulty
_NOISY = "noisy key"


def _scores(found: Validation) -> dict[str, MeanScore]:
    """Of the guesses, and of the careless reader."""
    errors = dict(found.null_errors)
    named = {name: MeanScore(mean, errors.get(name, 0.0)) for name, mean in found.nulls}
    return named if found.noisy is None else named | {_NOISY: found.noisy}


_Row = tuple[str, str, float, tuple[float, float], str]


def _dots(rows: Sequence[_Row], bound: float) -> str:
    """A dot and its interval for each row, on a scale from 0 to 1, with the bound marked."""
    height = _ROW * len(rows) + 34
    parts = list(_scale(height - 28, bound))
    before = ""
    for index, (name, level, value, (low, high), note) in enumerate(rows):
        y = _ROW * index + 14
        label = escape(name) if name != before else ""
        before = name
        css = level if level in DIFFICULTIES else "medium"
        parts.append(
            f'<text x="0" y="{y + 4}">{label}</text>'
            f'<text class="soft" x="{_LEFT - 12}" y="{y + 4}" text-anchor="end">{escape(level)}'
            f'</text><line class="{css}" stroke-width="2" x1="{_x(low)}" x2="{_x(high)}" y1="{y}" '
            f'y2="{y}"/><circle class="{css}" cx="{_x(value)}" cy="{y}" r="4.5"/>'
            f'<text class="soft" x="{_WIDTH}" y="{y + 4}" text-anchor="end">{escape(note)}</text>'
        )
    return (
        f'<div class="wide"><svg viewBox="0 0 {_WIDTH} {height}" width="{_WIDTH}" '
        f'height="{height}" role="img">{"".join(parts)}</svg></div>\n'
    )


def _scale(bottom: float, bound: float) -> Iterable[str]:
    for tick in (0, 0.25, 0.5, 0.75, 1):
        yield (
            f'<line class="grid" x1="{_x(tick)}" x2="{_x(tick)}" y1="0" y2="{bottom}"/>'
            f'<text class="soft" x="{_x(tick)}" y="{bottom + 20}" text-anchor="middle">{tick:g}'
            "</text>"
        )
    yield f'<line class="bound" x1="{_x(bound)}" x2="{_x(bound)}" y1="0" y2="{bottom}"/>'


def _x(share: float) -> str:
    return f"{_LEFT + share * (_PLOT - 20):.1f}"


def _mark(text: str, good: bool) -> str:
    return text if good else f'<strong class="bad">{escape(text)}</strong>'


def _list(lines: Iterable[str], css: str) -> str:
    return f'<ul class="{css}">' + "".join(f"<li>{escape(line)}</li>" for line in lines) + "</ul>"
