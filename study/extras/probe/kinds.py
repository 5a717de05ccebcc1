"""The kinds of probes: a question from memory, one for the marker of a title, and the likelihood of
a text; with the instances that each can be made about, and which models a text may be sent to."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, Generic, TypeVar

from generators.catalog import Catalog
from generators.task import TaskInstance
from harness.errors import HarnessError
from harness.model import Model, logprob_model
from harness.probe.markers import MARKER_CODEC, marker_digest, marker_messages, run_marker_probe
from harness.probe.probing import (
    PROBE_CODEC,
    TEXT_PROBE_CODEC,
    ReleasedText,
    TextProbe,
    name_call,
    probe_digest,
    probe_messages,
    released_text,
    run_probe,
    run_text_probe,
    text_digest,
)
from harness.spending.purchases import ReplyStore
from harness.storage import PROBES, Codec, hex_of, probe_key
from harness.sweep.schedule import WaveInstance
from harness.sweep.workbench import instance_of
from registry.ledger.records import ModelPin, record_digest
from study.errors import StudyError
from study.protocol.protocol import FILE_NAME
from study.steps.sweep.exposure_ledger import keeps_nothing
from study.workspace.snapshot import manifest_of
from study.workspace.study import Study

BURN = "--burn"
NO_LOGPROBS = (
    "no log-probabilities: its server reports none of a given text, or study.yaml does not say how "
    "(`logprobs:`)"
)
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
    messages: bool = True  # ``content`` returns messages, and results have a ``score``

    def name(self, study: str, wave: int, pin: ModelPin, instance: str) -> str:
        """Return the name of the probe of an instance."""
        return name_call(self.word, self.method, study, wave, pin, instance)


def _ask_text(
    instance: TaskInstance,
    text: ReleasedText,
    model: Model,
    replies: ReplyStore,
    catalog: Catalog,
    way: str = "",
    top: int = 0,
) -> TextProbe:
    inner = logprob_model(model)
    if inner is None:
        raise HarnessError(f"model {model.name!r} cannot be asked how likely a text is")
    return run_text_probe(instance, text, inner, replies, way, top)


QUESTIONS = ProbeKind(
    "questions", "probe", probe_digest(), probe_messages, run_probe, codec=PROBE_CODEC
)
MARKERS = ProbeKind(
    "markers", "marker", marker_digest(), marker_messages, run_marker_probe, codec=MARKER_CODEC
)
TEXTS = ProbeKind(
    "texts", "text", text_digest(), released_text, _ask_text, codec=TEXT_PROBE_CODEC, messages=False
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
    done, keys, digest = done_calls(study, pin), study.keys(), record_digest(pin)
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
    prefix = f"{PROBES}{hex_of(record_digest(pin))}/"
    keys = (key.removeprefix(prefix).removesuffix(".age") for key in study.store.list(prefix))
    return frozenset(f"sha256:{key}" for key in keys if len(key) == 64)


def text_kinds(
    study: Study, pins: Iterable[ModelPin]
) -> tuple[dict[str, ProbeKind[TextProbe]], tuple[str, ...]]:
    """Return the text probe of each model with log-probabilities, asked in the way that its server
    reports them, and a note on each other model."""
    stated = {name: (way, top) for name, way, top in study.protocol.logprobs}
    kinds, notes = {}, []
    for pin in pins:
        if pin.name in stated:
            way, top = stated[pin.name]
            kinds[pin.name] = replace(TEXTS, ask=partial(_ask_text, way=way, top=top))
        else:
            notes.append(f"{pin.name}: {NO_LOGPROBS}")
    return kinds, tuple(notes)


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


def check_sending(study: Study, wave: int, pins: Iterable[ModelPin], burn: bool) -> None:
    """Refuse to send private text before the ledger records which model of the wave receives it,
    and to a provider that may keep it, unless ``burn`` allows that. Raises StudyError."""
    if manifest_of(study.ledger, wave) is None:
        raise StudyError(
            f"wave {wave} was not begun: texts are put to a wave's models after its sweep, since "
            "its manifest records which private instances were sent to which provider"
        )
    documented = dict(study.protocol.retention)
    keeps = [pin.name for pin in pins if not keeps_nothing(pin, documented.get(pin.name, ""))]
    if keeps and not burn:
        raise StudyError(
            f"{study.folder / FILE_NAME}: nothing says that the provider of {', '.join(keeps)} "
            f"keeps nothing (`retention: none`), so private text sent there is burned for it: name "
            f"other models with --model, or give {BURN} to send it all the same"
        )
