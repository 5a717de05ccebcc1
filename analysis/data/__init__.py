"""Tables of results: read, checked, and averaged to one value per seed."""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
