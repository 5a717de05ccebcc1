"""What is true of the file as it is written, and the answer that says so."""

from __future__ import annotations

import csv
import io
from math import fsum
from typing import Any

from generators.task import Asset, GroundTruth, Table

from .parameters import MEAN_TOLERANCE, NAME


def make_truth(asset: Asset) -> GroundTruth:
    """Tables ``readings`` (id, status, value), ``bad`` (id) and ``result`` (mean)."""
    written = list(csv.DictReader(io.StringIO(asset.data.decode("utf-8"))))
    rows = tuple((row["id"], row["status"], float(row["value"])) for row in written)
    good = [value for _, status, value in rows if status == "good"]
    bad = tuple((name,) for name, status, _ in rows if status == "bad")
    return GroundTruth(
        tables=(
            ("readings", Table(("id", "status", "value"), rows)),
            ("bad", Table(("id",), bad)),
            ("result", Table(("mean",), ((fsum(good) / len(good),),))),
        ),
        tolerances=(("mean", MEAN_TOLERANCE),),
        digests=((asset.path, asset.digest),),
    )


def make_key(truth: GroundTruth) -> dict[str, Any]:
    return {
        "task": NAME,
        "bad": list(truth.table("bad").column("id")),
        "mean": truth.table("result").column("mean")[0],
    }
