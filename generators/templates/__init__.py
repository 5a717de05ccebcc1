"""Templated agentic tasks (the PICARD family): files, tables, databases and trees drawn from a
template, with a key that is computed from what was drawn."""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
