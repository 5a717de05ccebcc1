"""Judges of a study: grading, measuring, and grading again for drift."""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
