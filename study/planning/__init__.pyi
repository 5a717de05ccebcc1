from .power import PowerAnswer, PowerRequest, answer_power

__all__ = ["PowerAnswer", "PowerRequest", "answer_power"]
