"""The page of ``dosimeter tasks check``: one HTML file with plots, nothing loaded."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from html import escape
from pathlib import Path

from analysis.report.figures.intervals import Dot, plot_dots
from analysis.report.figures.style import css_variables
from generators.validation.result import (
    CRITERION_RATE,
    NULL_SCORE,
    SOLVER_SCORE,
    Survey,
    Validation,
)
from generators.validation.scores import PERTURBED_RATE
from study.errors import StudyError

_STYLE = """
body { margin: 0 auto; max-width: 60rem; padding: 1.5rem; background: var(--paper);
  color: var(--ink); font: 16px/1.5 var(--sans); }
h1 { font-size: 1.5rem; margin: 0 0 .3rem; } h2 { font-size: 1.15rem; margin: 2.2rem 0 .4rem; }
p { margin: .3rem 0; } .soft { color: var(--muted); } .good { color: var(--clean); }
.bad { color: var(--contaminated); } .wide { overflow-x: auto; }
table { border-collapse: collapse; font-variant-numeric: tabular-nums; font-size: .9rem; }
th, td { padding: .25rem .8rem .25rem 0; text-align: right; border-bottom: 1px solid var(--rule);
  white-space: nowrap; }
th { font-weight: 600; color: var(--muted); } .text { text-align: left; }
svg { display: block; min-width: 40rem; max-width: 100%; height: auto; margin: .5rem 0; }
"""

_LEGEND = (
    "Key and solver: the lowest score of any seed. Guess: the mean of the best answer that opens "
    "no file, outside instructions-following. Noisy: the mean of the key with "
    f"{PERTURBED_RATE:.0%} of its numbers wrong. Redrawn: degenerate draws that the guards "
    "refused, in all and most in one instance."
)
_MOST_GUESSES = 3  # the best of each difficulty
_NOISY = "noisy key"


def write_page(survey: Survey, path: Path) -> None:
    """Raises StudyError where the file cannot be written."""
    try:
        path.write_text(render_page(survey), encoding="utf-8")
    except OSError as error:
        raise StudyError(f"{path}: {error.strerror}; give a file that you may write") from error


def render_page(survey: Survey) -> str:
    """The whole page."""
    first = survey.strata[0]
    verdict = (
        '<p class="good">Every bound holds.</p>'
        if survey.holds
        else f'<p class="bad">{len(survey.problems)} out of bounds:</p>'
        + _list(survey.problems, "bad")
    )
    families = dict.fromkeys(f"{stratum.family}@{stratum.version}" for stratum in survey.strata)
    sections = (
        _family_section(name, [s for s in survey.strata if f"{s.family}@{s.version}" == name])
        for name in families
    )
    return (
        "<!doctype html>\n"
        '<html lang="en"><head><meta charset="utf-8">'
        '<meta name="viewport" content="width=device-width, initial-scale=1">'
        f"<title>Task families, checked</title><style>{css_variables()}{_STYLE}</style>"
        "</head><body>\n"
        "<h1>Task families, checked</h1>\n"
        f'<p class="soft">{first.seeds} public seeds at each difficulty, '
        f"{first.null_seeds} for guesses.</p>\n"
        f"{verdict}\n{_table(survey.strata)}\n{''.join(sections)}</body></html>\n"
    )


def _table(strata: Sequence[Validation]) -> str:
    heads = (
        "key",
        "solver",
        "best guess",
        "",
        "best attack",
        "",
        "10 % wrong",
        "redrawn",
        "same bytes",
        "distinct",
    )
    head = "".join(f"<th>{name}</th>" for name in heads)
    rows = []
    for stratum in strata:
        guess, earned = stratum.best_guess
        attacker, attacked = stratum.best_attack
        bounded = all(attack.score.mean <= attack.bound for attack in stratum.attacks)
        cells = (
            _mark(f"{stratum.key:.3f}", stratum.key == 1),
            _mark(f"{stratum.solver:.3f}", stratum.solver >= SOLVER_SCORE),
            _mark(f"{earned:.3f}", earned <= NULL_SCORE),
            f'<span class="soft">{escape(guess)}</span>',
            _mark(f"{attacked:.3f}", bounded),
            f'<span class="soft">{escape(attacker)}</span>',
            "–" if stratum.perturbed is None else f"{stratum.perturbed.mean:.3f}",
            _redraws(stratum.redraws),
            _mark("yes" if stratum.same_elsewhere else "no", stratum.same_elsewhere),
            _mark("yes" if stratum.distinct else "no", stratum.distinct),
        )
        name = f"{escape(stratum.family)} {escape(stratum.difficulty)}"
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
        "<p>What answers earn that open no file, the attackers, the key with "
        f"{PERTURBED_RATE:.0%} of its numbers wrong, and the noisy solvers (mean and twice its "
        "standard error)</p>"
        f"{_guess_plot(levels)}"
    )


def _solver_plot(levels: Sequence[Validation]) -> str:
    names = dict.fromkeys(rate.metarubric for level in levels for rate in level.criteria)
    dots = [
        Dot(name, level.difficulty, rate.rate, rate.interval, f"{rate.passed}/{rate.total}")
        for name in names
        for level in levels
        for rate in level.criteria
        if rate.metarubric == name
    ]
    return _plot("solver", "Criteria met by the reference solver", levels, dots, CRITERION_RATE)


def _guess_plot(levels: Sequence[Validation]) -> str:
    scores = [(level.difficulty, dict(level.nulls)) for level in levels]
    for level, (_, by_name) in zip(levels, scores, strict=True):
        if level.perturbed is not None:
            by_name[_NOISY] = level.perturbed
        by_name |= {attack.name: attack.score for attack in level.attacks} | dict(level.noisy)
    best = (sorted(level.nulls, key=lambda null: -null[1].mean)[:_MOST_GUESSES] for level in levels)
    names = dict.fromkeys(name for nulls in best for name, _ in nulls) | {_NOISY: None}
    for level in levels:
        names |= dict.fromkeys(attack.name for attack in level.attacks)
        names |= dict.fromkeys(name for name, _ in level.noisy)
    dots = []
    for name in names:
        for difficulty, by_name in scores:
            if name in by_name:
                score = by_name[name]
                low, high = score.mean - 2 * score.error, score.mean + 2 * score.error
                interval = max(low, 0.0), min(high, 1.0)
                dots.append(Dot(name, difficulty, score.mean, interval, f"{score.mean:.3f}"))
    return _plot("guess", "Scores of guesses and of the noisy key", levels, dots, NULL_SCORE)


def _plot(
    kind: str, title: str, levels: Sequence[Validation], dots: Sequence[Dot], bound: float
) -> str:
    name = re.sub(r"\W", "-", f"{kind}-{levels[0].family}-{levels[0].version}")
    groups = tuple(dict.fromkeys(level.difficulty for level in levels))
    return f'<div class="wide">{plot_dots(dots, bound, groups, name, title)}</div>\n'


def _mark(text: str, good: bool) -> str:
    return text if good else f'<strong class="bad">{escape(text)}</strong>'


def _list(lines: Iterable[str], css: str) -> str:
    return f'<ul class="{css}">' + "".join(f"<li>{escape(line)}</li>" for line in lines) + "</ul>"
