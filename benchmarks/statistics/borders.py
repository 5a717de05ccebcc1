"""Data whose words would be wrong without a guard, from a process of its own: items that are passed
by a two-parameter logistic curve, with difficulties of heavy tails (Student's t, three degrees of
freedom) and log-normal slopes. A known instance is always passed.

Each function returns how often the guard of the plan, and the same rule without it, goes wrong;
``clean`` and ``found`` count what a guard must not cost.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping
from functools import partial

import numpy as np
import pandas as pd
from scipy.special import expit, ndtri

from analysis.data.import_file import owe_absent
from analysis.data.seed_means import ModelAtWave, SeedMeans
from analysis.data.table import SCHEMA, table_of_frame
from analysis.plan.comparison import p_beyond
from analysis.plan.history import WaveHistory
from analysis.plan.look import analyse
from analysis.plan.presets import standard_plan
from analysis.plan.primary import look_data
from analysis.plan.standard import run_standard
from analysis.plan.verdict import BEYOND, CONTAMINATED, NO_INFLATION
from analysis.stats import sequential
from analysis.stats.adjustment import calibrate, control_means
from analysis.stats.clearing import clear_models, find_doubts
from analysis.stats.intervals import estimate_gaps
from analysis.stats.permutation import max_t, p_values, permute_gaps
from benchmarks.statistics.mixed_strata import Bools, Floats, Ints
from registry.result_row import GRADER

Hits = Counter[str]
Stream = np.random.Generator
ABILITIES = (-0.6, -0.1, 0.3, 0.8)  # of control models, two runs each
MARGIN, ALPHA, ROWS, LOOKS = 0.05, 0.025, 499, 4


def draw_items(n: int, studies: int, stream: Stream) -> tuple[Floats, Floats]:
    """Difficulties and slopes (n, studies)."""
    return stream.standard_t(3, (n, studies)), np.exp(0.4 * stream.standard_normal((n, studies)))


def answer(
    items: tuple[Floats, Floats], ability: float, known: Floats, runs: int, stream: Stream
) -> Floats:
    """Mean scores (n, studies) of a model that knows an instance with the probability ``known``."""
    passed = stream.binomial(runs, expit(items[1] * (ability - items[0]))) / runs
    return np.where(stream.random(passed.shape) < known, 1.0, passed)


def arms(strata: int, per_arm: int) -> tuple[Ints, Bools]:
    """Stratum and label of each instance."""
    n = 2 * per_arm * strata
    return np.arange(n) // (2 * per_arm), np.arange(n) % (2 * per_arm) < per_arm


def count_clearing(
    leaks: tuple[float, ...],
    stratum_leak: float,
    strata: int,
    per_arm: int,
    of: int,
    stream: Stream,
) -> Hits:
    """Models that are cleared; ``leaks`` are the shares of public instances that each control model
    knows, then the tested one; ``stratum_leak`` is what the latter knows of the first stratum."""
    hits, (stratum, public) = Hits(), arms(strata, per_arm)
    for _ in range(0, of, 20):
        items = draw_items(len(stratum), 20, stream)
        known = np.where(public, 1.0, 0.0)[:, None]
        *old, new = (
            answer(items, ability, known * leak, 1 + (place < len(ABILITIES)), stream)
            for place, (ability, leak) in enumerate(zip((*ABILITIES, 0.2), leaks, strict=True))
        )
        if stratum_leak:
            known = (public & (stratum == 0))[:, None]
            new[(stream.random(new.shape) < stratum_leak) & known] = 1.0
        controls = np.stack(old, axis=2)[..., None]
        x = control_means(controls, stratum)
        scores = calibrate(new[..., None], x, stratum).residuals[:, :, None]
        gaps = estimate_gaps(scores, stratum, public)
        doubts = find_doubts(scores, stratum, public, controls)
        hits["without"] += int(clear_models(gaps, MARGIN).cleared.sum())
        hits["with"] += int(clear_models(gaps, MARGIN, doubts).cleared.sum())
    return hits


def count_unequal(
    public: tuple[int, int], private: tuple[int, int], of: int, stream: Stream
) -> Hits:
    """False alarms of arms with such numbers of instances and of runs."""
    hits = Hits()
    for _ in range(of):
        label, (scores,) = _unequal_arms(public, private, 1, stream)
        hits["with"] += int(_p(scores, label, stream) <= ALPHA)
        hits["without"] += int(_p(scores, label, stream, studentise=False) <= ALPHA)
    return hits


def count_monitored(
    public: tuple[int, int], private: tuple[int, int], of: int, stream: Stream
) -> Hits:
    """The same of P4, over looks of one model each."""
    hits, quota = Hits(), LOOKS * np.arange(1, LOOKS + 1)
    draws = {"permutations": round(LOOKS * LOOKS / ALPHA) - 1}
    for _ in range(of):
        label, scores = _unequal_arms(public, private, LOOKS, stream)
        draws["seed"], names = int(stream.integers(1 << 62)), np.arange(len(label))
        looks = [sequential.LookScores(names, 0 * names, 0 * names, label, own) for own in scores]
        found = sequential.monitor(looks, alpha=ALPHA, looks_planned=LOOKS, **draws)
        hits["with"] += int(found.rejected_at is not None)
        gaps = sequential.permute_looks(looks, **draws)
        bare = sequential.remove_rows(
            sequential.scan_windows(gaps)[0], quota, sequential.tie_keys(len(gaps), draws["seed"])
        )
        hits["without"] += int(bare[0] > 0)
    return hits


def _unequal_arms(
    public: tuple[int, int], private: tuple[int, int], looks: int, stream: Stream
) -> tuple[Bools, Floats]:
    """The label of each instance, and a model's mean scores (looks, n) on it."""
    label, runs = np.repeat(((True, public[1]), (False, private[1])), (public[0], private[0]), 0).T
    difficulty, slope = draw_items(len(label), 1, stream)
    passed = expit(slope * -difficulty)[:, 0]
    return label > 0, stream.binomial(runs, passed, (looks, len(label))) / runs


def _p(scores: Floats, label: Bools, stream: Stream, *, studentise: bool = True) -> float:
    one = np.zeros(len(label), dtype=np.int64)
    draws = {"permutations": ROWS, "enumerate_up_to": 0, "seed": int(stream.integers(1 << 62))}
    gaps = permute_gaps(scores[:, None, None], one, label, studentise=studentise, **draws)
    return float(p_values(max_t(gaps))[0])


def count_units(questions: int, spread: float, of: int, stream: Stream) -> Hits:
    """False alarms where documents were allotted, 30 an arm, each of ``questions`` questions; their
    difficulty differs by the SD ``spread``."""
    hits, label = Hits(), np.arange(60) % 2 > 0
    for _ in range(of):
        own, slope = draw_items(60 * questions, 1, stream)
        shared = (spread * stream.standard_t(3, (60, 1))).repeat(questions, axis=0)
        scores = answer((own + shared, slope), 0.0, np.zeros_like(own), 1, stream)[:, 0]
        hits["without"] += int(_p(scores, label.repeat(questions), stream) <= ALPHA)
        hits["with"] += int(_p(scores.reshape(60, -1).mean(axis=1), label, stream) <= ALPHA)
    return hits


def count_placebos(controls: int, freedom: float, of: int, stream: Stream) -> Hits:
    """Alarms on a model that is as unexposed as its control models. Public items are easier by 0.7,
    and by a share of each model's own: Student's t with ``freedom`` degrees."""
    hits, (stratum, public) = Hits(), arms(4, 32)
    shape, names = (len(stratum), controls + 1), (f"m{m}" for m in range(controls + 1))
    columns, none = tuple(ModelAtWave(0, name) for name in names), np.zeros(shape, dtype=np.int64)
    for _ in range(of):
        difficulty, slope = draw_items(len(stratum), 1, stream)
        easier = 0.7 + 0.4 * stream.standard_t(freedom, controls + 1)
        ability = stream.uniform(-1.0, 1.0, controls + 1)
        chance = expit(slope * (ability - difficulty + easier * public[:, None]))
        values: Floats = (stream.random(shape) < chance)[..., None].astype(np.float64)
        means = SeedMeans(
            strata=tuple("abcd"),
            outcomes=("score",),
            columns=columns,
            stratum=stratum,
            public=public,
            tranche=np.zeros_like(stratum),
            unit=stratum.astype(object),
            values=values,
            scored=none + 1,
            missing=none,
        )
        data = look_data(means, [controls], range(controls))
        gaps = estimate_gaps(data.adjusted.residuals, stratum, public)
        hits["without"] += int(gaps.gap[0, 0] / gaps.se[0, 0] > ndtri(1 - ALPHA))
        hits["with"] += int(p_beyond(data, values[:, :controls])[0] <= ALPHA)
    return hits


def count_tables(case: str, of: int, stream: Stream) -> Hits:
    """Wrong words on the model "new" of tables that analyses are asked of."""
    return sum((_CASES[case](stream) for _ in range(of)), Hits())


def make_rows(stratum: Ints, public: Bools, scores: Mapping[str, Floats]) -> pd.DataFrame:
    """A row for each instance and model."""
    n, blank = len(stratum), {"string": "", "int64": 0, "float64": 0.0}
    arm = np.where(public, "public", "private")
    rows = pd.DataFrame({name: blank.get(kind, np.nan) for name, kind in SCHEMA.items()}, range(n))
    rows = rows.assign(instance=[f"i{i}" for i in range(n)], arm=arm, stratum=stratum.astype(str))
    rows = rows.assign(status="scored", grader=GRADER, unit="", date=None)
    return pd.concat(rows.assign(model=model, score=own) for model, own in scores.items())


def verdict_of(rows: pd.DataFrame, *, guarded: bool = True, allocation: str = "random") -> str:
    """The word on "new"; the other models are control models."""
    table, history = table_of_frame(rows, "rows"), WaveHistory(allocation=allocation)
    rule = {"sensitivity": (), "outcomes": ("score",), "looks": 1, "permutations": 199}
    old, strata = sorted({*table["model"]} - {"new"}), sorted(set(table["stratum"]))
    plan = standard_plan(strata, 64, pre_exposure=old, **rule)
    run = analyse if guarded else run_standard
    return str(run(plan, table, "sha256:0", history=history).verdicts[0].verdict)


def _study(
    leak: float, stream: Stream, models: int = 4, easier: float = 0.0
) -> tuple[Ints, Bools, dict[str, Floats]]:
    """Four strata of 32 instances an arm; public ones easier by so much, ``leak`` of them known."""
    stratum, public = arms(4, 32)
    difficulty, slope = draw_items(len(stratum), 1, stream)
    items = difficulty - easier * public[:, None], slope
    none, known = np.zeros_like(difficulty), np.where(public, leak, 0.0)[:, None]
    abilities = np.linspace(-1.0, 1.0, models)
    scores = {f"old {m}": answer(items, a, none, 2, stream)[:, 0] for m, a in enumerate(abilities)}
    return stratum, public, scores | {"new": answer(items, 0.1, known, 1, stream)[:, 0]}


def _absent(stream: Stream, *, leak: float, wrong: str) -> Hits:
    """A tenth of the rows is absent by score, to make an alarm or to hide a leak."""
    stratum, public, scores = _study(leak, stream)
    rows = make_rows(stratum, public, scores)
    new = rows["model"] == "new"
    good = (rows["score"] > 0.5) == (rows["arm"] == "public")  # speaks for a leak
    drop = new & (good if leak else ~good)
    gone = stream.permutation(np.flatnonzero(drop))[: int(0.1 * new.sum())]
    left = rows[~np.isin(np.arange(len(rows)), gone)]
    words = {"without": verdict_of(left), "with": verdict_of(owe_absent(left))}
    return Hits({name: int(word == wrong) for name, word in words.items()})


def _tiny(stream: Stream) -> Hits:
    """A leak of a half of the public instances that a stratum of 1 and 3 instances would hide."""
    stratum, public, scores = _study(0.5, stream)
    kept = (stratum > 0) | np.isin(np.arange(len(public)), (0, 32, 33, 34))
    rows = make_rows(stratum[kept], public[kept], {m: s[kept] for m, s in scores.items()})
    words = {"without": verdict_of(rows, guarded=False), "with": verdict_of(rows)}
    return Hits({name: int(word != CONTAMINATED) for name, word in words.items()})


def _silent(stream: Stream) -> Hits:
    """A model that answers nothing."""
    stratum, public, scores = _study(0.0, stream)
    word = verdict_of(make_rows(stratum, public, scores | {"new": np.zeros(len(public))}))
    return Hits({"with": int(word == NO_INFLATION)})


def _by_time(stream: Stream, *, leak: float = 0.0) -> Hits:
    """Public instances are older and easier; twelve control models."""
    word = verdict_of(make_rows(*_study(leak, stream, models=12, easier=0.7)), allocation="time")
    raw = verdict_of(make_rows(*_study(leak, stream, models=0, easier=0.7)))
    return Hits({"with": int(word == BEYOND), "without": int(raw == CONTAMINATED)})


_CASES: dict[str, Callable[[Stream], Hits]] = {
    "absent, clean": partial(_absent, leak=0.0, wrong=CONTAMINATED),
    "absent, leaking": partial(_absent, leak=0.25, wrong=NO_INFLATION),
    "tiny stratum": _tiny,
    "no answers": _silent,
    "by time": _by_time,
    "by time, leaking": partial(_by_time, leak=0.5),
}
