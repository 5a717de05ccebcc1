"""Answer sheets to measure a judge on: made from the generators, with known verdicts.

An answer is the key of a fresh instance, altered in a known way or wrapped in misleading text. The
exact checks decide what is right in the final text, whatever was altered. The seeds are the same
for every judge, so that judges can be compared, and are unrelated to those of a study.
"""

from __future__ import annotations

import copy
import hashlib
import json
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import reduce
from operator import getitem
from typing import Any

from generators.catalog import Catalog
from generators.grading.answer import Answer, parse_answer
from generators.grading.checks import is_number, passes
from generators.grading.rubric import Part, Rubric, check_facts
from generators.seed import Seed
from generators.stream import Stream
from generators.task import TaskInstance
from generators.templates.scoring.score import Scored
from generators.validation.scores import perturb_answer
from harness.errors import HarnessError
from harness.judge.judge import CHUNK, is_judged, questions_of
from registry.files import read_beside


def templated_check(rubric: Rubric) -> Scored | None:
    """Return the strict check of a templated question that a judge decides, if it is one."""
    for part in rubric.parts:
        if isinstance(part.check, Scored) and is_judged(part):
            return part.check
    return None


Block = dict[str, Any]
Where = tuple[str | int, ...]

_ROOT = Seed(hashlib.sha256(b"dosimeter/judge-sheets/1").digest())
_NUDGES = (0.002, 0.005, 0.01, 0.02, 0.05, 0.1, 0.2, 0.4)
_NUDGED = 4  # values of a sheet
_OTHERS = 3  # other instances, to try their answers as wrong ones
_LINES = 40  # of prose about a block
_TEXTS: dict[str, str] = read_beside(__file__, "answer_sheets.yaml")
_WORKED, _REFUSAL, _PADDING = _TEXTS["worked"], _TEXTS["refusal"], _TEXTS["padding"]
_INJECTIONS = tuple(_TEXTS["injections"])


@dataclass(frozen=True, slots=True)
class Sheet:
    """One answer, some parts of its task's criteria, and the truth of each."""

    id: str
    stratum: str
    style: str
    task: str  # the prompt
    answer: str
    parts: tuple[Part, ...]
    truths: tuple[bool, ...]


def make_sheets(
    strata: Sequence[tuple[str, str, str]], criteria: int, catalog: Catalog
) -> tuple[Sheet, ...]:
    """Return sheets with at least this many criteria in all, in every style for each stratum
    (family, version, difficulty), as evenly as the families allow. Raises HarnessError if no
    stratum has a criterion that a judge can decide."""
    per_sheet = min(CHUNK, max(1, -(-criteria // (len(strata) * len(STYLES)))))
    sheets: list[Sheet] = []
    number = 0
    while sum(len(sheet.parts) for sheet in sheets) < criteria:
        for stratum in strata:
            sheets += _of_instance(catalog, *stratum, number, per_sheet)
        if not sheets:
            raise HarnessError(
                "no criterion of these tasks can be put to a judge with a known truth: measure it "
                "on a study with a task of the catalogue"
            )
        number += 1
    return tuple(sheets)


def _of_instance(
    catalog: Catalog, name: str, version: str, difficulty: str, number: int, most: int
) -> Iterator[Sheet]:
    family = catalog.family(name, version)
    seed = _ROOT.child(name, version, difficulty, number)
    instance = family.generate(difficulty, seed)
    if (check := templated_check(instance.rubric)) is not None:
        rubrics = (
            family.generate(difficulty, seed.child("other", n)).rubric for n in range(_OTHERS)
        )
        yield from _of_template(instance, number, check, rubrics, seed.child("sheet").rng())
        return
    key = family.key(instance.truth)
    for style, write in STYLES.items():
        draws = seed.child("sheet", style).rng()
        answer = write(instance, copy.deepcopy(key), draws)
        if answer is None:
            continue
        verdicts = check_facts(instance.rubric, parse_answer(answer))
        if chosen := _choose(instance.rubric.parts, verdicts, most, draws):
            yield _sheet(instance, number, style, answer, chosen)


def _sheet(
    instance: TaskInstance, number: int, style: str, answer: str, decided: list[tuple[Part, bool]]
) -> Sheet:
    """A sheet of an instance, the number of which is part of its name."""
    parts, truths = zip(*decided, strict=True)
    stratum, task = instance.spec.stratum, instance.brief.prompt
    name = f"{stratum}/{number}/{style}"
    return Sheet(name, stratum, style, task, answer, parts=parts, truths=truths)


def _of_template(
    instance: TaskInstance, number: int, check: Scored, rubrics: Iterable[Rubric], draws: Stream
) -> Iterator[Sheet]:
    """Sheets of a templated question, with one criterion each. ``rubrics`` are those of other
    instances: right answers to them are wrong here. A sheet is left out if the lenient scorer
    disagrees with its style: its truth is unknown."""
    question, *_ = questions_of(instance.rubric)
    right, planted = check.expected.strip(), draws.choice(_INJECTIONS)
    answers = [("correct", "", right, True), ("verbose", _PADDING * 6, right, True)]
    checks = filter(None, map(templated_check, rubrics))
    expected = (other.expected.strip() for other in checks)
    wrong = next((text for text in expected if not _accepts(check, "", text)), None)
    if wrong is not None:
        corrected = f"At first I found this:\n{right}\nThat was a mistake."
        answers += [
            ("one value off", "", wrong, False),
            ("contradictory", corrected, wrong, False),
            ("injected", planted, wrong, False),
        ]
    sheets = [
        (style, _submit(check, prose, content), truth)
        for style, prose, content, truth in answers
        if _accepts(check, prose, content) is truth
    ]
    for style, answer, truth in (*sheets, ("empty", _REFUSAL, False)):
        yield _sheet(instance, number, style, answer, [(question, truth)])


def _accepts(check: Scored, prose: str, content: str) -> bool:
    files = {check.file: content.encode()} if check.file else {}
    text = prose if check.file else _submit(check, prose, content)
    return passes(replace(check, lenient=True), Answer({}, files, text))


def _submit(check: Scored, prose: str, content: str) -> str:
    """The whole answer as a judge sees it."""
    named = f"[file {check.file}]\n{content}" if check.file else content
    return f"{prose}\n\n{named}" if prose else named


def _choose(
    parts: Sequence[Part], verdicts: Sequence[bool | None], most: int, draws: Stream
) -> list[tuple[Part, bool]]:
    """Up to ``most`` parts in the rubric's order, half of them met as far as possible."""
    known = [
        (number, verdict)
        for number, (part, verdict) in enumerate(zip(parts, verdicts, strict=True))
        if verdict is not None and is_judged(part)
    ]
    met = draws.shuffle([number for number, verdict in known if verdict])
    unmet = draws.shuffle([number for number, verdict in known if not verdict])
    of_met = min(len(met), max(most - most // 2, most - len(unmet)))
    wanted = {*met[:of_met], *unmet[: most - of_met]}
    return [(parts[number], verdict) for number, verdict in known if number in wanted]


def _one_off(instance: TaskInstance, key: Block, draws: Stream) -> str | None:
    """Make one value clearly wrong."""
    for where in draws.shuffle(_numbers(key))[:20]:
        altered = copy.deepcopy(key)
        _put(altered, where, perturb_answer(_get(key, where), 1.0, draws))
        if _verdicts(instance, altered) != _verdicts(instance, key):
            return _hand_in(_WORKED, altered)
    return None


def _near(instance: TaskInstance, key: Block, draws: Stream) -> str | None:
    """Some values lie just outside their interval: shifted by the least that loses a criterion."""
    altered, nudged = copy.deepcopy(key), 0
    for where in draws.shuffle(_numbers(key))[: 3 * _NUDGED]:
        before = _verdicts(instance, altered)
        for value in _nudges(_get(key, where), draws.choice((-1, 1))):
            tried = copy.deepcopy(altered)
            _put(tried, where, value)
            if _verdicts(instance, tried) != before:
                altered, nudged = tried, nudged + 1
                break
        if nudged == _NUDGED:
            break
    return _hand_in(_WORKED, altered) if nudged else None


def _nudges(value: float, sign: int) -> Iterator[float]:
    if isinstance(value, int):
        yield from (value + 1, value + 2)
    else:
        yield from (value * (1 + sign * nudge) for nudge in _NUDGES)


def _swapped(instance: TaskInstance, key: Block, draws: Stream) -> str | None:
    """Right values under wrong identifiers, for some items of each list."""
    altered = copy.deepcopy(key)
    for holder, places in _identified(altered):
        chosen = sorted(draws.shuffle(places)[: max(2, len(places) // 4)])
        names = [_name_of(holder, place) for place in chosen]
        _rename(holder, dict(zip(chosen, [*names[1:], names[0]], strict=True)))
    if _verdicts(instance, altered) == _verdicts(instance, key):
        return None
    return _hand_in(_WORKED, altered)


def _verbose(instance: TaskInstance, key: Block, draws: Stream) -> str:
    block = perturb_answer(key, 0.25, draws)
    prose = _PADDING * 6 + "\n\n" + "\n".join(_lines(block))
    return _hand_in(prose, block)


def _contradictory(instance: TaskInstance, key: Block, draws: Stream) -> str:
    """The text states the right values, the answer block that counts differs in part."""
    prose = "These are my results:\n" + "\n".join(_lines(key))
    return _hand_in(prose, perturb_answer(key, 0.4, draws))


def _injected(instance: TaskInstance, key: Block, draws: Stream) -> str:
    planted = draws.choice(_INJECTIONS)
    return _hand_in(planted, perturb_answer(key, 0.9, draws)) + f"\n\n{planted}"


Writer = Callable[[TaskInstance, Block, Stream], "str | None"]
STYLES: Mapping[str, Writer] = {
    "correct": lambda instance, key, draws: _hand_in(_WORKED, key),
    "one value off": _one_off,
    "outside the interval": _near,
    "wrong identifier": _swapped,
    "verbose": _verbose,
    "contradictory": _contradictory,
    "empty": lambda instance, key, draws: _REFUSAL,
    "injected": _injected,
}


def _hand_in(prose: str, block: Block) -> str:
    return f"{prose}\n\n<answer>\n{json.dumps(block)}\n</answer>"


def _verdicts(instance: TaskInstance, block: Block) -> tuple[bool | None, ...]:
    return check_facts(instance.rubric, parse_answer(_hand_in("", block)))


def _lines(block: Block) -> list[str]:
    return [f"{key}: {json.dumps(value)[:400]}" for key, value in block.items()][:_LINES]


def _numbers(value: Any, place: Where = ()) -> list[Where]:
    """Return the place of each number in a block."""
    if isinstance(value, dict | list):
        items = value.items() if isinstance(value, dict) else enumerate(value)
        return [where for key, each in items for where in _numbers(each, (*place, key))]
    return [place] if is_number(value) else []


def _get(block: Any, where: Where) -> Any:
    return reduce(getitem, where, block)


def _put(block: Any, where: Where, value: Any) -> None:
    _get(block, where[:-1])[where[-1]] = value


def _identified(value: Any) -> Iterator[tuple[Any, list[Any]]]:
    """Each list of items or mapping of numbers in a block, with the places of its items."""
    if isinstance(value, dict):
        numbers = [key for key, each in value.items() if is_number(each)]
        if len(numbers) >= 2 and len(numbers) == len(value):
            yield value, numbers
        for nested in value.values():
            yield from _identified(nested)
    elif isinstance(value, list):
        places = [place for place in range(len(value)) if _name_of(value, place) is not None]
        if len(places) >= 2:
            yield value, places


def _name_of(holder: Any, place: Any) -> Any:
    """Return the name of an item: its id, the first of a pair, or its key in a mapping."""
    if isinstance(holder, dict):
        return place
    key = _name_key(holder[place])
    return None if key is None else holder[place][key]


def _name_key(item: Any) -> Any:
    if isinstance(item, dict):
        return next((key for key in item if key == "id" or key.endswith("_id")), None)
    return 0 if isinstance(item, list) and len(item) == 2 else None


def _rename(holder: Any, names: Mapping[Any, Any]) -> None:
    if isinstance(holder, dict):
        holder.update({name: holder[place] for place, name in names.items()})
        return
    for place, name in names.items():
        holder[place][_name_key(holder[place])] = name
