"""The cells that a wave owes, and their order. Blind to the arms."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass, field

from generators.seed import Seed
from generators.task import TaskSpec
from harness.episode import Cell
from registry.canonical import digest_value
from registry.ledger import ModelPin, record_body


@dataclass(frozen=True, slots=True)
class WaveInstance:
    """An instance that a wave runs, without its arm."""

    spec: TaskSpec
    instance: str = field(repr=False)
    seed: Seed = field(repr=False)
    tranche: int = 0


def episode_id(study: str, wave: int, instance: str, model: ModelPin, replicate: int) -> str:
    """The digest of what defines an episode. Unguessable, as the instance's id is."""
    return digest_value(
        {
            "study": study,
            "wave": wave,
            "instance": instance,
            "model": record_body(model),
            "replicate": replicate,
        }
    )


def schedule_cells(
    study: str,
    wave: int,
    subjects: Iterable[WaveInstance],
    models: Iterable[ModelPin],
    replicates: int,
    order: Seed,
    tranches: Sequence[Collection[int]] = (),
) -> tuple[Cell, ...]:
    """Every cell of the wave, shuffled by a recorded stream, which interleaves the arms.

    ``tranches`` are those that each of the models runs; () is the panel, 0, for all of them.
    """
    pins = tuple(models)
    runs = list(zip(pins, tranches or ((0,),) * len(pins), strict=True))
    cells = [
        Cell(
            episode=episode_id(study, wave, subject.instance, pin, replicate),
            spec=subject.spec,
            instance=subject.instance,
            seed=subject.seed,
            model=pin.name,
            replicate=replicate,
        )
        for subject in subjects
        for pin, own in runs
        if subject.tranche in own
        for replicate in range(replicates)
    ]
    return order.child("schedule", wave).rng().shuffle(cells)
