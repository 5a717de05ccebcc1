"""The records that the ledger keeps. Each is a frozen value with one canonical form.

``record_body`` and ``read_record`` go between a record and the plain JSON of a ledger entry.
"""

from __future__ import annotations

import dataclasses
import functools
from dataclasses import dataclass
from typing import Any, TypeVar

from pydantic import TypeAdapter, ValidationError

from registry.canonical import Digest, digest_value
from registry.errors import BrokenPromise, RegistryError
from registry.ledger.draw_records import (
    Announcement,
    Revealed,
    SealedSet,
    SeedsPerArm,
    Underpowered,
    Unproved,
    sizes_of,
)

R = TypeVar("R")
Pin = TypeVar("Pin", bound="ModelPin | JudgePin")


@dataclass(frozen=True, slots=True)
class StandardRules:
    """Promises of standard-v1 beyond basic-v1."""

    pre_exposure: tuple[str, ...]  # models released before publication: they calibrate (C1)
    frozen: tuple[str, ...]  # of unchanging weights, run again at every look: control C1
    spiked: tuple[str, ...]  # agents that were given public keys: control C2
    control_runs: int  # of each pre-exposure or frozen model on an instance
    study_alpha: float  # P4, one-sided, over all looks; its own family
    control_alpha: float  # C1 and C3, two-sided
    control_margin: float  # C1 and C3 agree where the 90 % interval lies inside
    second_grader: str  # C3: a judge that must give the same verdict; "" for none
    sensitivity: tuple[str, ...]  # S2, S3, by name
    hypotheses: tuple[str, ...]  # in words
    released: tuple[tuple[str, str], ...] = ()  # name and date of controls, as documented
    # B1, of private seeds that a provider may have stored: "leave-out" of P1, or "keep" in it.
    burned: str = "leave-out"
    # C3: the share of the first wave's instances that the second grader grades again at each look
    # after it; 0 for none.
    regrade: float = 0.0


@dataclass(frozen=True, slots=True)
class JudgeRule:
    """Demands of a plan on a judge, by its `judge check`, before its column is shown. The least
    rates are shares; None asks for nothing."""

    name: str
    pin: str  # digest of its JudgePin
    min_sensitivity: float | None = None
    min_specificity: float | None = None
    min_kappa: float | None = None  # Cohen's, with the truth
    min_criteria: int = 400  # number that it must have been checked on
    # Share of its verdicts that could be read.
    min_parsed: float | None = None
    scores: tuple[str, ...] = ()  # strata in which its grades are the tested scores


@dataclass(frozen=True, slots=True)
class Plan:
    """The analysis that is promised before any data."""

    name: str  # preset and version, e.g. "basic-v1"
    strata: tuple[str, ...]
    seeds_per_arm: SeedsPerArm
    replicates: int
    looks: int  # waves that share alpha
    alpha: float  # one-sided, over all looks and the models within each
    outcomes: tuple[str, ...]  # "score", "key-fraction", …; the first is the one estimated
    permutations: int
    enumerate_up_to: int  # allocations; that many or fewer are enumerated instead
    margin: float  # no inflation above it: the upper bound lies below
    multiplicity: str  # "westfall-young" or "holm", over the models of a look
    missing: str  # in words
    exclusions: tuple[str, ...]
    standard: StandardRules | None = None  # of standard-v1
    judges: tuple[JudgeRule, ...] = ()  # in order of their names
    # The inflation of one model that the plan is to find with a power of 80 % or more.
    target_gap: float = 0.10
    # The chances to find it, and to clear a clean model, in words: simulated at the registration.
    chances: str = ""
    # Of the exact test of markers: one-sided, over all looks and the models of each.
    marker_alpha: float = 0.001
    # Of each level above the instance, over all looks; and the spread of the control models over
    # units above which it is not tested.
    level_alpha: float = 0.0125
    most_tau: float = 0.20
    levels: tuple[str, ...] = ()  # that the study has units of

    @property
    def sizes(self) -> tuple[int, ...]:
        """The instances an arm of each stratum."""
        return sizes_of(self.seeds_per_arm, self.strata)

    @property
    def scorer(self) -> JudgeRule | None:
        """The judge with grades that are tested; None if all scores are exact."""
        return next((rule for rule in self.judges if rule.scores), None)


@dataclass(frozen=True, slots=True)
class Provenance:
    """The code and environment that a promise was made or kept with."""

    commit: str  # full hash; of an installed package its wheel; "unknown" without either
    dirty: bool
    lock: str  # digest of requirements.lock
    image: str  # digest of the sandbox image, or "none" for the local sandbox
    python: str
    packages: tuple[tuple[str, str], ...]  # name, version of those that shape results

    @property
    def code(self) -> str:
        """Commit or wheel in short, and whether files differ from it."""
        name, colon, digest = self.commit.rpartition(":")
        kind = "wheel" if colon else "commit"
        return f"{kind} {name}{colon}{digest[:12]}{' with changes' if self.dirty else ''}"


@dataclass(frozen=True, slots=True)
class Preregistration:
    study: str
    plan: Plan
    sealed_root: str  # Merkle root of the draw that the plan will be applied to
    provenance: Provenance
    # name@version/difficulty of each stratum, with /single_turn if it is given in one turn.
    tasks: tuple[str, ...] = ()
    # Digest of the grades of known answers to these tasks; "" if it is not pinned.
    grading: str = ""
    underpowered: Underpowered | None = None
    unproved: Unproved | None = None


FILES = "files/"  # age files, each named by its digest


@dataclass(frozen=True, slots=True)
class StudyFiles:
    """study.yaml and the files that it names, as commands take them that have the address of the
    store alone. The newest record is in force."""

    content: str  # digest of the sealed object

    @property
    def key(self) -> str:
        """The store key of the sealed object."""
        return f"{FILES}{self.content.removeprefix('sha256:')}.age"


@dataclass(frozen=True, slots=True)
class ModelPin:
    """An exact model: its provider, the version asked for, and how it is sampled."""

    name: str
    provider: str
    version: str
    settings: tuple[tuple[str, str], ...] = ()  # values as canonical JSON text


# Where and how patiently a model is asked: settings that change no answer.
_ASKING = {
    *("base_url", "api_key_env", "bridge", "bridge_url", "seconds", "connect_seconds"),
    *("silence_seconds", "retries", "backoff_seconds"),
}


def answering_pin(pin: Pin) -> Pin:
    """Return what a model's or judge's answers follow from: its pin without its address, the
    variable of its key, timeouts and retries. They may change within a wave, and neither an episode
    nor a grade is named by them."""
    # The seconds of an agent's server are the limit of an episode.
    dropped = _ASKING - {"seconds"} if pin.provider == "agent_server" else _ASKING
    kept = tuple(setting for setting in pin.settings if setting[0] not in dropped)
    return dataclasses.replace(pin, settings=kept)


@dataclass(frozen=True, slots=True)
class JudgePin:
    name: str
    provider: str
    version: str
    prompt: str  # digest
    settings: tuple[tuple[str, str], ...] = ()


@dataclass(frozen=True, slots=True)
class RunManifest:
    """Everything that one wave runs, fixed before its first episode."""

    study: str
    wave: int
    plan: str  # digest of the Preregistration
    instances_root: str  # Merkle root of the sealed set
    models: tuple[ModelPin, ...]
    judges: tuple[JudgePin, ...]
    sandbox: str  # "docker", "pods" or "local"; ELSEWHERE if another harness runs it
    runtime: str
    replicates: tuple[int, ...]  # runs of each of the models on an instance, in their order
    schedule_seed: str  # hex; the order of the owed cells follows from it
    run_recipient: str  # age public key of the run
    run_key: str  # store key of the run's identity, sealed to the study's recipients
    provenance: Provenance
    single_turn: tuple[str, ...]  # strata given in a single turn; all others are agentic
    prices: str = ""  # digest of the price file, "" without one
    # The tranches that each of the models runs, in their order; () where all run the panel alone.
    tranches: tuple[tuple[int, ...], ...] = ()
    # Of models and judges: name, and what is documented of what its provider keeps.
    retention: tuple[tuple[str, str], ...] = ()
    # Digest of the agent loop's prompts, tools and caps.
    agent_rules: str = ""

    @property
    def tranches_by_model(self) -> dict[str, tuple[int, ...]]:
        """The tranches that each of the models was given."""
        given = self.tranches or ((0,),) * len(self.models)
        return {pin.name: tranches for pin, tranches in zip(self.models, given, strict=True)}


ELSEWHERE = "elsewhere"


@dataclass(frozen=True, slots=True)
class Exported:
    """The instances of a wave were written for another harness, both arms in one order. The entry
    has the time and the signer."""

    wave: int
    manifest: str  # digest
    form: str  # "inspect", "lm-eval" or "jsonl"
    instances: int
    content: str  # digest of the file with the instances
    recipients: tuple[str, ...] = ()  # age public keys that it was sealed to; () for plain text


@dataclass(frozen=True, slots=True)
class RanElsewhere:
    """A model of a wave that another harness ran."""

    model: str
    named: str  # the model's name in the logs
    harness: str  # with its version
    logs: tuple[str, ...]  # digests of the files
    answers: int  # episodes that have an answer or a score
    regraded: int  # of these, those whose answer the exact grader has graded

    @property
    def words(self) -> str:
        """The same in words."""
        how = "regraded"
        if self.regraded < self.answers:
            taken = self.answers - self.regraded
            how = f"not regraded: {taken} scores are those of the logs, for every outcome"
        named = f" (as {self.named})" if self.named != self.model else ""
        by = f"{self.model}{named} was run elsewhere by {self.harness}"
        return f"{by}, not blind to what it ran, {how}"


@dataclass(frozen=True, slots=True)
class ListHead:
    """How far a worker's list of begun attempts has come (registry/ledger/begun.py)."""

    worker: str
    pages: int
    digest: str  # of the last page, 64 hexadecimal digits


@dataclass(frozen=True, slots=True)
class AttemptsBegun:
    """How far the lists of begun attempts of an open wave had come."""

    wave: int
    manifest: str  # digest
    heads: tuple[ListHead, ...]  # of each worker


@dataclass(frozen=True, slots=True)
class WaveClosed:
    """Every cell of a wave has its result, or has run out of attempts."""

    wave: int
    manifest: str  # digest
    owed: int
    finished: int
    missing: int
    results_root: str  # Merkle root over the digests of the result objects, sorted by key
    objects: int = 0  # stored for this run, of every kind (registry/ledger/inventory.py)
    objects_root: str = ""  # Merkle root over their keys and digests, sorted by key
    # Objects under names of the run that none of its workers signed: not among the others.
    foreign: int = 0
    elsewhere: tuple[RanElsewhere, ...] = ()  # a record for each model, if another harness ran it
    heads: tuple[ListHead, ...] = ()  # of the lists of begun attempts


@dataclass(frozen=True, slots=True)
class Grading:
    """A judge's work on a closed wave. Its objects are the grades, and the replies of the judge
    that no record before promises (registry/ledger/inventory.py)."""

    wave: int
    manifest: str  # digest of the closed wave's
    judge: JudgePin
    graded: int  # episodes
    objects: int
    objects_root: str
    retention: str = ""  # as documented when it was; "" if not


@dataclass(frozen=True, slots=True, kw_only=True)
class Graded(Grading):
    """A judge has graded every episode of a closed wave."""

    pinned: bool  # the manifest names it; any other was chosen after the wave was begun


@dataclass(frozen=True, slots=True, kw_only=True)
class Regraded(Grading):
    """At the look of ``wave``, a later one, a judge has graded the first wave's answers once more:
    all of them, or those of a share of the instances."""

    first: int  # wave of the graded answers, which the manifest is of
    share: float  # of each stratum's instances


@dataclass(frozen=True, slots=True)
class JudgeChecked:
    """A judge was measured on answers with known truth. Nothing of it is secret: the answers
    are made from seeds that are the same for everybody."""

    judge: JudgePin
    sheets: str  # digest of what it was asked
    criteria: int
    result: str  # digest of the object with every verdict
    uri: str  # its key in the store
    objects: int  # replies of the judge that no record before promises
    objects_root: str


@dataclass(frozen=True, slots=True)
class CalibrationMade:
    """Known leaks were put to the registered test (C2). None of its results is secret:
    rates and gaps."""

    plan: str  # digest of the Preregistration
    how: str  # "resampled": known leaks in stored scores
    wave: int  # of these
    trials: int  # tests run, over all doses
    result: str  # digest of the object that holds them
    uri: str  # its key in the store
    objects: int
    objects_root: str


@dataclass(frozen=True, slots=True)
class Probed:
    """A model was probed on every instance that it may be asked about at a wave. The objects are
    the result of each probe, the replies, and the requests that failed (see ``inventory``)."""

    wave: int
    plan: str  # digest of the Preregistration
    model: ModelPin
    what: str  # "questions" or "markers"
    method: str  # digest of the method's settings
    probes: int
    objects: int
    objects_root: str
    retention: str = ""  # as documented when it was; "" if not
    tranches: tuple[int, ...] = ()  # () for the panel alone


@dataclass(frozen=True, slots=True)
class Release:
    arm: str
    instances_root: str
    count: int
    content: str  # digest over the released files
    location: str  # "folder" or the Hub repository
    revision: str  # of the Hub, or ""
    tranches: tuple[int, ...] = (0,)  # with a public arm in it


@dataclass(frozen=True, slots=True)
class Leak:
    """An id, input or answer of the private arm is known to have leaked: the tranche that it is of
    is burned for everybody. Names no instance."""

    tranche: int
    since: str  # a day, ISO 8601: waves that were begun before it are not touched
    reason: str  # in words, for readers


@dataclass(frozen=True, slots=True)
class ReportIssued:
    """A look at the data: the rows analysed and the report issued."""

    through_wave: int
    plan: str
    table: str  # digest of the result rows
    report: str  # digest of report.json
    deviations: tuple[str, ...]
    calibrations: tuple[str, ...] = ()  # results that it shows
    # Waves that were begun and not closed, each with the number of its episodes stored by then.
    unclosed: tuple[tuple[int, int], ...] = ()
    files: tuple[tuple[str, str], ...] = ()  # name and digest of each file of the report
    selection: str = ""  # what an owner could have chosen, by what others could check then


@dataclass(frozen=True, slots=True)
class Look:
    """Arms and scores were joined, other than by a report. ``waves`` are those of the scores, each
    with its number of episodes that had a result by then."""

    command: str  # which joined them, as users call it
    waves: tuple[tuple[int, int], ...]


KINDS: dict[str, type[Any]] = {
    "announcement": Announcement,
    "sealed-set": SealedSet,
    "preregistration": Preregistration,
    "study-files": StudyFiles,
    "run-manifest": RunManifest,
    "exported": Exported,
    "attempts-begun": AttemptsBegun,
    "wave-closed": WaveClosed,
    "graded": Graded,
    "regraded": Regraded,
    "judge-checked": JudgeChecked,
    "calibrated": CalibrationMade,
    "probed": Probed,
    "release": Release,
    "leak": Leak,
    "look": Look,
    "revealed": Revealed,
    "report": ReportIssued,
}

# What the operator's key may sign: that which running a wave records.
OPERATOR_KINDS = frozenset(
    ("run-manifest", "exported", "attempts-begun", "wave-closed", "graded", "regraded")
) | {"judge-checked", "probed"}


def record_kind(record: Any) -> str:
    """The kind of a record, as the ledger names it. Raises RegistryError for what is none."""
    for kind, cls in KINDS.items():
        if type(record) is cls:
            return kind
    raise RegistryError(f"{type(record).__name__} is not a record of the ledger")


def record_body(record: Any) -> dict[str, Any]:
    """The record as plain JSON values. A field at its default is left out, at every depth: what a
    default says, a body without the field says too, so a default never changes."""
    return {
        field.name: _plain(value)
        for field in dataclasses.fields(record)
        if (value := getattr(record, field.name)) != field.default
    }


def _plain(value: Any) -> Any:
    if dataclasses.is_dataclass(value):
        return record_body(value)
    return tuple(map(_plain, value)) if isinstance(value, tuple) else value


def read_record(cls: type[R], body: Any, place: str) -> R:
    """The record of a JSON body. Raises BrokenPromise where it does not have that form."""
    form: Any = cls
    try:
        record: R = _adapter(form).validate_python(body)
        return record
    except ValidationError as error:
        first = error.errors(include_input=False)[0]
        where = ".".join(str(part) for part in first["loc"])
        problem = f"{place}: not a {cls.__name__}: its field {where!r} does not hold what it must"
    raise BrokenPromise(problem)  # out here, so that no traceback shows what the body held


def record_digest(record: Any) -> Digest:
    """Return the digest of a record's body, which names it elsewhere."""
    return digest_value(record_body(record))


@functools.cache
def pin_digest(pin: ModelPin | JudgePin) -> Digest:
    """Return the digest that names a model or judge: that of what its answers follow from, so that
    a probe or grade is paid for once however patiently it is asked."""
    return record_digest(answering_pin(pin))


@functools.cache
def _adapter(cls: Any) -> TypeAdapter[Any]:
    return TypeAdapter(cls)
