"""Errors of the registry: refusals, and broken promises."""


class RegistryError(Exception):
    """Bad input or a broken promise: names the place, the error and the remedy."""


class BrokenPromise(RegistryError):  # noqa: N818 - the house's word
    """A digest, commitment, chain or pin that does not hold."""


class ForeignObject(BrokenPromise):
    """An object or a record that nobody whose signature counts has signed: not evidence."""


class StoreError(RegistryError):
    """A store that cannot be read or written: unreachable, read-only, full."""


class StoreUnavailable(StoreError):  # noqa: N818
    """A store that cannot be used now and may come back by itself: it does not answer, fails, is
    full or read-only. ``reason`` names no object."""

    def __init__(self, place: str, reason: str) -> None:
        super().__init__(place, reason)
        self.reason = reason

    def __str__(self) -> str:
        return f"{self.args[0]}: {self.reason}"


class MissingKey(StoreError):  # noqa: N818
    """No object of that name."""
