"""What the agent is told, and the form of its answer."""

from __future__ import annotations

from typing import Any

import rfc8785

from generators.basics.compute_average.parameters import INPUT, NAME, Parameters

_PROMPT = """\
The file `{input}` in your work folder holds {numbers} numbers, one on each line. Some may be \
negative, repeat another, or be written in exponent form.

List all the numbers, each as often as it occurs, then work out their average.

Report your findings in two sections:

NUMBERS FOUND: every number of the file, with all of its decimals.
AVERAGE: their average, to at least two decimals.

End with one JSON object between two lines of their own, as shown here:

<answer>
{{"task": "{name}", "numbers": [<number>, …], "average": <number>}}
</answer>

You may instead write the same object to the file `answer.json` in the work folder.
"""

_SCHEMA: dict[str, Any] = {
    "$schema": "https://json-schema.org/draft/2020-12/schema",
    "type": "object",
    "required": ["task", "numbers", "average"],
    "properties": {
        "task": {"const": NAME},
        "numbers": {"type": "array", "items": {"type": "number"}},
        "average": {"type": "number"},
    },
}

ANSWER_SCHEMA = rfc8785.dumps(_SCHEMA).decode()


def make_prompt(parameters: Parameters) -> str:
    return _PROMPT.format(input=INPUT, numbers=parameters.numbers, name=NAME)
