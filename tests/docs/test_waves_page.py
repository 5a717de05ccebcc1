"""The script for cron in docs/waves.md, run with a stand-in for `dosimeter`: what it does after the
outcomes of a sweep."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
from pathlib import Path

import pytest

PAGE = Path(__file__).resolve().parents[2] / "docs" / "waves.md"
# Each sweep takes the next line of `outcomes`: its exit code and its JSON.
STAND_IN = """\
#!/bin/sh
echo "$*" >> "$HERE/calls"
case "$1 $2 $4" in
    "wave list "*) cat "$HERE/waves" ;;
    "wave open "*) echo '[{"wave": 7}]' ;;
    "sweep --wave --json")
        read -r code json < "$HERE/outcomes"
        sed -i 1d "$HERE/outcomes"
        echo "$json"
        exit "$code" ;;
esac
"""
DONE = (0, {"held": 0, "failing": []})
HELD = (1, {"held": 4, "failing": []})
STOPPED = (1, {"stopped": ["new-one"], "held": 0, "failing": [{"failure": "provider:auth"}]})


def run_script(
    folder: Path, outcomes: list[tuple[int, object]], states: tuple[str, ...] = ("closed",)
) -> tuple[int, list[str]]:
    """Run the page's script. Return its exit code, and the commands that it ran."""
    (script,) = re.findall(r"```sh\n(#!/bin/sh.*?)```", PAGE.read_text(encoding="utf-8"), re.S)
    script = script.replace("/srv/studies/ours", str(folder))
    waves = [{"wave": number, "state": state} for number, state in enumerate(states)]
    (folder / "waves").write_text(json.dumps(waves))
    lines = [f"{code} {json.dumps(body) if body else ''}\n" for code, body in outcomes]
    (folder / "outcomes").write_text("".join(lines))
    (folder / "dosimeter").write_text(STAND_IN)
    (folder / "dosimeter").chmod(0o755)
    environment = os.environ | {"HERE": str(folder), "PATH": f"{folder}:{os.environ['PATH']}"}
    done = subprocess.run(
        ["sh", "-c", script, "routine", "new-one"], env=environment, capture_output=True
    )
    return done.returncode, (folder / "calls").read_text().splitlines()


pytestmark = pytest.mark.skipif(shutil.which("jq") is None, reason="the script needs jq")


@pytest.mark.parametrize(
    ("outcome", "code"),
    [(DONE, 0), (HELD, 1), (STOPPED, 1), ((1, None), 1), ((2, None), 2), ((3, None), 3)],
    ids=str,
)
def test_a_wave_that_stays_open_is_not_reported(
    tmp_path: Path, outcome: tuple[int, object], code: int
) -> None:
    ended, calls = run_script(tmp_path, [outcome, DONE])
    assert ended == code
    assert calls.count("sweep --wave 7 --json") == 1, "it waits for providers by itself"
    assert ("report" in calls) == (code == 0)


def test_a_wave_that_was_begun_is_finished_before_another_is_opened(tmp_path: Path) -> None:
    code, calls = run_script(tmp_path, [DONE], states=("closed", "begun"))
    assert code == 0
    assert "sweep --wave 1 --json" in calls
    assert not any(call.startswith("wave open") for call in calls)
