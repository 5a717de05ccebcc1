"""Calibration of a study, from stored scores or with agents that know a release."""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
