"""The commands ``dosimeter calibrate``, ``calibrate train`` and ``calibrate report``."""

from __future__ import annotations

import functools
import json
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click
from click.core import ParameterSource

from analysis import report as reports
from analysis import stats
from registry.provenance import utc_now
from study import calibration, reporting
from study.cli.live import sweep_watch
from study.cli.output import (
    PATH,
    cluster_options,
    complete_models,
    folder_option,
    json_option,
    print_json,
    print_line,
    print_note,
    print_records,
    progress_watch,
)
from study.errors import StudyError

if TYPE_CHECKING:
    from analysis.doses import DoseRow
    from study.calibration import Calibrated, RunRequest
    from study.workspace import Study

_OF_RUNS, _OF_SCORES = {"address", "workers", "parallel"}, {"wave", "model"}  # options


def _alone(command: Callable[..., None]) -> Callable[..., None]:
    """Run a group's own command only if none of its commands is named."""

    @functools.wraps(command)
    def alone(**options: Any) -> None:
        context = click.get_current_context()
        if context.invoked_subcommand is None:
            command(**options)
            return
        for name in options:
            if context.get_parameter_source(name) is ParameterSource.COMMANDLINE:
                raise click.UsageError(
                    f"options of `{context.invoked_subcommand}` come after its name"
                )

    return alone


@click.group(invoke_without_command=True)
@_alone
@folder_option
@click.option(
    "--doses",
    default="0,.05,.1,.2,.5,1",
    show_default=True,
    metavar="F,F,…",
    help="Shares of the public arm that are known.",
)
@click.option("--replicates", type=int, help="Of each dose. Default: 20; with --run, 1.")
@click.option(
    "--wave",
    type=click.IntRange(0),
    help="Whose stored scores are taken. Default: the newest closed one with a clean model.",
)
@click.option(
    "--model",
    metavar="NAME",
    shell_complete=complete_models,
    help="The clean model. Default: one that the plan names "
    "as released before publication or frozen.",
)
@click.option("--run", "run", is_flag=True, help="Run built-in agents in a scratch study instead.")
@click.option("--yes", is_flag=True, help="With --run: do run so many episodes.")
@cluster_options("With --run: ")
@click.option(
    "--out",
    type=PATH,
    help="Folder for JSON, SVG and the scratch study. Default: calibration, in the study's.",
)
@json_option
def calibrate(
    study: Study, doses: str, run: bool, yes: bool, out: Path | None, as_json: bool, **options: Any
) -> None:
    """Measure how large a leak the study would detect: the positive control, over doses.

    Known leaks are put into a clean model's stored scores, and the registered test is run on
    each: how often is a share of the public arm found, and from which share on reliably? With
    --run, agents that remember a share of a release go through the whole pipeline instead, in a
    scratch study with its own seeds and key; interrupted, the same command resumes it. What
    comes of either is put on record, and reports show it from then on.

    \b
    Examples:
      dosimeter calibrate
      dosimeter calibrate --doses 0,.05,.1,.15,.2 --replicates 200 --json | jq .dose_at_80
      dosimeter calibrate --run --doses .1,.5 --replicates 3 --yes
      dosimeter calibrate train --doses 0,1,2,4,8,16
    """
    given = {name: value for name, value in options.items() if value is not None}
    if not run and (yes or given.keys() & _OF_RUNS):
        raise click.UsageError("--yes, --address, --workers and --parallel go with --run")
    if run and given.keys() & _OF_SCORES:
        raise click.UsageError("--wave and --model are of stored scores: leave out --run")
    given["doses"] = _doses(doses)
    place = out or study.folder / calibration.FOLDER
    if run:
        made = _run(study, calibration.RunRequest(**given), place, yes or as_json)
    else:
        made = calibration.calibrate_study(study, calibration.CalibrateRequest(**given))
    kept = calibration.record_calibration(study, made, utc_now())
    files = calibration.write_calibration(place, made)
    if as_json:
        print_json(made.as_json())
    else:
        _print(made, files)
        click.echo(f"on record: {kept.uri}")


def _run(study: Study, request: RunRequest, place: Path, agreed: bool) -> Calibrated:
    scratch = calibration.plan_run(study, request, place)
    size = f"{scratch.episodes:,} episodes of built-in agents in {scratch.folder}"
    if not agreed:
        raise StudyError(f"{size}: nothing was run yet; add --yes to run them")
    click.echo(size, err=True)
    return calibration.run_calibration(study, scratch, request, sweep_watch)


def _doses(text: str) -> tuple[float, ...]:
    try:
        return tuple(float(part) for part in text.split(",") if part.strip())
    except ValueError:
        raise click.UsageError(
            f"--doses {text!r}: give shares between 0 and 1 with commas between, such as 0,.1,.5"
        ) from None


def _print(made: Calibrated, files: tuple[Path, Path]) -> None:
    rows = [
        {
            "known": f"{100 * dose.dose:g} %",
            "found": f"{dose.detected} of {dose.replicates}",
            "rate": f"{100 * dose.rate:.0f} %",
            "95 %": f"{100 * dose.interval[0]:.0f}…{100 * dose.interval[1]:.0f}",
            "curve": "–" if dose.fitted is None else f"{100 * dose.fitted:.0f} %",
            "gap, points": stats.signed(dose.gap),
        }
        for dose in made.found.doses
    ]
    where = f"{made.model}, wave {made.wave}" if made.how == "resampled" else made.model
    print_records(rows, title=f"Known leaks: {where}")
    for line in reports.calibration_words(calibration.as_kept(made)):
        click.echo(line)
    click.echo(f"wrote {files[0]} and {files[1]}")


@calibrate.command("train")
@folder_option
@click.option(
    "--doses",
    default="0,1,2,4,8,16",
    show_default=True,
    metavar="N,N,…",
    help="Copies of each public instance that a model is trained on.",
)
@click.option(
    "--training-seeds",
    default=1,
    show_default=True,
    help="Models of each dose, each from a base of its own.",
)
@click.option(
    "--mixed",
    is_flag=True,
    help="Also one model of each seed whose public instances each have one of the doses.",
)
@click.option("--base", is_flag=True, help="Train the bases alone, which read no release.")
@click.option(
    "--release",
    type=PATH,
    show_default="the study's own",
    help="A copy of the release to train on, as downloaded.",
)
@click.option(
    "--out",
    type=PATH,
    help="Folder in which `trained` is made. Default: calibration, in the study's.",
)
@json_option
def train_(
    study: Study,
    doses: str,
    training_seeds: int,
    mixed: bool,
    base: bool,
    release: Path | None,
    out: Path | None,
    as_json: bool,
) -> None:
    """Train small models on the release, at known doses.

    Each model continues from a base on fresh instances and copies of each public one; a dose of 0
    reads none. Bases that were trained before the release are models without exposure.
    The models answer order_statistics/easy in `mode: single_turn`. Their lines for study.yaml are
    printed: a wave's manifest pins them in the ledger, by digest and with their dose. Needs
    dosimeter[spike].

    \b
    Examples:
      dosimeter calibrate train --base --training-seeds 2
      dosimeter calibrate train --doses 0,1,2,4,8,16 --training-seeds 3 --mixed
      dosimeter calibrate train --doses 0,4 --release downloaded
    """
    if base and mixed:
        raise click.UsageError("--mixed goes with doses: leave out --base")
    copies = () if base else _copies(doses)
    wanted = calibration.TrainRequest(copies, training_seeds, release, mixed)
    place = (out or study.folder / calibration.FOLDER).absolute()
    with progress_watch("training") as watch:
        made = calibration.train_models(study, wanted, place, watch)
    as_made = made.as_json(study.folder.absolute())
    if as_json:
        print_json(as_made)
        return
    print_line("models:")
    for name, section in as_made["models"].items():
        print_line(
            f"  {name}: {{{', '.join(f'{key}: {json.dumps(section[key])}' for key in section)}}}"
        )
    for stratum in made.release.not_learnable:
        print_note(f"{stratum}: not learnable by the small model")
    private = made.private_collisions
    of_private = (
        "not compared, without a draw and the study's key" if private is None else str(private)
    )
    print_note(
        f"fresh rows that are instances of the study: public {made.public_collisions}, "
        f"private {of_private}"
    )


@calibrate.command("report")
@folder_option
@click.option(
    "--out", type=PATH, help="Folder for JSON and SVG. Default: calibration, in the study's."
)
@json_option
def report_(study: Study, out: Path | None, as_json: bool) -> None:
    """Compare the trained models of the closed waves by dose.

    Shows accuracy by arm, the verdicts of the newest report, power by number of instances, the
    limits of blank and of detection, the trend of models with mixed doses, and what probes see.
    Needs the study's key, and the files of weights.

    \b
    Examples:
      dosimeter calibrate report
      dosimeter calibrate report --json | jq '.rows[] | {dose, found, tested}'
    """
    with progress_watch("measuring") as watch:
        made = reporting.report_doses(study, watch)
    files = reporting.write_doses(out or study.folder / calibration.FOLDER, made)
    if as_json:
        print_json(made.as_json())
        return
    rows = made.response.rows
    print_records([_dose_record(row) for row in rows], title="Doses")
    groups = [
        {"key size": f"{group.group}, {group.bits:.1f} bits"}
        | {_copies_of(row): stats.signed(row.by_key[place].gap) for row in rows}
        for place, group in enumerate(rows[0].by_key)
    ]
    print_records(groups, title="Gap by key size, points")
    probes = {probe.probe: {"probe": probe.probe} for row in rows for probe in row.probes}
    for row in rows:
        for probe in row.probes:
            needed = "–" if probe.instances is None else f"{probe.instances:,}"
            probes[probe.probe][_copies_of(row)] = f"{probe.auc:.2f} ({needed})"
    title = "Area under the curve (instances an arm for a power of 80 %)"
    print_records(list(probes.values()), title=title)
    for line in reports.dose_words(made.response):
        click.echo(line)
    click.echo(f"wrote {files[0]} and {files[1]}")


def _copies_of(row: DoseRow) -> str:
    return f"{row.dose} cop{'y' if row.dose == 1 else 'ies'}"


def _dose_record(row: DoseRow) -> dict[str, str]:
    low, high = row.interval
    return {
        "copies": f"{row.dose}",
        "models": f"{len(row.models)}",
        "public": f"{100 * row.public.mean:.1f} %",
        "private": f"{100 * row.private.mean:.1f} %",
        "gap, points": stats.signed(row.gap),
        "95 %": f"{stats.signed(low)}…{stats.signed(high)}",
        "contaminated": f"{row.found} of {row.tested}",
        "power": ", ".join(f"{100 * p.found:.0f} % of {p.instances}" for p in row.by_size),
    }


def _copies(text: str) -> tuple[int, ...]:
    try:
        return tuple(dict.fromkeys(int(part) for part in text.split(",") if part.strip()))
    except ValueError:
        raise click.UsageError(
            f"--doses {text!r}: give whole numbers of copies with commas between, such as 0,1,4"
        ) from None
