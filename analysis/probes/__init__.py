"""Whether models know public instances from memory: closed-book probes, text probes."""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
