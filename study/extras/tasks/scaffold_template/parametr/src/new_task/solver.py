"""Read the input files in the current folder, and write ``answer.json`` there.

A stub: write here the program that works the answer out of the files, with what the sandbox has
(the standard library, numpy, scipy, pandas, Pillow)."""

import json
from pathlib import Path

Path("answer.json").write_text(json.dumps({"task": "new_task"}), encoding="utf-8")
