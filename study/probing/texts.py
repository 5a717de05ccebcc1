"""Probes of texts: which models tell how likely a text is, whether private text may be sent to
them, and what they told. Asked and paid for as questions are (``study.probing.probe``)."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial

from generators.catalog import Catalog
from generators.task import TaskInstance
from harness.errors import Boundary, HarnessError
from harness.model import OVERFLOW, Model, logprob_model
from harness.probing import (
    NOT_TOLD,
    ProbeStore,
    read_text_probe,
    released_text,
    run_text_probe,
    text_call,
    text_digest,
)
from harness.spending import OWN_PROVIDERS, TextProbe
from registry.ledger import ModelPin
from registry.sealing import SealedEntry
from study.errors import StudyError
from study.probing.ask import ProbeKind, ProbeOutcome, instance_of, kept_probes
from study.probing.records import find_probed
from study.protocol import FILE_NAME
from study.sweeps import NOTHING_KEPT, UNKNOWN
from study.workspace import Study, manifest_of

TEXTS = "texts"
BURN = "--burn"
_UNTOLD = {
    NOT_TOLD: "its server answers without log-probabilities of the text",
    "bad_request": "its server refuses to tell log-probabilities of a text",
    OVERFLOW: "a text is too long for it",
}


@dataclass(frozen=True, slots=True)
class TextWay:
    """How a model's server is asked, and how many rivals of each token it is to tell."""

    way: str = ""
    top: int = 0


def text_ways(study: Study, pins: Iterable[ModelPin]) -> tuple[dict[str, TextWay], tuple[str, ...]]:
    """How each model is asked that tells how likely a text is, and a note on each other."""
    stated = {name: TextWay(way, top) for name, way, top in study.protocol.logprobs}
    ways, notes = {}, []
    for pin in pins:
        if pin.provider == "local":
            ways[pin.name] = TextWay()
        elif pin.name in stated:
            ways[pin.name] = stated[pin.name]
        else:
            notes.append(f"{pin.name}: no log-probabilities: {_why_none(pin)}")
    return ways, tuple(notes)


def _why_none(pin: ModelPin) -> str:
    if pin.provider == "openai":
        return f"{FILE_NAME} does not say (`logprobs:`) how its server tells them"
    if pin.provider == "scripted":
        return "a built-in agent has none"
    return "its provider tells none of a text that it is given"


def check_sending(study: Study, wave: int, pins: Iterable[ModelPin], burn: bool) -> None:
    """Refuse to send private text before the ledger tells what the wave sends to whom, and to
    anybody who may keep it, unless that is wished. Raises StudyError."""
    if manifest_of(study.ledger, wave) is None:
        raise StudyError(
            f"wave {wave} was not begun: texts are put to a wave's models after its sweep, whose "
            "manifest tells who was sent which private instances"
        )
    keeps = [pin.name for pin in pins if retention_now(study, pin) != NOTHING_KEPT]
    if keeps and not burn:
        raise StudyError(
            f"{study.folder / FILE_NAME}: nothing says that the provider of {', '.join(keeps)} "
            f"keeps nothing (`retention: none`), so private text sent there is burned for it: name "
            f"other models with --model, or give {BURN} to send it all the same"
        )


def retention_now(study: Study, pin: ModelPin) -> str:
    """What is documented of a model's provider, or what its kind implies."""
    implied = NOTHING_KEPT if pin.provider in OWN_PROVIDERS else UNKNOWN
    return dict(study.protocol.retention).get(pin.name, implied)


def text_kind(way: TextWay) -> ProbeKind:
    return ProbeKind(TEXTS, text_digest(), text_call, partial(_ask_text, way))


def text_entries(study: Study) -> tuple[tuple[SealedEntry, ...], tuple[str, ...]]:
    """The instances whose text is unlike that of others, and the strata that have none such."""
    entries = study.entries()
    first, catalog = {entry.stratum: entry for entry in entries}, study.protocol.catalog
    silent = tuple(
        stratum
        for stratum, entry in first.items()
        if released_text(instance_of(entry, catalog), catalog) is None
    )
    return tuple(entry for entry in entries if entry.stratum not in silent), silent


def texts_there(
    study: Study, wave: int, pin: ModelPin, entries: Sequence[SealedEntry]
) -> Mapping[str, TextProbe]:
    """A model's kept text probes at a wave, by instance. Needs the study's key."""
    return kept_probes(study, wave, pin, entries, text_call, read_text_probe)


def text_notes(study: Study, wave: int, pin: ModelPin, measures: Collection[str]) -> list[str]:
    """What a report says of a model that has not all measures, of those that there are."""
    who = f"{pin.name}, wave {wave}"
    if "min_k_plus" in measures:
        return []
    if measures:
        return [
            f"{who}: no Min-K%++: its server tells a part of the distribution only, whose mean and "
            "deviation are others than the measure's"
        ]
    known, (ways, _) = find_probed(study, pin, wave, TEXTS), text_ways(study, [pin])
    if known is not None:
        return [f"{who}: no log-probabilities: {_UNTOLD[NOT_TOLD]}, or refuses to tell them"]
    return [f"{who}: no log-probabilities: {'not asked' if ways else _why_none(pin)}"]


def explain_untold(outcome: ProbeOutcome) -> ProbeOutcome:
    """The same, with a note where the model turned out not to tell: nothing is owed then."""
    failed = dict(outcome.failures)
    if outcome.what != TEXTS:
        return outcome
    whys = [why for kind, why in _UNTOLD.items() if f"{Boundary.PROVIDER}:{kind}" in failed]
    return replace(outcome, note=f"no log-probabilities: {whys[0]}") if whys else outcome


def _ask_text(
    way: TextWay, instance: TaskInstance, catalog: Catalog, model: Model, journal: ProbeStore
) -> None:
    text, inner = released_text(instance, catalog), logprob_model(model)
    if text is None or inner is None:
        raise HarnessError(f"model {model.name!r} cannot be asked how likely a text is")
    run_text_probe(instance, text, inner, journal, way.way, way.top)
