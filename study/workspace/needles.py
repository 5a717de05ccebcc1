"""What the leak check of a study's files looks for: of a small draw it is kept, since a release and
each report look for the same."""

from __future__ import annotations

from collections.abc import Callable

from generators.task import Family
from publish.leakcheck.check import release_needles
from publish.leakcheck.secrets import Needles
from study.workspace.study import Study

_SMALL = 256  # instances, whose needles take some 60 MB
_MOST = 2  # draws

_kept: dict[object, tuple[tuple[Family, ...], Needles]] = {}  # the latest at the end


def needles_of(study: Study, progress: Callable[[int], None]) -> Needles:
    """Return ``release_needles`` of a study's draw and keys. Raises PublishError, RegistryError."""
    entries, keys, find = study.entries(), study.secret_keys(), study.protocol.catalog.family
    if len(entries) > _SMALL:
        return release_needles(entries, find, progress, keys)
    names = sorted({f"{entry.family}@{entry.version}" for entry in entries})
    families = tuple(map(find, names))  # held as long as their id() is part of a key
    key = (tuple(entries), tuple(map(id, families)), tuple(keys.items()))
    if (held := _kept.pop(key, None)) is None:
        held = families, release_needles(entries, find, progress, keys)
    else:
        for done in range(1, len(entries) + 1):
            progress(done)
    _kept[key] = held
    for oldest in list(_kept)[:-_MOST]:
        del _kept[oldest]
    return held[1]
