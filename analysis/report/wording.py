"""Numbers and verdicts in words, for pages that people read."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from analysis.plan import (
    AGREES,
    CONTAMINATED,
    DISAGREES,
    INCONCLUSIVE,
    NO_INFLATION,
    NOT_RUN,
    OUTCOME_WORDS,
    UNINFORMATIVE,
    WITHHELD,
    ControlResult,
    Monitored,
    Verdict,
    bears_on,
)
from analysis.report.report import Report
from analysis.stats import counted, p_words, points, signed

_NUMBERS = (
    *("none", "one", "two", "three", "four", "five", "six"),
    *("seven", "eight", "nine", "ten", "eleven", "twelve"),
)


def summarise(verdict: Verdict) -> str:
    """One verdict in a sentence or two of plain words."""
    if verdict.estimate is None:
        return "Not testable: an arm of a stratum holds no scored instance."
    gap, (low, high) = verdict.estimate, verdict.interval
    direction = "higher" if gap >= 0 else "lower"
    text = f"Scores {points(abs(gap))} points {direction} on public than on private instances"
    if verdict.outcome:
        text += f", by the {OUTCOME_WORDS.get(verdict.outcome, verdict.outcome)}"
    text += f" (95 % interval {signed(low)} to {signed(high)})."
    if verdict.verdict == WITHHELD:
        return f"{text} No verdict is issued; {verdict.note}."
    if verdict.verdict == CONTAMINATED:
        more = " By chance alone so large a gap has probability "
        more += p_words(verdict.p_adjusted, verdict.p_floor)
        text += f"{more}, adjusted for the models of this look."
    elif verdict.verdict == NO_INFLATION:
        bound = f"An inflation above {points(verdict.deciding_bound)} points"
        bound = bound if verdict.deciding_bound > 0 else "Any inflation"
        text += f" {bound} is ruled out in every outcome, adjusted for the models of this look."
    else:
        upper = points(max(verdict.deciding_bound, 0.0))
        text += f" The data are compatible with no inflation and with up to {upper} points."
    return text + (f" Note: {verdict.note}." if verdict.note else "")


def finding(verdict: Verdict, controls: Sequence[ControlResult]) -> str:
    """A verdict in words, with the results of the controls that it rests on."""
    return f"{summarise(verdict)} {control_words(_controls_of(verdict, controls))}".rstrip()


def _controls_of(verdict: Verdict, controls: Sequence[ControlResult]) -> list[ControlResult]:
    """The controls that were run and that a verdict rests on."""
    return [
        control
        for control in controls
        if control.state != NOT_RUN and bears_on(control, verdict.wave, verdict.model)
    ]


def conclusion(report: Report) -> str:
    """The number of tests with each verdict, and the models that are contaminated."""
    verdicts, kind = report.verdicts, "registered test" if report.registered else "test"
    if not verdicts and report.before_publication:
        return (
            f"No {kind} has a result yet: every wave was begun before the public arm was released."
        )
    if not verdicts:
        return f"No {kind} has a result yet."
    contaminated = [verdict.model for verdict in verdicts if verdict.verdict == CONTAMINATED]
    names = f": {_and(list(dict.fromkeys(contaminated)))}" if contaminated else ""
    several = f"{kind}s" if len(verdicts) != 1 else kind
    share = f"{_number(len(contaminated)).capitalize()} of {_number(len(verdicts))} {several}"
    return " ".join([f"{share} found contamination{names}.", *_other_verdicts(verdicts)])


def _other_verdicts(verdicts: Sequence[Verdict]) -> Iterator[str]:
    """A sentence for each verdict besides contamination that some test has."""
    for word, one, several in (
        (NO_INFLATION, "rules", "rule"),
        (INCONCLUSIVE, "is inconclusive", "are inconclusive"),
        (WITHHELD, "is withheld", "are withheld"),
    ):
        count = sum(verdict.verdict == word for verdict in verdicts)
        if count:
            tail = " out a material inflation" if word == NO_INFLATION else ""
            yield f"{_number(count).capitalize()} {one if count == 1 else several}{tail}."


def _number(count: int) -> str:
    """A number as prose has it: a word up to twelve, "none" for 0."""
    return _NUMBERS[count] if count < len(_NUMBERS) else str(count)


def _and(names: Sequence[str]) -> str:
    """Names joined as in a sentence."""
    return " and ".join(filter(None, [", ".join(names[:-1]), names[-1]]))


def monitored_words(monitored: Monitored | None) -> str:
    """The state of the study-level monitoring, or why there is none; "" if no plan asks for it."""
    if monitored is None:
        return ""
    if not monitored.looks:
        return monitored.note
    if monitored.window is None:
        result = "Over the looks so far, the models taken together show no detectable gap."
    else:
        first, last = monitored.window
        window = f"wave {last}" if first == last else f"waves {first} to {last}"
        result = f"The study as a whole shows a gap: its models of {window} together."
    return f"{result} {monitored.note}".rstrip()


def all_control_words(controls: Sequence[ControlResult]) -> str:
    """The results of all controls in a sentence; "" if none was run."""
    states = [control.state for control in controls if control.state != NOT_RUN]
    if not states:
        return ""
    counts = [
        f"{states.count(state)} {verb if states.count(state) == 1 else plural}"
        for state, verb, plural in (
            (AGREES, "agrees", "agree"),
            (UNINFORMATIVE, "is uninformative", "are uninformative"),
            (DISAGREES, "disagrees", "disagree"),
        )
        if state in states
    ]
    return f"Of {counted(len(states), 'control')}, {_and(counts)}."


def control_count(verdict: Verdict, controls: Sequence[ControlResult]) -> str:
    """The number of controls that agree, of those that a verdict rests on."""
    ran = _controls_of(verdict, controls)
    agreeing = sum(control.state == AGREES for control in ran)
    return f"{agreeing} of {len(ran)}" if ran else "none"


def cite_words(report: Report) -> str:
    """Return the sentence by which the report is cited."""
    if report.registered is None:
        return (
            f"Cite as: {report.study}, a table analysed by dosimeter with the plan "
            f"{report.plan.name} ({report.registration}), {report.issued[:10]}."
        )
    head = f", ledger head {report.ledger_head}" if report.ledger_head else ""
    return (
        f"Cite as: {report.study}, contamination report through wave {report.through_wave}, "
        f"{report.issued[:10]}. dosimeter, registration {report.registration}{head}."
    )


def command_words(report: Report) -> str:
    """The command lines that check it, a line each."""
    if report.registered is None:
        return "dosimeter analyze TABLE --plan PLAN --json"
    head = f" --head {report.ledger_head}" if report.ledger_head else ""
    return (
        f"dosimeter verify --study DIR{head}\n"
        f"dosimeter report --study DIR --through {report.through_wave} --json\n"
        "sha256sum report.json"
    )


def control_words(ran: Sequence[ControlResult]) -> str:
    """The results of the controls that a verdict rests on, in a sentence; "" without any."""
    if not ran:
        return ""
    disagreeing = [control for control in ran if control.state == DISAGREES]
    names = ", ".join(dict.fromkeys(f"{c.kind} ({c.what})" for c in (disagreeing or ran)))
    if disagreeing:
        several = "disagrees" if len(disagreeing) == 1 else "disagree"
        return f"Of {len(ran)} controls that it rests on, {len(disagreeing)} {several}: {names}."
    what = {1: "The control", 2: "Both controls"}.get(len(ran), f"All {len(ran)} controls")
    return f"{what} that it rests on {'agrees' if len(ran) == 1 else 'agree'}: {names}."


def score_words(mean: float, interval: tuple[float, float] | None) -> str:
    """A mean in points with its interval."""
    if interval is None:
        return points(mean)
    return f"{points(mean)} ({points(interval[0])}–{points(interval[1])})"


def range_words(interval: tuple[float, float] | None) -> str:
    """An interval of gaps."""
    return "–" if interval is None else f"{signed(interval[0])} to {signed(interval[1])}"


def time_words_of(stamp: str) -> str:
    """A time in UTC, to the minute, as people read it."""
    day, _, clock = stamp.partition("T")
    return f"{day}, {clock[:5]} UTC" if clock else stamp


def short(text: str) -> str:
    """A digest or commit, shortened for reading; the JSON has it whole."""
    head, _, digits = text.rpartition(":")
    return f"{head}:{digits[:12]}…" if head and len(digits) > 20 else text
