"""Static criteria are the same in every instance: their gap between the arms is a control."""

from __future__ import annotations

import re
from collections.abc import Iterator

from generators.grading import Check, Rubric, is_static
from generators.task import TaskInstance

Asked = tuple[str, Check | None]


def static_criteria(rubric: Rubric) -> dict[str, Asked]:
    """The text and the check of each criterion that a rubric calls static, by its id."""
    return {each.id: (each.text, each.check) for each in rubric.criteria if is_static(each)}


def unsteady(one: Rubric, other: Rubric) -> frozenset[str]:
    """The metarubrics of static criteria that two instances of a stratum do not share: they need
    a source in the truth, or a gate."""
    ours, theirs = static_criteria(one), static_criteria(other)
    return frozenset(
        name.rpartition("/")[0]
        for name in ours.keys() | theirs.keys()
        if ours.get(name) != theirs.get(name)
    )


# --- Rubric text that a person can read: no trace of the program that wrote it ---

ARTEFACTS = re.compile(
    r"\bnp\.|\bnumpy\b|\barray\(|\b(?:float|u?int)(?:8|16|32|64)\b|\bnan\b|\binf\b|\bNone\b(?! of)"
    r"|[{}]|-0\.0*(?![0-9])"
)


def artefacts(instance: TaskInstance) -> Iterator[str]:
    """What should not stand in the text of a criterion, with the criterion's name."""
    for criterion in instance.rubric.criteria:
        if found := ARTEFACTS.search(criterion.text):
            yield f"{criterion.metarubric}: {found.group(0)!r}"
