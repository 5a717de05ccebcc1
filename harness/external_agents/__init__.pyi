from .base import ExternalAgent, ModelOrAgent
from .client import TREES, AgentServer, AgentServerSettings, ask

__all__ = ["TREES", "AgentServer", "AgentServerSettings", "ExternalAgent", "ModelOrAgent", "ask"]
