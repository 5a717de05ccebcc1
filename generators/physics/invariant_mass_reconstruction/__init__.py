"""Find an unknown particle's mass and width from the tracks of its decays into e⁺e⁻."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from generators.family import Drawn, FamilyOfParts, Parts
from generators.physics.invariant_mass_reconstruction.null_answers import make_nulls
from generators.physics.invariant_mass_reconstruction.parameters import (
    CALORIMETER_FILE,
    LONGITUDINAL_FILE,
    NAME,
    TRACKER_FILE,
    TRANSVERSE_FILE,
    VERSION,
    Parameters,
    parameters_of,
)
from generators.physics.invariant_mass_reconstruction.prompt import ANSWER_SCHEMA, make_prompt
from generators.physics.invariant_mass_reconstruction.rubric import make_rubric
from generators.streams import Streams
from generators.task import Asset, GroundTruth

PARTS = Parts(__name__, parameters_of, make_prompt, ANSWER_SCHEMA, make_rubric, make_nulls)


@dataclass(frozen=True, slots=True)
class InvariantMassReconstruction(FamilyOfParts[Parameters]):
    """The family, after PARAMETR-Bench's invariant_mass_reconstruction."""

    name: str = NAME
    version: str = VERSION
    summary: str = "reconstruct the masses of electron pairs, and fit an unknown particle's peak"
    parts: Parts[Parameters] = PARTS

    def describe(self, parameters: Parameters) -> dict[str, int | float | str]:
        """The parameters as people read them."""
        return {
            "events": parameters.events,
            "signal_fraction": parameters.signal_fraction,
            "narrowest_GeV": parameters.widths[0],
            "widest_GeV": parameters.widths[1],
            "slope_per_GeV": parameters.slope,
            "layers": len(parameters.radii),
            "event_tolerance": parameters.event_tolerance,
            "states_field": "yes" if parameters.states_field else "no",
        }

    def draw(self, parameters: Parameters, streams: Streams) -> Drawn:
        """The input files and the truth of one seed."""

        from generators.physics.invariant_mass_reconstruction import render
        from generators.physics.invariant_mass_reconstruction.sample import draw_sample
        from generators.physics.invariant_mass_reconstruction.truth import make_truth

        sample = draw_sample(parameters, streams)
        drawn = {
            TRANSVERSE_FILE: render.draw_transverse(sample.detector, parameters.states_field),
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
            parameters, sample, assets, {path: pixels.tobytes() for path, pixels in drawn.items()}
        )
        redraws = {"redraws": sample.redraws, "pair_redraws": sample.pair_redraws}
        return Drawn(assets, truth, redraws)

    def key(self, truth: GroundTruth) -> dict[str, Any]:
        """The answer block that scores full marks."""

        from generators.physics.invariant_mass_reconstruction.truth import make_key

        return make_key(truth)


FAMILY = InvariantMassReconstruction()
