"""Instances for pilots, drawn apart from those of the study: no instance is in both."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace

from generators.catalog import Catalog
from generators.seed import Seed
from generators.title import split_headline
from harness.storage import PILOT_INSTANCES, Codec, pilot_instance_key
from registry.canonical import digest_value
from registry.draws import Entropy, FixedEntropy, Identify, SystemEntropy
from registry.sealing import DrawnSeed, Keys
from study.errors import StudyError
from study.protocol import Protocol, Task
from study.workspace.study import Study

Watch = Callable[[str, int, int], None]  # what, done, of

_REDRAWS = 100  # of one instance, before its task is said to have too few


@dataclass(frozen=True, slots=True)
class PilotInstance:
    """An instance that was drawn for pilots. It is in no arm."""

    family: str
    version: str
    difficulty: str
    instance: str = field(repr=False)
    seed: str = field(repr=False)  # hex


Stratum = tuple[str, str, str]  # family, version, difficulty

_CODEC: Codec[PilotInstance] = Codec("pilot-instance", 1, PilotInstance)


def entropy_of(protocol: Protocol) -> Entropy:
    """Return the source of a study's randomness: the system, or a fixed one for demonstrations."""
    if protocol.entropy == "system":
        return SystemEntropy()
    return FixedEntropy(bytes.fromhex(protocol.entropy.removeprefix("fixed:")))


def identify_in(catalog: Catalog) -> Identify:
    """Return a function from a seed to the name of its instance. Instances that an agent cannot
    distinguish but by their titles get the name of the first of them, so that the draw takes them
    for one: a question with few variables must not be asked in both arms."""
    first: dict[str, str] = {}

    def identify(name: str, version: str, difficulty: str, seed: bytes) -> str:
        instance = catalog.family(name, version).generate(difficulty, Seed(seed))
        _, task = split_headline(instance.brief.prompt)
        return first.setdefault(replace(instance.brief, prompt=task).digest, instance.id)

    return identify


def excluded_by_pilots(study: Study, identify: Identify) -> set[str]:
    """Return the instances, as ``identify`` names them, and the seeds in hexadecimal that pilots
    had of the study's tasks: the study's own draw leaves them out. Needs the study's key if there
    was a pilot. Raises RegistryError."""
    return names_of(_stored(study), [_stratum(task) for task in study.protocol.tasks], identify)


def draw_pilot(
    study: Study, tasks: Sequence[Task], count: int, watch: Watch
) -> dict[Task, tuple[PilotInstance, ...]]:
    """Return the first ``count`` instances for pilots of each task. Those that no pilot had before
    are drawn, unlike any of the study's draw and of each other, and stored encrypted before they
    are used. Raises StudyError for a task without that many others, RegistryError."""
    identify = identify_in(study.protocol.catalog)
    drawn = {}
    for done, task in enumerate(tasks):
        watch(f"drawing instances of {task.stratum}", done, len(tasks))
        keys = _keys(study, task, count)
        lacking = [index for index, key in enumerate(keys) if not study.store.exists(key)]
        if lacking:
            taken = names_of((*study.drawn_seeds(), *_stored(study)), [_stratum(task)], identify)
            for index in lacking:
                instance = _draw_one(study, task, index, taken, identify)
                _CODEC.write(study.store, keys[index], instance, study.keys())
        own = study.keys()
        drawn[task] = tuple(_CODEC.read(study.store, key, own) for key in keys)
    return drawn


def stored_pilot(
    study: Study, tasks: Sequence[Task], count: int
) -> dict[Task, tuple[PilotInstance | None, ...]]:
    """Return the first ``count`` instances for pilots of each task, None for those that were not
    drawn yet. Needs the study's key if there is one. Raises RegistryError."""
    keys = study.keys() if any(study.store.list(PILOT_INSTANCES)) else Keys()
    return {
        task: tuple(_CODEC.find(study.store, key, keys) for key in _keys(study, task, count))
        for task in tasks
    }


def _stratum(task: Task | DrawnSeed | PilotInstance) -> Stratum:
    return task.family, task.version, task.difficulty


def _keys(study: Study, task: Task, count: int) -> list[str]:
    """Return the store keys of the first instances of a task in the draw for pilots."""
    place = {"study": study.protocol.name, "pilot": list(_stratum(task))}
    return [pilot_instance_key(digest_value({**place, "index": n})) for n in range(count)]


def _stored(study: Study) -> Iterator[PilotInstance]:
    """Yield the instances of all pilots."""
    for key in study.store.list(PILOT_INSTANCES):
        yield _CODEC.read(study.store, key, study.keys())


def names_of(
    entries: Iterable[DrawnSeed | PilotInstance],
    strata: Collection[Stratum],
    identify: Identify,
) -> set[str]:
    """Return the names and the seeds, in hexadecimal, of the entries of some strata."""
    names: set[str] = set()
    for entry in entries:
        if _stratum(entry) in strata:
            names |= {entry.seed, identify(*_stratum(entry), bytes.fromhex(entry.seed))}
    return names


def _draw_one(
    study: Study, task: Task, index: int, taken: set[str], identify: Identify
) -> PilotInstance:
    """Return a new instance of a task, and add it to those ``taken``."""
    entropy = entropy_of(study.protocol)
    for attempt in range(_REDRAWS):
        seed = entropy.draw(32, "pilot", *_stratum(task), index, attempt)
        name = identify(*_stratum(task), seed)
        if taken.isdisjoint((name, seed.hex())):
            taken |= {name, seed.hex()}
            # A new name is that of the instance itself.
            return PilotInstance(*_stratum(task), name, seed.hex())
    raise StudyError(
        f"{task.stratum}: {_REDRAWS} draws gave no instance that the study or a pilot does not "
        "have: the task has too few different ones; ask for fewer `--instances`"
    )
