from .findings import Derived, Findings, Verification
from .verify import verify_study

__all__ = ["Derived", "Findings", "Verification", "verify_study"]
