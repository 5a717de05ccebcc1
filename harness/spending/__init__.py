"""Paid calls: prices, the store of replies, and one budget for all of them."""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
