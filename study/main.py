"""The command line: parse, call one function, print. Exit codes: docs/reference/cli.md."""

from __future__ import annotations

import errno
import io
import logging
import os
import signal
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import click

from harness.errors import AttemptFailed, CoordinatorLost, WorkersLost, WorkStopped
from harness.logs import logs_json
from registry.errors import BrokenPromise
from registry.provenance import PACKAGES, verify_packages
from study import catalogue
from study.catalogue import GROUPS
from study.errors import WorkOwedError, error_line, install_line, without_keys
from study.printing import Exit, show_logs

_DISK = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG, errno.EROFS)
_OF_OWED_WORK = (AttemptFailed, CoordinatorLost, WorkersLost, WorkStopped, WorkOwedError)


class Commands(click.Group):
    """Commands by group, imported when they are called; errors of our packages as one line, with
    the exit codes of docs/reference/cli.md."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        """Return the names of the commands, in the order of the catalogue."""
        return [command.name for command in catalogue.commands()]

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        """Import a command."""
        targets = {command.name: command.target for command in catalogue.commands()}
        return catalogue.load(targets[cmd_name]) if cmd_name in targets else None

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        """Find a command. An unknown name is refused with the names that are near it."""
        try:
            return super().resolve_command(ctx, args)
        except click.exceptions.NoSuchCommand as error:
            names = self.list_commands(ctx)
            raise click.exceptions.NoSuchCommand(
                error.command_name, possibilities=names, ctx=ctx
            ) from None

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Write the commands by their groups, without importing them."""
        rows: dict[str, list[tuple[str, str]]] = {}
        for command in catalogue.commands():
            rows.setdefault(command.group, []).append((command.name, command.help))
        for group in GROUPS:
            if group in rows:
                with formatter.section(group):
                    formatter.write_dl(rows[group])

    def main(self, *arguments: Any, **options: Any) -> Any:
        """Run the program, on a terminal or pipe of any encoding. SIGTERM, by which schedulers end
        programs, interrupts it as Ctrl-C does."""
        for stream in (sys.stdout, sys.stderr):
            if isinstance(stream, io.TextIOWrapper):  # an encoding that lacks characters
                stream.reconfigure(errors="replace")
        # Looking for plug-ins of pydantic's takes a tenth of a short command's time.
        os.environ.setdefault("PYDANTIC_DISABLE_PLUGINS", "__all__")
        before = signal.signal(signal.SIGTERM, signal.default_int_handler)
        try:
            return super().main(*arguments, **options)
        finally:
            signal.signal(signal.SIGTERM, before)

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        """Read the program's own options; --json may stand anywhere."""
        with _one_line_of_usage(ctx):
            if "--json" in args:
                args = ["--json", *(word for word in args if word != "--json")]
                self._check_json(ctx, args)
            return super().parse_args(ctx, args)

    def _check_json(self, ctx: click.Context, args: list[str]) -> None:
        """Raise UsageError if --json is given to a command that prints none."""
        command: click.Command | None = self
        words = [word for word in args if not word.startswith("-")]
        while isinstance(command, click.Group) and words:
            command = command.get_command(ctx, words.pop(0))
        takes = getattr(getattr(command, "callback", None), "takes_json", False)
        if command is not None and not takes and not isinstance(command, click.Group):
            raise click.UsageError("--json: this command prints no records")

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
            elif (line := install_line(error)) is not None:
                message = line
            else:
                raise
            click.echo(f"dosimeter: {error_line(message)}", err=True)
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
        message = without_keys(" ".join(error.format_message().split()), random=False).rstrip(".")
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
@click.option(
    "--json", "as_json", is_flag=True, help="Print records as JSON; may follow the command."
)
@click.option("-v", "--verbose", count=True, help="Log progress to stderr; -vv logs more.")
@click.pass_context
def main(context: click.Context, as_json: bool, verbose: int) -> None:
    """Measure how much a published benchmark has leaked into language models.

    \b
    A study, step by step:
      dosimeter init my-study        write study.yaml and a key
      dosimeter register             draw and encrypt instances, record the plan
      dosimeter sweep --wave 0       run the models of a wave
      dosimeter publish              release the public arm
      dosimeter sweep --wave 1       run newer models
      dosimeter report               run the registered test, write the report

    `dosimeter demo` runs all of these steps in about four minutes.
    """
    if verbose or logs_json():
        context.with_resource(show_logs(logging.DEBUG if verbose > 1 else logging.INFO))
    verify_packages()


if __name__ == "__main__":
    main()
