"""An answer as text: from a response or from a file, or the verdict where there can be none."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from generators.templates.clean import clean
from generators.templates.model import Key, Verdict, Workspace

MOST_RESPONSE = 1 << 21  # characters; what is longer is wrong
MOST_READ = 1 << 24  # bytes of a file; what is longer is wrong
_MOST_TOLD = 200  # characters of an answer in a reason
_MOST_KEPT = 4000  # characters of an answer in the details


def cleaned_response(response: object) -> str | Verdict:
    """The answer in a response, cleaned, or why there is none. Whatever is given, it holds."""
    if isinstance(response, bytes) and len(response) <= 4 * MOST_RESPONSE:
        try:
            response = response.decode()
        except UnicodeDecodeError:
            return Verdict(False, "the response is no UTF-8 text")
    if not isinstance(response, str | bytes):
        return Verdict(False, "the response is no text")
    if isinstance(response, bytes) or len(response) > MOST_RESPONSE:
        return _too_long("the response", len(response), MOST_RESPONSE)
    return clean(response)


def file_text(key: Key, workspace: Workspace) -> str | Verdict:
    """The text of the key's file, its line ends as one, or why there is none."""
    if not key.file:
        return Verdict(False, "the key names no file to read")
    data = workspace.read(key.file)
    details: dict[str, Any] = {"expected_file": key.file, "expected_content": key.expected.strip()}
    if data is None:
        kind = workspace.kind(key.file)
        lack = {None: "does not exist", "folder": "is a folder"}.get(kind, "cannot be read")
        return Verdict(False, f"{key.file}: {lack}", {**details, "file_exists": kind is not None})
    details["file_exists"] = True
    if len(data) > MOST_READ:
        return _too_long(key.file, len(data), MOST_READ, details)
    try:
        text = data.decode()
    except UnicodeDecodeError:
        return Verdict(False, f"{key.file}: is no UTF-8 text", details)
    return text.replace("\r\n", "\n").replace("\r", "\n") if "\r" in text else text


def kept(text: str) -> str:
    """A text for the details: its two ends, if it is long."""
    if len(text) <= _MOST_KEPT:
        return text
    return f"{text[: _MOST_KEPT // 2]} … ({len(text):,} characters) … {text[-_MOST_KEPT // 2 :]}"


def told(text: str) -> str:
    """A text for a reason, quoted: its beginning, if it is long."""
    return repr(text if len(text) <= _MOST_TOLD else f"{text[:_MOST_TOLD]}…")


def _too_long(what: str, size: int, most: int, details: Mapping[str, Any] | None = None) -> Verdict:
    reason = f"{what} is too long to be scored: {size:,}, at most {most:,}"
    return Verdict(False, reason, details or {})
