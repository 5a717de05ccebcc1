from .client import TREES, AgentServer, AgentServerSettings, ModelOrAgent, ask

__all__ = ["TREES", "AgentServer", "AgentServerSettings", "ModelOrAgent", "ask"]
