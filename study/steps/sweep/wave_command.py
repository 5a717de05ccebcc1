"""The commands of ``dosimeter wave``, for a study that goes on for years. The heartbeat of a sweep
lies in the study's store with its progress, and operators' requests beside it."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import asdict
from typing import Any, Literal

import click

from harness.sweep.epochs import Epochs, Heartbeat, Process
from harness.sweep.leases import Progress, SweepOrder
from registry.errors import BrokenPromise, RegistryError
from registry.provenance import utc_now
from study.errors import StudyError
from study.options import folder_option, json_option, study_option
from study.printing import Watch, print_line, print_note, print_records, print_step, progress_watch
from study.protocol.draw_checks import missing_controls
from study.steps.sweep.exposure_ledger import burned_of_wave
from study.steps.sweep.live import sweep_watch
from study.steps.sweep.waves import close_wave_now, list_waves, open_wave
from study.workspace.address import open_study, record_files
from study.workspace.setup import find_registration
from study.workspace.study import Study, manifest_of

_LOOK_SECONDS = 1.0
_SILENT_SECONDS = 60.0


def ask_sweep(study: Study, wave: int, asked: Literal["go", "pause", "stop"]) -> Process:
    """Ask the sweep of a wave to do something, and return its process. Raises StudyError if no
    sweep of it is at work, or it was asked to stop; RegistryError."""
    epochs, number, driver = _at_work(study, wave)
    if epochs.asked(number) is SweepOrder.STOP and asked != "stop":
        raise StudyError(
            f"the sweep of wave {wave} on {driver.host} was asked to stop, and ends: `dosimeter "
            f"sweep --wave {wave}` continues it then"
        )
    epochs.ask(number, SweepOrder(asked))
    return driver


def sweep_state(study: Study, wave: int) -> str:
    """Return what the sweep of a wave does; "" if none is at work. Raises RegistryError."""
    try:
        epochs, number, driver = _at_work(study, wave)
    except StudyError:
        return ""
    words = {SweepOrder.GO: "at work", SweepOrder.PAUSE: "paused", SweepOrder.STOP: "asked to stop"}
    return f"{words[epochs.asked(number)]} on {driver.host}"


def follow_sweep(
    study: Study,
    wave: int,
    watch: Callable[[Progress], None],
    steps: Watch = lambda what, done, of: None,
) -> Progress:
    """Watch the sweep of a wave until it ends, and return its last count. ``steps`` gets what it
    does before its first episode. Raises StudyError if no sweep of it is at work, or its heartbeat
    stops; RegistryError."""
    epochs, number, driver = _at_work(study, wave)
    seen: Heartbeat | None = None
    since = time.monotonic()
    while True:
        now = epochs.heartbeat(number)
        if now is not None and now != seen:
            seen, since = now, time.monotonic()
            if now.failure:
                raise StudyError(f"the sweep of wave {wave} on {driver.host} failed: {now.failure}")
            if now.progress is None:
                steps(f"the sweep on {driver.host} prepares its episodes", 0, 0)
            else:
                watch(now.progress)
                if now.ended:
                    return now.progress
        if epochs.latest() > number:
            epochs, number, driver = _at_work(study, wave)
        elif driver.has_ended or time.monotonic() - since > _SILENT_SECONDS:
            raise StudyError(
                f"the sweep of wave {wave} on {driver.host} (process {driver.pid}) is silent: it "
                "was killed, or its host or store is lost; continue it with `dosimeter sweep "
                f"--wave {wave}`"
            )
        time.sleep(_LOOK_SECONDS)


def _at_work(study: Study, wave: int) -> tuple[Epochs, int, Process]:
    """Return the epochs of a wave's run, the number of the last one, and its process. Raises
    StudyError if that has ended."""
    if (manifest := manifest_of(study.ledger, wave)) is not None:
        identity = study.run_identity(manifest)
        readers = (*study.readers(), manifest.run_recipient)
        epochs = Epochs(study.store, manifest.run_recipient, readers, (identity,))
        if number := epochs.latest():
            heartbeat, driver = epochs.heartbeat(number), epochs.driver(number)
            if not (heartbeat is not None and heartbeat.ended) and not driver.has_ended:
                return epochs, number, driver
    raise StudyError(
        f"no sweep of wave {wave} is at work: `dosimeter sweep --wave {wave}` runs what it owes"
    )


@click.group()
def wave() -> None:
    """The waves of a study: list them, open one for new models, operate a sweep, close one.

    \b
    Every few months (docs/waves.md has the whole routine):
      dosimeter wave open --models new-one,new-two
      dosimeter sweep --wave 3
      dosimeter wave close 3
      dosimeter report
    """


@wave.command("list", short_help="Show every wave: models, look, begun, closed, reported.")
@study_option
@json_option
def list_(study: Study, as_json: bool) -> None:
    """Show every wave: its models, its look, when it was begun, closed and reported.

    \b
    Example:
      dosimeter wave list --json | jq '.[] | select(.state != "closed") | .wave'
    """
    rows = [asdict(wave) for wave in list_waves(study)]
    if not as_json:
        rows = [_shown(row) for row in rows]
    print_records(rows, as_json, title="Waves")


def _shown(row: dict[str, Any]) -> dict[str, object]:
    look, burned = row["look"], row["burned"]
    return {
        "wave": row["wave"],
        "models": ", ".join(_named(name, run, burned) for name, run in row["tranches"].items()),
        "look": "controls" if look is None else f"{look} (beyond)" if row["beyond"] else look,
        "state": f"{row['state']} {str(row['closed'] or row['begun'])[:10]}".rstrip(),
        "reported": str(row["reported"])[:10],
        "scored": "" if row["scored"] is None else row["scored"],
        "missing": "" if row["missing"] is None else row["missing"],
    }


def _named(name: str, tranches: tuple[int, ...], burned: Any) -> str:
    """Return a model's name, with its tranches unless it runs the unburned panel only."""
    lost = burned.get(name, ())
    if tranches == (0,) and not lost:
        return name
    shown = (f"{tranche}{' burned' if tranche in lost else ''}" for tranche in tranches)
    return f"{name} (tranche{'s' if len(tranches) > 1 else ''} {', '.join(shown)})"


@wave.command("open")
@folder_option
@click.option(
    "--models", required=True, metavar="NAME,…", help="Names under `models:` in study.yaml."
)
@click.option(
    "--tranche",
    "tranches",
    multiple=True,
    metavar="[NAME=]K[,K…]",
    help="Reserve tranches to run instead of the panel (0), for all the models or for one.",
)
@json_option
def open_(study: Study, models: str, tranches: tuple[str, ...], as_json: bool) -> None:
    """Plan one more wave, by a line in study.yaml. Nothing is run.

    Twice the same, before it is begun, is one wave.

    \b
    Examples:
      dosimeter wave open --models control,new-one
      dosimeter wave open --models control,new-one --tranche new-one=2 --tranche control=0,2
    """
    named = [name.strip() for name in models.split(",") if name.strip()]
    chosen = _read_tranches(tranches, named)
    number, fresh = open_wave(study, named, chosen)
    study = open_study(study.folder)
    if find_registration(study.ledger) is not None:
        try:
            record_files(study, utc_now())
        except BrokenPromise:
            raise
        except (StudyError, RegistryError) as error:  # the wave is planned all the same
            print_note(
                "a sweep by the store's address does not see this wave until `dosimeter register` "
                f"records it: {error}"
            )
    burned = burned_of_wave(study, study.ledger.entries(), number)
    for name, numbers in burned.items():
        print_note(
            f"tranche {', '.join(map(str, numbers))} is burned for {name}: its private seeds were "
            "sent to a provider that may store them, or have leaked; --tranche gives it another "
            "(docs/waves.md)"
        )
    for control, follows in missing_controls(study.protocol, number):
        print_note(f"without the {control}: {follows} (docs/waves.md)")
    row = {"wave": number, "models": ", ".join(named), "opened": "now" if fresh else "before"}
    print_records([row], as_json, title="Wave")


def _read_tranches(options: tuple[str, ...], models: list[str]) -> dict[str, tuple[int, ...]]:
    """Return the tranches by model; an option without a model is for all."""
    by_model: dict[str, tuple[int, ...]] = {}
    for option in options:
        name, equals, listed = option.rpartition("=")
        numbers = listed.split(",")
        if not all(number.strip().isdecimal() for number in numbers) or (equals and not name):
            raise click.BadParameter(
                f"{option!r}: give a tranche's number, or a model and its tranches: new-one=2 or "
                "control=0,2",
                param_hint="--tranche",
            )
        chosen = tuple(sorted({int(number) for number in numbers}))
        for model in [name] if equals else models:
            if model in by_model:
                raise click.BadParameter(f"{model} is given tranches twice", param_hint="--tranche")
            by_model[model] = chosen
    return by_model


@wave.command("close", short_help="Close a wave: failed episodes are then missing.")
@study_option
@click.argument("number", type=click.IntRange(0))
@json_option
def close(study: Study, number: int, as_json: bool) -> None:
    """Close a wave: episodes that failed on every attempt are recorded as missing.

    A sweep that finishes closes its wave itself; this is for one that did not. A wave with
    episodes that were never tried is not closed (exit code 2).

    \b
    Example:
      dosimeter wave close 3
    """
    with progress_watch("closing") as watch:
        record, fresh = close_wave_now(study, number, utc_now, watch)
    summary = f"wave {number} closed: {record.finished} scored, {record.missing} missing"
    print_step(record, as_json, summary, fresh)


# --- A sweep that is at work, here or elsewhere ---


def _operation(command: Callable[..., None]) -> click.Command:
    """Make a function of a study and the number of a wave a command of ``dosimeter wave``."""
    number = click.argument("number", type=click.IntRange(0))
    return wave.command()(study_option(number(command)))


@_operation
def attach(study: Study, number: int) -> None:
    """Show the progress of a wave's sweep until it ends, wherever it runs.

    Ctrl-C leaves the sweep alone. It needs the study's store and key, and no cluster.

    \b
    Example:
      dosimeter wave attach 3
    """
    with sweep_watch(f"wave {number}") as watch:
        last = follow_sweep(study, number, watch, watch.steps)
    left = last.owed - last.finished
    print_line(
        f"the sweep of wave {number} has ended with {last.finished} of {last.owed} results; "
        f"`dosimeter sweep --wave {number}` {f'runs the other {left} and ' if left else ''}closes "
        "the wave"
    )


@_operation
def pause(study: Study, number: int) -> None:
    """Pause the sweep of a wave. No more episodes are begun, and those at work are finished.

    \b
    Example:
      dosimeter wave pause 3
    """
    then = f"pauses within seconds; continue it with `dosimeter wave resume {number}`"
    _ask(study, number, "pause", then)


@_operation
def resume(study: Study, number: int) -> None:
    """Continue a paused sweep.

    \b
    Example:
      dosimeter wave resume 3
    """
    _ask(study, number, "go", "continues within seconds")


@_operation
def stop(study: Study, number: int) -> None:
    """End the sweep of a wave, wherever it runs, as Ctrl-C does. Replies on their way are kept.

    \b
    Example:
      dosimeter wave stop 3
    """
    then = f"buys nothing more and ends; continue with `dosimeter sweep --wave {number}`"
    _ask(study, number, "stop", then)


def _ask(study: Study, number: int, asked: Literal["go", "pause", "stop"], then: str) -> None:
    """Ask the sweep of a wave for something, and print ``then``, which it will do."""
    print_line(f"the sweep on {ask_sweep(study, number, asked).host} {then}")
