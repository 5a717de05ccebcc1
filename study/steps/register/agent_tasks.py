"""Agent tasks of Harbor's form before a draw: the digests of their base images, and the proof that
each can be solved and is not solved already."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import closing, suppress
from dataclasses import replace
from functools import cache

from generators.items import HARBOR
from generators.items.family import AGENT_TASKS
from generators.items.item import Item, item_bytes
from generators.items.pool import Group
from generators.seed import EXAMPLE_SEED, Seed
from generators.task import TaskInstance
from harness.episodes.verification import prove_task
from harness.errors import AttemptFailed, HarnessError
from study.errors import StudyError
from study.protocol.agent_tasks import pin_bases
from study.protocol.pool import PoolSource, read_pool
from study.protocol.protocol import Protocol
from study.workspace.setup import pinned_image


def pin_bases_of(items: Sequence[Item]) -> Sequence[Item]:
    """Return a task with the digests that its base images have on this machine. Raises HarnessError
    for one that is not here."""
    from harness.sandboxes.docker import connect, find_image

    (item,) = items
    with closing(connect()) as client:

        def digest_of(name: str) -> str:
            if (digest := find_image(client, name)) is None:
                where = f"{item.answer['task']}: its base image {name} is not on this machine"
                raise HarnessError(f"{where}: `docker pull {name}`, or load it")
            return digest

        environment = item.answer["environment"]
        pinned = {"dockerfile": pin_bases(environment["dockerfile"], digest_of)}
    return (replace(item, answer=item.answer | {"environment": environment | pinned}),)


def task_of(group: Group) -> TaskInstance:
    """The instance of a task that no study draws. Raises HarnessError."""
    item = item_bytes(pin_bases_of(group.items))
    return AGENT_TASKS.generate(group.stratum, Seed(EXAMPLE_SEED.value + item))


def unproved_folders(protocol: Protocol) -> Iterator[tuple[str, tuple[str, ...]]]:
    """Yield the pools with tasks that nothing proves to be solvable, or that doing nothing solves,
    and what is wrong. Raises HarnessError for a task of which the image cannot be built, or the
    verifier gives no reward."""
    for source in protocol.pools:
        if source.family != HARBOR:
            continue
        with suppress(StudyError):  # the plan is registered after the draw, and the folder gone
            if problems := _problems(source, protocol.sandbox.runtime, pinned_image(protocol).tag):
                yield source.path.name, problems


@cache
def _problems(source: PoolSource, runtime: str, image: str) -> tuple[str, ...]:
    from harness.sandboxes.docker import DockerSandboxes

    problems, groups = list[str](), read_pool(source)
    with closing(DockerSandboxes(image, runtime=runtime)) as sandboxes:
        sandboxes.quotes = True  # to their owner
        for group in groups:
            name = group.items[0].answer["task"]
            try:
                if problem := prove_task(task_of(group), sandboxes):
                    problems.append(f"{name}: {problem}")
            except (AttemptFailed, HarnessError) as error:
                raise HarnessError(f"{source.path.name}/{name}: {error}") from error
    return tuple(problems)
