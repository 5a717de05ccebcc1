"""Estimators, permutation tests and corrections, free of any plan or table."""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
