"""Command lines without a shell: read as POSIX reads them, carried out as ``sh -c`` does, and
whatever else a shell would do is refused with a reason."""

from __future__ import annotations

import os
import random
import subprocess
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path

import pytest

from generators.task import Asset, Limits
from harness.agent.commandline import MAX_COMMANDS, BadLine, Plan, plan_json, read_line
from harness.agent.tools import COMMANDS
from harness.sandboxes.base import ExecResult, Sandbox
from harness.sandboxes.image import ensure_image
from harness.sandboxes.local import LocalSandboxes

LIMITS = Limits(output_bytes=20_000)
FILES = {
    "a.csv": "x,y\n3,4\n1,2\n",
    "b.csv": "x,y\n9,8\n",
    "a b.txt": "one\ntwo\nthree\n",
    "data/c.csv": "z\n",
    "data/d1.txt": "d\n",
    "data/.hidden": "h\n",
    ".dot": "dot\n",
    "[x]": "bracket\n",
    "*": "star\n",
}  # fmt: skip


def read(line: str) -> Plan:
    return read_line(line, COMMANDS)


# --- reading ---


def words(line: str) -> list[object]:
    (pipeline,) = plan_json(read(line))
    (command,) = pipeline["commands"]
    found: list[object] = command["words"]
    return found


@pytest.mark.parametrize(
    ("line", "expected"),
    [
        ("ls '|' \"&&\" \\; ';'", ["ls", "|", "&&", ";", ";"]),
        ("echo a'b c'\"d e\"f\\ g", ["echo", "ab cd ef g"]),
        ("echo '$(id) `id` $HOME'", ["echo", "$(id) `id` $HOME"]),
        ('echo "\\$HOME \\` \\" \\\\ \\n $"', ["echo", '$HOME ` " \\ \\n $']),
        ("echo ''", ["echo", ""]),
        ("grep '^a$' \"b$\"", ["grep", "^a$", "b$"]),
        ("python3 -c 'print(1)\nprint(2)'", ["python3", "-c", "print(1)\nprint(2)"]),
        ("ls '*' \\? \"[a]\"", ["ls", "*", "?", "[a]"]),
        ("ls a#b a~ x=1 {a,b} [", ["ls", "a#b", "a~", "x=1", "{a,b}", "["]),
        ("  ls\t-l  \n", ["ls", "-l"]),
        ("ls *.c?v", ["ls", [("*",), ".c", ("?",), "v"]]),
        ("ls [!a-c]]", ["ls", [("[", True, (("a", "c"),)), "]"]]),
        ("ls []a-]", ["ls", [("[", False, (("]", "]"), ("a", "a"), ("-", "-")))]]),
    ],
)
def test_words_are_what_posix_makes_of_them(line: str, expected: list[object]) -> None:
    assert words(line) == expected


def test_operators_and_redirections_need_no_blanks() -> None:
    (first, second, third) = plan_json(read("cat<a|wc -l>>b 2>&1&&ls||ls 2>/dev/null;"))
    assert [each["when"] for each in (first, second, third)] == [";", "&&", "||"]
    assert first["commands"] == [
        {"words": ["cat"], "ways": [[0, "<", "a"]]},
        {"words": ["wc", "-l"], "ways": [[1, ">>", "b"], [2, "&", "1"]]},
    ]
    assert third["commands"][0]["ways"] == [[2, ">", "/dev/null"]]


REFUSED = {
    "": "is empty",
    "ls |": "a command is missing at the end",
    "| ls": "a command is missing before '|'",
    "ls && && ls": "a command is missing before '&&'",
    "; ls": "a command is missing before",
    "ls & ls": "nothing runs in the background",
    "ls &": "nothing runs in the background",
    "ls |& wc": "use |, &&, || or ;",
    "ls ;; ls": "use |, &&, || or ;",
    "ls $(id)": "no command is put into another",
    "ls `id`": "no command is put into another",
    'ls "$(id)"': "no command is put into another",
    'echo "`id`"': "no command is put into another",
    "echo $HOME": "there are no variables",
    'echo "${HOME}"': "there are no variables",
    "echo $1 $?": "there are no variables",
    "echo $'a'": "there are no variables",
    "X=1 ls": "no variables",
    "ls\nrm a": "one line; join commands with && or ;",
    "ls\rrm a": "one line; join commands with && or ;",
    "ls \\\n-l": "join the lines, without backslashes",
    "ls \x0b": "control character",
    "ls \0": "NUL",
    "ls 'a": "quote (') is not closed",
    'ls "a': 'quote (") is not closed',
    "ls a\\": "escapes nothing",
    "(ls)": "there is no shell here for '('",
    "cat <(ls)": "write to a file and read that",
    "cat << EOF": "here-documents",
    "cat <<< a": "here-documents",
    "ls &> a": "use > FILE 2>&1",
    "ls >| a": "'>|' is not known",
    "ls <> a": "'<>' is not known",
    "ls 5> a": "only standard input",
    "ls >&3": "only 2>&1 and >&2",
    "ls 2>&1>a": "only 2>&1 and >&2",
    "ls >": "file name is missing after '>'",
    "ls > | wc": "file name is missing after '>'",
    "ls > *.txt": "name the one file",
    "> a": "without a command",
    "ls # all": "quote it if it is meant as text",
    "ls ~": "quote it if it is meant as text",
    "ls [[:alpha:]]": "name the letters",
    "ls ['a']": "name the files one by one",
    "l* a": "name the command itself",
    "cd data && ls": "leave cd out",
    "python x.py": "it is called python3",
    "curl a": "'curl' is not available; these are: ls, ",
    "./ls": "'./ls' is not available",
    "/bin/ls": "'/bin/ls' is not available",
    "ls && bash -c ls": "'bash' is not available; there is no shell",
    "ls | xargs rm": "'xargs' is not available",
    "ls;" * (MAX_COMMANDS + 1): f"more than {MAX_COMMANDS} commands",
}


@pytest.mark.parametrize("line", REFUSED)
def test_what_else_a_shell_would_do_is_refused_with_a_reason(line: str) -> None:
    with pytest.raises(BadLine) as refused:
        read(line)
    assert REFUSED[line] in str(refused.value)


def test_reading_takes_time_linear_in_the_line() -> None:
    """Ten thousand of anything in well under what a square of it would take."""
    for filler in ("[", "[a", "'a'", '"', "\\", "*", "a ", "2>", "2>a ", "ls|", "$", "]", "''", "["
                   + "a" * 60):  # fmt: skip
        begun = time.process_time()
        for start in ("ls ", 'ls "'):
            with suppress(BadLine):
                read(start + filler * (10_000 // len(filler)))
        assert time.process_time() - begun < 5


# --- carrying out ---


def lay_out(folder: Path) -> None:
    for name, text in FILES.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(text)


def contents(folder: Path) -> dict[str, str]:
    return {
        str(path.relative_to(folder)): path.read_text()
        for path in sorted(folder.rglob("*"))
        if path.is_file() and path.name != ".saved"  # its writer may die before it has all
    }


def shell(line: str, folder: Path) -> tuple[int, bytes]:
    """What a real shell makes of it."""
    environment = {"PATH": os.environ["PATH"], "LANG": "C.UTF-8", "HOME": str(folder)}
    done = subprocess.run(
        ["sh", "-c", line], cwd=folder, env=environment, stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE, stderr=subprocess.STDOUT, timeout=60, check=False,
    )  # fmt: skip
    return done.returncode, done.stdout


class Lines:
    """Random lines of the subset in which every program's output is determined: what one command
    of a pipeline writes, no other lists or reads."""

    def __init__(self, chance: random.Random) -> None:
        self._chance = chance

    def line(self) -> str:
        made = self._pipeline()
        for _ in range(self._chance.choice((0, 0, 1, 1, 2, 3))):
            made += self._chance.choice((" && ", " || ", " ; ", "&&", "||", ";")) + self._pipeline()
        return made + self._chance.choice(("", "", " ;", ";"))

    def _pipeline(self) -> str:
        made = self._source()
        for _ in range(self._chance.choice((0, 0, 1, 2, 3))):
            made += self._chance.choice((" | ", "|")) + self._filter()
        return made + self._chance.choice(
            ("", "", "", " > .o", " >> .o", " >'.o u t'", " >data/.n")
        )

    def _source(self) -> str:
        pick = self._chance.choice
        sources: tuple[Callable[[], str], ...] = (
            lambda: f"echo {self._word()} {self._word()}",
            lambda: f"cat {self._file()}",
            lambda: f"cat<{pick(('a.csv', 'data/c.csv'))}",
            lambda: (
                f"ls {pick(('*.csv', 'data', '-1 data/*', '*', '[ab]*', '-d .*t', 'data/[!c]*'))}"
            ),
            lambda: f"head -n {pick('0123')} {self._file()}",
            lambda: "seq 20000",
            lambda: pick(("true", "false", "test -e copy", "test -e nothing")),
            lambda: f"grep -c {pick('xyo')} {self._file()} 2>/dev/null",
            lambda: "ls nothing 2>&1",
            lambda: "cat nothing 2>/dev/null",
            lambda: "ls nothing data 2>.errors >&2",
            lambda: "ls nothing a.csv >.both 2>&1",
            lambda: f"cp {self._file()} copy",
            lambda: "mkdir new 2>/dev/null",
            lambda: "python3 -c 'import sys; print(sys.argv)' " + self._word(),
            lambda: "python3 -c 'import sys; sys.exit(7)'",
            lambda: (
                "python3 -c 'import os, signal; signal.signal(13, 0); os.kill(os.getpid(), 13)'"
            ),
        )
        return pick(sources)()

    def _filter(self) -> str:
        return self._chance.choice((
            "sort", "wc -l", "head -1", "tail -n 2", "cat", "grep -v x", "grep '|'",
            "cut -d , -f 1", "tr a-z A-Z", "uniq -c", "sed 's/o/0/g'",
            "awk '{print NF \";\" $1}'", "tee .saved",
            "cat - 'a b.txt'", "grep nothing", "sort -r 2>&1",
        ))  # fmt: skip

    def _file(self) -> str:
        return self._chance.choice((
            "a.csv", "'a b.txt'", "a\\ b.txt", '"a b.txt"', "data/c.csv", "*.csv", "d*/*",
            "./a.csv", "'[x]'", "'*'", "?", "[[]x]", "data/../b.csv", "n?thing*",
            "*/[a-z].csv", "*.[ct][sx][vt]",
        )) if self._chance.random() < 0.9 else "b.csv"  # fmt: skip

    def _word(self) -> str:
        return self._chance.choice((
            "a", "'a  b'", '"|"', "\\;", "'&&'", "''", '""', "*", "*.csv", "\\*.csv", "'*'",
            "no*ne", "a'b'\"c\"", "x=1", "{a,b}", "a#", "'#'", '"$"', "'$HOME'", '"\\$HOME"',
            "[", "[]", "[!", "data/", "*/", "*/*", ".d*", "2", "-n", "a\\\\q",
            "[x]", "?", "ä*", "'\n'",
        )) if self._chance.random() < 0.9 else "end"  # fmt: skip


def same_as_shell(lines: Iterator[str], tmp_path: Path) -> None:
    provider = LocalSandboxes()
    for number, line in enumerate(lines):
        ours, theirs = tmp_path / f"{number}-a", tmp_path / f"{number}-b"
        lay_out(ours)
        lay_out(theirs)
        with provider.open_in(ours, LIMITS) as box:
            done = box.run_line(read(line), 60.0)
        code, output = shell(line, theirs)
        assert (done.exit_code, done.output[:2000]) == (code, output[:2000]) or (
            len(output) > LIMITS.output_bytes and done.exit_code == code
        ), line
        assert done.output_bytes == len(output), line
        assert contents(ours) == contents(theirs), line
        assert done.limits == ()
    provider.close()


def random_lines(seed: int, count: int) -> Iterator[str]:
    lines = Lines(random.Random(seed))
    return (lines.line() for _ in range(count))


def test_lines_end_as_in_a_shell(tmp_path: Path) -> None:
    same_as_shell(random_lines(5, 40), tmp_path)


@pytest.mark.slow
@pytest.mark.timeout(1800)  # a server and a shell for each line
def test_many_lines_end_as_in_a_shell(tmp_path: Path) -> None:
    same_as_shell(random_lines(6, 2000), tmp_path)


@pytest.fixture(scope="module", params=["local", pytest.param("docker", marks=pytest.mark.docker)])
def box(request: pytest.FixtureRequest) -> Iterator[Sandbox]:
    assets = [Asset(name, "text/plain", text.encode()) for name, text in FILES.items()]
    if request.param == "local":
        provider = LocalSandboxes()
        with provider.open(assets, LIMITS) as opened:
            yield opened
        provider.close()
        return
    from harness.sandboxes.docker import DockerSandboxes

    with DockerSandboxes(ensure_image().tag).open(assets, LIMITS) as opened:
        yield opened


def carry_out(box: Sandbox, line: str, seconds: float = 30.0) -> ExecResult:
    return box.run_line(read(line), seconds)


def test_a_pipeline_runs_in_the_work_folder(box: Sandbox) -> None:
    done = carry_out(
        box, "cat *.csv | grep -v x | sort -n | head -n 2 > top; cat top && ls nothing"
    )
    assert done.output.startswith(b"1,2\n3,4\nls: ")
    assert done.exit_code == 2


def test_redirections_and_wildcards_stay_in_the_work_folder(box: Sandbox) -> None:
    make = "import os; os.symlink('/etc', 'etc'); os.symlink('/etc/passwd', 'pass'); " \
           "os.link('a.csv', 'hard'); os.mkfifo('fifo')"  # fmt: skip
    assert box.run(("python3", "-c", make), 20.0).exit_code == 0
    for line, why in (
        ("cat < /etc/passwd", "outside the work folder"),
        ("cat < ../x", "'..' is not followed"),
        ("cat < etc/passwd", "not followed"),
        ("cat < pass", "a symbolic link"),
        ("echo x > pass", "a symbolic link"),
        ("echo x >> hard", "a hard link"),
        ("echo x > fifo", "No such device"),
        ("cat < fifo", "not a regular file"),
        ("echo x > data", "s a directory"),
        ("echo x > no/where", "no such file"),
        ("ls /etc/*", "in the work folder only"),
        ("ls ../*", "in the work folder only"),
        ("ls data/../../*", "in the work folder only"),
    ):
        done = carry_out(box, line)
        assert (done.exit_code, why) == (2, why)
        assert why in done.output.decode(), line
    assert carry_out(box, "echo etc/pass*").output == b"etc/pass*\n"
    assert carry_out(box, "cat hard").output == b"x,y\n3,4\n1,2\n"
    assert carry_out(box, "rm etc pass hard fifo").exit_code == 0


def test_a_missed_command_is_told_and_the_line_goes_on(box: Sandbox) -> None:
    done = carry_out(box, "cat < nothing | wc -l || ls; cat < nothing || echo 'so be it'")
    assert done.exit_code == 0
    assert done.output.decode().count("cannot open 'nothing': no such file") == 2
    assert done.output.endswith(b"so be it\n")


def test_one_time_limit_holds_for_the_whole_line(box: Sandbox) -> None:
    done = carry_out(box, "sleep 0.2 | cat; sleep 100 | sleep 100 || echo no; echo no", 2.0)
    assert (done.exit_code, done.limits, done.output) == (137, ("time",), b"")
    assert done.seconds < 20
    assert carry_out(box, "echo on").output == b"on\n"


def test_one_output_cap_holds_for_the_whole_line(box: Sandbox) -> None:
    done = carry_out(box, "seq 5000; seq 5000")
    assert done.output_bytes == 2 * 23_893
    assert len(done.output) <= LIMITS.output_bytes
    assert b"bytes left out" in done.output


def test_endless_programs_end_with_their_readers_or_with_the_limit(box: Sandbox) -> None:
    endless = "import os\nwhile True: os.write(1, bytes(65536))"
    assert carry_out(box, "seq 999999999 | head -c 3 | wc -c").output.split() == [b"3"]
    done = carry_out(box, f"python3 -c '{endless}'; echo no", 60.0)
    assert (done.exit_code, done.limits) == (137, ("output",))


def test_nothing_of_a_line_is_left(box: Sandbox) -> None:
    hold = 'import subprocess; subprocess.Popen(["sleep", "987"], start_new_session=True)'
    assert carry_out(box, f"python3 -c '{hold}' | cat; echo no", 2.0).limits == ("time",)
    look = "import glob; print([p for p in glob.glob(\"/proc/[0-9]*/cmdline\") if " \
           "open(p,\"rb\").read() == b\"sleep\\0\" + b\"987\\0\"])"  # fmt: skip
    assert carry_out(box, f"python3 -c '{look}'").output == b"[]\n"


def test_the_wildcards_of_thousands_of_names_are_refused(box: Sandbox) -> None:
    make = 'import os; os.mkdir("many"); [open(f"many/{n}", "w").close() for n in range(5100)]'
    assert carry_out(box, f"python3 -c '{make}'").exit_code == 0
    done = carry_out(box, "ls many/*")
    assert (done.exit_code, b"more than 5000 names" in done.output) == (2, True)
    assert carry_out(box, "ls many/509?").output.count(b"\n") == 10
    hard = "*a" * 5000 + "*"
    assert carry_out(box, f"ls many/{hard}").exit_code == 2
    assert carry_out(box, "rm -r many").exit_code == 0
