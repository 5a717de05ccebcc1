"""The command line: parse, call one function, print. Exit codes: docs/reference/cli.md."""

from __future__ import annotations

import errno
import logging
import os
import signal
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from harness.errors import AttemptFailed, CoordinatorLost, WorkersLost, WorkStopped
from registry.errors import BrokenPromise
from registry.files import write_whole
from registry.provenance import PACKAGES, utc_now, verify_packages
from study import pipeline
from study.encoding import replace_in_streams
from study.errors import WorkOwedError
from study.extras.calibrate.command import calibrate
from study.extras.judge.command import grade, judge
from study.extras.keys.command import keys
from study.extras.pilot.command import pilot
from study.extras.power.command import power
from study.extras.probe.command import probe
from study.extras.tables.command import analyze, import_
from study.extras.tasks.command import models, tasks
from study.extras.templates.command import template
from study.extras.transcripts.command import export, show, tools
from study.printing import (
    PATH,
    Exit,
    complete_strata,
    folder_option,
    json_option,
    print_log,
    print_note,
    print_preview,
    print_records,
    print_step,
    print_verdicts,
    print_verification,
    progress_watch,
    show_logs,
    study_option,
)
from study.steps.init.command import init, lint, schema
from study.steps.register.draw_command import (
    draw,
    reveal,
    show_readiness,
    underpowered_option,
    unproved_option,
)
from study.steps.report.look import write_internal
from study.steps.sweep.command import sweep
from study.steps.sweep.live import sweep_watch
from study.steps.sweep.wave_command import leak, wave
from study.workspace.checkpoints import make_checkpoint

if TYPE_CHECKING:
    from study.workspace.study import Study

_DISK = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG, errno.EROFS)
_OF_OWED_WORK = (AttemptFailed, CoordinatorLost, WorkersLost, WorkStopped, WorkOwedError)


class Commands(click.Group):
    """Commands in the order of a study; errors of our packages as one line, with the exit codes of
    docs/reference/cli.md."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        """Return the commands in the order in which they were added."""
        return list(self.commands)

    def main(self, *arguments: Any, **options: Any) -> Any:
        """Run the program, on a terminal or pipe of any encoding. SIGTERM, by which schedulers end
        programs, interrupts it as Ctrl-C does."""
        replace_in_streams()
        before = signal.signal(signal.SIGTERM, signal.default_int_handler)
        try:
            return super().main(*arguments, **options)
        finally:
            signal.signal(signal.SIGTERM, before)

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        """Read the program's own options."""
        with _one_line_of_usage(ctx):
            return super().parse_args(ctx, args)

    def invoke(self, ctx: click.Context) -> Any:
        """Run a command; for an error of our packages, exit with its code and one line on
        stderr."""
        try:
            with _one_line_of_usage(ctx):
                return super().invoke(ctx)
        except Exception as error:
            if isinstance(error, OSError) and (error.errno in _DISK or error.filename):
                message = f"{error.filename or 'a file cannot be written'}: {error.strerror}"
            elif _is_own_error(error):
                message = str(error)
            else:
                raise
            click.echo(f"dosimeter: {message}", err=True)
            ctx.exit(_exit_code(error))
        except KeyboardInterrupt:
            click.echo("\ninterrupted; finished work is kept: run the same command again", err=True)
            ctx.exit(Exit.INTERRUPTED)


@contextmanager
def _one_line_of_usage(ctx: click.Context) -> Iterator[None]:
    """Report a command line that cannot be read in one line, with the command that helps."""
    try:
        yield
    except click.exceptions.NoArgsIsHelpError:
        raise
    except click.UsageError as error:
        path = (error.ctx or ctx).command_path
        message = " ".join(error.format_message().split()).rstrip(".")
        click.echo(f"dosimeter: {message}; see `{path} --help`", err=True)
        ctx.exit(Exit.BAD_INPUT)


def _is_own_error(error: Exception) -> bool:
    """Report whether an error class is of one of our packages."""
    module = type(error).__module__
    return module.endswith(".errors") and module.split(".")[0] in PACKAGES


def _exit_code(error: Exception) -> Exit:
    """Return the exit code of a command that an error ended."""
    if isinstance(error, BrokenPromise):
        return Exit.BROKEN
    return Exit.OWED if isinstance(error, _OF_OWED_WORK) else Exit.BAD_INPUT


@click.group(
    cls=Commands, context_settings={"help_option_names": ["-h", "--help"], "show_default": True}
)
@click.version_option(package_name="dosimeter")
@click.option("-v", "--verbose", count=True, help="Log progress to stderr; -vv logs more.")
@click.pass_context
def main(context: click.Context, verbose: int) -> None:
    """Measure how much a published benchmark has leaked into language models.

    \b
    A study, step by step:
      dosimeter init my-study        write study.yaml and a key
      dosimeter register             draw and seal the seeds, promise the analysis
      dosimeter sweep --wave 0       run the models of a wave
      dosimeter publish              release the public arm
      dosimeter sweep --wave 1       run newer models
      dosimeter report               the registered test, and the report

    `dosimeter demo` shows the whole line in about four minutes.
    """
    if verbose:
        context.with_resource(show_logs(logging.DEBUG if verbose > 1 else logging.INFO))
    verify_packages()


@main.command()
@click.option(
    "--study",
    "folder",
    default="demo-study",
    show_default=True,
    type=PATH,
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
    shell_complete=complete_strata,
    help="Other tasks than the demo's, for a new demo; may be given more than once.",
)
@click.option(
    "--model",
    show_default="no real model",
    metavar="NAME",
    help="A real local model takes part, for a new demo: smollm2, once its weights are fetched.",
)
@click.option(
    "--judge",
    show_default="no judge",
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

    from study.steps.demo.demo import DemoRequest, Display, run_demo

    display = Display(lambda line: click.echo(line, err=True), progress_watch, sweep_watch)
    report, path = run_demo(folder, DemoRequest(sandbox, tasks, model, judge), display)
    print_verdicts(report, path, as_json)


main.add_command(init)
main.add_command(models)
main.add_command(tasks)
main.add_command(template)
main.add_command(lint)
main.add_command(schema)
main.add_command(pilot)
main.add_command(power)
main.add_command(keys)


main.add_command(draw)


@main.command()
@folder_option
@underpowered_option
@unproved_option
@json_option
def register(study: Study, underpowered: str, unproved: str, as_json: bool) -> None:
    """Register the plan: the promised analysis, with the commit and image it is made with.

    The plan is also written to registration.json beside study.yaml, in the fields of an OSF
    preregistration; nothing in it is private.

    Seeds are drawn first, as by `draw`, if none are drawn yet. What `draw` refuses is refused here
    too; a reason that was given there holds here.

    \b
    Example:
      dosimeter register --study my-study
      jq -r '.fields[] | "## \\(.name)\\n\\(.answer)\\n"' my-study/registration.json
    """
    from study.steps.register.draw import is_drawn
    from study.workspace.setup import REGISTRATION

    drawn = is_drawn(study)
    with progress_watch("registering") as watch:
        record, fresh = pipeline.register(study, watch, underpowered, unproved)
    if not drawn:
        show_readiness(study)
        click.echo(f"drawn: {pipeline.describe_draw(study.sealed_set())}", err=True)
    print_step(record, as_json, pipeline.describe(record), fresh)
    click.echo(f"for a public registry: {study.folder / REGISTRATION}", err=True)


main.add_command(sweep)
main.add_command(grade)
main.add_command(judge)
main.add_command(probe)


@main.command()
@folder_option
@click.option("--upload/--no-upload", default=None, help="Default: if study.yaml names one.")
@click.option(
    "--tranche",
    "tranches",
    type=click.IntRange(0),
    multiple=True,
    show_default="all that were drawn",
    help="Add the public arm of this tranche only; may be repeated.",
)
@click.option("--dry-run", is_flag=True, help="Build and check; show it, keep and record nothing.")
@click.option(
    "--withdraw",
    metavar="REASON",
    show_default="none",
    help="Take the release off the Hub; the reason is public.",
)
@json_option
def publish(
    study: Study,
    upload: bool | None,
    tranches: tuple[int, ...],
    dry_run: bool,
    withdraw: str | None,
    as_json: bool,
) -> None:
    """Release the public arm: a dataset folder, checked for leaks, and the Hub if named.

    \b
    Example:
      dosimeter publish --study my-study --dry-run
      dosimeter publish --study my-study
    """
    from study.steps.publish.release import preview_arm, withdraw_arm

    if withdraw is not None:
        if dry_run or tranches or upload is not None:
            raise click.UsageError("--withdraw takes no other option of publish but --json")
        record, fresh = withdraw_arm(study, withdraw, utc_now)
        print_step(record, as_json, f"withdrawn from {record.location}: {record.reason}", fresh)
        return
    with progress_watch("publishing") as watch:
        if dry_run:
            preview = preview_arm(study, upload, watch, utc_now, tranches)
        else:
            release, fresh = pipeline.publish(study, upload, watch, tranches)
    if dry_run:
        print_preview(preview, as_json)
        return
    print_step(release, as_json, f"{release.count} public instances: {release.location}", fresh)


@main.command()
@folder_option
@click.option(
    "--through",
    show_default="the newest that is closed",
    type=click.IntRange(0),
    help="The last wave to look at.",
)
@click.option(
    "--internal",
    show_default="the report itself",
    metavar="FILE.age",
    type=PATH,
    help="Instead, write the look with a row for every episode, sealed to the study's recipients.",
)
@json_option
def report(study: Study, through: int | None, internal: Path | None, as_json: bool) -> None:
    """Run the registered test on the waves that are closed, and write the report.

    It is a folder: report.html, report.md, report.json, tables/ and figures/. Nothing that
    follows from a private seed goes into it. What --internal writes may hold all, and is sealed;
    the ledger records that look first.

    \b
    Examples:
      dosimeter report
      dosimeter report --json | jq '.models[] | {model, verdict, p_adjusted}'
      dosimeter report --internal look.age
    """
    if internal is not None:
        path = write_internal(study, through, internal, utc_now())
        click.echo(f"wrote {path}, sealed to the study's recipients: open it with age and a key")
        return
    with progress_watch("reporting") as watch:
        made, path = pipeline.report(study, through, watch)
    print_verdicts(made, path, as_json)


@main.command()
@study_option
@json_option
def status(study: Study, as_json: bool) -> None:
    """Show the steps of a study: what is done, and what is owed.

    \b
    Example:
      dosimeter status
    """
    print_records(pipeline.status(study), as_json, title="Study")


main.add_command(calibrate)
main.add_command(analyze)
main.add_command(import_)
main.add_command(wave)
main.add_command(leak)
main.add_command(reveal)
main.add_command(show)
main.add_command(tools)
main.add_command(export)


@main.command()
@study_option
@click.option(
    "--head",
    show_default="the ledger as it is",
    help="Digest of the last ledger record, as noted elsewhere.",
)
@click.option(
    "--checkpoint",
    "checkpoints",
    multiple=True,
    metavar="FILE",
    type=PATH,
    show_default="those in the store",
    help="A checkpoint kept elsewhere, such as a release's or a report's.",
)
@click.option(
    "--tsa-ca",
    metavar="FILE.pem",
    type=PATH,
    show_default="time-stamps are not checked",
    help="Root certificates of time-stamping authorities.",
)
@click.option(
    "--release",
    show_default="that of the study",
    metavar="FOLDER",
    type=PATH,
    help="The released files to compare, such as a copy from the Hub.",
)
@click.option(
    "--regrade",
    is_flag=True,
    help="Make every grade again from its stored attempt. Needs the study's key.",
)
@click.option(
    "--stamp",
    metavar="URL",
    default="",
    show_default="none",
    help="If all holds, sign a checkpoint of the ledger and store it with a time-stamp (RFC 3161) "
    "of the authority there. Needs the study's key.",
)
@click.option(
    "--checkpoint-out",
    metavar="FILE",
    type=PATH,
    show_default="none",
    help="If all holds, sign a checkpoint and write it to a new file, to be kept elsewhere.",
)
@json_option
def verify(
    study: Study,
    head: str | None,
    checkpoints: tuple[Path, ...],
    tsa_ca: Path | None,
    release: Path | None,
    regrade: bool,
    stamp: str,
    checkpoint_out: Path | None,
    as_json: bool,
) -> None:
    """Recompute the ledger, every stored object, the release and the reports.

    Checks signatures, dates, and that each promise was made once and each attempt is there.
    Without the key it checks what it can, and lists what it left out. Exits with 3 if something
    does not hold.

    \b
    Examples:
      dosimeter verify --study my-study
      dosimeter verify --checkpoint release/checkpoint.txt
      dosimeter verify --regrade --json | jq '.problems[]'
      dosimeter verify --stamp https://tsa.example.org/tsr
    """
    from study.steps.verify.verify import VerifyRequest

    request = VerifyRequest(head, release, regrade, checkpoints, tsa_ca, os.cpu_count() or 1)
    with progress_watch("verifying") as watch:
        verification = pipeline.verify(study, request, watch)
    print_verification(verification, as_json)
    if not verification.holds:
        sys.exit(Exit.BROKEN)
    if stamp or checkpoint_out:
        signed = make_checkpoint(study, stamp)
        if checkpoint_out:
            write_whole(checkpoint_out, signed.note, new=True)
        print_note(f"signed a checkpoint of the ledger's {signed.checkpoint.size} records")


@main.command()
@study_option
@json_option
def log(study: Study, as_json: bool) -> None:
    """Print the ledger, record by record.

    \b
    Example:
      dosimeter log --json | jq .kind
    """
    print_log(study.ledger.entries(), as_json)


if __name__ == "__main__":
    main()
