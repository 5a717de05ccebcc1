from .client import TREES, AgentServer, AgentServerSettings, ModelOrAgent, ask
from .program_agent import OUTPUT_BYTES, ProgramAgent, program_prompt, run_program

__all__ = [
    "OUTPUT_BYTES",
    "TREES",
    "AgentServer",
    "AgentServerSettings",
    "ModelOrAgent",
    "ProgramAgent",
    "ask",
    "program_prompt",
    "run_program",
]
