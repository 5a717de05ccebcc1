from .agents import HonestAgent, SpikedAgent, TrivialAgent
from .careless_judge import CarelessJudge
from .release_memory import load_criteria, load_memory

__all__ = [
    "CarelessJudge",
    "HonestAgent",
    "SpikedAgent",
    "TrivialAgent",
    "load_criteria",
    "load_memory",
]
