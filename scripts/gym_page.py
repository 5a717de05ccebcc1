#!/usr/bin/env python3
"""Write docs/reasoning-gym.md, a row for each data set, from generators/gym/datasets.json.

With ``--measure`` that file is written first: which configurations can be used, by making entries
of public seeds here and in a process with other hash seeds; it takes some minutes. With ``--check``
nothing is written, and a stale page gives exit code 1.
"""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
import warnings
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from hashlib import sha256
from pathlib import Path
from typing import Any

from generators.errors import GeneratorError
from generators.gym.datasets import (
    DEFAULT,
    LEVEL,
    PACKAGE,
    VERSION,
    facts,
    full_marks,
    load_package,
    make_entry,
)
from generators.seed import EXAMPLE_SEED

ROOT = Path(__file__).resolve().parent.parent
PAGE = ROOT / "docs/reasoning-gym.md"
FACTS = ROOT / "generators/gym/datasets.json"
TESTED, GUESSED = 6, 50  # entries of each configuration, and of the default for guesses
CANDIDATES = 5  # the commonest keys, as constant answers
SLOW = 20.0  # seconds of CPU time for one entry
_BY_HAND = {"zebra_puzzles": "it needs pycosat, a package without wheels"}

_INTRO = f"""\
# Data sets of reasoning-gym

With the extra `gym` (`pip install 'dosimeter[gym]'`), each usable data set of {PACKAGE} {VERSION}
is a task family: write `rg:gcd/default`, or a level of its curriculum, `rg:gcd/level_2`, under
`tasks` in `study.yaml`. In tables and paths the family is called `rg_gcd`. An instance is the
entry that the data set makes of the instance's 256 bits, and is asked for as one JSON object,
whose `answer` is the text of the answer. An answer is right if the data set's own scorer gives it
full marks; part marks count nothing. The scorer runs in a child process with limits on time and
memory, and scorers that evaluate an answer as code are given arithmetic only.

No data set has a solver, so that nothing proves that the question alone leads to the key:
`dosimeter tasks check` runs all its other checks, and `dosimeter register` asks for `--unproved
REASON`. Another version of {PACKAGE}, or other files under this one, are refused when an instance
is made. A sweep, too, begins only if each instance is made as it was drawn.

`make reference` writes this page. *Guess*: share of {GUESSED} entries of the default configuration
in which the best of the {CANDIDATES} commonest keys, or all keys at once, is right. *Distinct*:
different questions among them.
"""


@contextmanager
def _limit(seconds: float) -> Iterator[None]:
    """Raise TimeoutError after this CPU time."""

    def stop(*_: object) -> None:
        raise TimeoutError

    signal.signal(signal.SIGPROF, stop)
    signal.setitimer(signal.ITIMER_PROF, seconds)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_PROF, 0)


def entries(name: str, configuration: str, count: int) -> Iterator[dict[str, Any]]:
    """Yield entries of public seeds. Raises GeneratorError."""
    load_package()  # outside of the limit
    for number in range(count):
        try:
            with _limit(SLOW):
                yield make_entry(name, configuration, EXAMPLE_SEED.child("gym", number))
        except TimeoutError:
            slow = f"{name}: it takes more than {SLOW:g} s for an entry"
            raise GeneratorError(slow) from None


def digest(name: str, configuration: str) -> str:
    """The digest of TESTED entries, or the reason that there is none."""
    try:
        return sha256(repr([*entries(name, configuration, TESTED)]).encode()).hexdigest()
    except GeneratorError as error:
        return f"refused: {str(error).partition(': ')[2]}"


def digests(names: Sequence[str]) -> dict[str, dict[str, str]]:
    """The digests of all configurations of some data sets."""
    levels = load_package().factory.CURRICULA
    made = {}
    for name in names:
        curriculum = levels[name]().attributes.values() if name in levels else ()
        top = max((len(each.levels) for each in curriculum), default=0)
        known = [f"{LEVEL}{level}" for level in range(top)]
        made[name] = {DEFAULT: digest(name, DEFAULT)}
        if not made[name][DEFAULT].startswith("refused"):
            made[name] |= {each: digest(name, each) for each in known}
    return made


def digests_elsewhere(names: Sequence[str]) -> dict[str, dict[str, str]]:
    """The same by a process with another hash seed."""
    done = subprocess.run(
        [sys.executable, "-W", "ignore", __file__, "--digests", *names],
        env={**os.environ, "PYTHONHASHSEED": "4242", "PYTHONPATH": str(ROOT)},
        stdout=subprocess.PIPE,
        text=True,
        check=True,
    )
    found: dict[str, dict[str, str]] = json.loads(done.stdout.splitlines()[-1])
    return found


def measure(names: Sequence[str]) -> dict[str, dict[str, Any]]:
    """What the page and the code have of each data set."""
    here, there = digests(names), digests_elsewhere(names)
    return {name: _measure(name, here[name], there[name]) for name in names}


def _measure(name: str, here: Mapping[str, str], there: Mapping[str, str]) -> dict[str, Any]:
    if name in _BY_HAND:
        return {"refused": _BY_HAND[name]}
    if here[DEFAULT].startswith("refused"):
        return {"refused": here[DEFAULT].partition(": ")[2]}
    if here[DEFAULT] != there[DEFAULT]:
        return {"refused": "another process makes other entries of the same seeds"}
    good = [k for k, v in here.items() if v == there[k] and not v.startswith("refused")]
    made = list(entries(name, DEFAULT, GUESSED))
    keys = Counter(entry["answer"] for entry in made)
    constants = (*(key for key, _ in keys.most_common(CANDIDATES)), "\n".join(keys))
    guess = max(sum(_is_right(name, entry, key) for entry in made) for key in constants)
    if guess == GUESSED:
        return {"refused": "one answer gets full marks in every entry"}
    distinct = len({entry["question"] for entry in made})
    form = _form([*keys])
    return {"configurations": good, "guess": guess, "distinct": distinct, "form": form}


def _is_right(name: str, entry: Mapping[str, Any], answer: str) -> bool:
    """Report if an answer gets full marks, within SLOW seconds."""
    if answer == entry["answer"]:
        return True
    with suppress(TimeoutError), _limit(SLOW):
        return full_marks(name, DEFAULT, repr(entry), answer)
    return False


def _form(keys: Sequence[str]) -> str:
    """The form of a data set's answers."""
    if len(keys) <= 6:
        return "one of " + ", ".join(sorted(keys))
    forms = {
        "integer": r"[+-]?\d+",
        "number": r"[+-]?\d+(\.\d+)?",
        "list or object": r"[\[{].*[\]}]",
        "word": r"\w+",
        "words": r"[\w ,.'-]+",
        "text of one line": r".*",
    }
    fits = (form for form, text in forms.items() if all(re.fullmatch(text, key) for key in keys))
    return next(fits, "text of several lines")


def render_page(known: Mapping[str, Mapping[str, Any]]) -> str:
    """The page."""
    usable = {name: fact for name, fact in known.items() if "refused" not in fact}
    lines = [_INTRO, f"## {len(usable)} usable data sets", ""]
    lines += ["| data set | configurations | guess | distinct | answer |", "|---|---|--:|--:|---|"]
    for name, fact in usable.items():
        shown = (
            ", ".join(fact["configurations"])
            .replace(LEVEL, "")
            .replace("default,", "default, levels", 1)
        )
        guess = f"{fact['guess'] / GUESSED:.1%}"
        lines.append(f"| {name} | {shown} | {guess} | {fact['distinct']} | {fact['form']} |")
    lines += [
        "",
        f"## {len(known) - len(usable)} refused",
        "",
        "| data set | reason |",
        "|---|---|",
    ]
    lines += [f"| {n} | {fact['refused']} |" for n, fact in known.items() if "refused" in fact]
    return "\n".join(lines) + "\n"


def main(arguments: Sequence[str]) -> int:
    """Write the page, or check it."""
    warnings.simplefilter("ignore")
    if arguments[:1] == ["--digests"]:
        print(json.dumps(digests(arguments[1:])))
        return 0
    if "--measure" in arguments:
        measured = measure(sorted(load_package().factory.DATASETS))
        rows = ",\n".join(f"{json.dumps(name)}: {json.dumps(measured[name])}" for name in measured)
        FACTS.write_text(f"{{\n{rows}\n}}\n", encoding="utf-8")
    page = render_page(facts())
    if "--check" not in arguments:
        PAGE.write_text(page, encoding="utf-8")
    elif PAGE.read_text(encoding="utf-8") != page:
        print(f"docs/{PAGE.name} is stale: run `make reference`", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
