"""Parameters of each difficulty (spec/physics.md, §4; docs/decisions/0007)."""

from __future__ import annotations

from dataclasses import dataclass

from generators.family import FamilyParameters
from generators.task import Limits

NAME = "invariant_mass_reconstruction"

TRACKER_FILE = "tracker_hits.csv"
CALORIMETER_FILE = "ecal_hits.csv"
TRANSVERSE_FILE = "detector_transverse.png"
LONGITUDINAL_FILE = "detector_longitudinal.png"

# Units: GeV with c = 1, metres, tesla.
ELECTRON_MASS = 0.000511
BEND = 0.3  # radius of a track = p_T / (BEND · field)
LOW_MASS, HIGH_MASS = 5.0, 85.0  # all pairs
MEAN_PT = 10.0  # of pairs
MOST_ETA = 3.0  # of pairs and, once redrawn, of electrons
REACH = 0.16  # p_T > REACH · field · radius of the calorimeter; 0.15 would graze it

PARTICLE_MASSES = (20.0, 70.0)
FIELDS = (0.8, 2.0)
SLOPE_FACTORS = (0.5, 1.5)
CALORIMETER_RADII = (1.35, 1.65)
RADIUS_FACTORS = (0.85, 1.15)

# The prompt bounds the particle so, which leaves one peak; wider than what is drawn.
SOUGHT_MASSES = (15.0, 75.0)
SOUGHT_WIDTHS = (0.5, 20.0)

RADIUS_TOLERANCE = 0.0005
SIGMAS = 1.5  # of the reference fit that a final value may be off
SAMPLED_EVENTS = 200
GATE_TOLERANCES = 10.0  # tolerances: an event's mass within them is a reading (R8e)
GATE_SHARE = 0.5

MOST_WIDTH_ERROR = 0.35  # σ_Γ/Γ
MOST_PULL = 3.0  # |drawn − fitted mass| / σ
LEAST_LEAD = 6.0  # in −ln L over the second peak


@dataclass(frozen=True, slots=True)
class Parameters(FamilyParameters):
    """Ranges that one difficulty draws from, its tolerance, and the help that its task gives."""

    events: int
    signal_fraction: float
    widths: tuple[float, float]  # GeV, FWHM; log-uniform between them
    slope: float  # per GeV
    radii: tuple[float, ...]  # m, of the tracker's layers before they vary
    event_tolerance: float  # relative
    states_field: bool

    @property
    def field(self) -> str:
        """The sentence of the prompt about the field's strength."""
        stated = "stated in the transverse drawing" if self.states_field else "not stated"
        return f"The field's strength is {stated}."

    @property
    def precision(self) -> int:
        """Precision asked of an event's mass: one part in this number."""
        return round(1 / self.event_tolerance)

    def described(self) -> dict[str, int | float | str]:
        """The parameters as people read them."""
        return {
            "events": self.events,
            "signal_fraction": self.signal_fraction,
            "narrowest_GeV": self.widths[0],
            "widest_GeV": self.widths[1],
            "slope_per_GeV": self.slope,
            "layers": len(self.radii),
            "event_tolerance": self.event_tolerance,
            "states_field": "yes" if self.states_field else "no",
        }


BY_DIFFICULTY = {
    "easy": Parameters(
        events=400,
        signal_fraction=0.5,
        widths=(4.0, 16.0),
        slope=0.3,
        radii=(0.05, 0.55),
        event_tolerance=0.01,
        states_field=True,
        limits=Limits(turns=20, tool_seconds=120.0, working_seconds=1800.0),
    ),
    "medium": Parameters(
        events=1000,
        signal_fraction=0.2,
        widths=(1.2, 8.0),
        slope=0.1,
        radii=(0.05, 0.30, 0.60),
        event_tolerance=0.0025,
        states_field=True,
        limits=Limits(turns=20, tool_seconds=120.0, working_seconds=1800.0),
    ),
    "hard": Parameters(
        events=2000,
        signal_fraction=0.08,
        widths=(0.6, 4.0),
        slope=0.07,
        radii=(0.05, 0.15, 0.30, 0.55),
        event_tolerance=0.001,
        states_field=False,
        limits=Limits(turns=30, tool_seconds=120.0, working_seconds=2700.0),
    ),
}
