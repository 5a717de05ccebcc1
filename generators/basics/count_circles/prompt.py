"""What the agent is told, and the form of its answer."""

from __future__ import annotations

from typing import Any

import rfc8785

from generators.basics.count_circles.parameters import NAME, Parameters, file_names

_PROMPT = """\
Your work folder holds {files} pictures, `{first}` to `{last}`. Each shows at least one black \
disc on a white ground. All discs have the same size; no two of them touch or overlap, and \
none is cut off by the edge.

Count the discs in each picture, then work out the average number of discs per picture.

Report your findings in two sections:

CIRCLE COUNTS: one line for each picture, with its file name and its count.
AVERAGE: the average of the counts, to at least two decimals.

End with one JSON object between two lines of their own, as shown here, with every picture \
under `counts`:

<answer>
{{"task": "{name}", "counts": {{"{first}": <integer>, …, "{last}": <integer>}}, \
"average": <number>}}
</answer>

You may instead write the same object to the file `answer.json` in the work folder.
"""

_SCHEMA: dict[str, Any] = {
    "$schema": "https://json-schema.org/draft/2020-12/schema",
    "type": "object",
    "required": ["task", "counts", "average"],
    "properties": {
        "task": {"const": NAME},
        "counts": {"type": "object", "additionalProperties": {"type": "integer"}},
        "average": {"type": "number"},
    },
}

ANSWER_SCHEMA = rfc8785.dumps(_SCHEMA).decode()


def make_prompt(parameters: Parameters) -> str:
    names = file_names(parameters.files)
    return _PROMPT.format(files=parameters.files, first=names[0], last=names[-1], name=NAME)
