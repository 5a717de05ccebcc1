"""Simulate what docs/statistics.md shows of the plan; print one JSON line.

    python -m benchmarks.statistics.run                 40 studies of everything, kept nowhere
    python -m benchmarks.statistics.run --write         500, into docs/statistics.json and .md

What docs/statistics.json holds with as many replications is not made again, so that a run that
was stopped goes on; ``--anew WORD`` makes those again whose name holds the word.
"""

from __future__ import annotations

import argparse
import json
import time
from pathlib import Path
from typing import Any

from benchmarks.statistics.jobs import all_jobs
from benchmarks.statistics.page import COMMAND, missed_targets, render

ROOT = Path(__file__).resolve().parent.parent.parent
STORED, PAGE = ROOT / "docs/statistics.json", ROOT / "docs/statistics.md"


def main() -> None:
    options = _options()
    start = time.process_time()
    jobs, made = all_jobs(), 0
    done: dict[str, Any] = {}
    if options.write and STORED.exists():
        stored = json.loads(STORED.read_text())["jobs"]
        done = {key: value for key, value in stored.items() if key in jobs}
    for key, job in jobs.items():
        known = done.get(key)
        stays = known and known["of"] == job.studies(options.replications)
        if options.only not in key or (stays and not (options.anew and options.anew in key)):
            continue
        done[key] = job.run(options.replications, key)
        made += 1
        if options.write:
            _store(done)
    if options.write:
        _store(done)
        PAGE.write_text(render(done))
    line = {
        "benchmark": "statistics",
        "replications": options.replications,
        "jobs": len(done),
        "made": made,
        "cpu_seconds": round(time.process_time() - start, 1),
        "targets_missed_by_more_than_3_errors": missed_targets(done),
    }
    print(json.dumps(line))


def _store(done: dict[str, Any]) -> None:
    order = [key for key in all_jobs() if key in done]
    record = {"made_by": COMMAND, "jobs": {key: done[key] for key in order}}
    text = json.dumps(record, indent=1, ensure_ascii=False)
    part = STORED.with_suffix(".part")
    part.write_text(text + "\n")
    part.replace(STORED)


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--write", action="store_true", help="keep results, write the page")
    parser.add_argument("--replications", type=int, help="default: 40, or 500 with --write")
    parser.add_argument("--only", default="", help="jobs whose name holds this")
    parser.add_argument("--anew", default="", help="make stored jobs again whose name holds this")
    options = parser.parse_args()
    options.replications = options.replications or (500 if options.write else 40)
    return options


if __name__ == "__main__":
    main()
