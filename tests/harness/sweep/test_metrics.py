"""Metrics of a sweep: names, classes and counts, on the endpoint of a real Ray node."""

from __future__ import annotations

import re
from dataclasses import replace
from decimal import Decimal
from itertools import count
from pathlib import Path

import pytest
import yaml

from harness.errors import HarnessError
from harness.spending.budget import Account
from harness.sweep.governor import Consumption, FailedAttempts, ModelProgress, WaitReason
from harness.sweep.leases import Progress
from harness.sweep.metrics import METRICS, MetricFile, MetricRecorder

DEPLOY = Path(__file__).parents[3] / "deploy"
RUN = "sha256:" + "ab" * 32


class Metric:
    """Keeps what is recorded, as Ray's metrics do."""

    def __init__(self, name: str, description: str, tags: tuple[str, ...]) -> None:
        assert description
        self.name, self.keys = name, tags
        self.values: dict[tuple[str, ...], float] = {}

    def set(self, value: float, tags: dict[str, str]) -> None:
        self.values[self._tags(tags)] = value

    def inc(self, value: float, tags: dict[str, str]) -> None:
        assert value > 0, "Ray refuses others"
        self.values[self._tags(tags)] = self.values.get(self._tags(tags), 0.0) + value

    def _tags(self, tags: dict[str, str]) -> tuple[str, ...]:
        assert set(tags) == set(self.keys)
        assert tags["run"] == "ab" * 6
        return tuple(tags[key] for key in self.keys if key != "run")


@pytest.fixture
def made() -> dict[str, Metric]:
    return {}


@pytest.fixture
def recorder(made: dict[str, Metric]) -> MetricRecorder:
    def make(name: str, description: str, tags: tuple[str, ...]) -> Metric:
        return made.setdefault(name, Metric(name, description, tags))

    return MetricRecorder(RUN, counter=make, gauge=make)


MODEL = ModelProgress(
    *("nova-1", 2, 5, WaitReason.OUTAGE, "provider:overload", 9.0),
    owed=10,
    finished=3,
    failures=(FailedAttempts("provider:overload", 4, 3),),
    used=Consumption(20, 800, 70, uncounted=1, usd=Decimal("0.5")),
)
SILENT = ModelProgress(
    "old-0", 1, 0, owed=1, used=Consumption(3, uncounted=3, unpriced=3)
)  # nobody reports tokens
ACCOUNT = Account("run", Decimal(5), Decimal("1.5"), Decimal(0), 0)


def of(*models: ModelProgress) -> Progress:
    return Progress(11, 3, 3, 5, 0, (), accounts=(ACCOUNT,), models=models)


def test_each_metric_has_the_values_of_the_progress(
    made: dict[str, Metric], recorder: MetricRecorder
) -> None:
    recorder.record(lambda: of(MODEL, SILENT), 0.0)
    states = made["dosimeter_episodes"].values
    assert states["nova-1", "finished"] == 3
    assert states["nova-1", "running"] == 2
    assert states["nova-1", "waiting"] == 5
    assert states["old-0", "exhausted"] == 0
    waiting = made["dosimeter_waiting"].values
    assert [key for key, value in waiting.items() if value] == [("nova-1", "outage")]
    assert made["dosimeter_failed_attempts"].values == {("nova-1", "provider:overload"): 4}
    assert made["dosimeter_replies"].values == {("nova-1",): 20, ("old-0",): 3}
    assert made["dosimeter_usd"].values == {("nova-1",): 0.5}, "unknown is not 0"
    assert made["dosimeter_input_tokens"].values == {("nova-1",): 800}
    assert made["dosimeter_replies_of_unknown_cost"].values == {("old-0",): 3}
    assert made["dosimeter_budget_spent_usd"].values == {("run",): 1.5}


@pytest.mark.parametrize("name", ["alerts.yaml", "grafana.json"])
def test_alerts_and_dashboard_name_what_is_exported(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(METRICS, str(tmp_path / "metrics.prom"))
    MetricFile(RUN).write(of(MODEL, SILENT))
    (text,) = (path.read_text() for path in tmp_path.iterdir())
    assert f'ray_dosimeter_usd_total{{run="{"ab" * 6}",model="nova-1"}} 0.5\n' in text
    exported = {line.split()[2] for line in text.splitlines() if line.startswith("# TYPE")}
    loaded = yaml.safe_load((DEPLOY / name).read_text())  # JSON too
    if name == "alerts.yaml":
        (group,) = loaded["groups"]
        assert all({"alert", "expr", "labels", "annotations"} <= {*r} for r in group["rules"])
        queries = [rule["expr"] for rule in group["rules"]]
    else:
        queries = [target["expr"] for panel in loaded["panels"] for target in panel["targets"]]
        assert set(re.findall(r"ray_\w+", "".join(queries))) == exported, "all are shown"
    for query in queries:
        assert set(re.findall(r"ray_\w+", query)) <= exported
        tags = set(re.findall(r'\w+="\w+"', query)) | set(re.findall(r"by \((\w+)\)", query))
        assert all(tag in text for tag in tags), query


def test_a_file_that_cannot_be_written_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(METRICS, "/nowhere/m")
    with pytest.raises(HarnessError, match="DOSIMETER_METRICS: /nowhere/m cannot"):
        MetricFile(RUN).write(of(MODEL))


def test_counters_grow_by_the_difference_and_not_at_every_message(
    made: dict[str, Metric], recorder: MetricRecorder
) -> None:
    asked = count()

    def progress() -> Progress:
        return of(replace(MODEL, used=MODEL.used + Consumption(next(asked)), finished=4))

    for now in (0.0, 0.5, 1.0, 2.5, 3.0, 5.0):
        recorder.record(progress, now)
    assert next(asked) == 3, "no more often than every other second"
    assert made["dosimeter_replies"].values == {("nova-1",): 22}
    assert made["dosimeter_episodes"].values["nova-1", "finished"] == 4
