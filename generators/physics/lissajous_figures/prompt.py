"""The task as the agent reads it, and the form of its answer."""

from __future__ import annotations

from typing import Any

import rfc8785

from generators.physics.lissajous_figures.parameters import FOLDER, NAME, TABLE, Parameters

_PROMPT = """\
A company makes two lines of products that belong together: power supplies for alternating \
current with fixed frequencies of up to 100 Hz, and coils of 6 H, 3 H, 2 H, 1.5 H, 1.2 H and \
1 H. A supply is good if there is a coil in the product line that has an impedance of 377 Ω, \
to three significant figures, at the supply's frequency. All other supplies are faulty.

The factory ran for {days} days. Its {machines} machines made {units} supplies, of {batches} \
batches of material. A sample was tested: an oscilloscope in XY mode showed the voltage of the \
supply against a reference of exactly 100 Hz; the picture is a closed figure.{axis} Amplitudes \
and phases have no meaning. Supplies that were not tested count as good.

Your work folder holds:

- `{table}`: one line for each supply, with the columns `day`, `supply_ID`, `machine`, `batch` \
and `measurement_id` (empty where the supply was not tested);
- `{folder}/ID_<measurement_id>.png`: the oscilloscope's picture of each measurement.

Find out which of the tested supplies are faulty, and which machines are: those of whose tested \
supplies strictly more than 10 % are faulty.

Report your findings in two sections:

DATA FOR QUALITY ASSURANCE: a table of the faulty supplies, with each one's ID, machine, batch \
and measured frequency in Hz, rounded to the nearest integer.
DATA FOR MANAGEMENT: a list of the faulty machines.

End with one JSON object between two lines of their own, as shown here, with every faulty supply \
under `faulty`. Identifiers are text: give every character of them, with leading zeros.

<answer>
{{"task": "{name}", "faulty": [{{"supply_id": "<text>", "machine": "<text>", "batch": "<text>", \
"frequency_hz": <number>}}, …], "machines": ["<text>", …]}}
</answer>

You may instead write the same object to the file `answer.json` in the work folder.
"""

_AXIS = " The reference moves the beam sideways, the supply up and down."

_TEXT = {"type": "string"}
_SCHEMA: dict[str, Any] = {
    "$schema": "https://json-schema.org/draft/2020-12/schema",
    "type": "object",
    "required": ["task", "faulty", "machines"],
    "properties": {
        "task": {"const": NAME},
        "faulty": {
            "type": "array",
            "items": {
                "type": "object",
                "required": ["supply_id", "machine", "batch", "frequency_hz"],
                "properties": {
                    "supply_id": _TEXT,
                    "machine": _TEXT,
                    "batch": _TEXT,
                    "frequency_hz": {"type": "number"},
                },
            },
        },
        "machines": {"type": "array", "items": _TEXT},
    },
}

ANSWER_SCHEMA = rfc8785.dumps(_SCHEMA).decode()


def make_prompt(parameters: Parameters) -> str:
    """The task as the agent reads it."""
    return _PROMPT.format(
        days=parameters.days,
        machines=parameters.machines,
        units=parameters.units,
        batches=parameters.batches,
        axis=_AXIS if parameters.states_axis else "",
        table=TABLE,
        folder=FOLDER,
        name=NAME,
    )
