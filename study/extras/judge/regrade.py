"""Grades of judges made again from their stored replies, none of which is paid for again."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass

from harness.errors import HarnessError
from harness.judge.grade import judge_episode
from harness.judge.judge import Judge, Unasked, prompt_digest
from harness.spending.purchases import CallKind, Charge, Payer, ReplyStore
from harness.storage import GRADE_CODEC, grade_key
from registry.errors import MissingKey, RegistryError, StoreError
from registry.ledger.records import JudgePin, pin_digest
from study.steps.verify.regrade import Finding, Regrades, RemadeEpisode, differences
from study.workspace.snapshot import StudySnapshot


@dataclass(frozen=True, slots=True)
class _Grading:
    """A judge's grades of a wave: the first ones, or those of a later look."""

    pin: JudgePin
    look: int | None

    def check(self, made: RemadeEpisode, counts: Counter[str]) -> Iterator[Finding]:
        """Yield how the grade differs from the one that the judge's stored replies give."""
        episode = made.cell.episode
        key = grade_key(pin_digest(self.pin), episode, self.look)
        try:
            stored = GRADE_CODEC.read(made.store, key, made.keys)
            charge = Charge(CallKind.JUDGE, Payer.of(self.pin), episode, made.wave)
            replies = ReplyStore(made.store, charge, made.keys).judge_call
            judge = Judge(self.pin, Unasked(self.pin.name))
            grade = judge_episode(judge, made.instance, made.attempt, replies, self.look)
        except MissingKey:
            if self.look is None:  # at a later look, a share of them is graded
                yield key, "missing: the ledger has all of this wave's grades by this judge"
            return
        except (RegistryError, HarnessError) as error:
            if isinstance(error, StoreError):
                raise
            yield key, f"its grade cannot be made again: {str(error).removeprefix(f'{key}: ')}"
            return
        counts["grades by judges made again"] += 1
        if names := differences(stored, grade):
            yield key, f"is not what the judge's stored replies give: {', '.join(names)} differ"


def regrades(study: StudySnapshot) -> Regrades:
    """Return the grades of judges that the ledger promises, by the wave of their answers; those
    that were asked with another prompt cannot be made again."""
    graded = [(entry.record.wave, entry.record, None) for entry in study.ledger.find("graded")]
    again = [
        (entry.record.first, entry.record, entry.record.wave)
        for entry in study.ledger.find("regraded")
    ]
    checks: list[tuple[int, _Grading]] = []
    unchecked: list[Finding] = []
    for wave, record, look in (*graded, *again):
        if record.judge.prompt == prompt_digest():
            checks.append((wave, _Grading(record.judge, look)))
        else:
            words = "it was asked with another prompt than this code's"
            unchecked.append(("", f"grades by judge {record.judge.name}: {words}"))
    return Regrades(tuple(checks), tuple(unchecked))
