"""Levels in a look at the data, and in the gate before a draw."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from analysis.levels.levels import LevelLook, least_p, level_verdicts
from analysis.levels.part import levels_part
from analysis.plan.verdict import WITHHELD
from analysis.report.part import Part
from registry.draws.allocation import sealed_units
from registry.draws.reveal import units_revealed
from registry.ledger.draw_records import VARIANT, Unit
from study.protocol.plan_section import Faults
from study.protocol.protocol import Protocol
from study.protocol.units import units_of_looks
from study.steps.report.contributors import LookContext, LookShare
from study.steps.sweep.exposure_ledger import burned_tranches
from study.steps.sweep.spending import example_of


class LevelsShare(LookShare):
    """The share of the units of a study."""

    def parts(self, look: LookContext) -> Sequence[Part]:
        """Return the part with their verdicts; none if no task is of a unit."""
        study = self.scope.study
        sealed = study.sealed_set()
        if not sealed.units:
            return ()
        hidden = sealed_units(sealed.units, sealed.allocation_seed)
        entries, revealed = study.ledger.entries(), dict[int, list[Unit]]()
        for n, entry in enumerate(entries):  # a wave that is resumed after a reveal counts too
            if entry.kind == "run-manifest" and (shown := {*units_revealed(entries[:n], sealed)}):
                revealed[entry.record.wave] = [unit for unit in hidden if unit in shown]
        withheld = {(v.wave, v.model): v.note for v in look.verdicts if v.verdict == WITHHELD}
        found = level_verdicts(
            look.plan,
            LevelLook(
                table=look.table,
                units=sealed.units,
                published={unit.name for unit in sealed.units if unit not in hidden},
                registration=look.registration,
                history=look.history,
                kept=burned_tranches(entries),
                revealed=revealed,
                withheld=withheld,
            ),
        )
        return (levels_part(found, look.verdicts, look.plan.margin, revealed),)


def shortfalls(protocol: Protocol, watch: Callable[[str, int, int], None]) -> Faults:
    """Yield levels with too few units for any p that the plan would call a finding."""
    plan = protocol.registered_plan()
    alpha = plan.level_alpha / plan.looks
    for level, units in units_of_looks(protocol.units):
        areas = [unit.area for unit in units]
        if (least := least_p(areas)) > alpha:
            count = f"pairs ({len({*areas})})" if level == VARIANT else f"units ({len(areas)})"
            yield (
                ("tasks",),
                f"too few {count} for the {level} level: the least p is {least:.2g}, "
                f"and a claim at one of {plan.looks} looks needs {alpha:.2g}: give more of them, "
                "or fewer looks",
            )


def sibling_faults(protocol: Protocol) -> Faults:
    """Yield pairs of tasks that differ by more than wording: models differ over these by more than
    a leak could make."""
    tasks = {task.stratum: task for task in protocol.tasks}
    forms: dict[str, list[tuple[object, ...]]] = {}
    given = {f"{p.family}/{name}": p.columns for p in protocol.pools for name in p.strata}
    for unit in protocol.units:
        for stratum in unit.strata if unit.level == VARIANT else ():
            task, of = tasks[stratum], given.get(stratum)
            if of is not None:  # items, which are read when they are drawn
                form = [of.score, task.family, bool(of.files), bool(of.choices)]
            else:
                example = example_of(task, protocol.catalog)
                brief, parts = example.brief, example.rubric.parts
                kinds = {asset.media_type for asset in brief.assets}
                checks = {getattr(part.check, "scoring_type", type(part.check)) for part in parts}
                form = [brief.answer_schema, bool(brief.collect), kinds, checks]
            forms.setdefault(unit.area, []).append((stratum, task.mode, *form))
    for pair, own in forms.items():
        names = ("mode", "form of the answer", "place of the answer", "kinds of files", "scoring")
        strata, *columns = zip(*own, strict=True)
        unlike = [n for n, col in zip(names, columns, strict=True) if col[1:] != col[:-1]]
        for name in unlike[:1]:
            both = " and ".join(map(str, strata))
            yield ("tasks",), f"pair {pair!r}: siblings have the same {name}, and {both} do not"


look = LevelsShare
