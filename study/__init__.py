"""The study as people run it: command line, protocol file, pipeline, demo, and an API for
notebooks (docs/python-api.md)."""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
