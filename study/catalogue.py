"""The catalogue of extras: what each adds to the steps of a study, by dotted path.

The core imports no extra; it asks for the functions of one name, which are loaded on first use:

- ``look(scope) -> LookShare``: rows, controls and parts of a report (``study.reporting``)
- ``preview(study, wave) -> ExtraPreview``: first requests beside a sweep's (``study.sweeps``)
- ``regrades(snapshot) -> Regrades``: further grades to make again (``study.evidence``)
- ``pin_judge(pin) -> JudgePin``: a model of ``judges`` in study.yaml as it is pinned

An extra is taken out with its row: the steps then work without its share.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from importlib import import_module
from typing import Any

CONTRIBUTORS: Mapping[str, tuple[str, ...]] = {
    "templates": ("study.extras.templates.contribution:look",),
    "transcripts": ("study.extras.transcripts.tool_use:look",),
    "calibrate": ("study.extras.calibrate.contribution:look",),
    "probe": ("study.extras.probe.results:look",),
    "judge": (
        "study.extras.judge.contribution:look",
        "study.extras.judge.preview:preview",
        "study.extras.judge.regrade:regrades",
        "harness.judge.grade:pin_judge",
    ),
}


def contributions(name: str) -> Iterator[Callable[..., Any]]:
    """Yield each extra's function of this name, in the order of the catalogue."""
    for paths in CONTRIBUTORS.values():
        for path in paths:
            module, _, function = path.partition(":")
            if function == name:
                yield getattr(import_module(module), function)
