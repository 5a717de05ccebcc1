"""What a published version makes never changes."""

from __future__ import annotations

import pytest

from tests.generators import golden


def test_a_new_version_is_added_and_the_old_one_kept():
    assert golden.merge({"a@1/easy": ["x"]}, {"a@2/easy": ["y"]}) == {
        "a@1/easy": ["x"],
        "a@2/easy": ["y"],
    }


def test_a_changed_digest_is_refused():
    with pytest.raises(ValueError, match="a@1/easy: other bytes than recorded; raise the family's"):
        golden.merge({"a@1/easy": ["x"]}, {"a@1/easy": ["y"]})
