"""Errors of the command line. Each is printed as one line; docs/reference/cli.md has the exit
codes."""

from __future__ import annotations

import re

# What holds a key by its form: prefixes of providers, parts of an address, a random text.
_PREFIXED = (
    r"(?<!\w)(?:(?:sk|rk|xai|gsk|hf|fw|r8|pplx|nvapi|glpat|github_pat|gh[a-z])[-_]"
    r"(?=(?:[\w-]*[-_])?(?=[A-Za-z0-9]{8})[A-Za-z0-9][a-z]*[A-Z0-9])[\w-]{8,}|AIza[\w-]{8,}"
    r"|[Bb]earer +(?=\S*\d)[\w.+/=-]{12,}|A[KS]IA[A-Z0-9]{8,}|ya29\.[\w-]+|eyJ[\w.-]{12,})"
)
_USER = r"://[^/\s@]++@"
_WORDS = "key sig sas auth token secret signature passw passwd password credential"
_NAMES = [*_WORDS.split(), *(f"{name}{joint}id" for name in ("key", "token") for joint in "-_")]
_PARAMETER = rf"(?i:[?&#][\w-]++(?:{'|'.join(f'(?<={name})' for name in _NAMES)})=)"
_RANDOM = (
    r"(?<![A-Za-z0-9])(?!age1)(?:(?=[A-Za-z]*[0-9])(?=[0-9]*[A-Za-z])[A-Za-z0-9]{16,}"
    r"|[A-Za-z]{30,}|[0-9a-fA-F]{8}(?:-[0-9a-fA-F]{4}){3}-[0-9a-fA-F]{12})"
    r"|(?<![\w+/])(?=[\w+/]*[a-z])(?=[\w+/]*[A-Z])(?=[\w+/]*[0-9])[A-Za-z0-9+/]{32,}"
)
KEY_NAMES = (*_NAMES, "authorization")  # what keys are called
LIKE_KEY = re.compile(rf"(?<![/-]){_PREFIXED}|{_USER}|{_PARAMETER}")
_HIDDEN = re.compile(f"{_PREFIXED}|{_RANDOM}")


def without_keys(text: str, *, random: bool = True) -> str:
    """Return the text with … in place of all that has the form of a key, and of random texts."""
    text = re.sub(rf"({_PARAMETER})[^\s&#'\"]+", r"\1…", re.sub(_USER, "://…@", text))
    return re.sub(_HIDDEN if random else _PREFIXED, "…", text)


def error_line(message: str) -> str:
    """Return the message of an error as it is printed. What a file has may be a key of any form, so
    random texts are hidden too behind the place of a fault in a file."""
    start = place.end() if (place := re.match(r"[^\n]*?:\d+: ", message)) else 0
    return without_keys(message[:start], random=False) + without_keys(
        message[start:], random=bool(place)
    )


# Modules of the libraries that extras of the distribution install.
EXTRA_MODULES = {
    "analysis": "PIL matplotlib numpy pandas pyarrow scipy statsmodels",
    "docker": "docker requests",
    "hub": "huggingface_hub",
    "inspect": "inspect_ai",
    "items": "datasketch re2",
    "local": "xllamacpp",
    "models": "openai pydantic_ai",
    "playground": "gradio starlette",
    "pods": "requests websockets",
    "s3": "boto3 botocore",
    "sweep": "ray",
}


def install_line(error: Exception) -> str | None:
    """Return the command that installs the library of an extra that is not installed; None for
    another error."""
    library = (error.name or "").partition(".")[0] if isinstance(error, ImportError) else ""
    for extra, modules in EXTRA_MODULES.items():
        if library in modules.split():
            return f"{library} is not installed: pip install 'dosimeter[{extra}]'"
    return None


class StudyError(Exception):
    """Bad input: names the place, the fault and the remedy."""


class StudyFileError(StudyError):
    """Bad input at a line of a file, and the key that it belongs to; "" for the file as a whole."""

    def __init__(self, file: str, line: int, key: str, message: str) -> None:
        key, message = without_keys(key), without_keys(message)
        super().__init__(f"{file}:{line}: {key}: {message}" if key else f"{file}:{line}: {message}")
        self.file = file
        self.line = line
        self.key = key
        self.message = message

    def __reduce__(self) -> tuple[type[StudyFileError], tuple[str, int, str, str]]:
        return type(self), (self.file, self.line, self.key, self.message)


class WorkOwedError(StudyError):
    """Work that was begun and is still owed: a provider failed, or the budget is spent."""
