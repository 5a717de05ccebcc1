"""Commands for evidence: draws and reveals, checkpoints and witnesses, custodians of keys."""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
