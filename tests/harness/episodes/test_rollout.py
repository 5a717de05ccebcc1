"""One attempt: what becomes an episode, whatever happens, and what is refused."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from generators.grading.answer import MAX_ANSWER_BYTES
from generators.seed import Seed
from generators.task import Asset, Brief, Limits, TaskSpec
from harness.episode import Cell, Episode, StopReason
from harness.episodes.rollout import AttemptRequest, model_seed, run_attempt
from harness.errors import AttemptFailed, Boundary, HarnessError
from harness.model import Usage
from harness.sandboxes.local import LocalSandboxes
from harness.sandboxes.sandbox import Sandbox
from harness.spending.purchases import MemoryJournal
from harness.storage import EPISODE_CODEC
from tests.harness.script import ANSWER, Playback, brief, call, noon, say

CELL = Cell(
    episode="sha256:" + "e" * 64,
    spec=TaskSpec("find_x", "1", "easy", ()),
    instance="sha256:" + "1" * 64,
    seed=Seed(bytes(range(32))),
    model="playback",
    replicate=2,
)
WRITE = call(("write_file", {"path": "answer.json", "content": '{"x": 3}'}))


def attempt(
    model: Playback, sandboxes: LocalSandboxes, *assets: Asset, limits: Limits | None = None
) -> Episode:
    return run_attempt(
        AttemptRequest(
            CELL,
            4,
            brief(*assets, limits=limits),
            run="sha256:" + "a" * 64,
            journal=MemoryJournal(),
        ),
        model,
        sandboxes,
        noon,
    )


def test_an_episode_records_who_what_and_when(sandboxes: LocalSandboxes) -> None:
    asset = Asset("in/data.txt", "text/plain", b"41\n")
    read = call(("read_file", {"path": "in/data.txt"}))
    episode = attempt(Playback([read, say(ANSWER)]), sandboxes, asset)
    assert (episode.id, episode.instance, episode.run) == (
        CELL.episode, CELL.instance, "sha256:" + "a" * 64,
    )  # fmt: skip
    assert (episode.model, episode.replicate, episode.attempt) == ("playback", 2, 4)
    assert (episode.stop, episode.answer, episode.answer_file) == (
        StopReason.ANSWERED, ANSWER, None,
    )  # fmt: skip
    assert (episode.started, episode.usage) == (noon(), Usage(2, 2))
    assert episode.seconds > 0
    assert episode.container
    assert episode.steps[0].uses[0].result.text.startswith("41\n")


def test_the_answer_file_is_collected(sandboxes: LocalSandboxes) -> None:
    assert attempt(Playback([WRITE, say("Done.")]), sandboxes).answer_file == b'{"x": 3}'


def test_files_that_the_answer_points_to_are_collected(sandboxes: LocalSandboxes) -> None:
    table = call(("write_file", {"path": "out/events.csv", "content": "7,91.2\n"}))
    block = '<answer>\n{"events_file": "out/events.csv"}\n</answer>'
    episode = attempt(Playback([table, say(block)]), sandboxes)
    assert episode.answer_files == (("out/events.csv", b"7,91.2\n"),)
    assert EPISODE_CODEC.decode(EPISODE_CODEC.encode(episode)) == episode


def test_what_graders_look_at_is_collected_and_what_must_only_be_there_may_be_large(
    sandboxes: LocalSandboxes,
) -> None:
    large = MAX_ANSWER_BYTES + 1
    program = (
        "import os; os.makedirs('made/empty'); open('made/large', 'wb').write(bytes("
        f"{large})); open('made/read.txt', 'w').write('so')"
    )
    asked = Brief(
        "make them",
        (),
        "",
        collect=("made/read.txt", "made/none.txt", "made/large"),
        exists=("made/large", "made/empty/", "made/gone", "../made/empty"),
    )
    episode = run_attempt(
        AttemptRequest(CELL, 1, asked, run="run", journal=MemoryJournal()),
        Playback([call(("execute_python", {"code": program})), say("Done.")]),
        sandboxes,
        noon,
    )
    found = dict(episode.answer_files)
    assert found == {"made/read.txt": b"so", "made/large": b"", "made/empty/": b""}
    read = Brief("make it", (), "", collect=("made/large",))
    episode = run_attempt(
        AttemptRequest(CELL, 1, read, run="run", journal=MemoryJournal()),
        Playback([call(("execute_python", {"code": program})), say("Done.")]),
        sandboxes,
        noon,
    )
    assert episode.answer_files == (), "what is read is no larger than any answer"


@pytest.mark.parametrize("path", ["/etc/passwd", "../../etc/passwd", "gone.csv", "\\ud800"])
def test_a_file_that_it_may_not_read_is_not_collected(sandboxes: LocalSandboxes, path: str) -> None:
    block = f'<answer>\n{{"events_file": "{path}"}}\n</answer>'
    episode = attempt(Playback([say(block)]), sandboxes)
    assert (episode.stop, episode.answer_files) == (StopReason.ANSWERED, ())


def test_out_of_time_the_answer_file_still_counts(sandboxes: LocalSandboxes) -> None:
    slow = call(("execute_python", {"code": "import time; time.sleep(9)"}))
    limits = Limits(working_seconds=1.0)
    episode = attempt(Playback([WRITE, slow, say("No more.")]), sandboxes, limits=limits)
    assert (episode.stop, episode.answer_file) == (StopReason.TIME_LIMIT, b'{"x": 3}')
    assert episode.error_class == ""


def test_an_answer_file_that_is_no_file_is_no_answer(sandboxes: LocalSandboxes) -> None:
    link = call(("execute_python", {"code": "import os; os.symlink('/etc/passwd','answer.json')"}))
    episode = attempt(Playback([link, say("Done."), say("Done.")]), sandboxes)
    assert (episode.stop, episode.answer_file) == (StopReason.ANSWERED, None)


def test_a_failed_provider_makes_a_failed_episode_with_its_steps(sandboxes: LocalSandboxes) -> None:
    episode = attempt(Playback([WRITE, AttemptFailed(Boundary.PROVIDER, "rate_limit")]), sandboxes)
    assert (episode.stop, episode.error_class) == (StopReason.FAILED, "provider:rate_limit")
    assert (len(episode.steps), episode.answer, episode.answer_file) == (1, "", None)
    assert episode.container


class NoneLeft(LocalSandboxes):
    """An engine that has no room."""

    def open(self, assets: Sequence[Asset], limits: Limits, model_socket: bool = False) -> Sandbox:
        raise AttemptFailed(Boundary.SANDBOX, "not_created")


def test_a_sandbox_that_does_not_open_makes_a_failed_episode() -> None:
    model = Playback([])
    episode = attempt(model, NoneLeft())
    assert (episode.stop, episode.error_class) == (StopReason.FAILED, "sandbox:not_created")
    assert (episode.steps, episode.container, episode.usage) == ((), "", Usage())
    assert model.asked == []
    assert [message.text for message in episode.opening][1] == "Find x."


def test_a_model_that_is_not_built_in_may_not_run_where_nothing_isolates(
    sandboxes: LocalSandboxes,
) -> None:
    model = Playback([say(ANSWER)], trusted=False)
    with pytest.raises(HarnessError, match=r"'playback' is not built in.*sandbox: docker"):
        attempt(model, sandboxes)
    assert model.asked == []


def test_a_models_stream_is_its_own_and_tells_nothing_of_the_instance() -> None:
    first, second = model_seed(CELL, 1), model_seed(CELL, 2)
    assert first == model_seed(CELL, 1)
    assert len({first.value, second.value, CELL.seed.value}) == 3
