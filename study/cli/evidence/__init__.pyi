from .draws import draw, reveal, show_readiness, underpowered_option, unproved_option
from .keys import keys

__all__ = [
    "draw",
    "keys",
    "reveal",
    "show_readiness",
    "underpowered_option",
    "unproved_option",
]
