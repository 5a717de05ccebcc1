from .client import AgentServer, ModelOrAgent, ask
from .program_agent import OUTPUT_BYTES, ProgramAgent, program_prompt, run_program

__all__ = [
    "OUTPUT_BYTES",
    "AgentServer",
    "ModelOrAgent",
    "ProgramAgent",
    "ask",
    "program_prompt",
    "run_program",
]
