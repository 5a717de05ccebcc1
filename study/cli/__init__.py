"""The command line of dosimeter: one module for each group of commands."""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
