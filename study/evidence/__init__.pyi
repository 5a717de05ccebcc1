from .verify import VerifyRequest, verify

__all__ = ["VerifyRequest", "verify"]
