"""The ledger: an append-only chain of records, with Merkle roots and inventories."""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
