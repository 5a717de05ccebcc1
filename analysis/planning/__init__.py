"""Before a study: simulated power of its plan, and seeds and controls that it needs."""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
