"""The playground as a Space of the Hub: three small files, as ``examples/space`` has them."""

from __future__ import annotations

from pathlib import Path
from tempfile import TemporaryDirectory

from publish.space import push_space

_README = """---
title: dosimeter playground
emoji: 🎲
colorFrom: gray
colorTo: blue
sdk: gradio
sdk_version: 6.31.0
python_version: "3.12"
app_file: app.py
license: apache-2.0
short_description: Make fresh task instances, answer them, be graded
---

Instances of dosimeter's public task families, made from seeds of your own, with their files, keys
and rubrics. Your answers are graded by the grader that studies of contamination use. No study's
instances can be made here.
"""
_APP = '''"""The playground as a Space of the Hub."""

from study.extras.playground.app import serve

serve()
'''
FILES = {"README.md": _README, "app.py": _APP, "requirements.txt": "dosimeter[playground]\n"}


def push_playground(repository: str) -> str:
    """Make a Space, "owner/name", hold the playground and nothing else, and return its revision;
    nothing is sent if it does. Raises PublishError, also for a Space that holds something else."""
    with TemporaryDirectory() as place:
        for name, text in FILES.items():
            (Path(place) / name).write_text(text, encoding="utf-8")
        return push_space(Path(place), repository, "app.py", "gradio")
