"""The dataset card of a release: Markdown below metadata that the Hub reads."""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import groupby
from pathlib import Path
from typing import Any

from publish.leakcheck.check import FindFamily
from registry.ledger.draw_records import SealedSet
from registry.sealing import DrawnInstance

HUB = "https://huggingface.co"
_CARD = Path(__file__).with_name("dataset_card.md.j2")
_BIBTEX = {"\\": r"\textbackslash{}", "~": r"\textasciitilde{}", "^": r"\textasciicircum{}"}


@dataclass(frozen=True, slots=True)
class ReleaseText:
    """Words of people about a release."""

    study: str
    title: str
    licence: str = "apache-2.0"  # SPDX identifier, in lower case as the Hub writes it
    repository: str = ""  # owner/name on the Hub; "" for a folder alone
    hub: str = HUB  # address of the Hub that has it
    authors: tuple[str, ...] = ()
    homepage: str = ""
    doi: str = ""
    year: str = ""  # of the registration

    @property
    def url(self) -> str:
        """Address that a citation gives: of the data set, else the homepage; may be ""."""
        return f"{self.hub}/datasets/{self.repository}" if self.repository else self.homepage


def split_of(tranche: int) -> str:
    """Name of the split with a tranche's public arm: ``public`` for the panel, ``reserve_3``."""
    return f"reserve_{tranche}" if tranche else "public"


def tag_of(tranche: int) -> str:
    """Tag of the first revision that has a tranche: ``tranche-0`` for the panel."""
    return f"tranche-{tranche}"


def render_card(
    entries: Sequence[DrawnInstance],
    sealed: SealedSet,
    find_family: FindFamily,
    text: ReleaseText,
    examples: Sequence[Mapping[str, Any]],
    asked: Collection[str] = (),
) -> str:
    """Return the card of the released entries, which are in the order of the release.

    ``examples`` are rows that it shows; images among their files add a task category. ``asked``
    are the strata, as configurations, that Inspect runs from the Hub.
    """
    import jinja2

    tasks = []
    for name, members in groupby(entries, key=lambda entry: f"{entry.family}@{entry.version}"):
        levels = groupby(entry.difficulty for entry in members)
        tasks.append((find_family(name), [(level, len(list(group))) for level, group in levels]))
    tranches = Counter(entry.tranche for entry in entries)
    # Markdown, not HTML: what is filled in comes from the catalogue and the protocol.
    environment = jinja2.Environment(  # noqa: S701 - no HTML is made
        trim_blocks=True,
        lstrip_blocks=True,
        undefined=jinja2.StrictUndefined,
        keep_trailing_newline=True,
    )
    environment.filters["yaml"] = partial(json.dumps, ensure_ascii=False)  # JSON text is YAML
    environment.filters["bibtex"] = _bibtex
    return environment.from_string(_CARD.read_text(encoding="utf-8")).render(
        text=text,
        tasks=tasks,
        splits=[(split_of(each), each, tranches[each]) for each in sorted(tranches)],
        tag=tag_of(max(tranches)),
        count=len(entries),
        waiting=sealed.count // 2 - len(entries),
        size=_size_category(len(entries)),
        sealed=sealed,
        examples=examples,
        asked=asked,
        strata=list(dict.fromkeys(f"{each.family}-{each.difficulty}" for each in entries)),
        images=any(example["images"] for example in examples),
    )


def _bibtex(text: str) -> str:
    """Escape the characters that TeX reads as commands."""
    return re.sub(
        r"[\\~^{}%&$#_]", lambda found: _BIBTEX.get(found.group(), "\\" + found.group()), text
    )


def _size_category(count: int) -> str:
    """The Hub's name for how many rows a data set has."""
    bounds = {"n<1K": 1e3, "1K<n<10K": 1e4, "10K<n<100K": 1e5, "100K<n<1M": 1e6}
    return next((name for name, bound in bounds.items() if count < bound), "1M<n<10M")
