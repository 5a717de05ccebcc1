from .image import PinnedImage, pinned_image
from .lock import alone
from .setup import check_plan, entropy_of, find_registration, init_study, registration_of
from .study import CHECKOUT, Study, is_study, open_study

__all__ = [
    "CHECKOUT",
    "PinnedImage",
    "Study",
    "alone",
    "check_plan",
    "entropy_of",
    "find_registration",
    "init_study",
    "is_study",
    "open_study",
    "pinned_image",
    "registration_of",
]
