from .image import PinnedImage, pinned_image
from .lock import exclusive
from .manifests import cells_of, closed_wave, closing_manifest, finished_of, manifest_of
from .setup import (
    check_plan,
    draw_seeds,
    entropy_of,
    find_registration,
    init_study,
    register_plan,
    registration_of,
)
from .snapshot import LedgerSnapshot, StudySnapshot, WaveSnapshot, take_snapshot
from .study import CHECKOUT, Study, is_study, open_study

__all__ = [
    "CHECKOUT",
    "LedgerSnapshot",
    "PinnedImage",
    "Study",
    "StudySnapshot",
    "WaveSnapshot",
    "cells_of",
    "check_plan",
    "closed_wave",
    "closing_manifest",
    "draw_seeds",
    "entropy_of",
    "exclusive",
    "find_registration",
    "finished_of",
    "init_study",
    "is_study",
    "manifest_of",
    "open_study",
    "pinned_image",
    "register_plan",
    "registration_of",
    "take_snapshot",
]
