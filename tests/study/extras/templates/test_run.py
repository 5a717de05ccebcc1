"""Templates put to an agent: the question to the letter, a run folder, and what a kill costs."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result

from examples.agent_server.server import Agent, make_server
from harness.models.scripted import SolvingAgent
from study.main import main
from tests.cases import cases
from tests.harness.chat_server import Served, Talk, result, running, said, stream
from tests.progress import wait_until

SEED = "0" * 63 + "2"
TEMPLATE = cases(__file__, "template")


@pytest.fixture
def template(tmp_path: Path) -> Path:
    path = tmp_path / "mine.yml"
    path.write_text(TEMPLATE)
    return path


def command(*arguments: object) -> Result:
    return CliRunner().invoke(main, ["template", "run", *map(str, arguments)])


def read_lines(path: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in path.read_text().splitlines()]


def answer(request: dict[str, Any]) -> str:
    """What a perfect agent says to a question of the template; it copies the file first."""
    text = request["messages"][0]["content"]
    if found := re.fullmatch(r"Say (\w+)\.", text):
        return found[1]
    source, target = re.findall(r"\S+\.txt", text)
    Path(target).write_text(Path(source).read_text().splitlines()[0])
    return "Copied."


@contextmanager
def perfect(seconds: float = 0.0) -> Iterator[Served]:
    """A server that answers every question right."""
    answers: list[str] = []

    def work(request: dict[str, Any]) -> None:
        answers.append(answer(request))
        time.sleep(seconds)

    class Last(tuple[Any, ...]):
        def __iter__(self) -> Iterator[Any]:
            yield work
            yield said("I look.") + result("a line")
            yield said(answers[-1])

    with stream(Talk(Last())) as served:
        yield served


SENT = ("--shared", "--temperature", "1", "--max-output-tokens", "900", "--rounds", "2")


@pytest.mark.parametrize("options", [(), SENT])
def test_the_question_is_sent_to_the_letter_and_the_folder_is_a_run(
    template: Path, tmp_path: Path, options: tuple[str, ...]
) -> None:
    out, sandbox = tmp_path / "run", tmp_path / "run" / "sandbox"
    with perfect() as served:
        done = command(template, "--server", served.url, "--out", out, "--seed", SEED, *options)
    assert done.exit_code == 0, done.output
    assert "6 of 6 right strictly (100.0 %)" in done.stdout
    key = read_lines(out / "precheck.jsonl")
    assert [request["messages"] for request in served.requests] == [
        [{"role": "user", "content": record["substituted_question"]}] for record in key
    ]
    sent = {(request["temperature"], request["max_output_tokens"]) for request in served.requests}
    assert sent == ({(1.0, 900)} if options else {(0.4, 4000)})
    tree = "" if options else "qb_s1/"
    assert key[4]["file_to_read"] == f"{sandbox}/{tree}artifacts/qb_s1/b.txt"
    assert not [path for path in sandbox.rglob("*") if "precheck" in path.name]
    first = read_lines(out / "responses.jsonl")[0]
    assert (first["question_id"], first["sample_number"]) == (1, 1)
    assert first["execution_successful"] is True
    talk = json.loads((out / "conversations" / "q1_s1.json").read_text())
    assert [message["role"] for message in talk["conversation_history"]] == [
        *("user", "assistant", "user", "assistant")
    ]
    assert talk["statistics"]["inference_rounds"] == 2
    assert talk["statistics"]["tool_calls"] == 1
    again = CliRunner().invoke(main, ["template", "score", str(out), "--json"])
    assert json.loads(again.stdout)["metadata"]["correct_answers"] == 6, again.output


def test_the_scripted_server_solves_the_library_and_errs_at_its_rate(tmp_path: Path) -> None:
    for rate, right in ((0.0, 10), (1.0, 0)):
        model = SolvingAgent("honest", rate)
        with running(make_server(Agent(lambda temperature, tokens: model))) as url:  # noqa: B023
            out = tmp_path / f"run{right}"
            done = command("past", "--server", url, "--out", out, "--samples", 1, "--json")
        assert json.loads(done.stdout)["metadata"]["correct_answers"] == right, done.output


def test_a_kill_costs_at_most_one_conversation(template: Path, tmp_path: Path) -> None:
    out = tmp_path / "run"
    arguments = [str(template), "--out", str(out), "--seed", SEED]
    program = "import sys; from study.main import main; main(sys.argv[1:])"
    with perfect(seconds=0.3) as served:
        line = [sys.executable, "-c", program, "template", "run", *arguments]
        for wanted in (1, 3, 5):
            process = subprocess.Popen([*line, "--server", served.url], stderr=subprocess.DEVNULL)
            wait_until(lambda: len(served.requests) > wanted)  # noqa: B023
            process.send_signal(signal.SIGKILL)
            process.wait()
    (out / "responses.jsonl").open("a").write('{"question_id": ')  # as a kill may leave it
    before = len(served.requests)
    with perfect() as second:
        done = command(*arguments, "--server", second.url)
    assert done.exit_code == 0, done.output
    assert "6 of 6 right" in done.stdout
    asked = Counter(
        request["messages"][0]["content"] for request in (*served.requests, *second.requests)
    )
    assert set(asked) == {x["substituted_question"] for x in read_lines(out / "precheck.jsonl")}
    assert before + len(second.requests) <= 6 + 3, "a kill each"
    assert len(read_lines(out / "responses.jsonl")) == 6
    with stream() as third:
        assert command(*arguments, "--server", third.url).exit_code == 0, "nothing is asked again"


def test_what_a_killed_conversation_left_is_gone(template: Path, tmp_path: Path) -> None:
    out = tmp_path / "run"
    arguments = [template, "--out", out, "--seed", SEED]
    with stream(Talk((said("no"),))) as served:
        assert command(*arguments, "--server", served.url).exit_code == 0
    (out / "responses.jsonl").write_text(
        "".join((out / "responses.jsonl").read_text().splitlines(True)[:4])
    )
    tree = out / "sandbox" / "qb_s1" / "artifacts" / "qb_s1"
    source = (tree / "a.txt").read_bytes()
    (tree / "a.txt").write_text("spoilt")
    (tree / "b.txt").write_text("half")
    with stream(Talk((said("no"),))) as served:
        assert command(*arguments, "--server", served.url).exit_code == 0
    assert len(served.requests) == 2
    assert (tree / "a.txt").read_bytes() == source
    assert not (tree / "b.txt").exists()


def test_a_conversation_that_fails_is_recorded_and_the_run_goes_on(
    template: Path, tmp_path: Path
) -> None:
    with stream(Talk((said("a"),)), Talk((b"[]\n",)), Talk((said("c"),))) as served:
        done = command(template, "--server", served.url, "--out", tmp_path / "run")
    assert done.exit_code == 1, done.output
    assert "1 conversation failed" in done.stdout
    failed = read_lines(tmp_path / "run" / "responses.jsonl")[1]
    assert (failed["execution_successful"], failed["error_message"]) == (
        False,
        "provider:malformed",
    )
    assert failed["response_text"] == ""
    page = (tmp_path / "run" / "results.html").read_text()
    assert "Failed conversations: 1." in page
    assert page.count("lost run, conversation failed") == 1


def test_a_server_that_is_not_there_stops_the_run_which_continues_later(
    template: Path, tmp_path: Path
) -> None:
    out = tmp_path / "run"
    with stream(Talk((said("a"),)), Talk(status=401)) as served:
        done = command(template, "--server", served.url, "--out", out)
    assert done.exit_code == 2
    (line,) = done.stderr.splitlines()
    assert "provider:auth" in line
    assert len(read_lines(out / "responses.jsonl")) == 1
    assert not (out / "scores.json").exists()
    with perfect() as served:
        assert command(template, "--server", f"{served.url}/api/chat", "--out", out).exit_code == 0
    assert len(served.requests) == 5


@pytest.mark.parametrize(("arguments", "reason"), cases(__file__, "begun"))
def test_another_run_does_not_continue_it(
    template: Path, tmp_path: Path, arguments: tuple[object, ...], reason: str
) -> None:
    out = tmp_path / "run"
    with perfect() as served:
        assert command(template, "--server", served.url, "--out", out).exit_code == 0
        done = command(template, "--server", served.url, "--out", out, *arguments)
        assert done.exit_code == 2
        assert reason in done.stderr
        template.write_text(TEMPLATE.replace("Say", "Please say"))
        done = command(template, "--server", served.url, "--out", out)
    assert "was begun with version" in done.stderr


@pytest.mark.parametrize(("arguments", "reason"), cases(__file__, "bad_input"))
def test_bad_input_leaves_nothing(
    template: Path, tmp_path: Path, arguments: tuple[str, ...], reason: str
) -> None:
    os.chdir(tmp_path)
    done = command(template, "--out", tmp_path / "run", *arguments)
    assert done.exit_code == 2
    assert reason in done.stderr
    assert sorted(path.name for path in tmp_path.iterdir()) == ["mine.yml"]


def test_a_folder_of_something_else_is_left_alone(template: Path, tmp_path: Path) -> None:
    done = command(template, "--server", "http://127.0.0.1:9", "--out", tmp_path)
    assert done.exit_code == 2
    assert "is there already and holds no run" in done.stderr
    assert sorted(path.name for path in tmp_path.iterdir()) == ["mine.yml"]


def test_two_samples_of_a_shared_tree_that_make_one_file_are_refused(
    template: Path, tmp_path: Path
) -> None:
    template.write_text(TEMPLATE.replace("/{{qs_id}}/a.txt", "/a.txt"))
    arguments = [template, "--server", "http://127.0.0.1:9", "--out", tmp_path / "run"]
    done = command(*arguments, "--shared")
    assert done.exit_code == 2
    (line,) = done.stderr.splitlines()
    assert (
        "mine.yml:7: tests[1]: sample 2: another sample makes sandbox/artifacts/a.txt too" in line
    )
    assert not (tmp_path / "run").exists()


def test_the_page_escapes_what_an_agent_says(template: Path, tmp_path: Path) -> None:
    hostile = "<script>alert(1)</script>\u202e\x1b[31m" + "x" * 9000
    with stream(Talk((said(hostile),))) as served:
        command(template, "--server", served.url, "--out", tmp_path / "run")
    page = (tmp_path / "run" / "results.html").read_text()
    assert "<script" not in page
    assert "&lt;script&gt;" in page
    assert "\\u{202e}\\u{1b}[31m" in page
    assert "x" * 4001 not in page
    assert not re.search(r"(?:src|href)=", page), "nothing is loaded"
    assert page.count("<details>") == 6
    assert "1.0 on average, 1 at most" in page


def test_a_model_of_a_study_works_in_a_sandbox_for_each_sample(tmp_path: Path) -> None:
    study = tmp_path / "study"
    study.mkdir()
    (study / "study.yaml").write_text(
        "study: s\ntasks: [{template: past}]\nseeds_per_arm: 2\nsandbox: {kind: local}\n"
        "models:\n  mock: {provider: scripted, agent: honest, error_rate: 0.0}\nwaves: [[mock]]\n"
    )
    out = tmp_path / "run"
    arguments = ["past", "--model", "mock", "--study", study, "--out", out, "--samples", 1]
    done = command(*arguments)
    assert done.exit_code == 0, done.output
    assert "10 of 10 right strictly" in done.stdout
    key = read_lines(out / "precheck.jsonl")
    assert key[6]["file_to_read"] == f"{out}/sandbox/q301_s1/artifacts/q301_s1/cust.json"
    assert " artifacts/q301_s1/" in key[6]["substituted_question"]
    scored = CliRunner().invoke(main, ["template", "score", str(out)])
    assert "10 of 10 right strictly" in scored.stdout
    assert "has no such model; it has: mock" in command(*arguments[:2], "x", *arguments[3:]).stderr
