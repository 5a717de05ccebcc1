"""Agent tasks of Harbor's form, from their folder to scores, on a real engine."""

from __future__ import annotations

import io
import shutil
from base64 import b64decode
from collections.abc import Iterator
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path

import pytest
from click.testing import CliRunner

from generators.items.item import Item, read_items
from generators.items.pool import Group
from generators.seed import Seed
from harness.episodes.verification import prove_task, run_verifier
from harness.errors import AttemptFailed
from harness.sandboxes.docker import DockerSandboxes, connect
from harness.sandboxes.image import ensure_image
from harness.sandboxes.sandbox import open_for
from publish.leakcheck.check import find_leaks, release_needles
from registry.result_row import Arm
from study.errors import StudyError
from study.main import main
from study.protocol.pool import read_pool
from study.protocol.protocol import read_protocol
from study.steps import pipeline
from study.steps.init.folder import init_study
from study.steps.register.agent_tasks import task_of
from study.steps.report.look import exact_rows
from study.workspace.snapshot import take_snapshot
from study.workspace.study import Study
from tests.cases import cases
from tests.harness.openai_server import Answer, Json, completion, serve
from tests.study.conftest import SMALLNESS

FOLDER, PUBLIC = Path(__file__).with_name("agent_tasks"), Path(__file__).with_name("public_task")
STUDY, REFUSED = cases(__file__, "study"), cases(__file__, "refused")
HOSTILE = cases(__file__, "hostile")
BASES = {  # what stands in for the base images of the tasks
    "dosimeter-sandbox:tests": "FROM {}",
    "ubuntu:24.04": "FROM {}\nUSER root\nENV HOME=/root\nRUN rm -f /usr/bin/python3*",
}


@pytest.fixture(scope="module")
def bases() -> Iterator[None]:
    """The base images of the tasks, where their names are free."""
    with closing(connect()) as client:
        made = [name for name in BASES if not client.images(name)]
        for name in made:
            recipe = BASES[name].format(ensure_image().tag)
            for _ in client.build(fileobj=io.BytesIO(recipe.encode()), tag=name, rm=True):
                pass
        yield
        for name in made:
            client.remove_image(name)


def group_of(folder: Path) -> tuple[Group, ...]:
    """The tasks in a folder, as `register` reads them."""
    file = folder.parent / "study.yaml"
    file.write_text(STUDY.format(tasks=folder, url="http://127.0.0.1:9/v1"), encoding="utf-8")
    (source,) = read_protocol(folder.parent).pools
    return read_pool(source)


@pytest.fixture
def one(tmp_path: Path) -> Path:
    """A folder with one task, to be changed."""
    shutil.copytree(FOLDER / "unpack-and-count", tmp_path / "tasks/unpack-and-count")
    return tmp_path / "tasks/unpack-and-count"


@pytest.mark.parametrize("case", REFUSED, ids=lambda case: case["says"][:40])
def test_what_would_not_run_as_it_does_in_harbor_is_refused_by_name(
    case: Json, one: Path, tmp_path: Path
) -> None:
    for name, text in case["files"].items():
        file = one / name
        old = file.read_text() if file.exists() else ""
        file.unlink() if text is None else file.write_text(text.replace("{old}", old))
    with pytest.raises(StudyError) as refused:
        group_of(one.parent)
    assert str(refused.value) == f"{one.parent}: unpack-and-count: {case['says']}"
    assert not (tmp_path / "store").exists()


def test_the_command_refuses_a_task_with_exit_code_2(one: Path, tmp_path: Path) -> None:
    (one / "environment/docker-compose.yaml").write_text("services: {}\n")
    study = tmp_path / "study"
    init_study(study, STUDY.format(tasks=one.parent, url="http://127.0.0.1:9/v1"))
    result = CliRunner().invoke(main, ["register", "--study", str(study)])
    assert result.exit_code == 2, result.output
    assert "docker-compose.yaml: a task is one container" in " ".join(result.output.split())


@pytest.fixture(scope="module")
def sandboxes(bases: None) -> Iterator[DockerSandboxes]:
    with closing(DockerSandboxes(ensure_image().tag)) as opened:
        yield opened


@pytest.mark.docker
def test_a_task_in_the_public_form_runs_unchanged(
    sandboxes: DockerSandboxes, tmp_path: Path
) -> None:
    shutil.copytree(PUBLIC, tmp_path / "tasks")
    (group,) = group_of(tmp_path / "tasks")
    with open_for(task_of(group).brief, sandboxes) as sandbox:
        assert sandbox.run(("python3", "-V"), 10.0).exit_code == 127  # it has none
    assert prove_task(task_of(group), sandboxes) == ""


@pytest.mark.docker
def test_walls_of_an_agent_in_an_image_of_its_task(one: Path, sandboxes: DockerSandboxes) -> None:
    (group,) = group_of(one.parent)
    with open_for(task_of(group).brief, sandboxes) as sandbox:

        def run(command: str) -> str:
            return sandbox.run(("bash", "-c", command), 20.0).output.decode()

        status = dict(line.split(":\t") for line in run("cat /proc/self/status").splitlines())
        assert {status[name] for name in ("CapEff", "CapPrm", "CapInh", "CapAmb")} == {"0" * 16}
        assert (status["NoNewPrivs"], status["Seccomp"]) == ("1", "2")
        assert run("cat /proc/net/dev | tail -n +3 | cut -d: -f1").split() == ["lo"]
        assert "denied" in run("cat /proc/1/environ").lower()
        assert "not permitted" in run("kill -9 1")
        assert "memory" in sandbox.run(("bash", "-c", "tail /dev/zero"), 20.0).limits


@pytest.mark.docker
@pytest.mark.parametrize("case", HOSTILE, ids=lambda case: case["does"])
def test_no_agent_gives_itself_a_reward(case: Json, one: Path, sandboxes: DockerSandboxes) -> None:
    (group,) = group_of(one.parent)
    task = task_of(group)
    with open_for(task.brief, sandboxes) as sandbox:
        sandbox.run(("bash", "-c", case["command"]), 20.0)
        try:
            reward = run_verifier(task.truth.verifier, sandbox, sandboxes, task.brief.limits).output
        except AttemptFailed as failed:
            reward = failed.error_class
    assert reward == case["reward"]


@pytest.mark.docker
@pytest.mark.parametrize(
    "script",
    ["sleep 30", "exit 1", "echo 2 > {0}.txt", "echo nan > {0}.txt", "echo > {0}.txt", "kill -9 $$",
     """echo '{{"a": 1, "b": 0}}' > {0}.json"""],
)  # fmt: skip
def test_a_verifier_without_a_reward_is_a_failed_attempt_and_refused_before_the_draw(
    script: str, one: Path, sandboxes: DockerSandboxes
) -> None:
    settings = one / "task.toml"
    settings.write_text(settings.read_text().replace("timeout_sec = 20.0", "timeout_sec = 1.0"))
    (one / "tests/test.sh").write_text("#!/bin/sh\n" + script.format("/logs/verifier/reward"))
    with (one / "tests/test.sh").open("a") as file:
        file.write("\n# /logs/verifier")
    (group,) = group_of(one.parent)
    with pytest.raises(AttemptFailed) as failed:
        prove_task(task_of(group), sandboxes)
    assert failed.value.error_class == "verifier"


@dataclass(frozen=True)
class Ran:
    study: Study
    shown: str  # by `verify`
    left: set[str]  # images of tasks on the engine


@pytest.fixture(scope="module")
def ran(bases: None, tmp_path_factory: pytest.TempPathFactory) -> Ran:
    """A study from the folder to the release, by the command line, with the folder gone once it is
    drawn. The model leaves one task alone, and does half of another."""
    folder = tmp_path_factory.mktemp("tasks")
    shutil.copytree(FOLDER, folder / "tasks")
    place, before = folder / "study", images()
    scripts = {
        (each / "instruction.md").read_text().strip(): (each / "solution/solve.sh").read_text()
        for each in FOLDER.iterdir()
    }

    def answer(request: Json) -> Answer:
        prompt = request["messages"][1]["content"].partition("\n\n")[2]
        if request["messages"][-1]["role"] == "tool" or "weather station" in prompt:
            return completion("Done.")
        script = scripts[prompt].replace("grep -c ERROR", "grep -c error").partition("\n")[2]
        return completion("", [("a", "run_command", {"command": script})])

    def dosimeter(*arguments: str) -> str:
        result = CliRunner().invoke(main, [*arguments, "--study", str(place)])
        assert result.exit_code == 0, result.output
        return result.output

    with serve(always=answer) as served:
        init_study(place, STUDY.format(tasks="../tasks", url=served.url))
        dosimeter("register", "--underpowered", SMALLNESS)
        shutil.rmtree(folder / "tasks")
        dosimeter("sweep", "--wave", "0", "--allow-dirty", "--allow-unknown-price")
        assert served.faults == []
    dosimeter("publish")
    left = images() - before
    return Ran(pipeline.open_study(place), dosimeter("verify"), left)


def images() -> set[str]:
    """The images of tasks on the engine."""
    with closing(connect()) as client:
        return {each["Id"] for each in client.images(filters={"label": "dosimeter=1"})}


def tasks_of(study: Study, arm: Arm) -> dict[str, Item]:
    """The tasks of an arm by their instances."""
    return {
        each.instance: read_items(Seed.from_hex(each.seed).item)[0]
        for each in study.entries()
        if each.arm is arm
    }


@pytest.mark.docker
def test_scores_are_the_rewards_of_the_verifiers(ran: Ran) -> None:
    snapshot = take_snapshot(ran.study)
    items = tasks_of(ran.study, Arm.PUBLIC) | tasks_of(ran.study, Arm.PRIVATE)
    scores = {
        items[row.instance].answer["task"]: (row.score, row.key_fraction, str(row.status))
        for row in exact_rows(snapshot, snapshot.closed_waves)
    }
    usual = dict.fromkeys((each.name for each in FOLDER.iterdir()), (1.0, 1.0, "scored"))
    halves = {"coldest-station": (0.0, 0.0, "scored"), "two-reports": (0.5, 0.5, "scored")}
    assert scores == usual | halves
    assert "holds" in ran.shown


@pytest.mark.docker
def test_nothing_of_private_tasks_rests_in_clear_and_no_image_is_left(ran: Ran) -> None:
    secrets = []
    for item in tasks_of(ran.study, Arm.PRIVATE).values():
        for path, data in item.files:
            if path.startswith(("environment/", "tests/")) and not path.endswith("Dockerfile"):
                longest = max(b64decode(data).splitlines(), key=len)
                secrets += [longest, item.prompt[:40].encode()] if len(longest) > 30 else []
    assert len(secrets) > 5
    files = [path for path in ran.study.folder.parent.rglob("*") if path.is_file()]
    for path in files:
        data = path.read_bytes()
        held = [one for one in secrets for form in (one, one.hex().encode()) if form in data]
        assert held == [], path
    assert ran.left == set()


@pytest.mark.docker
def test_the_release_has_the_folders_of_the_public_tasks_as_they_were(ran: Ran) -> None:
    release = ran.study.folder / "release/tasks/tasks"
    public = tasks_of(ran.study, Arm.PUBLIC).values()
    assert {each.name for each in release.iterdir()} == {item.answer["task"] for item in public}
    for path in release.rglob("*"):
        if path.is_file():
            assert path.read_bytes() == (FOLDER / path.relative_to(release)).read_bytes()


@pytest.mark.docker
def test_the_leak_check_finds_a_test_of_a_private_task(ran: Ran, tmp_path: Path) -> None:
    needles = release_needles(ran.study.entries(), ran.study.protocol.catalog.family)
    assert find_leaks(ran.study.folder / "release", needles) == ()
    for item in tasks_of(ran.study, Arm.PRIVATE).values():
        copy = tmp_path / "tests"
        copy.write_bytes(b64decode(dict(item.files)["tests/test.sh"]))
        found = {leak.kind for leak in find_leaks(tmp_path, needles)}
        assert "input file" in found, item.answer["task"]
