from .checkpoints import checkpoint, witness

__all__ = ["checkpoint", "witness"]
