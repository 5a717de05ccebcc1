"""What the leak check of a study's files looks for: of a small draw it is kept, since a release and
each report look for the same."""

from __future__ import annotations

from collections.abc import Callable

from generators.task import Family
from publish.leakcheck.check import release_needles
from publish.leakcheck.secrets import Needles
from study.workspace.study import Study

_SMALL = 256  # instances, whose needles take some 60 MB

_latest: dict[object, tuple[Needles, tuple[Family, ...]]] = {}  # families hold their id()


def needles_of(study: Study, progress: Callable[[int], None]) -> Needles:
    """Return ``release_needles`` of a study's draw and keys. Raises PublishError, RegistryError."""
    entries, keys, find = study.entries(), study.secret_keys(), study.protocol.catalog.family
    families = tuple(find(entry.family, entry.version) for entry in entries)
    key = (tuple(entries), tuple(map(id, families)), tuple(keys.items()))
    if key not in _latest:
        made = release_needles(entries, find, progress, keys)
        if len(entries) > _SMALL:
            return made
        _latest.clear()
        _latest[key] = made, families
        return made
    for done in range(1, len(entries) + 1):
        progress(done)
    return _latest[key][0]
