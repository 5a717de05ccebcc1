"""The command ``dosimeter site``."""

from __future__ import annotations

from pathlib import Path

import click

from study.options import PATH
from study.printing import print_line


@click.command()
@click.argument("out", type=PATH)
@click.argument("studies", metavar="STUDY...", nargs=-1, required=True)
def site(out: Path, studies: tuple[str, ...]) -> None:
    """Write a static site of studies into the folder OUT, from what is public of them.

    A STUDY is a study's folder, the address of its store, or the folder of a report. No key is
    read. The same studies give the same files. OUT is new, or holds an earlier site, which is
    replaced.

    \b
    Examples:
      dosimeter site public my-study
      dosimeter site public my-study s3://bucket/other
    """
    from study.extras.site.site import make_site

    count = make_site(out, studies)
    print_line(f"{count} files in {out}: open {out}/index.html")
