"""The dataset card: a description of the release for its readers."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class CardTask:
    """What the card says of one task family."""

    name: str
    version: str
    summary: str
    counts: tuple[tuple[str, int], ...]  # difficulty, public instances


@dataclass(frozen=True, slots=True)
class CardFacts:
    """All that the card states."""

    title: str
    study: str
    licence: str  # SPDX identifier, in lower case as the Hub writes it
    homepage: str  # "" where there is none
    tasks: tuple[CardTask, ...]
    count: int  # public rows
    drawn: int  # both arms
    root: str
    fixed_entropy: bool


# Printed on the card, and run by a test as it stands there.
VERIFIER = r"""
import hashlib, hmac, json

record = json.load(open("commitments.json"))
leaves = [bytes.fromhex(each) for each in record["commitments"]]

for row in record["public"]:
    parts = [b"dosimeter/commitment", b"1", row["instance"].encode(), bytes.fromhex(row["seed"])]
    message = b"".join(len(part).to_bytes(4, "big") + part for part in parts)
    opened = hmac.new(bytes.fromhex(row["nonce"]), message, hashlib.sha256).digest()
    assert opened == leaves[row["leaf"]], f"leaf {row['leaf']} is not what was committed to"

def root(part):
    if len(part) == 1:
        return hashlib.sha256(b"\x00" + part[0]).digest()
    split = 1 << (len(part) - 1).bit_length() - 1
    return hashlib.sha256(b"\x01" + root(part[:split]) + root(part[split:])).digest()

assert root(leaves).hex() == record["root"], "the commitments are not those under the root"
""".strip()


def size_category(count: int) -> str:
    """The Hub's name for how many rows a data set has."""
    bounds: Sequence[tuple[int, str]] = (
        (1_000, "n<1K"),
        (10_000, "1K<n<10K"),
        (100_000, "10K<n<100K"),
        (1_000_000, "100K<n<1M"),
    )
    return next((name for bound, name in bounds if count < bound), "n>1M")


def render_card(facts: CardFacts) -> str:
    """The card as Markdown with YAML metadata."""
    import jinja2

    # Markdown, not HTML: what is filled in comes from the catalogue and the protocol.
    environment = jinja2.Environment(  # noqa: S701 - no HTML is made
        trim_blocks=True,
        lstrip_blocks=True,
        undefined=jinja2.StrictUndefined,
        keep_trailing_newline=True,
    )
    environment.filters |= {"yaml": _yaml_text, "counts": _counts_text}
    return environment.from_string(_CARD).render(
        facts=facts, size=size_category(facts.count), verifier=VERIFIER
    )


def _yaml_text(text: str) -> str:
    return json.dumps(text, ensure_ascii=False)  # a JSON string is a YAML string


def _counts_text(counts: Sequence[tuple[str, int]]) -> str:
    return ", ".join(f"{count} {difficulty}" for difficulty, count in counts)


_CARD = """\
---
pretty_name: {{ facts.title | yaml }}
license: {{ facts.licence | yaml }}
language:
- en
size_categories:
- {{ size }}
tags:
- benchmark
- contamination
- dosimeter
configs:
- config_name: all
  default: true
  data_files:
  - split: public
    path: data/*/public-*.parquet
{% for task in facts.tasks %}
- config_name: {{ task.name }}
  data_files:
  - split: public
    path:
{% for difficulty, count in task.counts %}
    - data/{{ task.name }}-{{ difficulty }}/public-*.parquet
{% endfor %}
{% endfor %}
---

# {{ facts.title }}

{{ facts.count }} task instances, each with its prompt, its input files, the true answer and the
rubric that grades it: the **public arm** of the study *{{ facts.study }}*, which measures how
much a published benchmark leaks into language models.

## Why this is here

It is published so that it can be found, crawled and copied. There is no canary string and no
request to leave it out of training data: what becomes of it is what the study observes.

The study drew {{ facts.drawn }} instances at once and split them at random: these
{{ facts.count }}, and a **private arm** of {{ facts.drawn - facts.count }}, which is sealed.
Models that appear later are run on both. One that does better here than on the sealed instances,
by more than chance allows, has met this data. So a high score on these rows alone says nothing
of a model's skill.
{% if facts.fixed_entropy %}

**This is a demonstration.** Its draw used fixed entropy, so that anyone can make the sealed arm
too. Nothing about real models follows from it.
{% endif %}

## Tasks

| configuration | version | what is asked | instances |
|---|---|---|---|
{% for task in facts.tasks %}
| `{{ task.name }}` | {{ task.version }} | {{ task.summary }} | {{ task.counts | counts }} |
{% endfor %}

Every instance is made by a program from a seed of 32 random bytes: prompt, files, truth and
rubric follow from it, byte for byte. No text or image was taken from anywhere.

## Loading

```python
from datasets import load_dataset

rows = load_dataset("PATH_OR_REPOSITORY", split="public")  # all tasks
rows = load_dataset("PATH_OR_REPOSITORY", "{{ facts.tasks[0].name }}", split="public")
```

## Columns

| column | type | meaning |
|---|---|---|
| `task`, `version`, `difficulty` | text | which generator, and what was asked of it |
| `seed` | text | the 32 bytes that the instance is made from, in hexadecimal |
| `instance` | text | identifier: a digest over the whole instance |
| `leaf` | integer | place of the instance's commitment in `commitments.json`, from 0 |
| `nonce` | text | opens that commitment; 32 bytes in hexadecimal |
| `prompt` | text | what a model is asked |
| `answer_schema` | text | JSON Schema of the answer block |
| `input_files` | list | `path`, `media_type`, `sha256` and `data` (bytes) of each input file |
| `images` | list of images | those input files that are images, decoded on access |
| `truth` | text | JSON: the tables of true values, tolerances |
| `rubric` | text | JSON: criteria with weight, dimension and the deterministic check |
| `answer` | text | JSON: an answer block that scores full marks |

## Checking that nothing was swapped

Before any model was run, the study committed to all {{ facts.drawn }} instances.
`commitments.json` lists the commitments of both arms in the order drawn. Their Merkle root is

    {{ facts.root }}

A commitment is HMAC-SHA256 with the row's `nonce` as key. Its message joins four parts, each
after its own length as 4 bytes, big-endian: the ASCII text `dosimeter/commitment`, the ASCII
text `1`, the `instance` in ASCII (with its `sha256:`), and the 32 bytes of `seed`. The root is
that of RFC 6962, section 2.1, over the commitments' bytes. This needs Python only:

```python
{{ verifier }}
```

When the private arm is revealed one day, the same lines check that it is what was sealed.
`checksums.json` has the SHA-256 of every other file.

## Licence and citation

Licence: `{{ facts.licence }}`.{% if facts.homepage %} Study: <{{ facts.homepage }}>.{% endif %}


```bibtex
@misc{dosimeter-{{ facts.root[:12] }},
  title = { {{- facts.title -}} },
  note  = {Public arm of the study {{ facts.study }}; Merkle root {{ facts.root }}}
}
```
"""
