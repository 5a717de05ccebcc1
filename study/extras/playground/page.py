"""The parts of the playground's page that are HTML: files, pictures, grades, rubrics.

Files lie in the page itself, as ``data:`` addresses, so that none is left on the server.
"""

from __future__ import annotations

import base64
import io
import json
from collections.abc import Iterator
from html import escape
from zipfile import ZIP_DEFLATED, ZipFile, ZipInfo

from generators.task import Asset, Brief
from study.extras.playground.work import Made, Marked

PICTURES, PREVIEW = 12, 4000  # that are shown of an instance; characters of a file
_LONG = 12  # parts of a criterion that are listed


def files_html(brief: Brief) -> str:
    """Return the input files: previews, pictures, and all of them to download."""
    if not brief.assets:
        return "<p>No input files.</p>"
    address = _data("application/zip", _zip(brief.assets))
    count = len(brief.assets)
    head = f'<p><a download="files.zip" href="{address}">Download all {count} files</a></p>'
    return head + "".join(_shown(brief.assets))


def _shown(assets: tuple[Asset, ...]) -> Iterator[str]:
    pictures = [asset for asset in assets if asset.media_type.startswith("image/")]
    for asset in assets:
        if asset not in pictures:
            yield _preview(asset)
    for asset in pictures[:PICTURES]:
        name, address = escape(asset.path), _data(asset.media_type, asset.data)
        yield f'<figure><img alt="{name}" src="{address}"><figcaption>{name}</figcaption></figure>'
    if more := len(pictures) - PICTURES:
        yield f"<p>{more} more pictures are in the download.</p>" if more > 0 else ""


def _preview(asset: Asset) -> str:
    name, size = escape(asset.path), f"{len(asset.data):,} bytes"
    try:
        text = "" if b"\0" in asset.data else asset.data.decode("utf-8")
    except UnicodeDecodeError:
        text = ""
    if not text:
        return f"<p>{name} ({size}, no text)</p>"
    shown = escape(text[:PREVIEW]) + ("" if len(text) <= PREVIEW else "\n…")
    return f"<details><summary>{name} ({size})</summary><pre tabindex=0>{shown}</pre></details>"


def _data(media_type: str, data: bytes) -> str:
    return f"data:{media_type};base64,{base64.b64encode(data).decode()}"


def _zip(assets: tuple[Asset, ...]) -> bytes:
    """The files as one archive, the same for the same files."""
    target = io.BytesIO()
    with ZipFile(target, "w", ZIP_DEFLATED) as archive:
        for asset in assets:
            archive.writestr(ZipInfo(asset.path), asset.data, ZIP_DEFLATED)
    return target.getvalue()


def grade_html(marked: Marked) -> str:
    """Return the grade of an answer."""
    faults = "".join(f"<li>{escape(fault)}</li>" for fault in marked.faults)
    listed = f"<ul>{faults}</ul>" if faults else ""
    if marked.score is None:
        return f"<p><strong>Not graded.</strong></p>{listed}"
    rows = "".join(
        f"<tr><td>{escape(each.name)}</td><td>{100 * each.met:.0f} %</td></tr>"
        for each in marked.criteria
    )
    head = "<tr><th>Criterion</th><th>Met</th></tr>"
    table = f"<table>{head}{rows}</table>" if rows else ""
    return f"<p><strong>Score: {100 * marked.score:.1f} %</strong></p>{listed}{table}"


def key_html(made: Made) -> str:
    """Return the answer that earns full marks, and the rubric."""
    key = escape(json.dumps(made.key, indent=2, ensure_ascii=False))
    rows = []
    for parts in made.instance.rubric.criteria:
        texts = [escape(part.text) for part in parts[:_LONG]]
        more = [f"… and {len(parts) - _LONG} more"] if len(parts) > _LONG else []
        asked = "<br>".join([*texts, *more])
        rows.append(f"<tr><td>{escape(parts[0].criterion)}</td><td>{asked}</td></tr>")
    table = f"<table><tr><th>Criterion</th><th>Asks</th></tr>{''.join(rows)}</table>"
    return f"<p>An answer with full marks:</p><pre tabindex=0>{key}</pre><p>The rubric:</p>{table}"
