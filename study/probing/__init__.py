"""Probes of a wave's models, promised in the ledger, joined to the arms later."""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
