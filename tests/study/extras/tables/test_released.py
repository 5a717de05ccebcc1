"""A release on the Hub, run by Inspect's own reader there: its log comes back with the scores of
the study's grader."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from base64 import b64encode
from collections.abc import Mapping
from dataclasses import dataclass
from importlib.util import module_from_spec, spec_from_file_location
from io import BytesIO
from pathlib import Path

import pytest
import yaml
from click.testing import CliRunner
from PIL import Image

from analysis.data.table import read_rows, read_table
from generators.catalog import INSTALLED
from generators.items.item import Item, item_bytes
from generators.seed import Seed
from generators.task import TaskInstance
from publish.dataset_card import ReleaseText
from publish.hub import HubPlace, upload_release
from publish.release import build_release
from registry.result_row import Arm, ResultRow
from registry.sealing import DrawnInstance
from study.main import main
from study.steps.publish.asked import ask
from tests.cases import cases
from tests.hub_server import HubServer
from tests.ledgers import sealed_set
from tests.study.extras.playground.test_work import score_of

pytestmark = pytest.mark.hub

EXTENSION = cases(__file__, "extension")
NAME = "alice/outward"
CHOICES = ("river", "stone", "cloud", "engine")
KINDS = {  # stratum of items: score, answer and choices of the n-th
    "letters": lambda n: ("choice", CHOICES[n % 4], CHOICES),
    "numbers": lambda n: ("number", n * 1.25, ()),
    "texts": lambda n: ("exact", f"Café {n}", ()),
    "sets": lambda n: ("set", [f"a{n}", "b"], ()),
}
STRATA = {  # public instances of each
    "compute_average/easy": 48,
    "sequence_variants/easy": 40,
    "items/letters": 64,
    "items/numbers": 16,
    "items/texts": 16,
    "items/sets": 16,
}
LEFT = {"count_circles/easy": 1, "program_repair/easy": 1}  # with many pictures; run to be graded


ITEM = {"task": "items", "version": "1", "difficulty": "x"}


@dataclass(frozen=True)
class Ran:
    """A release, what was answered to its instances, and Inspect's log of it."""

    folder: Path
    instances: Mapping[str, TaskInstance]
    answers: Mapping[str, str]  # by instance
    logs: Path


def item_of(difficulty: str, n: int) -> bytes:
    if difficulty not in KINDS:
        return b""
    score, answer, choices = KINDS[difficulty](n)
    picture = BytesIO()
    Image.new("L", (8, 8), n).save(picture, "PNG")
    files = (("shown.png", b64encode(picture.getvalue()).decode()),) if n % 26 == 2 else ()
    item = Item(
        prompt=f"What is item {n}?",
        score=score,
        answer=answer,
        choices=choices,
        files=files,
        shuffle=bool(choices),
    )
    return item_bytes([item])


def draw() -> list[DrawnInstance]:
    """As many public as private instances of each stratum."""
    entries, root = [], Seed(bytes(range(32)))
    for stratum, count in {**STRATA, **LEFT}.items():
        name, difficulty = stratum.split("/")
        family = INSTALLED.family(name)
        for n in range(2 * count):
            own = root.child(name, difficulty, n)
            seed = own.hex + item_of(difficulty, n).hex()
            made = family.generate(difficulty, Seed.from_hex(seed))
            arm = (Arm.PUBLIC, Arm.PRIVATE)[n % 2]
            nonce = own.child("nonce").hex
            entries.append(
                DrawnInstance(made.id, name, family.version, difficulty, seed, nonce, arm)
            )
    return entries


def answer_to(instance: TaskInstance, n: int) -> str:
    """An answer in one of eight forms: right and wrong ones, and such as need a repair."""
    family = INSTALLED.family(instance.spec.family)
    key = family.key(instance.truth)
    right, wrong = json.dumps(key), json.dumps(family.nulls(instance)["prior"])
    part = json.dumps(dict(list(key.items())[: len(key) // 2]))
    spelt = (
        {"answer": f"({key['answer'].lower()})"} if instance.spec.difficulty == "letters" else key
    )
    return [
        f"So it is.\n<answer>\n{right}\n</answer>",
        f"Hence <answer>{right}</answer> holds.",
        f"<answer>\n{wrong}\n</answer>",
        "no idea",
        f"<answer>\n{right[:-1]},}}\n</answer>",
        f"<answer>\n{wrong}\n</answer>\nNo:\n<answer>\n{right}\n</answer>",
        f"<answer>\n{part}\n</answer>",
        f"```json\n{json.dumps(spelt)}\n```",
    ][n % 8]


@pytest.fixture(scope="module")
def ran(tmp_path_factory: pytest.TempPathFactory) -> Ran:
    """Publish the draw, and run `inspect eval` on the release on the Hub, with a model of given
    replies."""
    place, entries = tmp_path_factory.mktemp("released"), draw()
    names = [*STRATA, *LEFT]
    public = [entry for entry in entries if entry.arm is Arm.PUBLIC]
    text = ReleaseText("outward", "Outward", repository=NAME)
    sealed = sealed_set(entries, names, len(public) // len(names))
    built = build_release(place / "release", public, sealed, INSTALLED.family, text, ask=ask)
    instances = {
        entry.instance: INSTALLED.family(entry.family).generate(
            entry.difficulty, Seed.from_hex(entry.seed)
        )
        for entry in public
        if entry.stratum in STRATA
    }
    answers = {id: answer_to(each, n) for n, (id, each) in enumerate(instances.items())}
    asked = {ask(each).text: answers[id] for id, each in instances.items()}  # type: ignore[union-attr]
    (place / "answers-1.dist-info").mkdir()
    for name, text in {**EXTENSION, "answers.json": json.dumps(asked)}.items():
        (place / name).write_text(text, "utf-8")
    with pytest.MonkeyPatch.context() as patch, HubServer({"hf_alice": "alice"}) as hub:
        patch.setenv("HF_TOKEN", "hf_alice")
        upload_release(built.folder, HubPlace(NAME, hub.url), lambda folder: None)
        env = {**os.environ, "HF_ENDPOINT": hub.url, "HF_HOME": str(place / "hub")}
        env |= {
            "XDG_CACHE_HOME": str(place / "cache"),
            "INSPECT_DISPLAY": "none",
            "PYTHONPATH": str(place),
        }
        command = [Path(sys.executable).with_name("inspect"), "eval", f"hf/{NAME}"]
        command += ["--model", "answers/given", "-M", "file=answers.json", "--log-dir", "logs"]
        subprocess.run(command, cwd=place, env=env, check=True)
    return Ran(built.folder, instances, answers, place / "logs")


def imported(logs: Path, out: Path) -> list[ResultRow]:
    words = ["import", "inspect", str(logs), "--arm", "public", "--out", str(out)]
    result = CliRunner().invoke(main, words)
    assert result.exit_code == 0, result.output
    return read_rows(read_table(out))


def test_the_log_of_200_instances_has_the_scores_of_the_studys_grader(
    ran: Ran, tmp_path: Path
) -> None:
    rows = imported(ran.logs, tmp_path / "rows.parquet")
    assert {row.stratum: [r.stratum for r in rows].count(row.stratum) for row in rows} == STRATA
    scores = {row.instance.removeprefix(f"{row.stratum}/"): row.score for row in rows}
    assert len(rows) == len(scores) == 200
    assert scores == {id: score_of(ran.instances[id], ran.answers[id]) for id in ran.instances}
    assert {0.0, 1.0} < {*scores.values()}  # and shares between


def test_inspects_own_score_is_right_for_letters_and_else_a_lower_bound(ran: Ran) -> None:
    from inspect_ai.log import read_eval_log

    for path in ran.logs.glob("*.eval"):
        for sample in read_eval_log(path).samples or ():
            instance = ran.instances[sample.metadata["instance"]]
            answer = ran.answers[instance.id]
            [score] = (sample.scores or {}).values()
            right = score_of(instance, answer)
            assert (score.value == "C") <= ((right or 0) > 0.9)  # of one message, without files
            if instance.spec.difficulty == "letters" and "</answer>" in answer:
                assert (score.value == "C", answer) == (right == 1 and ",}" not in answer, answer)


def test_the_file_beside_it_scores_the_log_by_the_same_rules(ran: Ran, tmp_path: Path) -> None:
    from inspect_ai import score
    from inspect_ai.log import read_eval_log
    from inspect_ai.scorer import Scorer

    spec = spec_from_file_location("scorer", ran.folder / "scorer.py")
    assert spec is not None
    assert spec.loader is not None
    spec.loader.exec_module(module := module_from_spec(spec))
    rules: Scorer = module.rules()
    for path in ran.logs.glob("*items-*.eval"):
        log = score(read_eval_log(path), rules, model="mockllm/model", display="none")
        for sample in log.samples or ():
            id = sample.metadata["instance"]
            made = (sample.scores or {})["rules"]
            assert made.value == score_of(ran.instances[id], ran.answers[id])


def test_what_has_no_such_form_is_named_on_the_card(ran: Ran) -> None:
    tasks = yaml.safe_load((ran.folder / "eval.yaml").read_text("utf-8"))["tasks"]
    assert {task["id"] for task in tasks} == {name.replace("/", "-") for name in STRATA}
    card = (ran.folder / "README.md").read_text("utf-8")
    assert "Not run that way: `count_circles-easy`, `program_repair-easy`." in card
    assert f"inspect eval hf/{NAME} --model" in card


@pytest.mark.parametrize(
    ("changed", "why"),
    [
        ({"seed": "00" * 32}, "the seed that it notes is not that of its instance"),
        ({"seed": "00"}, "cannot be made again: a seed is 64 hexadecimal digits"),
        ({"task": "compute_averages"}, "cannot be made again: unknown task"),
        ({"version": "99"}, "cannot be made again: unknown version"),
        ({"difficulty": "../x"}, "cannot be made again"),
        (ITEM | {"seed": "00" * 32 + b'{"items":[{"prompt":1}]}'.hex()}, "cannot be made again"),
        (ITEM | {"seed": "00" * 32 + (b"{" + b"[" * 90_000).hex()}, "cannot be made again"),
    ],
)
def test_a_log_that_notes_another_instance_is_one_line(
    ran: Ran, tmp_path: Path, changed: dict[str, str], why: str
) -> None:
    from inspect_ai.log import read_eval_log, write_eval_log

    log = read_eval_log(next(ran.logs.glob("*average*.eval")))
    (log.samples or [])[3].metadata |= changed
    write_eval_log(log, str(tmp_path / "log.eval"))
    words = ["import", "inspect", str(tmp_path / "log.eval"), "--arm", "public"]
    result = CliRunner().invoke(main, [*words, "--out", str(tmp_path / "rows.parquet")])
    assert (result.exit_code, result.stderr.count("\n")) == (2, 1), result.output
    assert why in result.stderr
    assert not (tmp_path / "rows.parquet").exists()
