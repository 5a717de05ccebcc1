"""One attempt with a paid model and a journal in a store, as a process of its own that a test
can kill: python -m tests.harness.paid_attempt URL FOLDER; age keys in the environment."""

from __future__ import annotations

import os
import sys
from dataclasses import replace

from generators.seed import Seed
from generators.task import TaskSpec
from harness.episode import Cell
from harness.episodes.rollout import AttemptRequest, run_attempt
from harness.models.providers.openai import OpenAIModel
from harness.sandboxes.local import LocalSandboxes
from harness.spending.purchases import CallKind, Charge, Payer, ReplyStore, StoreJournal
from harness.storage import EPISODE_CODEC
from registry.ledger.records import ModelPin
from registry.stores import open_store
from registry.stores.base import Store
from tests.harness.script import brief, noon
from tests.harness.served_model import served_model
from tests.ledgers import keys_of

CHARGE = Charge(CallKind.EPISODE, Payer.of(ModelPin("m", "openai", "v")), "sha256:e", 0)


def journal_of(store: Store, episode: str, recipient: str, identity: str) -> StoreJournal:
    """The journal of an episode's first attempt."""
    charge = replace(CHARGE, subject=episode)
    return ReplyStore(store, charge, replace(keys_of(identity), recipients=(recipient,))).attempt(1)


class Vouched(LocalSandboxes):
    """The local sandbox, for a model whose every word the test has written itself."""

    isolates = True


def main() -> None:
    url, folder = sys.argv[1:]
    cell = Cell(
        "sha256:" + "e" * 64, TaskSpec("x", "1", "easy", ()), "sha256:i", Seed(bytes(32)), "m", 0
    )
    journal = journal_of(
        open_store(folder), cell.episode, os.environ["RECIPIENT"], os.environ["IDENTITY"]
    )
    model = served_model(OpenAIModel, url)
    episode = run_attempt(
        AttemptRequest(cell, 1, brief(), run="r", journal=journal), model, Vouched(), noon
    )
    sys.stdout.buffer.write(EPISODE_CODEC.encode(episode))


if __name__ == "__main__":
    main()
