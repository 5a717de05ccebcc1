"""Object stores with put-if-absent: a folder, S3, and memory."""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
