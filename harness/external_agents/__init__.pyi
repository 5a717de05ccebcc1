from .base import Contender, OutsideAgent
from .client import TREES, AgentServer, Terms, ask

__all__ = ["TREES", "AgentServer", "Contender", "OutsideAgent", "Terms", "ask"]
