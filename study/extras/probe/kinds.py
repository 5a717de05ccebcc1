"""The kinds of probes: a question from memory, and one for the marker of a title; with the
instances that each can be made about."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any, Generic, TypeVar

from generators.catalog import Catalog
from generators.task import TaskInstance
from harness.model import Model
from harness.probe.markers import MARKER_CODEC, marker_digest, marker_messages, run_marker_probe
from harness.probe.probing import PROBE_CODEC, name_call, probe_digest, probe_messages, run_probe
from harness.spending.purchases import ReplyStore
from harness.storage import PROBES, Codec, hex_of, probe_key
from harness.sweep.schedule import WaveInstance
from harness.sweep.workbench import instance_of
from registry.ledger.records import ModelPin, pin_digest
from study.steps.sweep.exposure_ledger import keeps_nothing
from study.workspace.study import Study

P = TypeVar("P")


@dataclass(frozen=True, slots=True)
class ProbeKind(Generic[P]):
    """A kind of probe with results of type ``P``. ``content`` returns the text sent about an
    instance, None if its stratum has nothing of this kind; ``ask`` sends it, keeps the reply before
    it is read, and stores its result. It raises AttemptFailed."""

    what: str
    word: str  # in the digests that name its probes
    method: str  # digest that pins it
    content: Callable[[TaskInstance, Catalog], Any]
    ask: Callable[[TaskInstance, Any, Model, ReplyStore, Catalog], object]
    codec: Codec[P]

    def name(self, study: str, wave: int, pin: ModelPin, instance: str) -> str:
        """Return the name of the probe of an instance."""
        return name_call(self.word, self.method, study, wave, pin, instance)


QUESTIONS = ProbeKind(
    "questions", "probe", probe_digest(), probe_messages, run_probe, codec=PROBE_CODEC
)
MARKERS = ProbeKind(
    "markers", "marker", marker_digest(), marker_messages, run_marker_probe, codec=MARKER_CODEC
)


def instances_of_kind(
    study: Study, kind: ProbeKind[P]
) -> tuple[tuple[WaveInstance, ...], tuple[str, ...]]:
    """Return the instances of both arms that a kind of probe can be made about, and the strata
    without such."""
    drawn, catalog = study.instances(), study.protocol.catalog
    first = {instance.spec.stratum: instance for instance in drawn}
    silent = tuple(
        stratum
        for stratum, instance in first.items()
        if kind.content(instance_of(instance, catalog), catalog) is None
    )
    return tuple(each for each in drawn if each.spec.stratum not in silent), silent


def instances_of_model(
    study: Study, wave: int, pin: ModelPin, instances: Iterable[WaveInstance]
) -> tuple[WaveInstance, ...]:
    """Return those of the instances that are in tranches that a model runs at a wave: a question
    would burn the others as a run does."""
    tranches = study.protocol.wave_tranches(wave)[pin.name]
    return tuple(instance for instance in instances if instance.tranche in tranches)


def stored_probes(
    study: Study, wave: int, pin: ModelPin, instances: Iterable[WaveInstance], kind: ProbeKind[P]
) -> dict[str, P]:
    """Return a model's stored probes of a kind at a wave, by instance. Needs a key."""
    done, keys, digest = done_calls(study, pin), study.keys(), pin_digest(pin)
    probes: dict[str, P] = {}
    for each in instances:
        call = kind.name(study.protocol.name, wave, pin, each.instance)
        if call in done:
            probe = kind.codec.find(study.store, probe_key(digest, call), keys)
            if probe is not None:
                probes[each.instance] = probe
    return probes


def done_calls(study: Study, pin: ModelPin) -> frozenset[str]:
    """Return the names of a model's stored probes."""
    prefix = f"{PROBES}{hex_of(pin_digest(pin))}/"
    keys = (key.removeprefix(prefix).removesuffix(".age") for key in study.store.list(prefix))
    return frozenset(f"sha256:{key}" for key in keys if len(key) == 64)


def notes_on_sent(study: Study, pins: Iterable[ModelPin]) -> tuple[str, ...]:
    """Return a note on each model that a sweep has sent private prompts, which name their markers,
    if its provider may keep them: it could learn what the control must not know."""
    documented = dict(study.protocol.retention)
    manifests = [entry.record for entry in study.ledger.find("run-manifest")]
    swept = {pin.name for manifest in manifests for pin in manifest.models}
    return tuple(
        f"{pin.name}: a sweep was begun that sends its provider private prompts with their "
        "markers, and nothing says that it keeps nothing (`retention: none`): if it has learnt "
        "from them, the control fails; ask for markers before the sweep"
        for pin in pins
        if pin.name in swept and not keeps_nothing(pin, documented.get(pin.name, ""))
    )
