"""Checks before a draw and a registration: what is refused later, and what cannot answer."""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
