"""What judges have graded of a study, found again."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from harness.codec import decode_episode
from harness.episode import Cell, Episode, Grade
from harness.episodes import LENIENT, EpisodeResult
from harness.judging import read_grade
from harness.store_keys import attempt_key, hex_of, result_key
from harness.sweep import read_result
from registry.ledger import JudgePin, RunManifest, grades_folder, record_digest
from registry.sealing import decrypt
from study.errors import StudyError
from study.protocol import FILE_NAME
from study.workspace import Study, cells_of, finished_of, manifest_of

Labelled = tuple[str, Grade]


def judge_pin(study: Study, name: str) -> JudgePin:
    """The judge of that name in study.yaml. Raises StudyError."""
    for pin in study.protocol.judges:
        if pin.name == name:
            return pin
    known = ", ".join(pin.name for pin in study.protocol.judges) or "none"
    raise StudyError(
        f"{study.folder / FILE_NAME}: no judge {name!r} under `judges`; known: {known}"
    )


def results_there(study: Study, wave: int | None = None, needed: bool = False) -> Iterator[Cell]:
    """The cells that have a result, of one wave or of all. Raises StudyError where they are
    ``needed`` and nothing was begun."""
    for _, cells in waves_there(study, wave, needed):
        yield from cells


def waves_there(
    study: Study, wave: int | None, needed: bool
) -> Iterator[tuple[RunManifest, tuple[Cell, ...]]]:
    """The same by wave, each with its newest manifest."""
    waves = range(len(study.protocol.waves)) if wave is None else [wave]
    begun = [found for each in waves if (found := manifest_of(study.ledger, each)) is not None]
    if needed and not begun:
        first = wave or 0
        raise StudyError(
            f"wave {first} was not begun; `dosimeter sweep --wave {first}` makes its episodes"
        )
    for manifest in begun:
        cells = cells_of(study.entries(), manifest)
        finished = finished_of(study.store, cells)
        yield manifest, tuple(cell for cell in cells if result_key(cell.episode) in finished)


def read_attempt(study: Study, episode: str, identities: tuple[str, ...]) -> Episode:
    """The attempt that counts, of an episode that has a result. Raises RegistryError."""
    result = read_result(study.store, result_key(episode), identities)
    key = attempt_key(episode, result.attempt)
    return decode_episode(decrypt(study.store.get(key), identities, key), key)


def graded_by(study: Study, judge: str, look: int | None = None) -> frozenset[str]:
    """The episodes that a judge has graded, or graded again at a later look's wave; ``judge`` is
    the digest of its pin."""
    prefix = grades_folder(judge, look)
    keys = study.store.list(prefix)
    return frozenset(f"sha256:{key.removeprefix(prefix).removesuffix('.age')}" for key in keys)


def grades_of(study: Study, episode: str, identities: tuple[str, ...]) -> tuple[Labelled, ...]:
    """Every judge's grade of an episode, by its name, those of study.yaml first; of judges of one
    name, that are older versions of it, by digest as well."""
    pins = [*study.protocol.judges, *(e.record.judge for e in study.ledger.find("graded"))]
    named: dict[str, str] = {record_digest(pin): pin.name for pin in pins}
    found: dict[str, Grade] = {}
    for digest, name in named.items():
        grade = read_grade(study.store, digest, episode, identities)
        if grade is not None:
            found[f"{name}@{hex_of(digest)[:8]}" if name in found else name] = grade
    return tuple(found.items())


def labelled(exact: Grade, judged: Grade) -> Iterator[tuple[bool, bool]]:
    """What is true of each criterion, and what a judge said, where both is known. A templated
    question is put to a judge as the column has it that forgives how an answer is packed
    (harness/judging/judge.py): that column is its truth, as on the sheets of a check."""
    truths = dict(zip(exact.criteria, exact.verdicts, strict=True))
    for criterion, said in zip(judged.criteria, judged.verdicts, strict=True):
        if criterion == LENIENT or said is None:
            continue
        truth = truths.get(LENIENT)
        truth = truths.get(criterion) if truth is None else truth
        if truth is not None:
            yield truth, said


def judge_grades(
    study: Study, results: Iterable[EpisodeResult], identities: tuple[str, ...]
) -> Iterator[tuple[EpisodeResult, Grade]]:
    """The results with each grade of a judge of study.yaml, for the judges that have graded them
    all: a column with holes would compare other episodes than its neighbour."""
    held = list(results)
    for pin in study.protocol.judges:
        digest = record_digest(pin)
        done = graded_by(study, digest)
        if not all(result.episode in done for result in held):
            continue
        for result in held:
            grade = read_grade(study.store, digest, result.episode, identities)
            if grade is not None:
                yield result, grade
