"""Providers' wire formats against the conformance server: prints two JSON lines.

    python -m benchmarks.providers [EPISODES]

``faults``: EPISODES (1,000) whole episodes of all formats, once without faults and once with a
quarter of the requests spoilt by a seeded schedule. A loss is an episode that has no score with
faults, or a lower one than without them. Losses by a ``refusal``, or by two messages that were cut
off or empty (``no_answer``), are the model's own and scored; losses by more faults in a row than a
sweep ``retries`` are missing at random, since the schedule does not look at the task; ``other`` are
the harness's fault, and the target is none.
``cache``: input tokens of an episode of 50 turns that come from the provider's cache, by its
published rules. CPU time is of this process, the server included.
"""

from __future__ import annotations

import json
import os
import sys
import time
from collections import Counter
from typing import Any

from tests.conformance.clients import CLIENTS, ENVIRONMENT
from tests.conformance.episodes import losses, sweep, use_cache

EPISODES, SHARE, TURNS = 1_000, 0.25, 50
TARGET_SHARE = 0.8


def main() -> None:
    os.environ.update(ENVIRONMENT)
    episodes = int(sys.argv[1]) if len(sys.argv) > 1 else EPISODES
    print(json.dumps(measure_faults(episodes)), flush=True)
    print(json.dumps(measure_cache()))


def measure_faults(episodes: int) -> dict[str, Any]:
    """Losses by client and cause, and the faults that were met."""
    begun, cpu = time.monotonic(), time.process_time()
    calm = sweep(CLIENTS, episodes, 0.0)
    calm_cpu, half = time.process_time() - cpu, time.process_time()
    stormy = sweep(CLIENTS, episodes, SHARE)
    lost = losses(calm, stormy)
    every = list(stormy.episodes.values())
    other = [loss for loss in lost if loss.cause == "other"]
    return {
        "benchmark": "providers.faults",
        "episodes": len(every),
        "share_of_requests_spoilt": SHARE,
        "faults": _count(kind for each in every for kind in each.faults),
        "episodes_with_faults": sum(bool(each.faults) for each in every),
        "attempts_failed": sum(len(each.failures) for each in every),
        "losses": {
            client.name: _count(loss.cause for loss in lost if loss.client == client.name)
            for client in CLIENTS
        },
        "models_own": sum(loss.cause in ("refusal", "no_answer") for loss in lost),
        "retries_exhausted": sum(loss.cause == "retries" for loss in lost),
        "not_random": len(other),
        "not_random_faults": _count(" ".join(loss.faults) for loss in other),
        "rules_broken": [*calm.refused, *stormy.refused][:5],
        "met": not other and not calm.refused and not stormy.refused,
        "cpu_ms_each_without_faults": round(calm_cpu * 1e3 / len(every), 1),
        "cpu_ms_each": round((time.process_time() - half) * 1e3 / len(every), 1),
        "seconds": round(time.monotonic() - begun, 1),
    }


def measure_cache() -> dict[str, Any]:
    """Share of the input that comes from the cache, by client."""
    uses = {client.name: use_cache(client, TURNS) for client in CLIENTS}
    shares = {name: round(use.share, 3) for name, use in uses.items()}
    counted = all(use.served == tuple(n or 0 for n in use.recorded) for use in uses.values())
    return {
        "benchmark": "providers.cache",
        "turns": TURNS,
        "target_share": TARGET_SHARE,
        "share": shares,
        "input_tokens": {name: use.served[0] for name, use in uses.items()},
        "recorded_as_served": counted,
        "rules_broken": sum(len(use.refused) for use in uses.values()),
        "met": min(shares.values()) >= TARGET_SHARE and counted,
    }


def _count(kinds: Any) -> dict[str, int]:
    return dict(sorted(Counter(kinds).items()))


if __name__ == "__main__":
    main()
