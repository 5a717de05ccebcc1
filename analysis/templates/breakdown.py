"""Answers to templated questions, broken down: by question, by scoring type, by answer format.

Right is right by the *strict* column. An answer that is wrong strictly and right leniently failed
at formatting; wrong in both, at the task. Answers without a verdict are left out and counted, never
taken for wrong. Source: the tables of the PICARD paper's Appendices B and C."""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from statistics import fmean, multimode
from typing import NamedTuple, TypeVar

from analysis.errors import AnalysisError
from analysis.stats.proportions import NOTHING, Rate, difference, mean_of, pooled, rate_of

OUTPUTS = ("file", "direct")
FORMATS = ("json", "string", "paths")

NO_WEAKNESS, FILE, DIRECT = "None", "File Output", "Direct Output"
BALANCED, BOTH, UNKNOWN = "Balanced", "Both, or Task", "Not known"
GOOD, POOR, APART = 0.90, 0.25, 0.20  # of ``weakness_pattern``


@dataclass(frozen=True, slots=True)
class QuestionFacts:
    """Facts of a question that the tables need, from its template."""

    question: str
    scoring_type: str
    output: str  # one of OUTPUTS: where the answer is left
    format: str  # one of FORMATS
    group: str = ""  # questions of one task in other formats share it; "" where there is none


@dataclass(frozen=True, slots=True)
class AnswerRow:
    """One answer. ``instance`` names the sample, whose answers are not independent."""

    model: str
    question: str
    instance: Hashable
    strict: bool | None  # None: no verdict
    lenient: bool | None
    rounds: int | None = None  # inference requests; None: not known
    answered: bool = True  # False: no response, or the model's own failure; wrong all the same
    replicate: int = 0
    wave: int = 0
    arm: str = ""  # "" outside a study


class Subject(NamedTuple):
    """Wave, arm and model whose answers a row counts."""

    wave: int
    arm: str
    model: str


@dataclass(frozen=True, slots=True, eq=False)
class Answers:
    """The frozen table: answers, and the facts of each question. Raises AnalysisError where an
    answer is to no known question, or is there twice."""

    rows: tuple[AnswerRow, ...]
    facts: Mapping[str, QuestionFacts]

    def __post_init__(self) -> None:
        seen: set[tuple[Hashable, ...]] = set()
        for row in self.rows:
            if row.question not in self.facts:
                raise AnalysisError(
                    f"an answer is to the question {row.question!r}, of which nothing is known; "
                    f"known: {', '.join(self.facts)}"
                )
            key = (row.wave, row.model, row.question, row.instance, row.replicate)
            if key in seen:
                raise AnalysisError(
                    f"question {row.question!r}: two answers of model {row.model!r} to the same "
                    f"sample with the same replicate {row.replicate}"
                )
            seen.add(key)


@dataclass(frozen=True, slots=True)
class Tally:
    """Counts of right and wrong answers, wrong ones by failure."""

    subject: Subject
    name: str  # a question, a scoring type; "" for all
    strict: Rate
    lenient: Rate
    formatting: int  # wrong strictly, right leniently
    task: int  # wrong in both
    unanswered: int  # no response, or the model's own failure
    undetermined: int  # wrong strictly, no lenient verdict


@dataclass(frozen=True, slots=True)
class Rounds:
    """Inference rounds of a question; those not known are left out and counted."""

    subject: Subject
    question: str
    average: float
    interval: tuple[float, float] | None  # 95 %; None where the spread is not known
    most: int
    least: int
    mode: int  # the least of those that are as frequent
    answers: int
    missing: int


@dataclass(frozen=True, slots=True)
class FailureMode:
    """One task under several answer formats (the paper's Tables 7 and 8)."""

    subject: Subject
    group: str
    formats: tuple[tuple[str, Rate], ...]  # ``format_name``, in the order of FORMAT_NAMES
    file: Rate  # average of the file formats
    direct: Rate
    overall: Rate  # average of all formats
    gap: float | None  # file minus direct
    gap_interval: tuple[float, float] | None
    pattern: str

    @property
    def clear(self) -> bool | None:
        """True if the gap's interval leaves out zero; None if there is no gap or no interval."""
        if self.gap_interval is None:
            return None
        return self.gap_interval[0] > 0 or self.gap_interval[1] < 0


@dataclass(frozen=True, slots=True)
class Breakdown:
    """All the tables; each is sorted by subject, and in it by the order of the facts."""

    facts: tuple[QuestionFacts, ...]
    overall: tuple[Tally, ...]
    questions: tuple[Tally, ...]
    scoring_types: tuple[Tally, ...]
    rounds: tuple[Rounds, ...]
    failure_modes: tuple[FailureMode, ...]


FORMAT_NAMES: Mapping[tuple[str, str], str] = {
    ("file", "json"): "File + JSON",
    ("file", "string"): "File + String",
    ("direct", "json"): "JSON Only",
    ("direct", "string"): "String Only",
}


def format_name(facts: QuestionFacts) -> str:
    """The format's name in the paper's Table 7. Raises AnalysisError where there is none."""
    try:
        return FORMAT_NAMES[facts.output, facts.format]
    except KeyError:
        raise AnalysisError(
            f"question {facts.question!r}: no format is {facts.output!r} with {facts.format!r}"
        ) from None


def break_down(answers: Answers) -> Breakdown:
    """All tables of some answers, by wave, arm and model."""
    overall, questions, types, rounds, modes = [], [], [], [], []
    for subject, by_question in by_subject(answers):
        tallies = [tally(subject, name, rows) for name, rows in by_question.items()]
        questions += tallies
        overall.append(_add_up(subject, "", tallies))
        by_type = grouped(tallies, lambda part: answers.facts[part.name].scoring_type)
        types += [_add_up(subject, name, parts) for name, parts in sorted(by_type.items())]
        counted = (count_rounds(subject, name, rows) for name, rows in by_question.items())
        rounds += [row for row in counted if row is not None]
        modes += failure_modes(subject, {part.name: part.strict for part in tallies}, answers.facts)
    facts = tuple(answers.facts.values())
    tallies_of = tuple(overall), tuple(questions), tuple(types)
    return Breakdown(facts, *tallies_of, tuple(rounds), tuple(modes))


def by_subject(answers: Answers) -> list[tuple[Subject, dict[str, list[AnswerRow]]]]:
    """The answers of each subject by question, in the order of the facts."""
    subjects = grouped(answers.rows, lambda row: Subject(row.wave, row.arm, row.model))
    pairs = []
    for subject in sorted(subjects):
        questions = grouped(subjects[subject], lambda row: row.question)
        pairs.append(
            (subject, {name: questions[name] for name in answers.facts if name in questions})
        )
    return pairs


def tally(subject: Subject, name: str, rows: Sequence[AnswerRow]) -> Tally:
    """The tally of one question."""
    wrong = [row for row in rows if row.strict is False]
    answered = [row for row in wrong if row.answered]
    return Tally(
        subject,
        name,
        rate_of((row.instance, row.strict) for row in rows),
        rate_of((row.instance, row.lenient) for row in rows),
        formatting=sum(row.lenient is True for row in answered),
        task=sum(row.lenient is False for row in answered),
        unanswered=len(wrong) - len(answered),
        undetermined=sum(row.lenient is None for row in answered),
    )


def count_rounds(subject: Subject, question: str, rows: Sequence[AnswerRow]) -> Rounds | None:
    """The rounds of one question; None where not one is known."""
    known = [row for row in rows if row.rounds is not None]
    values = [row.rounds for row in known if row.rounds is not None]
    if not values:
        return None
    average = fmean(values)
    return Rounds(
        subject,
        question,
        average,
        _mean_interval(known, average),
        max(values),
        least=min(values),
        mode=min(multimode(values)),
        answers=len(values),
        missing=len(rows) - len(values),
    )


def failure_modes(
    subject: Subject, rates: Mapping[str, Rate], facts: Mapping[str, QuestionFacts]
) -> list[FailureMode]:
    """A row for each task that is asked for in several formats, from a subject's answers.

    A format of several questions is their mean, an output the mean of its formats, and all the
    mean of all formats, each weighing alike. A question that was not answered leaves its
    averages empty.
    """
    groups = grouped((fact for fact in facts.values() if fact.group), lambda fact: fact.group)
    return [
        _failure_mode(subject, name, members, rates)
        for name, members in groups.items()
        if any(fact.question in rates for fact in members)
    ]


def weakness_pattern(file: float | None, direct: float | None) -> str:
    """The pattern of two averages in 0…1, by the first rule that holds:

    1. both ≥ 0.90: ``None``
    2. both < 0.25: ``Both, or Task``: the failure is not shown to come from the format
    3. 0.20 or more apart: the output that is worse
    4. else ``Balanced``

    The paper states no rule; this one gives all rows of its Table 8.
    """
    if file is None or direct is None:
        return UNKNOWN
    low, high = sorted((file, direct))
    if low >= GOOD - 1e-9:
        return NO_WEAKNESS
    if high < POOR - 1e-9:
        return BOTH
    if high - low >= APART - 1e-9:
        return FILE if file < direct else DIRECT
    return BALANCED


def _failure_mode(
    subject: Subject, group: str, members: Sequence[QuestionFacts], rates: Mapping[str, Rate]
) -> FailureMode:
    by_format = grouped(members, format_name)
    formats = {
        name: mean_of([rates.get(fact.question, NOTHING) for fact in by_format[name]])
        for name in FORMAT_NAMES.values()
        if name in by_format
    }
    output = {name: output for (output, _), name in FORMAT_NAMES.items()}
    file, direct = (
        mean_of([rate for name, rate in formats.items() if output[name] == wanted])
        for wanted in OUTPUTS
    )
    gap, gap_interval = difference(file, direct) or (None, None)
    return FailureMode(
        subject,
        group,
        tuple(formats.items()),
        file,
        direct,
        overall=mean_of(list(formats.values())),
        gap=gap,
        gap_interval=gap_interval,
        pattern=weakness_pattern(file.mean, direct.mean),
    )


def _add_up(subject: Subject, name: str, parts: Sequence[Tally]) -> Tally:
    strict, lenient = pooled(p.strict for p in parts), pooled(p.lenient for p in parts)
    counts = ("formatting", "task", "unanswered", "undetermined")
    sums = (sum(getattr(part, count) for part in parts) for count in counts)
    return Tally(subject, name, strict, lenient, *sums)


def _mean_interval(rows: Sequence[AnswerRow], mean: float) -> tuple[float, float] | None:
    """None for one instance, or where there is no spread."""
    by_instance = grouped(rows, lambda row: row.instance).values()
    sums = [sum((row.rounds or 0) - mean for row in answers) for answers in by_instance]
    half = cluster_half_width(sums, len(rows))
    if half is None or math.fsum(deviation**2 for deviation in sums) < 1e-18:
        return None
    return max(0.0, mean - half), mean + half


def cluster_half_width(sums: Collection[float], weight: float) -> float | None:
    """Half the 95 % interval of a ratio with the cluster-robust variance of its linearisation, by
    t. ``sums`` are those of the deviations in each cluster; None for fewer than two clusters."""
    from scipy.special import stdtrit

    n, spread = len(sums), math.fsum(deviation**2 for deviation in sums)
    if n < 2:
        return None
    return float(stdtrit(n - 1, 0.975)) * math.sqrt(n / (n - 1) * spread) / weight


_Item = TypeVar("_Item")
_Key = TypeVar("_Key", bound=Hashable)


def grouped(items: Iterable[_Item], key: Callable[[_Item], _Key]) -> dict[_Key, list[_Item]]:
    """The items by their keys, in the order in which these come first."""
    groups: dict[_Key, list[_Item]] = {}
    for item in items:
        groups.setdefault(key(item), []).append(item)
    return groups
