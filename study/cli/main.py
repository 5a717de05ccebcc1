"""The command line: parse, call one function, print. What it refuses exits with 2."""

from __future__ import annotations

import logging
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from study.cli.calibrate import calibrate
from study.cli.judges import grade, judge
from study.cli.options import dirty_option, json_option, study_option
from study.cli.power import power
from study.cli.probe import probe
from study.cli.tables import analyze, import_
from study.cli.tasks import models, tasks
from study.cli.templates import template
from study.cli.transcripts import export, show, tools
from study.cli.waves import leak, wave

if TYPE_CHECKING:
    from study.workspace import Study


class Commands(click.Group):
    """Commands in the order of a study; errors of our packages as one line with exit code 2."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        """Return the commands in the order in which they were added."""
        return list(self.commands)

    def invoke(self, ctx: click.Context) -> Any:
        """Run a command; exit with 2 and one line on stderr for an error of our packages."""
        try:
            return super().invoke(ctx)
        except Exception as error:
            if isinstance(error, OSError) and isinstance(error.filename, str):
                message = f"{error.filename}: {error.strerror}"  # a full disk, no permission
            elif _is_own_error(error):
                message = str(error)
            else:
                raise
            click.echo(f"dosimeter: {message}", err=True)
            ctx.exit(2)
        except KeyboardInterrupt:
            click.echo("\ninterrupted; finished work is kept: run the same command again", err=True)
            ctx.exit(130)


def _is_own_error(error: Exception) -> bool:
    """Report whether an error class is of one of our packages."""
    module = type(error).__module__
    return module.endswith(".errors") and module.split(".")[0] in {
        "study",
        "harness",
        "publish",
        "analysis",
        "generators",
        "registry",
    }


@click.group(cls=Commands, context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(package_name="dosimeter")
@click.option("-v", "--verbose", count=True, help="Log progress to stderr; -vv logs more.")
@click.pass_context
def main(context: click.Context, verbose: int) -> None:
    """Measure how much a published benchmark has leaked into language models.

    \b
    A study, step by step:
      dosimeter init my-study        write study.yaml and a key
      dosimeter draw                 draw seeds for both arms and seal them
      dosimeter register             promise the analysis, before any data
      dosimeter sweep --wave 0       run the models of a wave
      dosimeter publish              release the public arm
      dosimeter sweep --wave 1       run newer models
      dosimeter report               the registered test, and the report

    `dosimeter demo` shows the whole line in about four minutes.
    """
    from registry.provenance import verify_packages

    if verbose:
        from study.cli.output import show_logs

        context.with_resource(show_logs(logging.DEBUG if verbose > 1 else logging.INFO))
    verify_packages()


@main.command()
@click.option(
    "--study",
    "folder",
    default="demo-study",
    show_default=True,
    type=click.Path(path_type=Path),
    help="Folder of the demo's study, new or to be resumed.",
)
@click.option(
    "--sandbox",
    type=click.Choice(["docker", "local"]),
    default="docker",
    show_default=True,
    help="local needs no engine, and runs the built-in agents only.",
)
@click.option(
    "--task",
    "tasks",
    multiple=True,
    metavar="FAMILY/DIFFICULTY",
    help="Other tasks than the demo's, for a new demo; may be given more than once.",
)
@click.option(
    "--model",
    metavar="NAME",
    help="A real local model takes part, for a new demo: smollm2, once its weights are fetched.",
)
@click.option(
    "--judge",
    type=click.Choice(["careless"]),
    help="A built-in judge grades as well, for a new demo, and fails its controls: the report "
    "withholds the verdicts and says why.",
)
@json_option
def demo(
    folder: Path,
    sandbox: str,
    tasks: tuple[str, ...],
    model: str | None,
    judge: str | None,
    as_json: bool,
) -> None:
    """Run a complete small study, which detects an agent that has read the release.

    Killed midway, it resumes where it was when it is run again.

    \b
    Examples:
      dosimeter demo
      dosimeter demo --study physics --task hubble_constant/easy --task cepheid_calibration/easy
      dosimeter models fetch smollm2 && dosimeter demo --study real --model smollm2
      dosimeter demo --study judged --judge careless
    """
    from study.cli.output import print_verdicts, progress_watch, sweep_watch
    from study.demo import DemoRequest, Display, run_demo

    display = Display(lambda line: click.echo(line, err=True), progress_watch, sweep_watch)
    report, path = run_demo(folder, DemoRequest(sandbox, tasks, model, judge), display)
    print_verdicts(report, path, as_json)


@main.command()
@click.argument("folder", required=False, type=click.Path(path_type=Path))
@click.option("--study", type=click.Path(path_type=Path), help="The same, as elsewhere.")
def init(folder: Path | None, study: Path | None) -> None:
    """Write a new study's FOLDER (default: here): study.yaml to edit, and a fresh age key.

    \b
    Example:
      dosimeter init my-study
    """
    from study.workspace import init_study

    place = folder or study or Path()
    path = init_study(place)
    click.echo(f"wrote {path}; edit it, then `dosimeter draw --study {place}`")
    click.echo(f"the key in {place / 'keys'} opens all that the study seals: keep a copy elsewhere")


main.add_command(models)
main.add_command(tasks)
main.add_command(template)
main.add_command(power)


@main.command()
@study_option
@json_option
def draw(folder: Path, as_json: bool) -> None:
    """Draw seeds for both arms at random, and seal them.

    \b
    Example:
      dosimeter draw --study my-study
    """
    from study import pipeline
    from study.cli.output import print_step, progress_watch

    with progress_watch("drawing") as watch:
        sealed, fresh = pipeline.draw(pipeline.open_study(folder), watch)
    strata = len(sealed.strata)
    count = f"{strata} strata" if strata > 1 else "1 stratum"
    print_step(
        sealed, as_json, f"{sealed.count} seeds in {count}, Merkle root {sealed.root}", fresh
    )


@main.command()
@study_option
@json_option
def register(folder: Path, as_json: bool) -> None:
    """Register the plan: the promised analysis, with the commit and image it is made with.

    \b
    Example:
      dosimeter register --study my-study
    """
    from study import pipeline
    from study.cli.output import print_step, progress_watch

    with progress_watch("registering") as watch:
        record, fresh = pipeline.register(pipeline.open_study(folder), watch)
    print_step(record, as_json, pipeline.describe(record), fresh)


@main.command()
@study_option
@click.option("--wave", required=True, type=click.IntRange(0), help="Which wave of study.yaml.")
@click.option("--address", help="Of an existing Ray cluster, HOST:6379. Default: start one here.")
@click.option("--workers", type=click.IntRange(1), help="Ray workers; one a node is enough.")
@click.option("--parallel", type=click.IntRange(1, 1024), help="Episodes at once in a worker.")
@click.option(
    "--close-missing",
    is_flag=True,
    help="Record cells whose attempts all failed as missing, and close the wave.",
)
@click.option(
    "--estimate", is_flag=True, help="Only estimate what the wave still takes, and costs."
)
@click.option("--pilot", metavar="MODEL", help="Estimate models without pilots by this one's.")
@click.option("--dry-run", is_flag=True, help="Only show the first requests; no network, no key.")
@click.option(
    "--allow-unknown-price",
    is_flag=True,
    help="Run models whose price is not in the price file; their cost stays unknown.",
)
@dirty_option
@json_option
def sweep(
    folder: Path, estimate: bool, pilot: str | None, dry_run: bool, as_json: bool, **options: Any
) -> None:
    """Run every episode that a wave still owes. Interrupt it at will; run it again to resume.

    Exits with 1 while cells are owed because their attempts failed, and with 3 if the budget in
    study.yaml does not pay for them.

    \b
    Examples:
      dosimeter sweep --wave 0
      dosimeter sweep --wave 0 --address head:6379 --workers 16
      dosimeter sweep --wave 0 --estimate --json | jq .cost_usd
      dosimeter sweep --wave 0 --dry-run
    """
    from study import pipeline
    from study.cli.output import print_sweep, sweep_watch
    from study.sweeps import SweepRequest

    if pilot is not None and not estimate:
        raise click.UsageError("--pilot goes with --estimate")
    if estimate and dry_run:
        raise click.UsageError("--estimate and --dry-run exclude each other: give one")
    request = SweepRequest(**options)
    if estimate or dry_run:
        _foresee(pipeline.open_study(folder), request.wave, dry_run, pilot, as_json)
        return
    with sweep_watch(f"wave {request.wave}") as watch:
        outcome = pipeline.sweep(pipeline.open_study(folder), request, watch)
    print_sweep(outcome, request.wave, as_json)
    over_budget = outcome.progress is not None and outcome.progress.held > 0
    sys.exit(0 if outcome.closed else 3 if over_budget else 1)


def _foresee(study: Study, wave: int, dry_run: bool, pilot: str | None, as_json: bool) -> None:
    """Print the first requests of a sweep, or its estimate. Neither writes anything."""
    from study.cli.money_output import print_dry_run, print_estimate

    if dry_run:
        from study.sweeps import render_wave

        print_dry_run(*render_wave(study, wave), as_json)
        return
    from study.estimate import estimate_wave

    print_estimate(estimate_wave(study, wave, pilot), as_json)


main.add_command(grade)
main.add_command(judge)
main.add_command(probe)


@main.command()
@study_option
@click.option("--upload/--no-upload", default=None, help="Default: if study.yaml names one.")
@json_option
def publish(folder: Path, upload: bool | None, as_json: bool) -> None:
    """Release the public arm: a dataset folder, checked for leaks, and the Hub if named.

    \b
    Example:
      dosimeter publish --study my-study
    """
    from study import pipeline
    from study.cli.output import print_step, progress_watch

    with progress_watch("publishing") as watch:
        release, fresh = pipeline.publish(pipeline.open_study(folder), upload, watch)
    print_step(release, as_json, f"{release.count} public instances: {release.location}", fresh)


@main.command()
@study_option
@click.option("--through", type=click.IntRange(0), help="The last wave to look at.")
@click.option(
    "--internal",
    metavar="FILE.age",
    type=click.Path(path_type=Path),
    help="Instead, write the look with a row for every episode, sealed to the study's recipients.",
)
@json_option
def report(folder: Path, through: int | None, internal: Path | None, as_json: bool) -> None:
    """Run the registered test on the waves that are closed, and write the report.

    It is a folder: report.html, report.md, report.json, tables/ and figures/. Nothing that
    follows from a private seed goes into it. What --internal writes may hold all, and is sealed.

    \b
    Examples:
      dosimeter report
      dosimeter report --json | jq '.models[] | {model, verdict, p_adjusted}'
      dosimeter report --internal look.age
    """
    from study import pipeline
    from study.cli.output import print_verdicts

    if internal is not None:
        from registry.provenance import utc_now
        from study.reporting import write_internal

        path = write_internal(pipeline.open_study(folder), through, internal, utc_now())
        click.echo(f"wrote {path}, sealed to the study's recipients: open it with age and a key")
        return
    made, path = pipeline.report(pipeline.open_study(folder), through)
    print_verdicts(made, path, as_json)


@main.command()
@study_option
@json_option
def status(folder: Path, as_json: bool) -> None:
    """Show the steps of a study: what is done, and what is owed.

    \b
    Example:
      dosimeter status
    """
    from study import pipeline
    from study.cli.output import print_records

    print_records(pipeline.status(pipeline.open_study(folder)), as_json, title="Study")


main.add_command(calibrate)
main.add_command(analyze)
main.add_command(import_)
main.add_command(wave)
main.add_command(leak)
main.add_command(show)
main.add_command(tools)
main.add_command(export)


@main.command()
@study_option
@click.option("--head", help="Digest of the last ledger record, as noted elsewhere.")
@json_option
def verify(folder: Path, head: str | None, as_json: bool) -> None:
    """Recompute the ledger, the commitments and the digest of every stored object.

    Without the key it checks what it can, and lists what it left out. Exits with 1 if something
    does not hold.

    \b
    Example:
      dosimeter verify --study my-study
    """
    from study import pipeline
    from study.cli.output import print_verification, progress_watch

    with progress_watch("verifying") as watch:
        verification = pipeline.verify(pipeline.open_study(folder), head, watch)
    print_verification(verification, as_json)
    sys.exit(0 if verification.holds else 1)


@main.command()
@study_option
@json_option
def log(folder: Path, as_json: bool) -> None:
    """Print the ledger, record by record.

    \b
    Example:
      dosimeter log --json | jq .kind
    """
    from study import pipeline
    from study.cli.output import print_log

    print_log(pipeline.open_study(folder).ledger.entries(), as_json)


if __name__ == "__main__":
    main()
