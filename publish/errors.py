"""Errors of publishing."""


class PublishError(Exception):
    """A release that must not, or cannot, go out: names the place and the remedy.

    It never carries anything that is derived from a private seed.
    """
