"""What tests of paid attempts share: a charge, a journal, a sandbox that counts as isolating."""

from __future__ import annotations

from dataclasses import replace

from harness.sandboxes.local import LocalSandboxes
from harness.spending.purchases import CallKind, Charge, Payer, ReplyStore, StoreJournal
from registry.ledger.records import ModelPin
from registry.stores.base import Store
from tests.ledgers import keys_of

CHARGE = Charge(CallKind.EPISODE, Payer.of(ModelPin("m", "openai", "v")), "sha256:e", 0)


def journal_of(store: Store, episode: str, recipient: str, identity: str) -> StoreJournal:
    """The journal of an episode's first attempt."""
    charge = replace(CHARGE, subject=episode)
    return ReplyStore(store, charge, replace(keys_of(identity), recipients=(recipient,))).attempt(1)


class Vouched(LocalSandboxes):
    """The local sandbox, for a model whose every word the test has written itself."""

    isolates, trouble = True, ""
