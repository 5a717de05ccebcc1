"""Exceptions of generators, raised for input that they reject."""

from __future__ import annotations

from collections.abc import Iterable

_LONGEST_NAME = 200  # characters that are compared with known names
_MOST_NAMES = 200  # that are listed
_MOST_COMPARED = 2000


class GeneratorError(ValueError):
    """A request that no generator can serve: says what is wrong and what would be right."""


class TemplateError(GeneratorError):
    """A template, or a key that it asks for, that cannot be used: names file, line and key."""


class TemplateLimitError(TemplateError):
    """A bound that a template strikes, or what no key may ask: the template's fault and not the
    draw's, so that nothing is drawn again."""


class ChildLimitError(GeneratorError):
    """What a child process read met a limit of its time or memory: the end of a sentence about
    it."""


class GuardExhausted(RuntimeError):  # noqa: N818 - a broken promise of a generator, not bad input
    """A degenerate draw was redrawn as often as is allowed."""


def unknown(what: str, given: str, known: Iterable[str]) -> GeneratorError:
    """The error for a name that is none of the known ones, with the nearest that is."""
    return GeneratorError(f"unknown {what} {given!r}; {nearest(given, known)}")


def nearest(given: str, known: Iterable[str]) -> str:
    """``did you mean 'x'? known: x, y``: the end of a sentence about an unknown name."""
    names = tuple(known)
    alike = near(given, names)
    hint = "" if alike is None else f"did you mean {alike!r}? "
    more = f" and {len(names) - _MOST_NAMES} more" if len(names) > _MOST_NAMES else ""
    return f"{hint}known: {', '.join(names[:_MOST_NAMES])}{more}"


def near(given: str, known: Iterable[str]) -> str | None:
    """Return the one of the known names that is most like the given one; None if none is."""
    import difflib

    names = difflib.get_close_matches(
        given[:_LONGEST_NAME], tuple(known)[:_MOST_COMPARED], n=1, cutoff=0.5
    )
    return names[0] if names else None
