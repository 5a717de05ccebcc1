"""What every sandbox promises, whichever is asked: the container and the local one."""

from __future__ import annotations

import hashlib
import os
import signal
import stat
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping
from pathlib import Path

import pytest

from generators.task import Asset, Limits
from harness.errors import HarnessError
from harness.sandboxes import tool_server as server
from harness.sandboxes.local import LocalSandboxes
from harness.sandboxes.sandbox import Sandbox, SandboxProvider, SandboxRefused
from tests.cases import cases
from tests.progress import wait_until

LIMITS = Limits(output_bytes=4096)


@pytest.fixture
def box(provider: SandboxProvider) -> Iterator[Sandbox]:
    with provider.open([Asset("data/in.csv", "text/csv", b"x\n1\n")], LIMITS) as opened:
        yield opened


def python(box: Sandbox, source: str, seconds: float = 20.0) -> str:
    """What a program printed that must have ended well."""
    result = box.run(["python3", "-c", source], seconds)
    assert result.exit_code == 0, result
    return result.output.decode().strip()


def test_a_program_sees_its_input_files_and_tells_how_it_ended(box: Sandbox) -> None:
    result = box.run(["sh", "-c", "cat data/in.csv; echo wrong >&2; exit 3"], 20)
    assert (result.exit_code, result.output, result.limits) == (3, b"x\n1\nwrong\n", ())
    assert result.output_bytes == len(result.output)
    assert 0 < result.seconds < 20


def test_standard_input_is_given_whole(box: Sandbox) -> None:
    data = os.urandom(300_000)
    result = box.run(["sha256sum"], 20, data)
    assert result.output.startswith(hashlib.sha256(data).hexdigest().encode())
    assert box.run(["cat"], 20).output == b""


def test_arguments_are_taken_as_they_are(box: Sandbox) -> None:
    assert box.run(["printf", "%s|", "$HOME; id", "*", ""], 20).output == b"$HOME; id|*||"


@pytest.mark.parametrize(
    ("argv", "code"), [(["no-such-program"], 127), (["data"], 127), (["/"], 126)]
)
def test_a_program_that_cannot_start_is_an_answer(box: Sandbox, argv: list[str], code: int) -> None:
    result = box.run(argv, 20)
    assert result.exit_code == code
    assert b"cannot run it" in result.output


def test_the_libraries_are_there(box: Sandbox) -> None:
    source = "import numpy, scipy, pandas, PIL, matplotlib; print(int(numpy.arange(5).sum()))"
    assert python(box, source, 60) == "10"


def test_the_provider_tells_the_libraries_that_programs_find(
    provider: SandboxProvider, box: Sandbox
) -> None:
    told = dict(provider.libraries)
    assert {"Python", "numpy", "scipy", "pandas", "pillow", "matplotlib"} <= set(told)
    names = sorted(set(told) - {"Python"})
    ask = f"import importlib.metadata as m, platform; print(platform.python_version(), " \
          f"[m.version(name) for name in {names}])"  # fmt: skip
    assert python(box, ask).strip() == f"{told['Python']} {[told[name] for name in names]}"
    assert provider.libraries is provider.libraries, "it is asked once"


def test_head_and_tail_of_long_output_are_kept_and_all_of_it_counted(box: Sandbox) -> None:
    result = box.run(["python3", "-c", "print('first'); print('x' * 100_000); print('last')"], 20)
    assert result.output_bytes == 100_001 + 11
    assert len(result.output) <= LIMITS.output_bytes
    assert result.output.startswith(b"first\n")
    assert result.output.endswith(b"x\nlast\n")
    assert b"bytes left out" in result.output
    assert result.limits == ()


def test_endless_output_ends_the_program(box: Sandbox) -> None:
    result = box.run(["yes"], 60)
    assert result.limits == ("output",)
    assert result.output_bytes >= 64 << 20
    assert len(result.output) <= LIMITS.output_bytes


@pytest.mark.parametrize("patience", ["", "trap '' TERM INT HUP; "])
def test_a_program_past_its_time_is_killed(box: Sandbox, patience: str) -> None:
    begun = time.monotonic()
    result = box.run(["sh", "-c", f"{patience}echo begun; sleep 60; sleep 60"], 0.5)
    assert result.limits == ("time",)
    assert (result.exit_code, result.output) == (137, b"begun\n")
    assert time.monotonic() - begun < 5


def test_nothing_that_a_program_left_is_alive_afterwards(box: Sandbox) -> None:
    """Neither a child that holds the output, nor a daemon, nor one in another session."""
    session = 'python3 -c \'import os; os.setsid(); os.execvp("sleep", ["sleep", "62"])\''
    source = f"sleep 61 & {session} & ({session} & sleep 63 &) & sleep 0.3; echo done"
    begun = time.monotonic()
    result = box.run(["sh", "-c", source], 20)
    assert (result.exit_code, result.output) == (0, b"done\n")
    assert time.monotonic() - begun < 5
    alive = cases(__file__, "alive")
    assert python(box, alive) == ""


def test_programs_see_no_key_of_ours(
    provider: SandboxProvider, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", "sk-not-for-agents")
    with provider.open([], LIMITS) as fresh:
        assert "sk-not-for-agents" not in python(fresh, "import os; print(dict(os.environ))")


def test_what_is_written_is_read(box: Sandbox) -> None:
    data = os.urandom(200_000)
    box.write("deep/er/file.bin", data)
    assert box.read("deep/er/file.bin", 200_000) == data
    box.write("deep/er/file.bin", b"other")
    assert box.read("./deep//er/file.bin", 5) == b"other"
    home = python(box, "import os; print(os.getcwd())")
    assert box.read(f"{home}/deep/er/file.bin", 5) == b"other"
    assert python(box, "import os; print(sorted(os.listdir('deep/er')))") == "['file.bin']"


REFUSED = cases(__file__, "refused") | {"x" * 300: "too long", "\ud800": "not text"}


def check_refused(box: Sandbox, reasons: Mapping[str, str]) -> None:
    for path, reason in reasons.items():
        with pytest.raises(SandboxRefused, match=reason):
            box.read(path, 100_000)
        with pytest.raises(SandboxRefused, match=reason):
            box.write(path, b"changed")


def test_other_paths_are_refused_with_a_reason(box: Sandbox) -> None:
    with pytest.raises(SandboxRefused, match="no such file"):
        box.read("missing.txt", 1000)
    check_refused(box, REFUSED)


def test_a_file_over_the_cap_is_refused(box: Sandbox) -> None:
    with pytest.raises(SandboxRefused, match="4 bytes, at most 3"):
        box.read("data/in.csv", 3)


TRAPS = cases(__file__, "traps")


TRAPPED = cases(__file__, "trapped")


def test_no_trap_leads_out(box: Sandbox) -> None:
    python(box, TRAPS)
    before = Path("/etc/passwd").read_bytes()
    check_refused(box, TRAPPED)
    assert Path("/etc/passwd").read_bytes() == before
    assert box.run(["true"], 20).exit_code == 0


def test_sandboxes_share_nothing(provider: SandboxProvider) -> None:
    with provider.open([], LIMITS) as one, provider.open([], LIMITS) as other:
        assert one.id != other.id
        one.write("note", b"mine")
        with pytest.raises(SandboxRefused, match="no such file"):
            other.read("note", 10)


def test_input_files_that_lead_out_stop_the_study(provider: SandboxProvider) -> None:
    with pytest.raises(HarnessError, match=r"input file 1 of 1 .*'\.\.'"):
        provider.open([Asset("../evil", "text/plain", b"")], LIMITS)


def test_names_from_archives_stay_names(box: Sandbox) -> None:
    """An archive with members above its folder writes nothing outside the work folder."""
    source = cases(__file__, "archive")
    assert python(box, source) == "['absolute-escaped.txt', 'escaped.txt']"
    assert not Path("/absolute-escaped.txt").exists()


def test_close_is_final_and_may_be_repeated(provider: SandboxProvider) -> None:
    box = provider.open([], LIMITS)
    box.close()
    box.close()


# --- what the tool server reads off the kernel ---


@pytest.mark.parametrize(("name", "text", "word", "count"), cases(__file__, "counters"))
def test_the_kernels_counters_are_read(
    name: str, text: str, word: str, count: int, tmp_path: Path
) -> None:
    """Of control groups of version 1 and 2, as the kernel's documentation shows them."""
    (tmp_path / name).write_text(text)
    assert server.read_counter((str(tmp_path / "absent"), str(tmp_path / name)), word) == count


# --- the local one's own promises ---


def temp_folders() -> set[Path]:
    """The folders of this process: others run tests of their own beside it."""
    return set(Path(tempfile.gettempdir()).glob(f"dosimeter-*-{os.getpid()}-*"))


def test_the_local_folder_is_private_and_vanishes() -> None:
    before = temp_folders()
    provider = LocalSandboxes()
    box = provider.open([Asset("in.csv", "text/csv", b"secret")], LIMITS)
    (made,) = temp_folders() - before
    assert stat.S_IMODE(made.stat().st_mode) == 0o700
    box.close()
    provider.open([], LIMITS)
    provider.close()
    assert temp_folders() <= before


def test_the_local_folder_vanishes_when_its_owner_is_killed() -> None:
    source = cases(__file__, "killed_owner")
    owner = subprocess.Popen([sys.executable, "-c", source], stdout=subprocess.PIPE, text=True)
    assert owner.stdout is not None
    work = Path(owner.stdout.readline().strip())
    assert work.is_dir()
    with owner:  # its pipe is closed, too
        owner.send_signal(signal.SIGKILL)
    wait_until(lambda: not work.exists())


def test_a_folder_whose_server_was_killed_too_is_swept_by_the_next_owner(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    # A folder for temporary files of its own: tests at work beside this one sweep the common one.
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    monkeypatch.setattr(tempfile, "tempdir", None)
    source = cases(__file__, "killed_server")
    owner = subprocess.run([sys.executable, "-c", source], stdout=subprocess.PIPE, text=True)
    assert owner.returncode == -signal.SIGKILL
    work = Path(owner.stdout.strip())
    assert (work / "in.csv").exists()
    mine = LocalSandboxes()
    with mine.open([], LIMITS) as box:
        assert not work.exists()
        LocalSandboxes()  # sweeps, and leaves the living alone
        assert box.run(["pwd"], 20).exit_code == 0


def test_local_memory_is_limited_by_process() -> None:
    provider = LocalSandboxes()
    with provider.open([], Limits(memory_bytes=200 << 20)) as box:
        result = box.run(["python3", "-c", "x = bytearray(400 << 20)"], 20)
        assert result.exit_code == 1
        assert b"MemoryError" in result.output
    assert not provider.isolates
    assert provider.image == "none"
