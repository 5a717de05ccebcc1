"""The commands of ``dosimeter template``."""

from __future__ import annotations

import sys
from pathlib import Path

import click

from study.cli.options import json_option


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
    from study.cli.picard_output import print_template_reports
    from study.picard import check_files

    reports = check_files(files)
    print_template_reports(reports, as_json)
    sys.exit(0 if all(report.holds for report in reports) else 2)


@template.command("prepare")
@click.argument("file", metavar="FILE")
@click.option("--seed", required=True, help="64 hexadecimal digits.")
@click.option("--out", required=True, type=click.Path(path_type=Path), help="A new folder.")
@click.option(
    "--samples", type=click.IntRange(1, 100_000), help="Of each question; else what FILE says."
)
@json_option
def template_prepare(file: str, seed: str, out: Path, samples: int | None, as_json: bool) -> None:
    """Write the samples of a template: a sandbox tree each, and the key to them all.

    The tree of sample 2 of question 101 is OUT/sandbox/q101_s2, in which {{artifacts}} is the
    folder artifacts, as it is in every tree. The key is OUT/precheck.jsonl: keep it where no tool
    reaches. Same file, same seed: same bytes. FILE may be the name of a library template.

    \b
    Examples:
      dosimeter template prepare past --seed $(openssl rand -hex 32) --out past-run
      dosimeter template prepare my-tests.yml --seed ... --out run --samples 50
    """
    from study.cli.output import print_json, progress_watch
    from study.picard import prepare_template

    with progress_watch("preparing") as watch:
        count = prepare_template(file, seed, out, samples, watch)
    if as_json:
        print_json({"samples": count, "folder": str(out)})
    else:
        click.echo(f"wrote {count:,} samples to {out}, and the key to {out / 'precheck.jsonl'}")


@template.command("score")
@click.argument("run", metavar="RUN_DIR", type=click.Path(path_type=Path))
@click.option(
    "--remap",
    "remaps",
    multiple=True,
    metavar="OLD=NEW",
    help="Where a folder that paths in precheck.jsonl begin with is now: a folder, a zip, or a "
    "zip and a folder in it. May be given more than once.",
)
@json_option
def template_score(run: Path, remaps: tuple[str, ...], as_json: bool) -> None:
    """Score a run folder, strictly and leniently, and write its scores.json.

    RUN_DIR holds precheck.jsonl and responses.jsonl, and the sandbox as a tree or a zip. A missing
    response is wrong. What is wrong strictly and right leniently is a formatting failure, not one
    of the task. Scores that another program wrote are kept as scores.before.json, and compared.

    \b
    Examples:
      dosimeter template score runs/test_20250628_101107
      dosimeter template score runs/llama --remap /home/me/sandbox=sandbox_llama.zip
    """
    from datetime import UTC, datetime

    from study.cli.picard_output import print_scores
    from study.picard import disagreements, score_run, write_scores

    scores = score_run(run, datetime.now(UTC), remaps)
    differing = disagreements(run, scores)  # before scores.json is replaced
    print_scores(scores, differing, write_scores(run, scores), as_json)


@template.command("report")
@click.argument("runs", nargs=-1, required=True, metavar="[MODEL=]RUN_DIR...")
@click.option("--out", required=True, type=click.Path(path_type=Path), help="For the CSV files.")
@click.option(
    "--template",
    "templates",
    multiple=True,
    metavar="FILE",
    help="Reads which questions are one task in several formats; without it, precheck.jsonl does.",
)
@click.option("--remap", "remaps", multiple=True, metavar="OLD=NEW", help="As for `score`.")
@click.option(
    "--width",
    "widths",
    multiple=True,
    type=click.FloatRange(0.0001, 1, max_open=True),
    help="A width of interval to give the number of samples for.  [default: 0.2, 0.1]",
)
@json_option
def template_report(
    runs: tuple[str, ...],
    out: Path,
    templates: tuple[str, ...],
    remaps: tuple[str, ...],
    widths: tuple[float, ...],
    as_json: bool,
) -> None:
    """Break run folders down, one for each model, as tables in CSV.

    Right answers over all, by question and by scoring type, strict and lenient; rounds; one task
    in several answer formats, with the weakness pattern; how many samples are needed. Intervals
    are at 95 % and know of samples that were asked twice: name a model's runs MODEL=RUN_DIR.

    \b
    Examples:
      dosimeter template report runs/llama runs/nova --out tables
      dosimeter template report a=run1 a=run2 b=run3 --out tables --template formats
    """
    from analysis.picard import WIDTHS
    from study.cli.picard_output import print_run_report
    from study.picard import report_runs

    made = report_runs(runs, out, templates=templates, remaps=remaps, widths=widths or WIDTHS)
    print_run_report(made, as_json)
