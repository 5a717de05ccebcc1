from .keys import keys

__all__ = ["keys"]
