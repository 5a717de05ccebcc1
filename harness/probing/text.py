"""Text probes: does a model find the text of public instances likelier than that of private ones?

The text is what a crawler would have seen of a release: the task's name and prompt, then of each
input file its SHA-256 and path, as ``sha256sum`` prints them, and the beginning of a text file.
The part that all instances of a stratum share comes first and is only context; the measures of
``harness.models.membership`` are of the rest, which no other instance has. Both arms are treated
alike.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import lru_cache, partial, reduce
from itertools import takewhile

from generators.catalog import Catalog
from generators.seed import Seed
from generators.task import Asset, TaskInstance
from harness.errors import AttemptFailed, Boundary
from harness.model import LogprobModel, TextRequest
from harness.models import SHARE, membership_scores, read_likelihood
from harness.probing.closed_book import EXAMPLES, example_instances
from harness.probing.records import TextProbe, name_call, save_probe
from harness.spending import ReplyStore
from harness.storage import hex_of
from registry.canonical import digest_value
from registry.ledger import ModelPin

OPENING = 200  # characters of a text file
MOST = 512  # characters that are measured
NOT_REPORTED = "not_told"  # the error class of a reply without log-probabilities of the text
_TEXTS = frozenset(("application/json", "application/xml", "application/yaml"))


@dataclass(frozen=True, slots=True)
class ReleasedText:
    """The text of an instance, measured from character ``start`` on."""

    text: str = field(repr=False)
    start: int


def released_text(instance: TaskInstance, catalog: Catalog) -> ReleasedText | None:
    """Return the text of an instance and the part to measure; None if the texts of its stratum are
    all the same."""
    spec, text = instance.spec, _text_of(instance)
    shared, differ = _shared_of(catalog, spec.family, spec.version, spec.difficulty)
    if not differ:
        return None
    # If this text is only the beginning of others, its last word is measured.
    end = min(len(_shared_opening(shared, text)), len(text) - 1)
    start = _whole_words(text, end)
    return ReleasedText(text[: start + MOST], start)


def text_digest() -> str:
    """Return the digest of how texts are made and measured."""
    return digest_value({"opening": OPENING, "most": MOST, "examples": EXAMPLES, "share": SHARE})


def text_call(study: str, wave: int, pin: ModelPin, instance: str) -> str:
    """Return the name of a text probe."""
    return name_call("text", text_digest(), study, wave, pin, instance)


def run_text_probe(
    instance: TaskInstance,
    text: ReleasedText,
    model: LogprobModel,
    replies: ReplyStore,
    way: str = "",
    top: int = 0,
) -> TextProbe:
    """Ask, keep the reply before it is read, and store its measures. Raises AttemptFailed; of
    class ``NOT_REPORTED`` if the reply has no log-probabilities of the text."""
    seed, journal = Seed.from_hex(hex_of(replies.charge.subject)), replies.probe()
    request = TextRequest(text.text, seed, text.start, way, top, partial(journal.keep_failed, 0))
    reply = journal.load(0) or journal.save(0, model.text_logprobs(request))
    scores = read_likelihood(reply.raw, text.text, text.start)
    if scores is None:
        raise AttemptFailed(Boundary.PROVIDER, NOT_REPORTED)
    probe = TextProbe(replies.charge, instance.id, membership_scores(scores), reply.served_version)
    save_probe(replies, probe)
    return probe


def _text_of(instance: TaskInstance) -> str:
    brief = instance.brief
    files = "\n".join(_listed(asset) for asset in brief.assets if asset.data)
    return f"{instance.spec.family}\n\n{brief.prompt.rstrip()}\n\n{files}".rstrip()


def _listed(asset: Asset) -> str:
    line = f"{asset.digest.removeprefix('sha256:')}  {asset.path}"
    if not (asset.media_type.startswith("text/") or asset.media_type in _TEXTS):
        return line
    # A character has at most four bytes; an incomplete one at the cut is dropped.
    return f"{line}\n{asset.data[: 4 * OPENING].decode('utf-8', 'ignore')[:OPENING]}"


@lru_cache(maxsize=1024)
def _shared_of(catalog: Catalog, family: str, version: str, difficulty: str) -> tuple[str, bool]:
    """How the texts of a stratum begin, and whether they differ, by a few of public seeds."""
    examples = example_instances(catalog, family, version, difficulty)
    texts = [_text_of(instance) for instance in examples]
    return reduce(_shared_opening, texts), len(set(texts)) > 1


def _shared_opening(one: str, other: str) -> str:
    pairs = zip(one, other, strict=False)
    return "".join(a for a, _ in takewhile(lambda pair: pair[0] == pair[1], pairs))


def _whole_words(text: str, end: int) -> int:
    """The beginning of the word that holds character ``end``, or follows it."""
    while end and not text[end - 1].isspace():
        end -= 1
    return end
