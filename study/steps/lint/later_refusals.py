"""What a sweep, a grading or a release would refuse, as far as study.yaml and this machine show it
before anything is drawn."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from functools import cache
from itertools import chain
from math import log10

from generators.catalog import BUILT_IN_NAMES, Catalog
from generators.dressings.dressing import is_dressing
from generators.dressings.family import DressedFamily, task_family
from generators.items import HARBOR
from generators.items.item import Item
from generators.items.pool import guess_rate, near_duplicates, stated_keys
from generators.task import Solvable
from generators.templates.check import GUESSABLE, QuestionReport, check_text
from generators.validation.dressed import PROVED_SEEDS, unsolved
from generators.validation.validate import survey
from harness.errors import HarnessError
from harness.spending.budget import Budget
from harness.spending.prices import read_prices
from registry.errors import RegistryError
from registry.ledger.records import JudgePin, ModelPin
from registry.sealing import read_identities, recipient_of
from study.errors import StudyError
from study.protocol.plan_section import Faults
from study.protocol.pool import PoolSource, read_pool
from study.protocol.protocol import Protocol
from study.protocol.yaml import TemplateSource
from study.steps.sweep.spending import attempt_turns, price_pins
from study.steps.sweep.sweep import check_single_turns
from study.workspace.address import check_files
from study.workspace.study import Study

Watch = Callable[[str, int, int], None]  # what, done, of
CHECKED_SEEDS = 20  # of a family that is not the repository's own
MOST_ALIKE = 0.01  # of a pool's groups
_SHOWN, _LONG = 5, 200
INSTANCES_A_SEED = 4  # that a question of a template makes at the least
UNSOLVED = "it has no solver, so that nothing proves that prompt and files lead to the key"


def context_faults(study: Study) -> Faults:
    """Yield models that cannot take a task in a single turn: agents, models without a context
    window, and tasks that have no such form or do not fit."""
    protocol = study.protocol
    for pin in _planned(protocol):
        try:
            check_single_turns([pin], protocol.tasks_of(pin.name), protocol.catalog)
        except StudyError as error:
            yield ("models", pin.name), str(error).removeprefix(f"model {pin.name!r}, ")


def price_faults(study: Study) -> Faults:
    """Yield a price file that cannot be read, and what a budget lacks to be kept: prices, and the
    most that an attempt can cost."""
    protocol = study.protocol
    try:
        if protocol.prices is not None:
            read_prices(study.folder / protocol.prices)
    except HarnessError as error:
        yield ("prices",), str(error)
        return
    if protocol.budget is None:
        return
    pins: list[ModelPin | JudgePin] = [*_planned(protocol), *protocol.judges]
    try:
        tasks = chain.from_iterable(map(protocol.wave_tasks, range(len(protocol.waves))))
        turns = attempt_turns(tasks, protocol.catalog)
        pricing = price_pins(study, pins, True, turns)
        if pricing.limits is not None:
            Budget(pricing.limits, pricing.models)
    except HarnessError as error:
        yield ("budget",), str(error)
        return
    if pricing.unknown:
        names = ", ".join(repr(model.name) for model in pricing.unknown)
        yield (
            ("budget",),
            f"{pricing.prices.path} has no price of {names}, so that no limit holds: state "
            "provider, model, input, output, date and source of each there",
        )


def file_faults(study: Study) -> Faults:
    """Yield a file that cannot be recorded with study.yaml."""
    try:
        check_files(study)
    except StudyError as error:
        yield ("study",), str(error)


def key_faults(study: Study) -> Faults:
    """Yield recipients of the draw among which the study's own key is not, and an operator's key
    that opens the draw."""
    named, operator = study.protocol.recipients, study.protocol.operator
    own: list[str] = []
    if (named or operator) and study.key_file.exists():
        try:
            own = [recipient_of(identity) for identity in read_identities(study.key_file)]
        except RegistryError as error:
            yield ("keys",), str(error)
            return
    if named and own and not set(own) & set(named):
        yield (
            ("recipients",),
            f"the key in {study.key_file} opens nothing that is sealed to these: add "
            f"{own[0]}, or name the file of the right key",
        )
    if operator is not None and operator.recipient in (*named, *own):
        yield (
            ("operator",),
            "this key may open the draw, and an operator's key must not: make one with `dosimeter "
            "keys new --operator`",
        )


def share_guessed(protocol: Protocol) -> float:
    """Return how often a guess is right, as a mean over the study's strata. Raises StudyError for a
    pool of items that is not there."""
    rates = [question.constant_guess or 0.0 for _, question in _checked_questions(protocol)]
    rates += [guess_rate(read_pool(s)) * len(s.strata) for s in protocol.pools]
    return sum(rates) / len(protocol.tasks)


def weak_questions(protocol: Protocol) -> Faults:
    """Yield template questions of which a leak shows little: a guess is often right, or the key
    stands in the prompt. And such items of a pool, if they are few."""
    for source, problems in _weak_items(protocol):
        yield from (
            (("tasks",), f"{source.path.name}: {what}") for many, what in problems if not many
        )
    for name, question in _checked_questions(protocol):
        rate, place = question.constant_guess or 0.0, f"{name}, question {question.id}"
        if rate > GUESSABLE:
            what = f"a guess is right in {rate:.0%} of its samples, and knowing it gains the rest"
            yield ("tasks",), f"{place}: {what}, as the power of the plan counts"
        if question.key_in_prompt:
            what = "its key stands in the prompt of every sample: it asks to follow instructions"
            yield ("tasks",), f"{place}: {what}"


def few_instances(protocol: Protocol) -> Faults:
    """Yield template questions with so few different instances that those of one arm tell those of
    the other."""
    drawn = max(protocol.drawn.values())
    for name, question in _checked_questions(protocol):
        size = question.log10_instances
        if size is not None and size < log10(INSTANCES_A_SEED * drawn):
            yield (
                ("tasks",),
                f"{name}, question {question.id}: {round(10**size):,} different instances for "
                f"{drawn:,} seeds, so that released ones tell private ones; let it vary to "
                f"{INSTANCES_A_SEED * drawn:,} or more, or take fewer seeds",
            )


def unproved_tasks(protocol: Protocol, watch: Watch) -> Iterator[tuple[str, tuple[str, ...]]]:
    """Yield the names of template questions that are not proved, with the errors in each; and of
    families of others that do not pass `dosimeter tasks check`, or have no solver to prove that
    they can be solved. The errors may quote a template that is not public."""
    for name, question in _checked_questions(protocol):
        if question.faults:
            yield f"{name}, question {question.id}", question.faults
    watch("looking for near-duplicates" if protocol.pools else "checking questions", 0, 0)
    for source, found in _weak_items(protocol):
        if problems := tuple(what for many, what in found if many):
            yield source.path.name, problems
    families = [task_family(*source) for source in protocol.templates]
    own = {family.name for family in families} | {*BUILT_IN_NAMES}
    for family in families:
        if isinstance(family, DressedFamily):
            watch(f"checking {family.name}", 0, 0)
            if problems := _problems_of_dressing(protocol, family):
                yield family.dressing.document.path, problems
    for task in dict.fromkeys((t.family, t.version) for t in protocol.tasks if t.family not in own):
        watch(f"checking {task[0]}", 0, 0)
        if problems := _problems_of(protocol.catalog, *task):
            yield "@".join(task), problems


def _weak_items(protocol: Protocol) -> Iterator[tuple[PoolSource, Sequence[tuple[bool, str]]]]:
    """Yield the problems of each pool that can be read; pool_faults has the others."""
    for source in protocol.pools:
        with suppress(StudyError):
            yield source, _problems_in(source)


@cache
def _problems_in(source: PoolSource) -> tuple[tuple[bool, str], ...]:
    """Return what is wrong with the items of a pool, and whether they are many: near-duplicates in
    two groups, of which one may be published and the other kept; and prompts that state their
    key."""
    groups = read_pool(source)
    alike, stated = list(near_duplicates(groups)), list(stated_keys(groups))
    shown = "; ".join(
        f"rows {one.rows[0]} and {other.rows[0]} ({_short(one.text)} / {_short(other.text)})"
        for one, other in alike[:_SHOWN]
    )
    long = [g for g in groups if any(map(_is_long, g.items))]
    problems = (
        (long, f"{len(long)} keys are of several lines or of over {_LONG} characters, such as row "
         f"{long[0].rows[0] if long else 0}: no answer repeats them to the letter: keep the final "
         "answer alone, or give a rubric and `score: judge`"),
        (alike, f"{len(alike)} items are nearly like one in another group: {shown}: a leak of one "
         "is a leak of both; give them one `group`, or remove one"),
        (stated, f"{len(stated)} prompts hold their own answer: rows "
         + ", ".join(str(group.rows[0]) for group in stated[:_SHOWN])),
    )  # fmt: skip
    return tuple((len(f) > MOST_ALIKE * len(groups), what) for f, what in problems if f)


def _is_long(item: Item) -> bool:
    key = str(item.answer)
    return item.score == "exact" and ("\n" in key or len(key) > _LONG)


def _short(text: str) -> str:
    return repr(" ".join(text.split())[:100])


def pool_faults(protocol: Protocol) -> Faults:
    """Yield pools that cannot be read, have too few items for the seeds, or were public before."""
    for source in protocol.pools:
        if source.family == HARBOR and protocol.sandbox.kind != "docker":
            yield ("sandbox", "kind"), "the images of agent tasks need `docker`"
        if source.published != "never":
            yield (
                ("tasks",),
                f"{source.path.name}: these items were public on {source.published}, so that no "
                "arm of them is private any more; write fresh items by the same process and "
                "compare both with `dosimeter analyze --allocation authored`, or ask models "
                "for what they remember with `dosimeter probe`, which needs no arms",
            )
        try:
            sizes = Counter(group.stratum for group in read_pool(source))
        except StudyError as error:
            yield ("tasks",), str(error)
            continue
        drawn = protocol.drawn
        if short := [name for name, size in sizes.items() if size < drawn[name]]:
            most = ", ".join(f"{name}: {size // 2}" for name, size in sizes.items())
            yield (
                ("seeds_per_arm",),
                f"{source.path.name}: {short[0]} has {sizes[short[0]]:,} items or groups, and "
                f"{drawn[short[0]]:,} are drawn: the most an arm, reserve included, are {{{most}}}",
            )


@cache
def _problems_of(catalog: Catalog, name: str, version: str) -> tuple[str, ...]:
    family = catalog.family(name, version)
    if not isinstance(family, Solvable):
        return (UNSOLVED,)
    return survey([family], CHECKED_SEEDS).problems


def _problems_of_dressing(protocol: Protocol, family: DressedFamily) -> tuple[str, ...]:
    chosen = [task.difficulty for task in protocol.tasks if task.family == family.name]
    return tuple(unsolved(family, chosen, PROVED_SEEDS))


def _checked_questions(protocol: Protocol) -> Iterator[tuple[str, QuestionReport]]:
    for source in protocol.templates:
        if is_dressing(source.text):
            continue
        family = task_family(*source).name
        chosen = tuple(task.difficulty for task in protocol.tasks if task.family == family)
        for question in _checked(source, chosen):
            yield source.name, question


@cache
def _checked(source: TemplateSource, chosen: tuple[str, ...]) -> tuple[QuestionReport, ...]:
    """Check the chosen questions of a template file."""
    return check_text(source.text, source.name, chosen, source.values).questions


def _planned(protocol: Protocol) -> list[ModelPin]:
    """Return the models of all waves."""
    return [pin for pin in protocol.models if pin.name in protocol.planned]
