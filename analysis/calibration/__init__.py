"""How large a leak a plan would have seen: known leaks planted in clean scores."""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
