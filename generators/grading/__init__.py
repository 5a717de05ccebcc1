"""Answers, checks and rubrics: from what an agent handed in to a grade."""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
