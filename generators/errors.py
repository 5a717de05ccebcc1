"""What a generator refuses."""


class GeneratorError(ValueError):
    """A request that no generator can serve: says what is wrong and what would be right."""


class GuardExhausted(RuntimeError):  # noqa: N818 - a broken promise of a generator, not bad input
    """A degenerate draw was redrawn as often as is allowed (spec/physics.md, R4)."""
