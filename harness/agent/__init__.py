"""The agent loop: turns, tools, limits, and tasks put as a single message."""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
