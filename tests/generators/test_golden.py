"""What a published version makes never changes."""

from __future__ import annotations

import importlib.util
from pathlib import Path

import pytest

_SPEC = importlib.util.spec_from_file_location("golden", Path(__file__).with_name("golden.py"))
assert _SPEC is not None
assert _SPEC.loader is not None
golden = importlib.util.module_from_spec(_SPEC)
_SPEC.loader.exec_module(golden)


def test_a_new_version_is_added_and_the_old_one_kept():
    assert golden.merge({"a@1/easy": ["x"]}, {"a@2/easy": ["y"]}) == {
        "a@1/easy": ["x"],
        "a@2/easy": ["y"],
    }


def test_a_changed_digest_is_refused():
    with pytest.raises(ValueError, match="a@1/easy: other bytes than recorded; raise the family's"):
        golden.merge({"a@1/easy": ["x"]}, {"a@1/easy": ["y"]})
