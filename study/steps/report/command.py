"""The command ``dosimeter report``."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from analysis.report.report import report_json
from study.errors import StudyError
from study.options import folder_option, json_option
from study.printing import print_json, print_line, print_records, progress_watch, styled
from study.steps import pipeline
from study.steps.sweep.history import begun_waves, unclosed_waves

if TYPE_CHECKING:
    from study.workspace.study import Study


@click.command()
@folder_option
@click.option(
    "--wave",
    "--through",
    "through",
    metavar="N",
    show_default="the newest that is closed",
    type=click.IntRange(0),
    help="The last wave to look at.",
)
@json_option
def report(study: Study, through: int | None, as_json: bool) -> None:
    """Run the registered test on the waves that are closed, and write the report.

    It is a folder: report.html, report.md, report.json, tables/ and figures/. Nothing that
    follows from a private seed goes into it. While a wave is begun and not closed, it asks before
    it records a report without that wave; --wave N states the last wave and asks nothing.

    \b
    Examples:
      dosimeter report
      dosimeter report --wave 1
      dosimeter report --json | jq '.models[] | {model, verdict, p_adjusted}'
    """
    if through is None:
        _ask_without(study)
    with progress_watch("reporting") as watch:
        made, path = pipeline.report(study, through, watch)
    print_verdicts(report_json(made), path, as_json)


def _ask_without(study: Study) -> None:
    """Ask before a report leaves out waves that are begun and not closed, since the ledger records
    it. Raises StudyError unless the answer is yes."""
    entries = study.ledger.entries()
    closed = [wave.wave for wave in begun_waves(entries) if wave.closed]
    if not closed or not (unclosed := unclosed_waves(entries)):
        return
    which = ", ".join(f"wave {wave}" for wave in unclosed)
    with suppress(click.Abort):  # no answer
        if click.confirm(f"Not closed: {which}. Record a report without it?", err=True):
            return
    raise StudyError(
        f"{which}: begun and not closed; finish it with `dosimeter sweep --wave {unclosed[0]}`, or "
        f"leave it out with `dosimeter report --wave {max(closed)}`"
    )


_VERDICT_STYLES = {
    "contaminated": "bold red",
    "no inflation of the published instances above the margin": "green",
    "inconclusive": "yellow",
    "withheld": "magenta",
}


def print_verdicts(body: Mapping[str, Any], path: Path | None, as_json: bool) -> None:
    """Print the table of verdicts of a report as JSON has it, notes, deviations, and its path."""
    from analysis.plan.verdict import ESTIMATE
    from analysis.report.wording import with_margin
    from analysis.stats.intervals import p_words

    if as_json:
        print_json(body)
        return
    margin = body["margin"] if "margin" in body else body["plan"]["margin"]
    rows = [
        {
            "wave": row["wave"],
            "model": row["model"],
            "verdict": styled(with_margin(word, margin), _VERDICT_STYLES.get(word, "")),
            "gap (95 %)": _gap(row["estimate"], row["interval"]),
            "adj. p": "–" if word == ESTIMATE else p_words(row["p_adjusted"], row["p_floor"]),
            "seeds": f"{row['n_public']}/{row['n_private']}",
        }
        for row, word in ((row, row["verdict"]) for row in body["models"])
    ]
    title = f"Verdicts of {body['study']}: public minus private, in points"
    early = [_early_row(row) for row in body.get("before_publication", ())]
    if rows or not early:
        print_records(rows, title=title, right=("gap (95 %)", "adj. p", "seeds"))
    if early:
        title = "Before publication: no verdicts; public minus private, in points"
        print_records(early, title=title, right=("gap (95 %)", "seeds"))
    if not rows:
        first = "verdicts need a wave with models to test that is begun after the release: "
        steps = "`dosimeter publish`, then `dosimeter sweep` of such a wave (docs/waves.md)"
        print_line(first + steps, "note:", "yellow")
    for headline in body.get("headlines", ()):
        print_line(headline)
    if selection := body.get("selection"):
        print_line(selection, "note:", "yellow")
    for note in dict.fromkeys(row["note"] for row in body["models"] if row["note"]):
        about = (f"{r['model']} at wave {r['wave']}" for r in body["models"] if r["note"] == note)
        print_line(note, f"{', '.join(about)}:", "yellow")
    for label in ("remark", "deviation"):
        for line in body.get(f"{label}s", ()):
            print_line(line, f"{label}:", "yellow")
    if path is not None:
        print_line(f"report: {path}")


def _early_row(row: Mapping[str, Any]) -> dict[str, object]:
    return {
        "wave": row["wave"],
        "model": row["model"],
        "gap (95 %)": _gap(row["gap"], row["interval"]),
        "seeds": f"{row['n_public']}/{row['n_private']}",
    }


def _gap(estimate: float | None, interval: Sequence[float] | None) -> str:
    if estimate is None or interval is None:
        return "–"
    low, high = interval
    return f"{100 * estimate:+.1f} ({100 * low:+.1f}…{100 * high:+.1f})".replace("-", "−")
