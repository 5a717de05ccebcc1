"""The commands on stored attempts: `show` and `export`."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import click

from registry.provenance import utc_now
from study.extras.transcripts.show import (
    list_records,
    open_transcript,
    print_transcript,
    transcript_json,
)
from study.options import PATH, json_option, study_option
from study.printing import print_json, print_records, print_step, stdout
from study.workspace.study import Study

wave_option = click.option(
    "--wave",
    show_default="every wave",
    type=click.IntRange(0),
    help="Only this wave of study.yaml.",
)


@click.command()
@click.argument("episode", required=False)
@click.option("--attempt", type=click.IntRange(1), help="Default: the one that counts.")
@click.option("--grade", is_flag=True, help="The verdict on each criterion, at the end.")
@click.option(
    "--tools", is_flag=True, help="Instead, show how each model used its tools, both arms together."
)
@wave_option
@click.option("--model", show_default="every model", help="Only this model's episodes.")
@click.option(
    "--arm",
    is_flag=True,
    help="Show arms too: a look, which the ledger records. Graders and reviewers must not know "
    "them.",
)
@study_option
@json_option
def show(study: Study, episode: str | None, as_json: bool, **asked: Any) -> None:
    """List the episodes, or print the transcript of an EPISODE, named by the first characters of
    its digest.

    A transcript has every message, tool call and result, with time, tokens, retries and limits. All
    of it is sealed, so it needs the study's key. Control characters are shown as escapes. With
    --arm, the ledger first records that you looked at the arms, and the next report says so.

    \b
    Examples:
      dosimeter show --wave 1 --model some-model
      dosimeter show 3f9a2c --grade | less
      dosimeter show 3f9a2c --attempt 1 --json | jq .record.stop
      dosimeter show --tools --json
    """
    attempt, grade, arm = (asked[name] for name in ("attempt", "grade", "arm"))
    if asked["tools"] and episode is not None:
        raise click.UsageError("give an EPISODE or --tools, not both")
    if episode is None and (attempt or grade):
        raise click.UsageError("--attempt and --grade go with an EPISODE")
    if episode is not None and (asked["wave"] is not None or asked["model"] is not None):
        raise click.UsageError("--wave and --model go without an EPISODE")
    if asked["tools"]:
        if asked["model"] is not None or arm:
            raise click.UsageError("--model and --arm do not go with --tools")
        _show_tools(study, asked["wave"], as_json)
        return
    if arm:
        click.echo("warning: this shows arms; keep it from blind judges and reviewers", err=True)
    if episode is None:
        records = list_records(study, arms=arm, wave=asked["wave"], model=asked["model"])
        print_records(records, as_json, title="Episodes")
        return
    transcript = open_transcript(study, episode, attempt, grade, arm)
    if as_json:  # ASCII only: untrusted strings may hold control sequences
        record = transcript_json(transcript, grade, arm)
        click.echo(json.dumps(record, indent=2))
    else:
        print_transcript(transcript, stdout(), grade, arm)


def _show_tools(study: Study, wave: int | None, as_json: bool) -> None:
    from study.extras.transcripts.tool_use import model_records, tool_records, tool_tables

    tables = tool_tables(study, wave)
    if as_json:
        print_json(tables.as_json())
    else:
        print_records(model_records(tables), title="Models")
        print_records(tool_records(tables), title="Tools")


_TASK_FORMS, _RESULT_FORMS = ("inspect", "lm-eval", "jsonl"), ("eee", "eval-results")


@click.command()
@click.argument("what", type=click.Choice(["episodes", "tasks", "results"]), default="episodes")
@wave_option
@click.option(
    "--arm",
    type=click.Choice(["public", "private", "all"]),
    default="public",
    help="Whose episodes. All but public needs --reveal.",
)
@click.option("--reveal", is_flag=True, help="Write private transcripts in plain text.")
@click.option("--out", required=True, type=PATH, help="A folder that is not there yet.")
@click.option(
    "--format",
    "form",
    type=click.Choice([*_TASK_FORMS, *_RESULT_FORMS]),
    show_default="inspect of tasks, eee of results",
    help="Of tasks: inspect, lm-eval, jsonl. Of results: eee, eval-results.",
)
@click.option("--to", multiple=True, metavar="AGE1…", help="Seal tasks to this age key.")
@click.option("--plain", is_flag=True, help="Write tasks in plain text instead.")
@click.option("--allow-dirty", is_flag=True, help="Of tasks: as for `dosimeter sweep`.")
@study_option
@json_option
def export(study: Study, what: str, out: Path, as_json: bool, **options: Any) -> None:
    """Write stored episodes as logs for `inspect view`, in plain text; a wave's tasks; or results.

    Episodes: messages, images, tool calls, scores, tokens and errors. Needs the study's key. Files
    are readable by their owner only. The ledger records the look first.

    Tasks: the instances that a wave owes, both arms in one random order under ids that say nothing,
    for another harness to run. It begins the wave, and `dosimeter import --wave` closes it with the
    harness's logs. Give --to or --plain.

    Results: of the closed waves on instances that anybody may know, as records of Every Eval Ever,
    or as rows for the folder `.eval_results/` of models on the Hub, with arm and verdict.

    \b
    Examples:
      dosimeter export --out logs && inspect view --log-dir logs
      dosimeter export --wave 1 --arm all --reveal --out logs
      dosimeter export tasks --wave 1 --format lm-eval --to age1… --out given
      dosimeter export results --out records
    """
    wave, arm, reveal = options["wave"], options["arm"], options["reveal"]
    forms = {"tasks": _TASK_FORMS, "results": _RESULT_FORMS}.get(what, ())
    form = options["form"] or next(iter(forms), None)
    if form is not None and form not in forms:
        raise click.UsageError(f"--format {form} does not go with {what}")
    options["form"] = form
    if what == "tasks":
        if arm != "public" or reveal:
            raise click.UsageError("--arm and --reveal go with episodes: tasks are of both arms")
        _export_tasks(study, out, as_json, options)
        return
    if options["to"] or options["plain"] or options["allow_dirty"]:
        raise click.UsageError("--to, --plain and --allow-dirty go with `export tasks`")
    if what == "results":
        if arm != "public" or reveal:
            raise click.UsageError("--arm and --reveal go with episodes: results are public ones")
        from study.extras.transcripts.results_export import export_results

        made = export_results(study, out, wave, options["form"])
        print_records(made, as_json, title=f"Results in {out}")
        return
    from study.extras.transcripts.inspect_export import export_inspect

    written = export_inspect(study, out, wave, arm, reveal)
    if arm == "public":
        content = "transcripts in plain text, and shows which instances are public"
    else:
        content = (
            "PRIVATE transcripts in plain text: its readers know private instances; delete it "
            "when you are done"
        )
    click.echo(f"warning: {out} holds {content}", err=True)
    print_records(written, as_json, title=f"Logs in {out}")


def _export_tasks(study: Study, out: Path, as_json: bool, options: Mapping[str, Any]) -> None:
    from study.extras.tables.elsewhere import ExportRequest, export_tasks
    from study.steps.sweep.command import note_early

    wave, to = options["wave"], options["to"]
    if wave is None or bool(to) == options["plain"]:
        raise click.UsageError("`export tasks` needs --wave, and one of --to and --plain")
    request = ExportRequest(wave, options["form"], out, to, allow_dirty=options["allow_dirty"])
    note_early(study, wave)
    record = export_tasks(study, request, utc_now)
    if not to:
        click.echo(
            f"warning: {out} holds PRIVATE instances in plain text, which the ledger records: its "
            "readers know them; delete it when you are done",
            err=True,
        )
    print_step(
        record, as_json, f"wave {wave} is begun: {record.instances} instances in {out}", True
    )
