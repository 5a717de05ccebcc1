"""The command ``dosimeter playground``."""

from __future__ import annotations

import click


@click.command()
@click.option("--port", type=click.IntRange(1, 65535), default=7860)
def playground(port: int) -> None:
    """Serve a page on this machine where anybody makes instances of the task families from seeds
    of their own, answers them, and is graded.

    Nothing of a study is read, and no other host is asked for anything.

    \b
    Example:
      dosimeter playground --port 7861
    """
    from study.extras.playground.app import serve

    serve(port)
