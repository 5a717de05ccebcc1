from .probe import ProbedWave, ProbeOutcome, ProbeRequest, probe_wave
from .results import exposure_of, markers_of, texts_of

__all__ = [
    "ProbeOutcome",
    "ProbeRequest",
    "ProbedWave",
    "exposure_of",
    "markers_of",
    "probe_wave",
    "texts_of",
]
