"""Checkpoints of a ledger: signed, stamped with a time, and checked."""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
