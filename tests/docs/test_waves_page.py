"""The script for cron in docs/waves.md, run with a stand-in for `dosimeter`: which outcomes of a
sweep it tries again."""

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


def failing(*kinds: str) -> tuple[int, object]:
    return 1, {"held": 0, "failing": [{"failure": f"provider:{kind}"} for kind in kinds]}


def run_script(
    folder: Path, outcomes: list[tuple[int, object]], states: tuple[str, ...] = ("closed",)
) -> tuple[int, list[str]]:
    """Run the page's script. Return its exit code, and the commands and pauses that it made."""
    (script,) = re.findall(r"```sh\n(#!/bin/sh.*?)```", PAGE.read_text(encoding="utf-8"), re.S)
    script = script.replace("/srv/studies/ours", str(folder))
    waves = [{"wave": number, "state": state} for number, state in enumerate(states)]
    (folder / "waves").write_text(json.dumps(waves))
    lines = [f"{code} {json.dumps(body) if body else ''}\n" for code, body in outcomes]
    (folder / "outcomes").write_text("".join(lines))
    for name, text in (("dosimeter", STAND_IN), ("sleep", STAND_IN.replace('"$*"', '"sleep $*"'))):
        (folder / name).write_text(text)
        (folder / name).chmod(0o755)
    environment = os.environ | {"HERE": str(folder), "PATH": f"{folder}:{os.environ['PATH']}"}
    done = subprocess.run(
        ["sh", "-c", script, "routine", "new-one"], env=environment, capture_output=True
    )
    return done.returncode, (folder / "calls").read_text().splitlines()


pytestmark = pytest.mark.skipif(shutil.which("jq") is None, reason="the script needs jq")


@pytest.mark.parametrize(
    ("outcomes", "code", "sweeps", "pauses"),
    [
        ([DONE], 0, 1, 0),
        ([failing("connection", "timeout"), failing("rate_limit"), DONE], 0, 3, 2),
        ([failing("overload")] * 9, 1, 4, 4),
        ([HELD, DONE], 1, 1, 0),
        ([failing("connection"), HELD, DONE], 1, 2, 1),
        ([failing("connection", "auth"), DONE], 1, 1, 0),
        ([failing("bad_request"), DONE], 1, 1, 0),
        ([(1, {"held": 0, "failing": [{"failure": "sandbox:engine"}]}), DONE], 1, 1, 0),
        ([(1, None), DONE], 1, 1, 0),
        ([(2, None), DONE], 2, 1, 0),
        ([(3, None), DONE], 3, 1, 0),
    ],
    ids=str,
)
def test_a_sweep_is_tried_again_only_if_waiting_may_mend_it(
    tmp_path: Path, outcomes: list[tuple[int, object]], code: int, sweeps: int, pauses: int
) -> None:
    ended, calls = run_script(tmp_path, outcomes)
    assert ended == code
    assert calls.count("sweep --wave 7 --json") == sweeps
    assert sum(call.startswith("sleep") for call in calls) == pauses
    assert ("report" in calls) == (code == 0), "nothing is reported of a wave that is not closed"


def test_a_wave_that_was_begun_is_finished_before_another_is_opened(tmp_path: Path) -> None:
    code, calls = run_script(tmp_path, [DONE], states=("closed", "begun"))
    assert code == 0
    assert "sweep --wave 1 --json" in calls
    assert not any(call.startswith("wave open") for call in calls)
