"""The whole line on one screen: draw, register, sweep, publish, report.

Each step is a function of an opened study, and the command line calls these. A step that was
done already changes nothing and says so.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from analysis.report.report import Report
from harness.sweep.leases import Progress
from registry.errors import BrokenPromise, MissingKey
from registry.ledger.draw_records import SealedSet, Underpowered, Unproved
from registry.ledger.records import Preregistration, Release
from registry.provenance import utc_now
from study.catalogue import contributions
from study.steps.register.draw import DrawRequest, draw_seeds, is_drawn
from study.steps.report.look import report_study
from study.steps.status import read_status
from study.steps.sweep.sweep import SweepOutcome, SweepRequest, sweep_wave
from study.workspace import address
from study.workspace.address import record_files
from study.workspace.checkpoints import stamp_ledger
from study.workspace.setup import Watch, pinned_image, register_plan, write_registration
from study.workspace.study import Study

if TYPE_CHECKING:
    from registry.verify.findings import Verification
    from study.steps.verify.verify import VerifyRequest


def open_study(place: str | Path) -> Study:
    """Folder, or address of a store → study: its protocol, store, ledger and keys."""
    return address.open_study(place)


def draw(
    study: Study,
    watch: Watch = lambda what, done, of: None,
    underpowered: str = "",
    request: DrawRequest | None = None,
    unproved: str = "",
) -> tuple[SealedSet, bool]:
    """Seed → sealed set: seeds at random, announced in the ledger by their commitments, and then
    allotted to both arms. ``underpowered`` is the reason to draw for a plan that cannot answer,
    ``unproved`` that for tasks with an error."""
    gate = _gate(study, watch, underpowered, unproved)
    return draw_seeds(study, watch, utc_now, gate, request)


def register(
    study: Study,
    watch: Watch = lambda what, done, of: None,
    underpowered: str = "",
    unproved: str = "",
) -> tuple[Preregistration, bool]:
    """The plan, promised before any data, with the code and image it is promised for; and its
    ``registration.json``, for a public registry. study.yaml is recorded too, also as it was
    changed since. Seeds are drawn first if none are drawn yet.
    ``underpowered`` is the reason to register one that cannot answer, ``unproved`` that for tasks
    with an error; by default the draw's."""
    if not is_drawn(study):
        pinned_image(study.protocol, watch)  # without an engine nothing is drawn either
        draw(study, watch, underpowered, unproved=unproved)
    gate = _gate(study, watch, underpowered, unproved)
    record, fresh = register_plan(study, watch, utc_now(), gate, partial(_chances, study))
    write_registration(study, record)
    record_files(study, utc_now())
    if fresh:
        stamp_ledger(study)
    return record, fresh


def _chances(study: Study) -> str:
    """Return the chances of the plan in words, as extras simulate them; "" without one."""
    return "; ".join(describe(study.protocol) for describe in contributions("describe_chances"))


def _gate(
    study: Study, watch: Watch, underpowered: str, unproved: str
) -> Callable[[str, str], tuple[Underpowered | None, Unproved | None]]:
    """Return the check of a study that is to be drawn or registered, with reasons if there are
    any."""

    def check(powerless: str, faulty: str) -> tuple[Underpowered | None, Unproved | None]:
        from study.steps.register.gate import check_proved, check_ready

        proved = check_proved(study, unproved or faulty, watch)
        return check_ready(study, underpowered or powerless, watch), proved

    return check


def sweep(
    study: Study,
    request: SweepRequest,
    watch: Callable[[Progress], None],
    steps: Watch = lambda what, done, of: None,
) -> SweepOutcome:
    """Instance → brief → episode → grade → result, for all that the wave still owes."""
    return sweep_wave(replace(study, ledger=study.ledger.held()), request, watch, utc_now, steps)


def publish(
    study: Study, upload: bool | None, watch: Watch, tranches: Sequence[int] = ()
) -> tuple[Release, bool]:
    """The public arm into a release folder, and to the Hub, after the leak check."""
    from study.steps.publish.release import publish_arm

    record, fresh = publish_arm(study, upload, watch, utc_now, tranches)
    if fresh:
        stamp_ledger(study)
    return record, fresh


def report(
    study: Study, through: int | None = None, watch: Watch = lambda what, done, of: None
) -> tuple[Report, Path]:
    """Result rows → verdicts by the registered plan → the report."""
    try:
        made = report_study(study, through, utc_now(), watch)
    except MissingKey as gone:  # of what the ledger promises
        raise BrokenPromise(f"{gone}: see `dosimeter verify`") from gone
    stamp_ledger(study)
    return made


def verify(study: Study, request: VerifyRequest, watch: Watch) -> Verification:
    """Recompute every promise of the study, by its store and by what was kept elsewhere."""
    from study.steps.verify import verify as verify_module

    return verify_module.verify(study, request, watch)


def status(study: Study) -> list[dict[str, object]]:
    """Return the finished and the owed work, one record a step."""
    return read_status(study)


def describe(record: Preregistration) -> str:
    """A registration in one line."""
    # With numpy, which most commands need not load.
    from analysis.stats.intervals import counted, counted_range

    plan = record.plan
    return (
        f"plan {plan.name}: {counted(len(plan.strata), 'stratum', 'strata')}, "
        f"{counted_range(plan.sizes, 'seed')} an arm and stratum, {counted(plan.looks, 'look')}, "
        f"one-sided alpha {plan.alpha:g}; {record.provenance.code}"
    )


def describe_draw(sealed: SealedSet) -> str:
    """A draw in one line."""
    from analysis.stats.intervals import counted

    strata = counted(len(sealed.strata), "stratum", "strata")
    return f"{sealed.count} seeds in {strata}, Merkle root {sealed.root}"
