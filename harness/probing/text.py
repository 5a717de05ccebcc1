"""Text probes: does a model find the text of public instances likelier than that of private ones?

The text is what a crawler would have seen of a release: the task's name and prompt, then of each
input file its SHA-256 and path, as ``sha256sum`` prints them, and of a text file how it begins.
What all instances of a stratum share comes first and is only context; the measures of
``harness.models.membership`` are of what follows, which no other instance has. Both arms alike.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import lru_cache, partial, reduce
from itertools import takewhile

from generators.catalog import Catalog
from generators.seed import Seed
from generators.task import Asset, TaskInstance
from harness.codec import decode_text_probe, encode_text_probe
from harness.errors import AttemptFailed, Boundary
from harness.model import LogprobModel, TextRequest
from harness.models import SHARE, read_likelihood, weigh_tokens
from harness.probing.closed_book import EXAMPLES, ProbeStore, name_call
from harness.spending import TextProbe
from harness.store_keys import probe_key
from registry.canonical import digest_value
from registry.ledger import ModelPin
from registry.sealing import decrypt, encrypt
from registry.stores import Store

OPENING = 200  # characters of a text file
MOST = 512  # characters that are measured
NOT_TOLD = "not_told"  # the class of a reply that tells no log-probabilities of the text
_TEXTS = frozenset(("application/json", "application/xml", "application/yaml"))


@dataclass(frozen=True, slots=True)
class ReleasedText:
    """The text of an instance, measured from character ``start`` on."""

    text: str = field(repr=False)
    start: int


def released_text(instance: TaskInstance, catalog: Catalog) -> ReleasedText | None:
    """What is measured of an instance; None where the texts of its stratum are all the same."""
    spec, text = instance.spec, _text_of(instance)
    shared, differ = _shared_of(catalog, spec.family, spec.version, spec.difficulty)
    if not differ:
        return None
    # Of a text that others only go on from, its last word.
    end = min(len(_shared_opening(shared, text)), len(text) - 1)
    start = _whole_words(text, end)
    return ReleasedText(text[: start + MOST], start)


def text_digest() -> str:
    """What pins how texts are made and measured."""
    return digest_value({"opening": OPENING, "most": MOST, "examples": EXAMPLES, "share": SHARE})


def text_call(study: str, wave: int, pin: ModelPin, instance: str) -> str:
    """The name of a text probe."""
    return name_call("text", text_digest(), study, wave, pin, instance)


def run_text_probe(
    instance: TaskInstance, text: ReleasedText, model: LogprobModel, journal: ProbeStore,
    way: str = "", top: int = 0,
) -> TextProbe:  # fmt: skip
    """Ask, keep the reply before it is read, and keep what it came to. Raises AttemptFailed; of
    class ``NOT_TOLD`` where a reply came that tells no log-probabilities of the text."""
    seed = Seed.from_hex(journal.call.removeprefix("sha256:"))
    request = TextRequest(text.text, seed, text.start, way, top, partial(journal.keep_try, 0))
    reply = journal.load(0) or journal.save(0, model.weigh(request))
    scores = read_likelihood(reply.raw, text.text, text.start)
    if scores is None:
        raise AttemptFailed(Boundary.PROVIDER, NOT_TOLD)
    made = TextProbe(
        journal.call, journal.wave, journal.pin.name, instance.id, weigh_tokens(scores),
        reply.served_version,
    )  # fmt: skip
    sealed = encrypt(encode_text_probe(made), journal.recipients)
    journal.store.put(probe_key(journal.digest, journal.call), sealed)
    return made


def read_text_probe(
    store: Store, model: str, call: str, identities: tuple[str, ...]
) -> TextProbe | None:
    """A kept text probe, None where there is none; ``model`` is the digest of its pin."""
    key = probe_key(model, call)
    if not store.exists(key):
        return None
    return decode_text_probe(decrypt(store.get(key), identities, key), key)


def _text_of(instance: TaskInstance) -> str:
    brief = instance.brief
    files = "\n".join(_listed(asset) for asset in brief.assets if asset.data)
    return f"{instance.spec.family}\n\n{brief.prompt.rstrip()}\n\n{files}".rstrip()


def _listed(asset: Asset) -> str:
    line = f"{asset.digest.removeprefix('sha256:')}  {asset.path}"
    if not (asset.media_type.startswith("text/") or asset.media_type in _TEXTS):
        return line
    # A character has four bytes at the most; what a cut leaves of one is dropped.
    return f"{line}\n{asset.data[: 4 * OPENING].decode('utf-8', 'ignore')[:OPENING]}"


@lru_cache(maxsize=1024)
def _shared_of(catalog: Catalog, family: str, version: str, difficulty: str) -> tuple[str, bool]:
    """How the texts of a stratum begin, and whether they differ: told from some of public
    seeds."""
    made = catalog.family(family, version)
    seeds = (Seed(bytes([number]) * 32) for number in range(1, EXAMPLES + 1))
    texts = [_text_of(made.generate(difficulty, seed)) for seed in seeds]
    return reduce(_shared_opening, texts), len(set(texts)) > 1


def _shared_opening(one: str, other: str) -> str:
    pairs = zip(one, other, strict=False)
    return "".join(a for a, _ in takewhile(lambda pair: pair[0] == pair[1], pairs))


def _whole_words(text: str, end: int) -> int:
    """The beginning of the word that holds character ``end``, or follows it."""
    while end and not text[end - 1].isspace():
        end -= 1
    return end
