"""Parameters of each difficulty (docs/decisions/0007)."""

from __future__ import annotations

from dataclasses import dataclass

from generators.family import FamilyParameters
from generators.task import Limits

NAME = "invariant_mass_reconstruction"

TRACKER_FILE = "tracker_hits.csv"
CALORIMETER_FILE = "ecal_hits.csv"
DETECTOR_FILE = "detector.png"
GAINS_FILE = "ecal_gains.png"
FIELD_FILE = "field_gauge.png"
PICTURE_BYTES = 24_000  # of each picture's file, whatever it shows

# Units: GeV with c = 1, metres, radians, tesla.
ELECTRON_MASS = 0.000511
MUON_MASS = 0.105658
BEND = 0.3  # radius of a track = p_T / (BEND · field)
HIGH_MASS = 100.0  # that no pair has; the background ends long before
# The lowest mass, mean momenta, errors and deposits are drawn for each instance: no scale of its
# tables is the same as in another one, so that the pictures alone state it.
LOWEST_MASSES = (3.2, 6.4)  # of all pairs
MEAN_PTS = (4.5, 11.0)  # of pairs
MOST_PAIR_ETA = 1.5
MOST_ETA = 1.5  # of leptons, once redrawn
REACH = 0.16  # p_T > REACH · field · radius of the calorimeter; 0.15 would graze it

PARTICLE_MASSES = (12.0, 34.0)
FIELDS = (1.6, 3.8)
SLOPE_FACTORS = (0.7, 1.3)
DETECTOR_SCALES = (0.75, 1.1)  # of all radii together
RADIUS_FACTORS = (0.97, 1.03)  # of each layer
CALORIMETER_RADIUS = 1.4  # m, before it varies
GAINS = (5.0, 18.0)  # MeV per count of a module; log-uniform between them
MUON_SHARE = 0.45  # of the pairs

# What is measured differs from what was so, normally with these errors.
HIT_ERRORS = (3e-5, 7e-5)  # m, along the circumference of a layer
HIT_Z_ERROR = 5e-4  # m
CLUSTER_ERRORS = (1e-3, 3e-3)  # m, along the circumference
CLUSTER_Z_ERROR = 2e-3  # m
ENERGY_ERROR = (0.02, 0.002)  # relative, of an electron: first over √(E/GeV), second constant
LEAST_HITS = 4  # of a track
MEAN_LOSS = 0.3  # of an electron's energy, before the tracker; exponential
MOST_LOSS = 0.7
MUON_DEPOSITS = (0.15, 0.45)  # GeV, mean of one instance
MUON_DEVIATION = 0.13  # relative
NOISE_DEPOSITS = (0.3, 1.5)  # of clusters that no lepton made, in means of muons

# The prompt bounds the particle so, which leaves one peak; wider than what is drawn.
SOUGHT_MASSES = (9.0, 37.0)
SOUGHT_WIDTHS = (0.4, 12.0)

RADIUS_TOLERANCE = 0.005  # m
FIELD_TOLERANCE = 0.01  # relative
GAIN_TOLERANCE = 0.01  # relative
SIGMAS = 1.5  # of the reference fit that a final value may be off
GRADED_ELECTRONS, GRADED_MUONS = 33, 27  # pairs with a graded mass
GRADED_SHARE = 0.5  # of its tolerance, that a graded pair's measured mass may be off
MUON_PAIRS_TOLERANCE = 0.02
GATE_TOLERANCES = 2.0  # tolerances: an event's mass within them is a reading (R8e)
GATE_SHARE = 2 / 3

MOST_WIDTH_ERROR = 0.35  # σ_Γ/Γ
MOST_PULL = 3.0  # |drawn − fitted mass| / σ
LEAST_LEAD = 6.0  # in −ln L over the second peak


@dataclass(frozen=True, slots=True)
class Parameters(FamilyParameters):
    """Ranges that one difficulty draws from, and its tolerance."""

    events: int
    signal_fraction: float
    widths: tuple[float, float]  # GeV, FWHM; log-uniform between them
    slope: float  # per GeV
    radii: tuple[float, ...]  # m, of the tracker's layers before they vary
    modules: int  # of the calorimeter
    inefficiency: float  # share of the hits that are lost
    noise: float  # mean number of hits of an event in a layer that no lepton made
    noise_clusters: float  # the same in the calorimeter
    event_tolerance: float  # relative

    @property
    def percent(self) -> str:
        """The precision asked of an event's mass."""
        return f"{100 * self.event_tolerance:g} %"

    def described(self) -> dict[str, int | float | str]:
        """The parameters as people read them."""
        return {
            "events": self.events,
            "signal_fraction": self.signal_fraction,
            "narrowest_GeV": self.widths[0],
            "widest_GeV": self.widths[1],
            "slope_per_GeV": self.slope,
            "layers": len(self.radii),
            "modules": self.modules,
            "inefficiency": self.inefficiency,
            "noise_per_layer": self.noise,
            "noise_clusters": self.noise_clusters,
            "event_tolerance": self.event_tolerance,
        }


BY_DIFFICULTY = {
    "easy": Parameters(
        events=400,
        signal_fraction=0.5,
        widths=(3.0, 8.0),
        slope=0.2,
        radii=(0.30, 0.50, 0.70, 0.90, 1.10),
        modules=4,
        inefficiency=0.02,
        noise=0.3,
        noise_clusters=0.3,
        event_tolerance=0.03,
        limits=Limits(turns=20, tool_seconds=120.0, working_seconds=1800.0),
    ),
    "medium": Parameters(
        events=600,
        signal_fraction=0.35,
        widths=(1.5, 5.0),
        slope=0.12,
        radii=(0.30, 0.46, 0.62, 0.78, 0.94, 1.10),
        modules=6,
        inefficiency=0.05,
        noise=1.0,
        noise_clusters=1.0,
        event_tolerance=0.025,
        limits=Limits(turns=20, tool_seconds=120.0, working_seconds=1800.0),
    ),
    "hard": Parameters(
        events=1000,
        signal_fraction=0.2,
        widths=(1.0, 3.0),
        slope=0.1,
        radii=(0.30, 0.43, 0.56, 0.69, 0.82, 0.95, 1.10),
        modules=8,
        inefficiency=0.08,
        noise=2.0,
        noise_clusters=2.0,
        event_tolerance=0.02,
        limits=Limits(turns=30, tool_seconds=120.0, working_seconds=2700.0),
    ),
}
