"""Draws: seeds at random, announced, allotted to arms by a value of later, and revealed."""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
