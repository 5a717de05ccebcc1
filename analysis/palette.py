"""The colours of a page and of its figures, by the names of CSS variables.

Text colours keep a contrast of 4.5 to 1 on both grounds, in light and dark (WCAG 2.2, 1.4.3).
"""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

LIGHT: Mapping[str, str] = MappingProxyType(
    {
        "paper": "#fdfdfb", "wash": "#f4f4ef", "ink": "#1c1d20", "muted": "#5b5f66",
        "rule": "#dcdcd6", "contaminated": "#b3470a", "clean": "#0b66a3", "unsure": "#66686e",
        "withheld": "#7a3f9d",
    }
)  # fmt: skip
DARK: Mapping[str, str] = MappingProxyType(
    {
        "paper": "#16171a", "wash": "#1e2024", "ink": "#e6e5e1", "muted": "#a3a5aa",
        "rule": "#35373c", "contaminated": "#f0924f", "clean": "#63b5ec", "unsure": "#a9abb1",
        "withheld": "#c79be6",
    }
)  # fmt: skip
PRINT: Mapping[str, str] = MappingProxyType(
    {
        "paper": "#ffffff", "wash": "#ffffff", "ink": "#000000", "muted": "#444444",
        "rule": "#bbbbbb", "contaminated": "#9a3a05", "clean": "#08507f", "unsure": "#444444",
        "withheld": "#5c2a7d",
    }
)  # fmt: skip
GROUNDS = ("paper", "wash")
TEXTS = ("ink", "muted", "contaminated", "clean", "unsure", "withheld")
