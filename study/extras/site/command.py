"""The command ``dosimeter site``."""

from __future__ import annotations

import re
from pathlib import Path

import click

from study.options import PATH
from study.printing import print_line


def _space(context: click.Context, parameter: click.Parameter, value: str | None) -> str | None:
    if value is None or re.fullmatch(r"[\w.-]+/[\w.-]+", value, re.ASCII):
        return value
    raise click.BadParameter(f"{value!r} is no Space: give OWNER/NAME")


@click.command()
@click.argument("out", type=PATH)
@click.argument("studies", metavar="STUDY...", nargs=-1, required=True)
@click.option(
    "--space",
    metavar="OWNER/NAME",
    callback=_space,
    show_default="none",
    help="Push it to this static Space of the Hugging Face Hub too.",
)
@click.option(
    "--playground",
    metavar="OWNER/NAME",
    callback=_space,
    show_default="none",
    help="Make this Space a playground of the public families.",
)
def site(out: Path, studies: tuple[str, ...], space: str | None, playground: str | None) -> None:
    """Write a static site of studies into the folder OUT, from what is public of them.

    A STUDY is a study's folder, the address of its store, or the folder of a report. No key is
    read. The same studies give the same files. OUT is new, or holds an earlier site, which is
    replaced.

    \b
    Examples:
      dosimeter site public my-study
      dosimeter site public my-study s3://bucket/other --space our-lab/contamination
    """
    from publish.hub import check_token
    from publish.space import push_space
    from study.extras.playground.push import push_playground
    from study.extras.site.pages import INDEX
    from study.extras.site.site import make_site

    if space or playground:
        check_token()
    count = make_site(out, studies)
    print_line(f"{count} files in {out}: open {out}/index.html")
    if space:
        print_line(f"Space {space} is at revision {push_space(out, space, INDEX)}")
    if playground:
        print_line(f"Space {playground} is at revision {push_playground(playground)}")
