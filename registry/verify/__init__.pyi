from .findings import Verification
from .verify import verify_study

__all__ = ["Verification", "verify_study"]
