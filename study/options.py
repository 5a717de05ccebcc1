"""Options that commands share."""

from __future__ import annotations

import functools
import re
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from study.errors import StudyError
from study.printing import wants_json
from study.workspace.address import open_study, store_address

if TYPE_CHECKING:
    from study.protocol.protocol import Protocol


PATH = click.Path(path_type=Path)


def json_option(command: Callable[..., None]) -> Callable[..., None]:
    """Give a command the program's --json, as its parameter ``as_json``."""

    @functools.wraps(command)
    def with_json(**options: Any) -> None:
        command(as_json=wants_json(), **options)

    with_json.__dict__["takes_json"] = True
    return with_json


dirty_option = click.option(
    "--allow-dirty",
    is_flag=True,
    help="Go on although the code has uncommitted changes. The ledger records it and the report "
    "shows it.",
)


def complete_models(
    context: click.Context, parameter: click.Parameter, incomplete: str
) -> list[str]:
    """Return the names of the study's models that begin like this, for the shell's completion."""
    return _complete(context, incomplete, lambda study: [pin.name for pin in study.models])


def complete_judges(
    context: click.Context, parameter: click.Parameter, incomplete: str
) -> list[str]:
    """Return the names of the study's judges that begin like this, for the shell's completion."""
    return _complete(context, incomplete, lambda study: [pin.name for pin in study.judges])


def complete_strata(
    context: click.Context, parameter: click.Parameter, incomplete: str
) -> list[str]:
    """Return family/difficulty of each task of the catalogue that begins like this."""
    from generators.task import DIFFICULTIES

    families = complete_families(context, parameter, incomplete.partition("/")[0])
    names = [f"{family}/{level}" for family in families for level in DIFFICULTIES]
    return [name for name in names if name.startswith(incomplete)]


def complete_families(
    context: click.Context, parameter: click.Parameter, incomplete: str
) -> list[str]:
    """Return the task families of the catalogue that begin like this."""
    from generators.catalog import INSTALLED

    try:
        names = sorted({entry.partition("@")[0] for entry in INSTALLED.entries()})
    except Exception:  # a broken plug-in must not write into the user's command line
        return []
    return [name for name in names if name.startswith(incomplete)]


def _complete(
    context: click.Context, incomplete: str, names: Callable[[Protocol], list[str]]
) -> list[str]:
    """Return names in the study.yaml of --study, or here; nothing if it cannot be read. What stands
    before the last comma is kept."""
    from study.protocol.protocol import read_protocol

    before, comma, word = incomplete.rpartition(",")
    try:
        known = names(read_protocol(Path(context.params.get("place") or ".")))
    except Exception:  # an error must not be written into the user's command line
        return []
    return [f"{before}{comma}{name}" for name in known if name.startswith(word)]


def study_option(command: Callable[..., None]) -> Callable[..., None]:
    """Add --study to a command, which gets the opened study as its parameter ``study``."""
    return _study_option(command, "The study's folder, or the address of its store.")


def folder_option(command: Callable[..., None]) -> Callable[..., None]:
    """Add --study to a command that takes no address, since it writes files or begins a study."""
    return _study_option(command, "The study's folder, which holds study.yaml.", writes=True)


def _study_option(
    command: Callable[..., None], text: str, writes: bool = False
) -> Callable[..., None]:
    @click.option(
        "--study",
        "place",
        default=".",
        show_default=True,
        type=click.Path(),
        metavar="PATH" if writes else "PLACE",
        help=text,
    )
    @functools.wraps(command)
    def with_study(place: str, **options: Any) -> None:
        if writes and store_address(place) is not None:
            name = click.get_current_context().command_path
            raise StudyError(
                f"`{name}` needs the study's folder, and {place} is the address of a store: "
                "give the folder that holds study.yaml"
            )
        command(study=open_study(place), **options)

    return with_study


def models_option(of: str) -> Callable[[Callable[..., None]], Callable[..., None]]:
    """Return the option that names some models, ``of`` a study or wave in its help."""
    return click.option(
        "--model",
        "models",
        multiple=True,
        metavar="NAME",
        shell_complete=complete_models,
        help=f"Of {of}; more than once for more. Default: all.",
    )


def cluster_address(
    context: click.Context, parameter: click.Parameter, value: str | None
) -> str | None:
    """Return the address of a Ray cluster that an option gives. Raises BadParameter."""
    from study.protocol.sections import CLUSTER

    if value is None or re.fullmatch(CLUSTER, value):
        return value
    raise click.BadParameter(
        f"{value!r} is no address of a Ray cluster: give auto, HOST:PORT or ray://HOST:PORT"
    )


def unknown_price_option(models: str) -> Callable[[Callable[..., None]], Callable[..., None]]:
    """Return the option that allows paid calls of unknown cost, to ``models`` in its help."""
    return click.option(
        "--allow-unknown-price",
        is_flag=True,
        help=f"{models} whose price is not in the price file; what they cost stays unknown.",
    )
