"""What is true of the pictures, and the answer that says so."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from typing import Any

from generators.basics.count_circles.parameters import AVERAGE_TOLERANCE, NAME
from generators.task import Asset, GroundTruth, Table


def make_truth(
    counts: Sequence[int], assets: Sequence[Asset], pixels: Sequence[bytes]
) -> GroundTruth:
    """Tables ``images`` (filename, n_circles) and ``result`` (average); the SHA-256 of each
    file and of its decoded pixels."""
    images = tuple((asset.path, count) for asset, count in zip(assets, counts, strict=True))
    digests = [(asset.path, asset.digest) for asset in assets]
    for asset, decoded in zip(assets, pixels, strict=True):
        digests.append((f"{asset.path}#pixels", "sha256:" + hashlib.sha256(decoded).hexdigest()))
    return GroundTruth(
        tables=(
            ("images", Table(("filename", "n_circles"), images)),
            ("result", Table(("average",), ((sum(counts) / len(counts),),))),
        ),
        tolerances=(("average", AVERAGE_TOLERANCE),),
        digests=tuple(digests),
    )


def make_key(truth: GroundTruth) -> dict[str, Any]:
    images = truth.table("images").records()
    return {
        "task": NAME,
        "counts": {str(row["filename"]): row["n_circles"] for row in images},
        "average": truth.table("result").column("average")[0],
    }
