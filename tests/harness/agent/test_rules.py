"""The pin of the agent loop: it moves with every text, tool and cap, and with nothing else."""

from __future__ import annotations

import pytest

from harness.agent import caps, prompts, rules, tools
from harness.agent.rules import rules_digest


def test_each_text_tool_and_cap_moves_the_digest(monkeypatch: pytest.MonkeyPatch) -> None:
    assert rules_digest() == rules_digest()
    seen = {rules_digest()}
    for index, text in enumerate(prompts.TEXTS):
        changed = (*prompts.TEXTS[:index], text + ".", *prompts.TEXTS[index + 1 :])
        with monkeypatch.context() as patch:
            patch.setattr(prompts, "TEXTS", changed)
            seen.add(rules_digest())
    with monkeypatch.context() as patch:
        patch.setattr(tools, "TOOLS", tools.TOOLS[:-1])
        seen.add(rules_digest())
    with monkeypatch.context() as patch:
        patch.setitem(rules._CAPS, "calls", caps.MAX_CALLS + 1)
        seen.add(rules_digest())
    assert len(seen) == 3 + len(prompts.TEXTS)
