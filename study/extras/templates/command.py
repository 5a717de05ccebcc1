"""The commands of ``dosimeter template``."""

from __future__ import annotations

import re
import sys
from collections.abc import Mapping
from contextlib import ExitStack
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from generators.templates.language.keys import MAX_SAMPLES
from study.errors import error_line, without_keys
from study.extras.templates.agents import ModelAgent, ServerAgent
from study.extras.templates.answers import report_runs
from study.extras.templates.checkout_values import write_checkout_values
from study.extras.templates.export import export_template
from study.extras.templates.prepare import check_files, prepare_template, preview_sample
from study.extras.templates.run import TemplateRunRequest, run_template
from study.extras.templates.run_folder import score_run, write_scores
from study.extras.templates.run_page import COLUMNS
from study.options import PATH, json_option
from study.printing import (
    Exit,
    exit_by,
    print_json,
    print_line,
    print_records,
    progress_watch,
    stdout,
    styled,
)

if TYPE_CHECKING:
    from analysis.templates.breakdown_tables import TableSet
    from generators.templates.check import QuestionReport, TemplateReport
    from study.extras.templates.prepare import SamplePreview
    from study.extras.templates.run_folder import RunScores

_CONTROLS = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f]")  # that a terminal might obey


@click.group()
def template() -> None:
    """Template files of agentic tasks, the PICARD family: yours, or our library's."""


def _ids(_: click.Context, __: click.Parameter, value: str | None) -> tuple[str, ...] | None:
    """Return the ids of questions that stand apart by commas."""
    ids = None if value is None else tuple(map(str.strip, value.split(",")))
    if ids is not None and not all(ids):
        raise click.BadParameter("give ids of questions with commas between them")
    return ids


questions_option = click.option(
    "--questions",
    metavar="ID,ID,…",
    show_default="all",
    callback=_ids,
    help="Only these questions.",
)


samples_option = click.option(
    "--samples",
    show_default="what FILE says",
    type=click.IntRange(1, MAX_SAMPLES),
    help="Of each question.",
)


@template.command("check")
@click.argument("files", nargs=-1, required=True, metavar="FILE...")
@questions_option
@json_option
def template_check(
    files: tuple[str, ...], questions: tuple[str, ...] | None, as_json: bool
) -> None:
    """Check template files whole, before anything runs.

    Prints every error at once, with line, key and the nearest valid spelling; then the size of
    each question's instance space, and how often a constant guess would be right. A question is
    proved if its filters, paths and literals match in 200 simulated samples, and if its answer
    varies. FILE may be
    the name of a library template: past or formats. Exits with 2 where a file has an error.

    \b
    Example:
      dosimeter template check my-tests.yml
      dosimeter template check past --questions 101,102 --json
    """
    reports = check_files(files, questions)
    if as_json:
        print_json([report.as_json() for report in reports])
    else:
        for report in reports:
            _print_template_report(report)
    sys.exit(Exit.DONE if all(report.holds for report in reports) else Exit.BAD_INPUT)


def _print_template_report(report: TemplateReport) -> None:
    """Print the questions of a file, then its errors and warnings, one a line."""
    if report.questions:
        right = ("log10 variables", "log10 data", "answers", "commonest", "guess")
        print_records([_question_row(q) for q in report.questions], title=report.path, right=right)
    for problem in report.errors:
        print_line(error_line(problem.text(report.path)), "error", "bold red")
    for problem in report.warnings:
        print_line(problem.text(report.path), "warning", "yellow")
    proved = sum(not question.faults for question in report.questions)
    errors, warnings = len(report.errors), len(report.warnings)
    line = f"{report.path}: {_count(errors, 'error')}, {_count(warnings, 'warning')}"
    line += f"; {proved} of {_count(len(report.questions), 'question')} proved"
    if report.log10_tests is not None and report.questions:
        line += f"; 10^{report.log10_tests:.0f} distinct tests"
    print_line(without_keys(line, random=False))


def _question_row(question: QuestionReport) -> dict[str, Any]:
    from generators.templates.check import GUESSABLE

    share = _number(question.most_frequent, "{:.1%}")
    guessable = (question.most_frequent or 0) > GUESSABLE
    distinct = question.distinct
    return {
        "question": question.id,
        "scoring type": question.scoring_type,
        "samples": question.samples,
        "log10 variables": _number(question.log10_variables, "{:.1f}"),
        "log10 data": _number(question.log10_data, "{:.1f}"),
        "answers": None if distinct is None else f"{distinct}/{question.simulated}",
        "commonest": styled(share, "yellow" if guessable else ""),
        "guess": _number(question.constant_guess, "{:.1%}"),
    }


def _number(value: float | None, form: str) -> str:
    return "–" if value is None else form.format(value)


def _count(number: int, noun: str) -> str:
    return f"{number} {noun}{'' if number == 1 else 's'}"


@template.command("prepare", short_help="Write samples: a sandbox tree each, and the key.")
@click.argument("file", metavar="FILE")
@click.option("--seed", required=True, help="64 hexadecimal digits.")
@click.option("--out", required=True, type=PATH, help="A new folder.")
@samples_option
@questions_option
@json_option
def template_prepare(
    file: str,
    seed: str,
    out: Path,
    samples: int | None,
    questions: tuple[str, ...] | None,
    as_json: bool,
) -> None:
    """Write the samples of a template: a sandbox tree each, and the key to them all.

    The tree of sample 2 of question 101 is OUT/sandbox/q101_s2, in which {{artifacts}} is the
    folder artifacts, as it is in every tree. The key is OUT/precheck.jsonl: keep it where no tool
    reaches. Same file, same seed: same bytes. FILE may be the name of a library template.

    \b
    Examples:
      dosimeter template prepare past --seed $(openssl rand -hex 32) --out past-run
      dosimeter template prepare my-tests.yml --seed ... --out run --samples 50
    """
    with progress_watch("preparing") as watch:
        count = prepare_template(file, seed, out, samples, watch, questions)
    if as_json:
        print_json({"samples": count, "folder": str(out)})
    else:
        click.echo(f"wrote {count:,} samples to {out}, and the key to {out / 'precheck.jsonl'}")


@template.command("preview")
@click.argument("file", metavar="FILE")
@click.option("--question", metavar="ID", show_default="the first", help="Of FILE.")
@json_option
def template_preview(file: str, question: str | None, as_json: bool) -> None:
    """Show a sample of a question as its agent gets it, and the key.

    Files are cut after 20 lines; of a database there are its tables with their first rows. FILE
    may be the name of a library template.

    \b
    Example:
      dosimeter template preview past --question 103
    """
    sample = preview_sample(file, question)
    if as_json:
        print_json(sample.as_json())
    else:
        _print_sample(sample)


def _print_sample(sample: SamplePreview) -> None:
    """Print a sample: question, files, key."""
    print_line(f"question {sample.question}", sample.template, "bold")
    blocks = [("prompt", sample.prompt, False)]
    blocks += [
        (f"{file.path} ({file.size:,} bytes)", file.content, file.cut) for file in sample.files
    ]
    wanted = [f"in the file {sample.file}:"] if sample.file else []
    wanted += [f"to be there: {path}" for path in sample.paths]
    wanted += [sample.expected] if sample.expected or not sample.paths else []
    blocks.append((f"key, by {sample.scoring_type}", "\n".join(wanted), False))
    for title, text, cut in blocks:
        stdout().rule(styled(_CONTROLS.sub("?", title)), align="left")
        stdout().print(styled(_CONTROLS.sub("?", text)))
        if cut:
            stdout().print("…", style="dim")


@template.command("schema")
def print_template_schema() -> None:
    """Print the JSON Schema of template files, for editors.

    An editor reads it where a template's first line is
    `# yaml-language-server: $schema=template.schema.json`.

    \b
    Example:
      dosimeter template schema > template.schema.json
    """
    from generators.templates.language.json_schema import template_schema

    print_json(template_schema())


@template.command("values")
@click.option(
    "--from", "checkout", required=True, type=PATH, metavar="CHECKOUT", help="A PICARD checkout."
)
@click.option("--out", required=True, type=PATH, metavar="FILE", help="A new file.")
@json_option
def template_values(checkout: Path, out: Path, as_json: bool) -> None:
    """Write the words of a PICARD checkout to a values file.

    They are those of its config/entity_pool.txt and the lists in its data generator, which is
    read as text and never run. A template beside FILE draws them if it has the line
    `values: FILE`.

    \b
    Example:
      dosimeter template values --from ~/picard --out picard-values.yml
    """
    values = write_checkout_values(checkout, out)
    if as_json:
        counts = {"values": values.counts, "left_out": values.left_out}
        print_json({**counts, "written": str(out)})
        return
    rows = [{"type": name, "values": count} for name, count in values.counts.items()]
    print_records(rows, title="Values", right=("values",))
    if values.left_out:
        print_line(
            f"{_count(values.left_out, 'text')} left out: no word, or none a value may be",
            "warning",
            "yellow",
        )
    print_line(f"wrote {out}: write `values: {out.name}` in a template beside it")


@template.command("export")
@click.argument("file", metavar="FILE")
@click.option("--out", required=True, type=PATH, metavar="FOLDER", help="A new folder.")
@questions_option
@json_option
def template_export(file: str, out: Path, questions: tuple[str, ...] | None, as_json: bool) -> None:
    """Write a template in the form that PICARD runs.

    Questions of for_each are written out, and a pool `default` of your own becomes
    config/entity_pool.txt. What PICARD has no form for is an error with file, line and key; all
    are printed, and nothing is written. PICARD draws its own values. FILE may be the name of a
    library template.

    \b
    Example:
      dosimeter template export mine.yml --out for-picard
    """
    exported = export_template(file, out, questions)
    if as_json:
        words = {"words": exported.words} if exported.words else {}
        print_json({"written": str(exported.file), "questions": exported.questions, **words})
        return
    print_line(f"wrote {_count(len(exported.questions), 'question')} to {exported.file}")
    if exported.words:
        pool = exported.file.with_name("entity_pool.txt")
        print_line(
            f"wrote {_count(exported.words, 'word')} to {pool}, which takes the place of PICARD's"
        )


@template.command("run", short_help="Put the samples of a template to an agent or model.")
@click.argument("file", metavar="FILE")
@click.option(
    "--out", required=True, type=PATH, help="The run folder: a new one, or one to resume."
)
@click.option(
    "--server", metavar="URL", show_default="--model", help="An agent behind POST URL/api/chat."
)
@click.option(
    "--model",
    metavar="NAME",
    show_default="--server",
    help="A model of the study instead, in its sandboxes.",
)
@click.option(
    "--study",
    "folder",
    default=".",
    show_default=True,
    type=PATH,
    help="With --model: the study's folder, which holds study.yaml.",
)
@click.option("--seed", show_default="drawn", help="64 hexadecimal digits.")
@samples_option
@questions_option
@click.option("--shared", is_flag=True, help="With --server: one tree for all samples.")
@click.option(
    "--temperature",
    type=click.FloatRange(0, 2),
    show_default="0.4",
    help="With --server: sent with each question.",
)
@click.option(
    "--max-output-tokens",
    type=click.IntRange(1),
    show_default="4000",
    help="With --server: as well.",
)
@click.option(
    "--rounds",
    type=click.IntRange(1, 1000),
    show_default="20",
    help="With --server: after as many, the conversation ends.",
)
@json_option
def template_run(
    file: str, server: str | None, model: str | None, folder: Path, as_json: bool, **options: Any
) -> None:
    """Put the samples of a template to an agent, one conversation after the other, and score them.

    The agent gets each question to the letter. Behind --server it works in OUT/sandbox by itself,
    in a tree for each sample; confine its tools to that folder, since the key is beside it. OUT
    receives precheck.jsonl, responses.jsonl, conversations, scores.json, and results.html to look
    at. After a kill, the same command continues: it costs at most one conversation. Exits with 1
    if conversations failed. FILE may be the name of a library template.

    \b
    Examples:
      dosimeter template run past --server http://127.0.0.1:8765 --out past-run
      dosimeter template run mine.yml --model llama --study my-study --out run --samples 50
    """
    if (server is None) == (model is None):
        raise click.UsageError("give --server URL, or --model NAME of a study")
    asked = {name: options.pop(name) for name in ("temperature", "max_output_tokens", "rounds")}
    stated = {**asked, "shared": options["shared"] or None}
    if model is not None and (name := next((n for n, v in stated.items() if v is not None), "")):
        what = f"--{name.replace('_', '-')} goes with --server"
        raise click.UsageError(f"{what}: a model has its study's sandboxes and settings")
    with ExitStack() as stack:
        watch = stack.enter_context(progress_watch("preparing"))
        agent: ServerAgent | ModelAgent
        if server is not None:
            agent = ServerAgent(server, **asked)
        else:
            agent = ModelAgent(folder, str(model), stack, watch)
        run = run_template(TemplateRunRequest(file, **options), agent, watch)
    if as_json:
        written = {"folder": str(run.folder), "page": str(run.page)}
        print_json({**run.scores.as_json(), "failed_conversations": run.failed, **written})
    else:
        _print_scores(run.scores)
        if run.failed:
            print_line(f"{_count(run.failed, 'conversation')} failed", "warning", "yellow")
        print_line(f"wrote {run.page}")
    exit_by(not run.failed)


@template.command("score", short_help="Score a run folder, strictly and leniently.")
@click.argument("run", metavar="RUN_DIR", type=PATH)
@click.option(
    "--remap",
    "remaps",
    multiple=True,
    metavar="OLD=NEW",
    help="Where a folder that paths in precheck.jsonl begin with is now: a folder, a zip, or a "
    "zip and a folder in it; {run} in it is the run folder's name. May be given more than once; of "
    "several for one OLD, the first that is there counts. Found by itself if RUN_DIR has one tree.",
)
@json_option
def template_score(run: Path, remaps: tuple[str, ...], as_json: bool) -> None:
    """Score a run folder, strictly and leniently, and write its scores.json.

    RUN_DIR holds precheck.jsonl and responses.jsonl, and the sandbox as a tree or a zip. A missing
    response is wrong. What is wrong strictly and right leniently is a formatting failure, not one
    of the task. Questions about files are undetermined if the sandbox is not there, and samples
    whose run failed have no score; then this exits with 1, as for a line that cannot be read.
    Scores that another program wrote are kept as scores.before.json.

    \b
    Examples:
      dosimeter template score runs/test_20250628_101107
      dosimeter template score runs/llama --remap /home/me/sandbox=sandbox_llama.zip
    """
    scores = score_run(run, datetime.now(UTC), remaps)
    path = write_scores(run, scores)
    if as_json:
        summary = {**scores.as_json(), "written": str(path)}
        print_json({**summary, "detailed_results": list(scores.details())})
    else:
        _print_scores(scores)
        print_line(f"wrote {path}")
    exit_by(not scores.undetermined and not scores.skipped)


def _print_scores(scores: RunScores) -> None:
    """Print the tallies of a run by scoring type and by question."""
    summary = scores.as_json()
    head = summary["metadata"]
    print_records(_tallies("scoring type", summary["by_scoring_type"]), title="By scoring type")
    print_records(_tallies("question", summary["by_question"]), title="By question")
    print_line(
        f"{head['correct_answers']} of {head['total_questions']} right strictly "
        f"({head['accuracy_percentage']} %), {head['lenient_correct_answers']} leniently "
        f"({head['lenient_accuracy_percentage']} %)"
        if head["total_questions"]
        else "no sample has a verdict"
    )
    for warning in scores.warnings:
        print_line(f"warning: {warning}")


def _tallies(name: str, groups: dict[str, dict[str, Any]]) -> list[dict[str, Any]]:
    return [
        {name: group, **{column: tally[key] for column, key in COLUMNS.items()}}
        for group, tally in groups.items()
    ]


@template.command("report")
@click.argument("runs", nargs=-1, required=True, metavar="[MODEL=]RUN_DIR...")
@click.option("--out", required=True, type=PATH, help="For the CSV files.")
@click.option(
    "--template",
    "templates",
    multiple=True,
    metavar="FILE",
    help="Reads which questions are one task in several formats; without it, precheck.jsonl does.",
)
@click.option("--remap", "remaps", multiple=True, metavar="OLD=NEW", help="As for `score`.")
@json_option
def template_report(runs: tuple[str, ...], out: Path, as_json: bool, **options: Any) -> None:
    """Break run folders down, one for each model, as tables in CSV.

    Right answers over all, by question and by scoring type, strict and lenient; rounds; one task
    in several answer formats, with the weakness pattern; how many samples are needed. Intervals
    are at 95 % and know of samples that were asked twice: name a model's runs MODEL=RUN_DIR.

    \b
    Examples:
      dosimeter template report runs/llama runs/nova --out tables
      dosimeter template report a=run1 a=run2 b=run3 --out tables --template formats
    """
    made = report_runs(runs, out, **options)
    if as_json:
        print_json(made.as_json())
        return
    _print_accuracy(made.tables)
    for warning in made.warnings:
        print_line(warning, "warning", "yellow")
    for path in made.files:
        print_line(f"wrote {path}")


def _print_accuracy(tables: TableSet) -> None:
    """Print the accuracy of each model, and which answer formats cost most."""
    overall = [
        {
            "model": row["model"],
            "answers": row["answers"],
            "strict": _share(row, "accuracy"),
            "lenient": _share(row, "lenient_accuracy"),
            "formatting": row["formatting_failures"],
            "task": row["task_failures"],
            "no answer": row["unanswered"],
        }
        for row in tables.tables["overall"]
    ]
    right_answers = "right answers, %, with 95 % intervals"
    print_records(overall, title=right_answers.capitalize(), right=("strict", "lenient"))
    shares = ("file", "direct", "overall")
    modes = [
        {
            "model": row["model"],
            "questions": row["group"],
            **{name: _share(row, name) for name in shares},
            "weakness pattern": _pattern(row),
        }
        for row in tables.tables["failure_modes"]
    ]
    if modes:
        title = f"One task in several answer formats: {right_answers}"
        print_records(modes, title=title, right=shares)


def _pattern(row: Mapping[str, Any]) -> str:
    pattern: str = row["weakness_pattern"]
    by_chance = row["gap_excludes_zero"] is False and pattern.endswith("Output")
    return pattern + (" (gap may be chance)" if by_chance else "")


def _share(row: Mapping[str, Any], name: str) -> str:
    if row[name] is None:
        return "–"
    low, high = row[f"{name}_low"], row[f"{name}_high"]
    return f"{100 * row[name]:.1f} ({100 * low:.1f} to {100 * high:.1f})"
