from .find import Listed, list_episodes, require_key, stored_attempt, was_refused
from .inspect_export import export_inspect
from .show import list_records, open_transcript, print_transcript, transcript_json
from .tool_use import model_records, tool_records, tool_tables

__all__ = [
    "Listed",
    "export_inspect",
    "list_episodes",
    "list_records",
    "model_records",
    "open_transcript",
    "print_transcript",
    "require_key",
    "stored_attempt",
    "tool_records",
    "tool_tables",
    "transcript_json",
    "was_refused",
]
