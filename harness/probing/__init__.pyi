from .closed_book import ProbeStore, probe_call, probe_digest, probe_messages, read_probe, run_probe
from .text import NOT_TOLD, read_text_probe, released_text, run_text_probe, text_call, text_digest

__all__ = [
    "NOT_TOLD",
    "ProbeStore",
    "probe_call",
    "probe_digest",
    "probe_messages",
    "read_probe",
    "read_text_probe",
    "released_text",
    "run_probe",
    "run_text_probe",
    "text_call",
    "text_digest",
]
