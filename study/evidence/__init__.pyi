from .regrade import Finding, GradeCheck, Regrades, RemadeEpisode, differences
from .verify import VerifyRequest, verify

__all__ = [
    "Finding",
    "GradeCheck",
    "Regrades",
    "RemadeEpisode",
    "VerifyRequest",
    "differences",
    "verify",
]
