"""Metrics of a sweep for Prometheus: names of models, error classes and counts, nothing else."""

from __future__ import annotations

import json
import math
import os
import time
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from itertools import groupby
from pathlib import Path
from typing import Any

from harness.errors import HarnessError
from harness.logs import short_run
from harness.sweep.governor import ModelProgress, WaitReason
from harness.sweep.leases import Progress
from registry.files import read_beside, write_whole

METRICS = "DOSIMETER_METRICS"  # variable: the file that a sweep writes its metrics to
_SECONDS = 2.0  # between two records
_DESCRIPTIONS: dict[str, str] = read_beside(__file__, "metrics.yaml")


@dataclass(frozen=True, slots=True)
class MetricSample:
    """One value of a metric with its tags. A ``total`` only grows while a sweep runs."""

    name: str
    value: float
    tags: tuple[tuple[str, str], ...]
    total: bool = False


def sweep_metrics(progress: Progress) -> Iterator[MetricSample]:
    """Yield the samples of a sweep's progress."""
    for model in progress.models:
        yield from _model_metrics(model)
    for account in progress.accounts:
        tags = (("limit", account.name),)
        yield MetricSample("dosimeter_budget_limit_usd", float(account.limit), tags)
        yield MetricSample("dosimeter_budget_spent_usd", float(account.spent), tags)


def _model_metrics(model: ModelProgress) -> Iterator[MetricSample]:
    named, used = ("model", model.model), model.used
    for state in ("finished", "running", "waiting", "exhausted"):
        yield MetricSample("dosimeter_episodes", getattr(model, state), (named, ("state", state)))
    for reason in filter(None, WaitReason):
        tags = (named, ("reason", str(reason)))
        yield MetricSample("dosimeter_waiting", float(reason is model.reason), tags)
    for failed in model.failures:
        tags = (named, ("class", failed.error_class))
        yield MetricSample("dosimeter_failed_attempts", failed.attempts, tags, total=True)
    totals = {"replies": used.replies, "replies_of_unknown_cost": used.unpriced}
    if used.uncounted < used.replies:  # else nothing is known, which is not 0
        totals |= {"input_tokens": used.input_tokens, "output_tokens": used.output_tokens}
    for name, count in totals.items():
        yield MetricSample(f"dosimeter_{name}", count, (named,), total=True)
    if used.unpriced < used.replies:
        yield MetricSample("dosimeter_usd", float(used.usd), (named,), total=True)


def metrics_text(run: str, samples: Iterable[MetricSample]) -> str:
    """Return samples in Prometheus' text format, under the names that Ray exports them by."""
    lines = []
    for name, same in groupby(sorted(samples, key=lambda each: each.name), lambda each: each.name):
        rows = [*same]
        kind, full = ("counter", f"ray_{name}_total") if rows[0].total else ("gauge", f"ray_{name}")
        lines += [f"# HELP {full} {_DESCRIPTIONS[name]}", f"# TYPE {full} {kind}"]
        for sample in rows:
            tags = (("run", short_run(run)), *sample.tags)
            named = ",".join(f"{key}={json.dumps(tag, ensure_ascii=False)}" for key, tag in tags)
            lines.append(f"{full}{{{named}}} {sample.value:.17g}")
    return "".join(f"{line}\n" for line in lines)


@dataclass(slots=True)
class MetricFile:
    """Writes the metrics of a run to the file that a variable names, if it does: node exporter's
    textfile collector and the like read it, also when the sweep has ended."""

    run: str  # digest of the run's manifest
    _written: float = -math.inf  # time of the last one

    def write(self, progress: Progress, ended: bool = False) -> None:
        """Replace the file, unless the last one is not old yet and the sweep has not ``ended``.
        Raises HarnessError if the first one cannot be written; later ones may fail."""
        path, now = os.environ.get(METRICS), time.monotonic()
        if not path or not (ended or now - self._written >= _SECONDS):
            return
        try:
            write_whole(Path(path), metrics_text(self.run, sweep_metrics(progress)))
        except OSError as error:
            if math.isinf(self._written):
                raise HarnessError(
                    f"{METRICS}: {path} cannot be written ({error.strerror}): name a file in a "
                    "folder that is there and yours"
                ) from None
        self._written = now


@dataclass(slots=True)
class MetricRecorder:
    """Records the metrics of one run with Ray's classes ``counter`` and ``gauge``."""

    run: str  # digest of the run's manifest
    counter: Callable[[str, str, tuple[str, ...]], Any]
    gauge: Callable[[str, str, tuple[str, ...]], Any]
    _made: dict[str, Any] = field(default_factory=dict)
    _totals: dict[tuple[str, tuple[tuple[str, str], ...]], float] = field(default_factory=dict)
    _recorded: float = -math.inf  # time of the last record

    def record(self, progress: Callable[[], Progress], now: float) -> None:
        """Record the metrics, unless the last ones are not old yet."""
        if now - self._recorded >= _SECONDS:
            self._recorded = now
            for sample in sweep_metrics(progress()):
                self._record(sample)

    def _record(self, sample: MetricSample) -> None:
        tags = {"run": short_run(self.run), **dict(sample.tags)}
        if sample.name not in self._made:
            make = self.counter if sample.total else self.gauge
            self._made[sample.name] = make(sample.name, _DESCRIPTIONS[sample.name], tuple(tags))
        metric, key = self._made[sample.name], (sample.name, sample.tags)
        if not sample.total:
            metric.set(sample.value, tags)
        elif (more := sample.value - self._totals.get(key, 0.0)) > 0:
            metric.inc(more, tags)
            self._totals[key] = sample.value
