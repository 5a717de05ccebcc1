"""Sandboxes that carry out tool calls: Docker, and a local one for built-in agents."""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
