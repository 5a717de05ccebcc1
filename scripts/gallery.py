#!/usr/bin/env python3
"""Write docs/gallery.md, an example of each family at each difficulty with its pictures.

With ``--check`` nothing is written, and a stale page or picture gives exit code 1.
"""

from __future__ import annotations

import io
import json
import math
import sys
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import chain, zip_longest
from pathlib import Path, PurePosixPath
from typing import Any

from generators.catalog import Catalog
from generators.grading.rubric import Part, criteria_of
from generators.seed import EXAMPLE_SEED
from generators.task import DIFFICULTIES, Asset, Family, TaskInstance

DOCS = Path(__file__).resolve().parent.parent / "docs"
PAGE = "gallery.md"
FOLDER = "gallery"

MAX_FILES = 4  # of one example that are shown
MAX_LINES = 10
MAX_LINE = 110
MAX_SIDE = 1000  # pixels; a larger picture is shown smaller
MAX_PIXELS = 420 * 420  # of all of it, so that long strips stay readable
MAX_ITEMS = 4  # of a list in the key
_ALIKE = 4  # letters of a file's name that show its kind

_INTRO = """\
# Gallery

One public example of each task family at each difficulty: what an agent is given, and what earns
marks. The seed is the example's own, which no study draws. Long lists are cut (`…`), large
pictures made smaller. `make gallery` writes this page; a test holds it to the generators.
"""


@dataclass(frozen=True, slots=True)
class Gallery:
    """The page, and the pictures beside it by file name."""

    text: str
    pictures: Mapping[str, bytes]


@dataclass(slots=True)
class _Page:
    """A page that is being written."""

    lines: list[str] = field(default_factory=list)
    pictures: dict[str, bytes] = field(default_factory=dict)

    def add(self, *lines: str) -> None:
        self.lines.extend((*lines, ""))


def render_gallery(families: Sequence[Family] | None = None) -> Gallery:
    """The gallery of these families; of the repository's own where none are given."""
    shown = Catalog.built_in().newest() if families is None else families
    page = _Page([*_INTRO.splitlines(), ""])
    page.add(*(f"- [{each.name}](#{each.name}): {each.summary}" for each in shown))
    for each in shown:
        page.add(f"## {each.name}")
        page.add(f"{each.summary[0].upper()}{each.summary[1:]}. Version {each.version}.")
        for difficulty in DIFFICULTIES:
            instance = each.generate(difficulty, EXAMPLE_SEED)
            _show_example(page, instance, each.key(instance.truth))
    return Gallery("\n".join(page.lines).rstrip() + "\n", page.pictures)


def write_gallery(gallery: Gallery, docs: Path = DOCS) -> None:
    """Replace the page and the pictures; pictures that are no longer shown are removed."""
    folder = docs / FOLDER
    folder.mkdir(parents=True, exist_ok=True)
    for name, data in gallery.pictures.items():
        (folder / name).write_bytes(data)
    for old in folder.glob("*.png"):
        if old.name not in gallery.pictures:
            old.unlink()
    (docs / PAGE).write_text(gallery.text, encoding="utf-8")


def stale(gallery: Gallery, docs: Path = DOCS) -> tuple[str, ...]:
    """The files that are not as they would be written: text by letter, pictures by pixel."""
    page, folder = docs / PAGE, docs / FOLDER
    same = page.is_file() and page.read_text(encoding="utf-8") == gallery.text
    changed = [] if same else [PAGE]
    there = {path.name for path in folder.glob("*.png")}
    for name in sorted(there ^ gallery.pictures.keys()):
        changed.append(f"{FOLDER}/{name}")
    for name in sorted(there & gallery.pictures.keys()):
        if _pixels((folder / name).read_bytes()) != _pixels(gallery.pictures[name]):
            changed.append(f"{FOLDER}/{name}")
    return tuple(changed)


def _show_example(page: _Page, instance: TaskInstance, key: Mapping[str, Any]) -> None:
    spec, brief = instance.spec, instance.brief
    page.add(f"### {spec.family}, {spec.difficulty}")
    page.add(", ".join(f"{name} {value}" for name, value in spec.parameters) + ".")
    _show_files(page, f"{spec.family}-{spec.difficulty}", brief.assets)
    page.add("<details><summary>Prompt</summary>")
    page.add("````text", brief.prompt.rstrip(), "````", "</details>")
    page.add("Answer:")
    page.add("```json", json.dumps(_cut(key), ensure_ascii=False), "```")
    page.add(*_rubric_table(instance.rubric.parts))


def _show_files(page: _Page, stem: str, assets: Sequence[Asset]) -> None:
    chosen = choose_files(assets)
    count = f"{len(assets)} file{'' if len(assets) == 1 else 's'}"
    page.add(f"{count}, of which {len(chosen)}:" if len(chosen) < len(assets) else f"{count}:")
    pictures = [asset for asset in chosen if asset.media_type.startswith("image/")]
    links = []
    for number, asset in enumerate(pictures, 1):
        name = f"{stem}-{number}.png"
        page.pictures[name] = _shrink(asset.data)
        links.append(f'<img src="{FOLDER}/{name}" alt="{asset.path}" title="{asset.path}">')
    if links:
        page.add(*links)
    for asset in chosen:
        if asset not in pictures:
            page.add(f"`{asset.path}`", "", "```text", *_first_lines(asset.data), "```")


def choose_files(assets: Sequence[Asset]) -> tuple[Asset, ...]:
    """At most MAX_FILES, of as many kinds as there are: one of each in turn."""
    kinds: dict[tuple[str, str], list[Asset]] = {}
    for asset in assets:
        path = PurePosixPath(asset.path)
        start = path.stem[:_ALIKE].rstrip("0123456789")
        kinds.setdefault((path.suffix, start), []).append(asset)
    turns = chain.from_iterable(zip_longest(*kinds.values()))
    chosen = [asset for asset in turns if asset is not None][:MAX_FILES]
    return tuple(asset for asset in assets if asset in chosen)


def _rubric_table(parts: Sequence[Part]) -> Iterator[str]:
    """A row for each metarubric, with the first of its parts."""
    yield "| metarubric | | weight | criteria | parts | the first |"
    yield "|---|---|---:|---:|---:|---|"
    groups: dict[str, list[Part]] = {}
    for part in parts:
        groups.setdefault(part.metarubric, []).append(part)
    for name, members in groups.items():
        first = members[0]
        asks = " ".join(first.text.replace("|", "\\|").split())
        counts = f"{len(criteria_of(members))} | {len(members)}"
        yield f"| {name} | {first.dimension} | {first.weight:g} | {counts} | {asks} |"


def _first_lines(data: bytes) -> Iterator[str]:
    lines = data.decode("utf-8", "replace").splitlines()
    for line in lines[:MAX_LINES]:
        yield line if len(line) <= MAX_LINE else line[:MAX_LINE] + "…"
    if len(lines) > MAX_LINES:
        yield f"… ({len(lines)} lines)"


def _cut(value: Any) -> Any:
    """The key with its lists and objects cut to their first few."""
    if isinstance(value, Mapping):
        kept = {name: _cut(each) for name, each in list(value.items())[: 2 * MAX_ITEMS]}
        return kept if len(value) <= 2 * MAX_ITEMS else kept | {"…": f"{len(value)} in all"}
    if isinstance(value, list | tuple):
        items = [_cut(each) for each in value[:MAX_ITEMS]]
        return items if len(value) <= MAX_ITEMS else [*items, f"… {len(value)} in all"]
    return value


def _shrink(data: bytes) -> bytes:
    from PIL import Image

    with Image.open(io.BytesIO(data)) as image:
        area = image.width * image.height
        factor = min(MAX_SIDE / max(image.size), math.sqrt(MAX_PIXELS / area))
        if factor >= 1:
            return data
        size = (round(image.width * factor), round(image.height * factor))
        small = image.convert("L" if image.mode in ("1", "L") else "RGB")
        small = small.resize(size, Image.Resampling.LANCZOS)
        buffer = io.BytesIO()
        small.quantize(16).save(buffer, "PNG", optimize=True)
        return buffer.getvalue()


def _pixels(data: bytes) -> tuple[tuple[int, int], bytes]:
    from PIL import Image

    with Image.open(io.BytesIO(data)) as image:
        return image.size, image.convert("RGB").tobytes()


def main(arguments: Sequence[str]) -> int:
    """Write the gallery, or check it."""
    gallery = render_gallery()
    if "--check" not in arguments:
        write_gallery(gallery)
        print(f"wrote {DOCS / PAGE} and {len(gallery.pictures)} pictures")
        return 0
    old = stale(gallery)
    for name in old:
        print(f"docs/{name} is stale: run `make gallery`", file=sys.stderr)
    return 1 if old else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
