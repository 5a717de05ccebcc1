"""Verification of the code that records name: its lock, and what it asks of agents."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from harness.agent import rules_digest
from registry.ledger import Entry, Provenance, RunManifest
from registry.provenance import lock_of_commit, read_provenance
from study.workspace import CHECKOUT


def check_code(entries: Sequence[Entry]) -> Iterator[tuple[str, str]]:
    """Yield what is wrong with the code that the plan and the waves name, as far as this repository
    has their commits: the lock of libraries, and at the same commit the digest of the agents'
    rules."""
    now = read_provenance(CHECKOUT, "none")
    changed: list[str] = []
    for entry in entries:
        if entry.kind not in ("preregistration", "run-manifest"):
            continue
        record: RunManifest = entry.record
        made: Provenance = record.provenance
        if made.dirty:
            changed.append(str(entry.sequence))
            continue
        lock = lock_of_commit(CHECKOUT, made.commit)
        if lock is None:
            yield "", f"the code of {entry.place}: this repository has no commit {made.commit[:40]}"
        elif lock != made.lock:
            problem = f"lock {made.lock} is not that of its commit, {lock}"
            yield entry.place, f"{entry.kind}: its {problem}"
        if entry.kind == "run-manifest" and (now.commit, now.dirty) == (made.commit, False):
            rules = rules_digest()
            if record.agent_rules != rules:
                problem = f"agent rules {record.agent_rules} are not those of its commit, {rules}"
                yield entry.place, f"{entry.kind}: its {problem}"
    if changed:
        records = ", ".join(changed)
        yield "", f"the code of ledger records {records}: the tree had changes that no commit has"
