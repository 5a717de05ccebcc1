"""The registered plan: its presets, and every test that it runs at a look."""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
