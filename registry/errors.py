"""Errors of the registry: refusals, and broken promises."""


class RegistryError(Exception):
    """Bad input or a broken promise: names the place, the error and the remedy."""


class BrokenPromise(RegistryError):  # noqa: N818 - the house's word
    """A digest, commitment, chain or pin that does not hold."""


class StoreError(RegistryError):
    """A store that cannot be read or written: unreachable, read-only, full."""


class MissingKey(StoreError):  # noqa: N818
    """No object of that name."""
