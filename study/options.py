"""Options that commands share."""

from __future__ import annotations

import functools
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import click

from study.errors import StudyError
from study.printing import wants_json
from study.workspace.address import open_study, store_address

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
        type=click.Path(),
        metavar="PATH" if writes else "PLACE",
        help=text,
    )
    @functools.wraps(command)
    def with_study(place: str, **options: Any) -> None:
        if writes:
            refuse_address(place)
        command(study=open_study(place), **options)

    return with_study


def refuse_address(place: str) -> None:
    """Raise StudyError if the place is the address of a store, for a command that needs files."""
    if store_address(place) is not None:
        name = click.get_current_context().command_path
        raise StudyError(
            f"`{name}` needs the study's folder, and {place} is the address of a store: "
            "give the folder that holds study.yaml"
        )


def models_option(of: str) -> Callable[[Callable[..., None]], Callable[..., None]]:
    """Return the option that names some models, ``of`` a study or wave in its help."""
    return click.option(
        "--model",
        "models",
        multiple=True,
        metavar="NAME",
        help=f"Of {of}; more than once for more. Default: all.",
    )


def _cluster_address(
    context: click.Context, parameter: click.Parameter, value: str | None
) -> str | None:
    from study.protocol.sections import CLUSTER

    if value is None or re.fullmatch(CLUSTER, value):
        return value
    raise click.BadParameter(
        f"{value!r} is no address of a Ray cluster: give auto, HOST:PORT or ray://HOST:PORT"
    )


address_option = click.option(
    "--address",
    callback=_cluster_address,
    show_default="this machine",
    help="Ray cluster: auto, HOST:6379 or ray://HOST:10001.",
)


def unknown_price_option(models: str) -> Callable[[Callable[..., None]], Callable[..., None]]:
    """Return the option that allows paid calls of unknown cost, to ``models`` in its help."""
    return click.option(
        "--allow-unknown-price",
        is_flag=True,
        help=f"{models} whose price is not in the price file; what they cost stays unknown.",
    )
