from .draws import draw, reveal, show_readiness, underpowered_option

__all__ = ["draw", "reveal", "show_readiness", "underpowered_option"]
