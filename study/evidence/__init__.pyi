from .verify import verify

__all__ = ["verify"]
