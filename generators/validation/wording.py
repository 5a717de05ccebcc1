"""Rubric text that a person can read: no trace of the program that wrote it."""

from __future__ import annotations

import re
from collections.abc import Iterator

from generators.task import TaskInstance

ARTEFACTS = re.compile(
    r"\bnp\.|\bnumpy\b|\barray\(|\b(?:float|u?int)(?:8|16|32|64)\b|\bnan\b|\binf\b|\bNone\b(?! of)"
    r"|[{}]|-0\.0*(?![0-9])"
)


def artefacts(instance: TaskInstance) -> Iterator[str]:
    """What should not stand in the text of a criterion, with the criterion's name."""
    for criterion in instance.rubric.criteria:
        if found := ARTEFACTS.search(criterion.text):
            yield f"{criterion.metarubric}: {found.group(0)!r}"
