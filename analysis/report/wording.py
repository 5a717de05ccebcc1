"""Numbers and verdicts in words, for pages that people read."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

from analysis.plan.controls import ControlResult
from analysis.plan.monitoring import Monitored
from analysis.plan.negative_controls import AGREES, DISAGREES, NOT_RUN, UNINFORMATIVE
from analysis.plan.presets import OUTCOME_WORDS
from analysis.plan.standard import bears_on
from analysis.plan.verdict import CONTAMINATED, INCONCLUSIVE, NO_INFLATION, WITHHELD, Verdict
from analysis.report.report import Report
from analysis.stats.intervals import counted, p_words, points, signed

_NAMED = 6  # models that the headline names
_USUAL = 0.05  # the most that the alpha of a test is in any field


def summarise(verdict: Verdict) -> str:
    """One verdict in a sentence or two of plain words."""
    if verdict.estimate is None:
        return f"{verdict.note[:1].upper()}{verdict.note[1:]}."
    gap, (low, high) = verdict.estimate, verdict.interval
    direction = "higher" if gap >= 0 else "lower"
    text = f"Scores {points(abs(gap))} points {direction} on public than on private instances"
    if verdict.outcome:
        text += f", by the {OUTCOME_WORDS.get(verdict.outcome, verdict.outcome)}"
    text += f" (95 % interval {signed(low)} to {signed(high)})."
    if verdict.verdict == WITHHELD:
        return f"{text} No verdict is issued: {verdict.note}."
    if verdict.verdict == CONTAMINATED:
        more = " By chance alone so large a gap has probability "
        more += p_words(verdict.p_adjusted, verdict.p_floor)
        text += f"{more}, adjusted for the models of this look."
    elif verdict.verdict == NO_INFLATION:
        bound = _above(verdict.deciding_bound)
        text += f" There is {bound} in any outcome, adjusted for the models of this look."
    elif verdict.verdict != INCONCLUSIVE:
        text += f" The result is {verdict.verdict}."
    else:
        upper = points(max(verdict.deciding_bound, 0.0))
        text += f" The data are compatible with no inflation and with up to {upper} points."
    return text + (f" Note: {verdict.note}." if verdict.note else "")


def with_margin(text: str, margin: float) -> str:
    """A text with the size of the margin in its verdicts."""
    return text.replace("instances above the margin", f"instances above {100 * margin:g} points")


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


def summary_words(report: Report) -> dict[str, str]:
    """The sentences that the page and the Markdown share, by the names of their templates."""
    return {
        "headline": headline(report),
        "monitored": monitored_words(report.monitoring),
        "cite": cite_words(report),
        "commands": command_words(report),
    }


def headline(report: Report) -> str:
    """What was found, in sentences that name models, sizes and certainty."""
    verdicts, kind = report.verdicts, "registered test" if report.registered else "test"
    if not verdicts and report.before_publication:
        return (
            f"No {kind} has a result yet: every wave was begun before the public arm was released."
        )
    if not verdicts:
        return f"No {kind} has a result yet."
    words = dict.fromkeys([*_WRITERS, *(v.verdict for v in verdicts)])
    groups = [(word, [v for v in verdicts if v.verdict == word]) for word in words]
    writers = [(_WRITERS.get(word, _compared_words), own) for word, own in groups if own]
    return " ".join(write(report, own) for write, own in writers)


def name_models(own: Sequence[Verdict], every: Sequence[Verdict]) -> tuple[str, bool]:
    """The models of some verdicts, with their waves where a model has several verdicts, and
    whether they are several."""
    waves: dict[str, list[int]] = {}
    for verdict in own:
        waves.setdefault(verdict.model, []).append(verdict.wave)
    total = Counter(verdict.model for verdict in every)
    names = [
        f"{model} (wave{'s' if len(at) > 1 else ''} {_and([*map(str, at)])})"
        if total[model] > 1
        else model
        for model, at in waves.items()
    ]
    if len(names) > _NAMED:
        names[_NAMED - 1 :] = [f"{len(names) - _NAMED + 1} others"]
    return _and(names), len(waves) > 1


def _contaminated_words(report: Report, found: Sequence[Verdict]) -> str:
    gaps = [points(report.score_gap(verdict)) for verdict in found]
    low, high = min(gaps, key=float), max(gaps, key=float)
    largest = max(found, key=lambda verdict: verdict.p_adjusted)
    p = p_words(largest.p_adjusted, largest.p_floor)
    count, total = (len({v.model for v in part}) for part in (found, report.verdicts))
    outcome, level = report.plan.outcomes[0], report.plan.alpha
    loose = f" At the plan's level of {level:g} chance calls many." if level > _USUAL else ""
    return (
        f"{count} of {counted(total, 'model')} {'score' if count > 1 else 'scores'} higher on what "
        f"was published: {name_models(found, report.verdicts)[0]}, by "
        f"{low if low == high else f'{low} to {high}'} points of the "
        f"{OUTCOME_WORDS.get(outcome, outcome)} (decided by "
        f"{_and([*dict.fromkeys(v.outcome for v in found)])}; adjusted p "
        f"{p if len(found) == 1 or p[0] in '≤<' else f'≤ {p}'}).{loose}"
    )


def _cleared_words(report: Report, found: Sequence[Verdict]) -> str:
    names, several = name_models(found, report.verdicts)
    bound = max(verdict.deciding_bound for verdict in found)
    return f"{names} {'show' if several else 'shows'} {_above(bound)}."


def _above(bound: float) -> str:
    above = f" above {points(bound)} points" if bound > 0 else ""
    return f"no inflation of the published instances{above}"


def _compared_words(report: Report, found: Sequence[Verdict]) -> str:
    return f"{name_models(found, report.verdicts)[0]}: {found[0].verdict}."


def _undecided_words(report: Report, found: Sequence[Verdict]) -> str:
    names, several = name_models(found, report.verdicts)
    text = f"{names} {'are' if several else 'is'} undecided"
    tested = [verdict for verdict in found if verdict.estimate is not None]
    bounds = [points(v.deciding_bound) for v in tested if v.deciding_bound > 0]
    if not bounds:
        return f"{text}."
    low, high = min(bounds, key=float), max(bounds, key=float)
    span = low if low == high else f"{low} to {high}"
    return f"{text}: inflations of up to {span} points remain possible."


def _withheld_words(report: Report, found: Sequence[Verdict]) -> str:
    reasons = "; ".join(dict.fromkeys(verdict.note for verdict in found))
    return f"No verdict is issued on {name_models(found, report.verdicts)[0]}: {reasons}."


_WRITERS = {
    CONTAMINATED: _contaminated_words,
    NO_INFLATION: _cleared_words,
    INCONCLUSIVE: _undecided_words,
    WITHHELD: _withheld_words,
}


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
        window = window_words(*monitored.window)
        result = f"The study as a whole shows a gap: its models of {window} together."
    return f"{result} {monitored.note}".rstrip()


def window_words(first: int, last: int) -> str:
    """The waves of a window."""
    return f"wave {last}" if first == last else f"waves {first} to {last}"


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
    if report.checkpoint is not None:
        head += " --checkpoint checkpoint.txt"
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


def gap_words(gap: float | None) -> str:
    """A gap in points, a dash without one."""
    return "–" if gap is None else signed(gap)


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
