"""Find an unknown particle's mass and width from the tracks of its decays into e⁺e⁻."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from importlib.resources import files
from typing import Any

from generators.draws import SeedStreams
from generators.physics.invariant_mass_reconstruction.nulls import make_nulls
from generators.physics.invariant_mass_reconstruction.parameters import (
    CALORIMETER_FILE,
    LONGITUDINAL_FILE,
    NAME,
    TRACKER_FILE,
    TRANSVERSE_FILE,
    VERSION,
    parameters_of,
)
from generators.physics.invariant_mass_reconstruction.prompt import ANSWER_SCHEMA, make_prompt
from generators.physics.invariant_mass_reconstruction.rubric import make_rubric
from generators.seed import Seed
from generators.task import Asset, Brief, GroundTruth, TaskInstance, TaskSpec, make_instance


@dataclass(frozen=True, slots=True)
class InvariantMassReconstruction:
    """The family, after PARAMETR-Bench's invariant_mass_reconstruction."""

    name: str = NAME
    version: str = VERSION
    summary: str = "reconstruct the masses of electron pairs, and fit an unknown particle's peak"

    def parameters(self, difficulty: str) -> Mapping[str, int | float | str]:
        meant = parameters_of(difficulty)
        return {
            "events": meant.events,
            "signal_fraction": meant.signal_fraction,
            "narrowest_GeV": meant.widths[0],
            "widest_GeV": meant.widths[1],
            "slope_per_GeV": meant.slope,
            "layers": len(meant.radii),
            "event_tolerance": meant.event_tolerance,
            "states_field": "yes" if meant.states_field else "no",
        }

    def generate(self, difficulty: str, seed: Seed) -> TaskInstance:
        # numpy and Pillow are loaded where they are needed, not where families are listed.
        from generators.physics.invariant_mass_reconstruction import render
        from generators.physics.invariant_mass_reconstruction.sample import draw_sample
        from generators.physics.invariant_mass_reconstruction.truth import make_truth

        meant = parameters_of(difficulty)
        sample = draw_sample(meant, SeedStreams(seed, NAME, VERSION, difficulty))
        drawn = {
            TRANSVERSE_FILE: render.draw_transverse(sample.detector, meant.states_field),
            LONGITUDINAL_FILE: render.draw_longitudinal(sample.detector),
        }
        assets = (
            Asset(TRACKER_FILE, "text/csv", render.write_tracker_hits(sample)),
            Asset(CALORIMETER_FILE, "text/csv", render.write_calorimeter_hits(sample)),
            *(
                Asset(path, "image/png", render.encode_png(pixels))
                for path, pixels in drawn.items()
            ),
        )
        truth = make_truth(
            meant, sample, assets, {path: pixels.tobytes() for path, pixels in drawn.items()}
        )
        redraws = (("redraws", sample.redraws), ("pair_redraws", sample.pair_redraws))
        parameters = (*self.parameters(difficulty).items(), *redraws)
        return make_instance(
            TaskSpec(NAME, VERSION, difficulty, parameters),
            seed,
            Brief(make_prompt(meant), assets, ANSWER_SCHEMA, meant.limits),
            truth,
            make_rubric(truth),
        )

    def key(self, truth: GroundTruth) -> dict[str, Any]:
        from generators.physics.invariant_mass_reconstruction.truth import make_key

        return make_key(truth)

    def nulls(self, instance: TaskInstance) -> Mapping[str, dict[str, Any]]:
        return make_nulls(parameters_of(instance.spec.difficulty))

    def solver(self) -> str:
        return files(__package__).joinpath("solve.py").read_text(encoding="utf-8")


FAMILY = InvariantMassReconstruction()
