"""The stored episodes and attempts of a study. Reading them needs the study's key, to which every
attempt and result is sealed."""

from __future__ import annotations

import json
import re
from collections import Counter
from dataclasses import dataclass

from generators.task import TaskInstance
from harness.episode import Cell, Episode
from harness.episodes.result import RESULT_CODEC, EpisodeResult
from harness.model import ToolUse
from harness.storage import EPISODE_CODEC, attempt_key, attempted_names, hex_of, result_key
from publish.errors import PublishError
from registry.errors import BrokenPromise, RegistryError
from registry.ledger.records import RunManifest, record_digest
from registry.sealing import DrawnInstance
from study.errors import StudyError
from study.workspace.snapshot import StudySnapshot
from study.workspace.study import Study

_DIGITS = re.compile(r"[0-9a-f]{1,64}")
_SHOWN = 4  # of the episodes that an ambiguous prefix may mean
# Beginnings of the answers to calls that the harness or the sandbox refuses.
_REFUSALS = ("Error: ", "Refused: ")


@dataclass(frozen=True, slots=True)
class Listed:
    """An episode of a wave. ``seed`` numbers the instances of a stratum from 1, in an order
    that does not reveal the arm; ``result`` is None while the episode is owed."""

    wave: int
    cell: Cell
    seed: int
    attempts: int
    result: EpisodeResult | None


def require_key(study: Study, command: str) -> tuple[str, ...]:
    """Return the study's identities. Raises StudyError that names the command that needs them."""
    try:
        return study.own_identities()
    except RegistryError as error:
        raise StudyError(
            f"{error}; `{command}` opens transcripts, which are sealed to the study's key "
            "(DOSIMETER_KEY_FILE names one that lies elsewhere)"
        ) from None


def begun_waves(study: StudySnapshot, wave: int | None) -> tuple[RunManifest, ...]:
    """Return the manifest of the wave, or of each wave that was begun. Raises StudyError for a wave
    that is not planned or not begun."""
    planned = len(study.protocol.waves)
    if wave is not None and wave >= planned:
        raise StudyError(f"--wave {wave}: study.yaml plans waves 0 to {planned - 1}")
    wanted = range(planned) if wave is None else (wave,)
    manifests = tuple(study.waves[number].manifest for number in wanted if number in study.waves)
    if not manifests:
        what = "no wave is" if wave is None else f"wave {wave} is not"
        raise StudyError(f"{what} begun: run `dosimeter sweep --wave {wave or 0}` first")
    return manifests


def list_episodes(
    study: StudySnapshot, wave: int | None = None, model: str | None = None
) -> list[Listed]:
    """Return the episodes of the waves that were begun, by wave, stratum, seed, model and
    replicate.

    Raises StudyError for a wave that was not begun and a model that no such wave has.
    """
    manifests = begun_waves(study, wave)
    _check_model(manifests, model)
    numbers = number_seeds(study)
    episodes = [
        Listed(
            manifest.wave,
            cell,
            numbers[cell.instance],
            study.attempts[hex_of(cell.episode)],
            study.waves[manifest.wave].results.get(cell.episode),
        )
        for manifest in manifests
        for cell in study.waves[manifest.wave].cells
        if model in (None, cell.model)
    ]
    return sorted(
        episodes,
        key=lambda e: (e.wave, e.cell.spec.stratum, e.seed, e.cell.model, e.cell.replicate),
    )


def _check_model(manifests: tuple[RunManifest, ...], model: str | None) -> None:
    known = sorted({pin.name for manifest in manifests for pin in manifest.models})
    if model is not None and model not in known:
        raise StudyError(f"--model {model}: no such model was run; there are: {', '.join(known)}")


def number_seeds(study: Study) -> dict[str, int]:
    """Return a number from 1 for each instance within its stratum. Instance ids are digests over a
    nonce, so their order is random and the same for both arms."""
    numbers: dict[str, int] = {}
    counts: Counter[str] = Counter()
    for entry in sorted(study.entries(), key=lambda drawn: drawn.instance):
        counts[entry.stratum] += 1
        numbers[entry.instance] = counts[entry.stratum]
    return numbers


def find_episode(study: Study, prefix: str) -> str:
    """Return the digest of the one episode with attempts that begins so. Raises StudyError."""
    digits = hex_of(prefix.strip().lower())
    if not _DIGITS.fullmatch(digits):
        raise StudyError(
            f"{prefix[:80]!r} is not the beginning of an episode's digest, which has 64 digits "
            "of 0-9 and a-f: see `dosimeter show`"
        )
    episodes = sorted(set(attempted_names(study.store, digits)))
    if not episodes:
        raise StudyError(f"no attempt at an episode {digits}… is stored: `dosimeter show`")
    if len(episodes) > 1:
        some = ", ".join(episode[: len(digits) + 4] for episode in episodes[:_SHOWN])
        raise StudyError(f"{digits} begins {len(episodes)} episodes ({some}, …): give more digits")
    return f"sha256:{episodes[0]}"


def stored_attempt(study: Study, episode: str, attempt: int) -> Episode:
    """Return a stored attempt. Raises RegistryError."""
    key = attempt_key(episode, attempt)
    return EPISODE_CODEC.read(study.store, key, study.keys())


def find_result(study: Study, episode: str) -> EpisodeResult | None:
    """Return the result of an episode, if it has one."""
    key = result_key(episode)
    return RESULT_CODEC.read(study.store, key, study.keys()) if study.store.exists(key) else None


def locate(study: Study, episode: Episode) -> tuple[RunManifest, DrawnInstance]:
    """Return the run and the instance of an attempt. Raises BrokenPromise where the ledger has
    none."""
    records = (entry.record for entry in study.ledger.find("run-manifest"))
    manifest = next((run for run in records if record_digest(run) == episode.run), None)
    entry = next((drawn for drawn in study.entries() if drawn.instance == episode.instance), None)
    if manifest is None or entry is None:
        raise BrokenPromise(f"{episode.id}: an attempt of no run or instance that this study has")
    return manifest, entry


def instance_of(study: Study, entry: DrawnInstance) -> TaskInstance | None:
    """Make the instance of an entry anew; None if this code makes another one."""
    from publish.leakcheck.check import regenerate  # with numpy, which most of this can spare

    try:
        return regenerate(entry, study.protocol.catalog.family)[0]
    except PublishError:
        return None


def parse_arguments(text: str) -> dict[str, str] | None:
    """Return the arguments of a tool call by name, values that are no text as JSON; None unless
    they are one JSON object."""
    try:
        value = json.loads(text)
        if not isinstance(value, dict):
            return None
        return {k: v if isinstance(v, str) else json.dumps(v) for k, v in value.items()}
    except (ValueError, RecursionError):
        return None


def was_refused(use: ToolUse) -> bool:
    """Report whether a tool call was not carried out."""
    return use.exit_code is None and use.result.text.startswith(_REFUSALS)
