"""The page's script is built from the sources beside it, and reads the records as the registry has
them."""

from __future__ import annotations

import hashlib

from tests.conftest import ROOT
from tests.study.extras.site.forms import PATH, forms_text

SOURCES = ROOT / "study/extras/site/browser"


def test_the_bundle_is_built_from_the_sources() -> None:
    """`npm ci && npm run build` in their folder builds it anew."""
    head = (SOURCES.parent / "static/check.js").open(encoding="utf-8").readline()
    paths = sorted(path for path in SOURCES.iterdir() if path.suffix in (".js", ".json"))
    lines = [f"{hashlib.sha256(path.read_bytes()).hexdigest()}  {path.name}\n" for path in paths]
    assert f"sha256:{hashlib.sha256(''.join(lines).encode()).hexdigest()}." in head


def test_the_forms_are_those_of_the_records() -> None:
    assert PATH.read_text(encoding="utf-8") == forms_text()


def test_the_lock_names_no_registry() -> None:
    assert "resolved" not in (SOURCES / "package-lock.json").read_text(encoding="utf-8")


def test_each_package_in_the_bundle_has_its_licence() -> None:
    text = (SOURCES.parent / "static/check.licences.txt").read_text(encoding="utf-8")
    for name in ("@noble/curves 2.4.0 (MIT)", "@noble/hashes 2.4.0 (MIT)"):
        assert f"\n{name}, " in text
