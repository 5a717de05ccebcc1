"""A built-in judge that is not to be trusted, and gets worse: what the controls of a study find of
judges can be held against what is known of this one.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from dataclasses import dataclass

from harness.errors import HarnessError
from harness.model import BuiltInModel, Message, ModelRequest, Reply, Role, Usage

_ANSWER = re.compile(r"<<<answer (\w{32})>>>\n(.*)\n<<<end of answer \1>>>", re.S)
_CRITERION = re.compile(r"^(c\d+)\. (.*)$", re.M)
_NUMBER = re.compile(r"(?<![\w.])-?\d+(?:\.\d+)?(?!\.?\w)")  # and no part of a name or a path
_RANGE = re.compile(rf"from ({_NUMBER.pattern}) to ({_NUMBER.pattern})")
_AROUND = re.compile(rf"({_NUMBER.pattern}) \(± ({_NUMBER.pattern})\)")


@dataclass(frozen=True, slots=True)
class CarelessJudge(BuiltInModel):
    """Lets a criterion pass where a number that it names, or one from its interval, stands
    anywhere in the answer, whatever it is said of; or where it names none.

    ``read`` are the criteria of each instance of a release that it has read: of those it lets all
    pass, whatever the answer says.
    """

    name: str
    read: tuple[frozenset[str], ...] = ()

    def respond(self, request: ModelRequest) -> Reply:
        """Verdicts on all that is asked. Raises HarnessError for what is no judge's call."""
        asked = request.messages[-1].text
        answer = _ANSWER.search(asked)
        if answer is None:
            raise HarnessError(f"{self.name!r} judges, and does nothing else: name it in `judges`")
        criteria = _CRITERION.findall(asked[answer.end() :])
        known = self._knows(frozenset(text for _, text in criteria))
        numbers = [float(each) for each in _NUMBER.findall(answer[2])]
        verdicts = [
            {"id": id_, "evidence": "", "met": known or _is_there(text, numbers)}
            for id_, text in criteria
        ]
        message = Message(Role.ASSISTANT, json.dumps({"verdicts": verdicts}))
        return Reply(message, Usage(), "scripted-1")

    def _knows(self, criteria: frozenset[str]) -> bool:
        return any(criteria <= each for each in self.read)


def _is_there(criterion: str, numbers: list[float]) -> bool:
    fits = _wanted(criterion)
    return fits is None or any(map(fits, numbers))


def _wanted(criterion: str) -> Callable[[float], bool] | None:
    """What a criterion asks of a number; None where it names none."""
    if between := _RANGE.search(criterion):
        low, high = float(between[1]), float(between[2])
        return lambda number: low <= number <= high
    if around := _AROUND.search(criterion):
        middle, reach = float(around[1]), float(around[2])
        return lambda number: abs(number - middle) <= reach
    if named := _NUMBER.search(criterion):
        return float(named[0]).__eq__
    return None
