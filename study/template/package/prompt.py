"""What the agent is told, and the form of its answer."""

from __future__ import annotations

from typing import Any

import rfc8785

from .parameters import INPUT, NAME, Parameters

_PROMPT = """\
The file `{input}` in your work folder is a table of {readings} readings of an instrument, with \
the columns `id`, `status` (good or bad) and `value`.

List the identifiers of the bad readings, then work out the mean value of the good ones.

Report your findings in two sections:

BAD READINGS: their identifiers.
MEAN: the mean of the good readings, to at least two decimals.

End with one JSON object between two lines of their own, as shown here:

<answer>
{{"task": "{name}", "bad": ["<identifier>", …], "mean": <number>}}
</answer>

You may instead write the same object to the file `answer.json` in the work folder.
"""

_SCHEMA: dict[str, Any] = {
    "$schema": "https://json-schema.org/draft/2020-12/schema",
    "type": "object",
    "required": ["task", "bad", "mean"],
    "properties": {
        "task": {"const": NAME},
        "bad": {"type": "array", "items": {"type": "string"}},
        "mean": {"type": "number"},
    },
}

ANSWER_SCHEMA = rfc8785.dumps(_SCHEMA).decode()


def make_prompt(parameters: Parameters) -> str:
    return _PROMPT.format(input=INPUT, readings=parameters.readings, name=NAME)
