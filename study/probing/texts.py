"""Text probes: which models report log-probabilities of a text, whether private text may be sent to
them, and their stored results. Made and paid for like questions (``study.probing.probe``)."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial

from generators.catalog import Catalog
from generators.task import TaskInstance
from harness.errors import Boundary, HarnessError
from harness.model import OVERFLOW, Model, logprob_model
from harness.probing import (
    NOT_REPORTED,
    TextProbe,
    read_text_probe,
    released_text,
    run_text_probe,
    text_call,
    text_digest,
)
from harness.spending import OWN_PROVIDERS, ReplyStore
from registry.ledger import ModelPin
from registry.sealing import SealedEntry
from study.errors import StudyError
from study.probing.ask import ProbeKind, ProbeOutcome, instance_of, stored_probes
from study.probing.records import find_probed
from study.protocol import FILE_NAME
from study.sweeps import NOTHING_KEPT, UNKNOWN
from study.workspace import Study, manifest_of

TEXTS = "texts"
BURN = "--burn"
_UNREPORTED = {
    NOT_REPORTED: "its server answers without log-probabilities of the text",
    "bad_request": "its server refuses to tell log-probabilities of a text",
    OVERFLOW: "a text is too long for it",
}


@dataclass(frozen=True, slots=True)
class TextOption:
    """How a model's server is asked, and how many alternatives of each token it is to report."""

    way: str = ""
    top: int = 0


def text_options(
    study: Study, pins: Iterable[ModelPin]
) -> tuple[dict[str, TextOption], tuple[str, ...]]:
    """Return how each model with log-probabilities is asked, and a note on each other model."""
    stated = {name: TextOption(way, top) for name, way, top in study.protocol.logprobs}
    options, notes = {}, []
    for pin in pins:
        if pin.provider == "local":
            options[pin.name] = TextOption()
        elif pin.name in stated:
            options[pin.name] = stated[pin.name]
        else:
            notes.append(f"{pin.name}: no log-probabilities: {_why_none(pin)}")
    return options, tuple(notes)


def _why_none(pin: ModelPin) -> str:
    if pin.provider == "openai":
        return f"{FILE_NAME} does not say (`logprobs:`) how its server reports them"
    if pin.provider == "scripted":
        return "a built-in agent has none"
    return "its provider reports none for a text that it is given"


def check_sending(study: Study, wave: int, pins: Iterable[ModelPin], burn: bool) -> None:
    """Refuse to send private text before the ledger records which model of the wave receives it,
    and to a provider that may keep it, unless ``burn`` allows that. Raises StudyError."""
    if manifest_of(study.ledger, wave) is None:
        raise StudyError(
            f"wave {wave} was not begun: texts are put to a wave's models after its sweep, since "
            "its manifest records which private instances were sent to which provider"
        )
    keeps = [pin.name for pin in pins if retention_now(study, pin) != NOTHING_KEPT]
    if keeps and not burn:
        raise StudyError(
            f"{study.folder / FILE_NAME}: nothing says that the provider of {', '.join(keeps)} "
            f"keeps nothing (`retention: none`), so private text sent there is burned for it: name "
            f"other models with --model, or give {BURN} to send it all the same"
        )


def retention_now(study: Study, pin: ModelPin) -> str:
    """Return the documented retention of a model's provider, or what its kind implies."""
    implied = NOTHING_KEPT if pin.provider in OWN_PROVIDERS else UNKNOWN
    return dict(study.protocol.retention).get(pin.name, implied)


def text_kind(option: TextOption) -> ProbeKind:
    """Return the text probe of a model."""
    return ProbeKind(TEXTS, text_digest(), text_call, partial(_ask_text, option))


def text_entries(study: Study) -> tuple[tuple[SealedEntry, ...], tuple[str, ...]]:
    """Return the instances with a text of their own, and the strata that have none such."""
    entries = study.entries()
    first, catalog = {entry.stratum: entry for entry in entries}, study.protocol.catalog
    silent = tuple(
        stratum
        for stratum, entry in first.items()
        if released_text(instance_of(entry, catalog), catalog) is None
    )
    return tuple(entry for entry in entries if entry.stratum not in silent), silent


def read_texts(
    study: Study, wave: int, pin: ModelPin, entries: Sequence[SealedEntry]
) -> Mapping[str, TextProbe]:
    """Return a model's stored text probes at a wave, by instance. Needs the study's key."""
    return stored_probes(study, wave, pin, entries, text_call, read_text_probe)


def text_notes(study: Study, wave: int, pin: ModelPin, measures: Collection[str]) -> list[str]:
    """Return what a report notes on a model that lacks some of the measures."""
    who = f"{pin.name}, wave {wave}"
    if "min_k_plus" in measures:
        return []
    if measures:
        return [
            f"{who}: no Min-K%++: its server reports a part of the distribution only, whose mean "
            "and deviation are others than the measure's"
        ]
    if find_probed(study, pin, wave, TEXTS) is not None:
        return [
            f"{who}: no log-probabilities: {_UNREPORTED[NOT_REPORTED]}, or refuses to tell them"
        ]
    options, _ = text_options(study, [pin])
    return [f"{who}: no log-probabilities: {'not asked' if options else _why_none(pin)}"]


def note_unreported(outcome: ProbeOutcome) -> ProbeOutcome:
    """Return the outcome with a note if the model turned out to report no log-probabilities:
    nothing is owed then."""
    failed = dict(outcome.failures)
    if outcome.what != TEXTS:
        return outcome
    whys = [why for kind, why in _UNREPORTED.items() if f"{Boundary.PROVIDER}:{kind}" in failed]
    return replace(outcome, note=f"no log-probabilities: {whys[0]}") if whys else outcome


def _ask_text(
    option: TextOption, instance: TaskInstance, catalog: Catalog, model: Model, replies: ReplyStore
) -> None:
    text, inner = released_text(instance, catalog), logprob_model(model)
    if text is None or inner is None:
        raise HarnessError(f"model {model.name!r} cannot be asked how likely a text is")
    run_text_probe(instance, text, inner, replies, option.way, option.top)
