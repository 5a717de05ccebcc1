"""The commands of ``dosimeter template``."""

from __future__ import annotations

import sys

import click

from study.options import json_option


@click.group()
def template() -> None:
    """Template files of agentic tasks, the PICARD family: yours, or our library's."""


@template.command("check")
@click.argument("files", nargs=-1, required=True, metavar="FILE...")
@json_option
def template_check(files: tuple[str, ...], as_json: bool) -> None:
    """Check template files whole, before anything runs.

    Prints every error at once, with line, key and the nearest valid spelling; then the size of
    each question's instance space, and how often a constant guess would be right. FILE may be
    the name of a library template: past or formats. Exits with 2 where a file has an error.

    \b
    Example:
      dosimeter template check my-tests.yml
      dosimeter template check past --json
    """
    from study.templatecheck import check_files, print_reports

    reports = check_files(files)
    print_reports(reports, as_json)
    sys.exit(0 if all(report.holds for report in reports) else 2)
