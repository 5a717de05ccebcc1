"""The leak check: nothing that follows from a private seed is published."""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
