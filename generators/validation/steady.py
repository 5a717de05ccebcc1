"""Static criteria are the same in every instance: their gap between the arms is a control."""

from __future__ import annotations

from generators.checks import Check
from generators.rubric import Rubric, is_static

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
