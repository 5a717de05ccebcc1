from .checkpoints import checkpoint, witness
from .draws import draw, reveal, show_readiness, underpowered_option

__all__ = ["checkpoint", "draw", "reveal", "show_readiness", "underpowered_option", "witness"]
