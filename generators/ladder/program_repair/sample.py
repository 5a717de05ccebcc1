"""Draws a program, faults in some of its functions, and what they return for drawn inputs.

The programs that run here are made of the building blocks and of edits of one token in them; none
of them has a loop without an end.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from operator import itemgetter
from typing import Any

from generators.ladder.program_repair.blocks import (
    OF_LISTS,
    OF_NUMBERS,
    Function,
    build,
    combine,
    name_functions,
)
from generators.ladder.program_repair.parameters import MOST_EXAMPLES, POOL, Parameters
from generators.ladder.program_repair.solver import edits
from generators.seed import MAX_ATTEMPTS, Streams, redraw
from generators.stream import Stream

_SHORTEST, _LONGEST, _LARGEST = 6, 9, 99
_NEAR_EDGE = 0.45  # chance that an element lies at an edge of the function or beside it
_EXAMPLES = 2  # of a function without a fault
_LEAST_NUMBERS = 3  # different ones in a list that identifies its input

Input = tuple[int, ...]
Space = dict[str, Any]


@dataclass(frozen=True, slots=True)
class Call:
    """A line of input, and the line that the right program prints for it."""

    given: str
    printed: str

    @classmethod
    def of(cls, name: str, argument: Input, result: Any) -> Call:
        """The call of a function with a list."""
        return cls(f"{name} {json.dumps(list(argument))}", json.dumps(result))


@dataclass(frozen=True, slots=True)
class HiddenTest:
    """A call that a fault breaks, and calls that no fault breaks: of the same function, and of one
    without a fault."""

    function: str
    broken: Call
    kept: tuple[Call, ...]


@dataclass(frozen=True, slots=True)
class Sample:
    """The program with its faults and without, its examples and its hidden tests."""

    faulty: str
    right: str
    examples: tuple[Call, ...]
    tests: tuple[HiddenTest, ...]
    redraws: int


@dataclass(frozen=True, slots=True)
class _Tested:
    """A function as it stands in the faulty program, with its examples and hidden tests, the inputs
    that were drawn for it, and the calls that a repair must not break if it has no fault."""

    function: Function
    source: str
    examples: tuple[Call, ...]
    tests: tuple[HiddenTest, ...] = ()
    pool: tuple[Input, ...] = ()
    kept: tuple[Call, ...] = ()

    @property
    def is_faulty(self) -> bool:
        return self.source != self.function.source


def draw_sample(parameters: Parameters, streams: Streams) -> Sample:
    """Raises GuardExhausted if a draw stays degenerate."""
    (functions, redraws), again = redraw(
        lambda attempt: _draw_program(parameters, streams, attempt), "functions that combine two"
    )
    calls = [call for tested in functions for call in tested.examples]
    return Sample(
        write_program([(tested.function.name, tested.source) for tested in functions]),
        write_program([(tested.function.name, tested.function.source) for tested in functions]),
        streams.at("examples").shuffle(calls),
        tuple(_whole_tests(functions)),
        redraws + again,
    )


def _whole_tests(functions: Sequence[_Tested]) -> Iterator[HiddenTest]:
    """The hidden tests, those of a function with the calls of one without a fault: these come in
    turn, so that to break one costs its share of the score."""
    without_fault = [tested for tested in functions if tested.kept]
    for index, tested in enumerate(each for each in functions if each.tests):
        others = without_fault[index % len(without_fault)].kept
        for test, other in zip(tested.tests, others, strict=True):
            yield replace(test, kept=(*test.kept, other))


def _draw_program(
    parameters: Parameters, streams: Streams, attempt: int
) -> tuple[tuple[_Tested, ...], int] | None:
    """The functions in the order of the program, and how often one of them was redrawn; None if
    none of those that combine two can be tested."""
    names = name_functions(
        streams.at("names", 0, attempt), parameters.functions + parameters.combined
    )
    lists = streams.at("blocks", 0, attempt).shuffle(OF_LISTS)
    # Of the functions with a fault, the first return lists, so that others can go on from these.
    blocks = (
        *lists[: parameters.combined],
        *streams.at("blocks", 1, attempt).shuffle((*lists[parameters.combined :], *OF_NUMBERS)),
    )
    made, redraws = [], 0
    for index in range(parameters.functions):

        def draw(again: int, index: int = index) -> _Tested | None:
            number = attempt * MAX_ATTEMPTS + again
            drawn = streams.at("function", index, number)
            function = build(blocks[index], drawn, names[index])
            draws = streams.at("inputs", index, number)
            if index < parameters.faults:
                return _with_fault(function, parameters, draws)
            return _without_fault(function, parameters, draws)

        tested, again = redraw(draw, f"function {index + 1} of the program")
        made.append(tested)
        redraws += again
    combined = _combined(made, names, parameters, streams.at("combined", 0, attempt))
    order = streams.at("order", 0, attempt).shuffle(made)
    return None if combined is None else ((*order, *combined), redraws)


def _without_fault(function: Function, parameters: Parameters, draws: Stream) -> _Tested | None:
    """The function as it is; None if too few of its results identify their inputs."""
    pool = _draw_inputs(function, draws, _EXAMPLES + 2 * parameters.tests)
    results = _run(function.name, function.source, pool)
    if results is None:
        return None
    runs = list(zip(pool, results, strict=True))
    calls = [Call.of(function.name, *run) for run in runs[:_EXAMPLES]]
    kept = [Call.of(function.name, *run) for run in runs[_EXAMPLES:] if _identifies(run[1])]
    if len(kept) < parameters.tests:
        return None
    return _Tested(function, function.source, tuple(calls), kept=tuple(kept[: parameters.tests]))


def _identifies(result: Any) -> bool:
    """Report if a result is unlikely to be that of another input, or of another instance."""
    return len(set(result)) >= _LEAST_NUMBERS if isinstance(result, list) else bool(result)


def _with_fault(function: Function, parameters: Parameters, draws: Stream) -> _Tested | None:
    """The function with one of its edits: of those that show on the share of inputs that the
    parameters ask for, the first in random order; else one that comes near it. None if examples
    can single out the repair of none."""
    pool = _draw_inputs(function, draws, POOL)
    right = _run(function.name, function.source, pool)
    if right is None or len(set(map(json.dumps, right))) < POOL // 2:
        return None
    faults = [
        (_misfit(right, wrong, parameters), edit, wrong)
        for edit in draws.shuffle(tuple(edits(function.source)))
        if (wrong := _run(function.name, edit, pool)) is not None
        and all(type(a) is type(b) for a, b in zip(right, wrong, strict=True))
    ]
    for _, edit, wrong in sorted(faults, key=itemgetter(0)):
        runs = list(zip(pool, right, wrong, strict=True))
        if (tested := _tested(function, edit, runs, parameters)) is not None:
            return tested
    return None


def _misfit(right: Sequence[Any], wrong: Sequence[Any], parameters: Parameters) -> float:
    """How far the share of inputs that a fault shows on lies from what the parameters ask for."""
    shown: float = sum(a != b for a, b in zip(right, wrong, strict=True)) / len(right)
    return max(parameters.least_shown - shown, shown - parameters.most_shown, 0.0)


def _tested(
    function: Function, faulty: str, runs: list[tuple[Input, Any, Any]], parameters: Parameters
) -> _Tested | None:
    """The faulty function with examples that fail, so many that each edit of one token that meets
    them all agrees with the right function on the whole pool; and hidden tests from the rest."""
    candidates = tuple(edits(faulty))
    if function.source not in candidates:
        return None
    broken = [run for run in runs if run[1] != run[2]]
    kept = [run for run in runs if run[1] == run[2]]
    examples = [*broken[:1], *kept[:1]]
    pool, results = [run[0] for run in runs], [run[1] for run in runs]
    for edit in candidates:
        seen = _run(function.name, edit, [run[0] for run in examples])
        if seen != [run[1] for run in examples]:
            continue
        others = _run(function.name, edit, pool, stop_at_error=False)
        differing = (
            run
            for run, result, other in zip(runs, results, others or (), strict=True)
            if result != other
        )
        if (example := next(differing, None)) is not None:
            examples.append(example)
    shown = {run[0] for run in examples}
    tests = _hidden_tests(
        function.name,
        [run for run in broken if run[0] not in shown],
        [run for run in kept if run[0] not in shown] or kept or examples[:1],
        parameters.tests,
    )
    if len(tests) < parameters.tests or len(examples) > MOST_EXAMPLES:
        return None
    calls = tuple(Call.of(function.name, argument, right) for argument, right, _ in examples)
    return _Tested(function, faulty, calls, tests, tuple(pool))


def _hidden_tests(
    name: str,
    broken: Sequence[tuple[Input, Any, Any]],
    kept: Sequence[tuple[Input, Any, Any]],
    count: int,
) -> tuple[HiddenTest, ...]:
    """Tests of which no two have the same result, so that no constant passes several."""
    by_result = {json.dumps(run[1]): run[:2] for run in broken if _identifies(run[1])}
    kept = [run for run in kept if _identifies(run[1])] or kept
    return tuple(
        HiddenTest(name, Call.of(name, *each), (Call.of(name, *kept[index % len(kept)][:2]),))
        for index, each in enumerate(list(by_result.values())[:count])
    )


def _combined(
    made: Sequence[_Tested], names: Sequence[tuple[str, str]], parameters: Parameters, draws: Stream
) -> tuple[_Tested, ...] | None:
    """Functions that pass the list of one with a fault to one without, on inputs of the first."""
    outers = draws.shuffle([tested.function for tested in made if not tested.is_faulty])
    combined = []
    for index in range(parameters.combined):
        inner, outer = made[index], outers[index]
        function = combine(names[len(made) + index], outer.name, inner.function.name)
        right = _run(
            function.name, function.source, inner.pool, outer.source, inner.function.source
        )
        wrong = _run(function.name, function.source, inner.pool, outer.source, inner.source)
        if right is None or wrong is None:
            return None
        runs = list(zip(inner.pool, right, wrong, strict=True))
        shown = [run for run in runs if run[1] != run[2]]
        kept = [run for run in runs if run[1] == run[2]] or shown[:1]
        tests = _hidden_tests(function.name, shown[2:], kept, parameters.tests)
        if len(tests) < parameters.tests:
            return None
        calls = tuple(Call.of(function.name, *run[:2]) for run in shown[:_EXAMPLES])
        combined.append(_Tested(function, function.source, calls, tests))
    return tuple(combined)


def _draw_inputs(function: Function, draws: Stream, count: int) -> tuple[Input, ...]:
    """Different lists of integers, with elements at the edges of the function."""
    drawn: dict[Input, None] = {}
    while len(drawn) < count:
        length = draws.integer(_SHORTEST, _LONGEST)
        elements: list[int] = []
        for _ in range(length):
            elements.append(_draw_element(function, draws, elements))
        drawn[tuple(elements)] = None
    return tuple(drawn)


def _draw_element(function: Function, draws: Stream, before: Sequence[int]) -> int:
    edges = (*function.edges, *(before[-1] + step for step in function.steps if before))
    if edges and draws.chance(_NEAR_EDGE):
        return draws.choice(edges) + draws.integer(-1, 1)
    return draws.integer(-_LARGEST, _LARGEST)


def _run(
    name: str, source: str, pool: Sequence[Input], *before: str, stop_at_error: bool = True
) -> list[Any] | None:
    """What the function returns for each input; None if one raises an error. Without a stop, an
    error counts as the result. Inputs are tuples: an edit that appended to its input would go
    through it without an end."""
    space: Space = {}
    for text in (*before, source):
        exec(text, space)  # noqa: S102 - made of the building blocks
    results: list[Any] = []
    for argument in pool:
        try:
            results.append(space[name](argument))
        except Exception as error:  # an edit may break the function in any way
            if stop_at_error:
                return None
            results.append(error)
    return results


_PROGRAM = '''"""Reads the name of a function and a list of integers; prints what it returns."""

import json
import sys

{functions}

def main():
    name, _, argument = sys.stdin.readline().partition(" ")
    print(json.dumps(FUNCTIONS[name](json.loads(argument))))


FUNCTIONS = {{
{names}}}

if __name__ == "__main__":
    main()
'''


def write_program(functions: Sequence[tuple[str, str]]) -> str:
    """The source of a program of these functions, each given by its name and source."""
    texts = "\n".join(f"\n{source}" for _, source in functions)
    names = "".join(f'    "{name}": {name},\n' for name, _ in functions)
    return _PROGRAM.format(functions=texts, names=names)


def write_examples(calls: Sequence[Call]) -> str:
    """The text of the file of examples."""
    return "".join(f"{call.given} -> {call.printed}\n" for call in calls)


def call_of(line: str) -> Call:
    """The call of a line of that file."""
    given, _, printed = line.partition(" -> ")
    return Call(given, printed)


def iterate_calls(text: str) -> Iterator[Call]:
    """The calls of the file of examples."""
    return map(call_of, text.splitlines())
