from .closed_book import probe_call, probe_digest, probe_messages, run_probe
from .records import TextProbe, read_probe, read_text_probe
from .text import NOT_REPORTED, ReleasedText, released_text, run_text_probe, text_call, text_digest

__all__ = [
    "NOT_REPORTED",
    "ReleasedText",
    "TextProbe",
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
