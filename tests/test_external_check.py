"""A stranger's check of a revealed study: it holds, and names each thing that was tampered with, as
`dosimeter verify` does.

`external_check.py` imports nothing of ours; it is written from docs/formats.md.
"""

from __future__ import annotations

import ast
import json
import shutil
import subprocess
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from registry.canonical import canonical_bytes, digest_bytes
from registry.signing import Signer
from registry.verify.verify import verify_study
from study.errors import WorkOwedError
from study.extras.reveal.reveal import reveal
from study.steps import pipeline
from study.steps.init.folder import init_study
from study.steps.register.draw import DrawRequest, draw_seeds
from study.steps.verify.verify import VerifyRequest, verify
from study.workspace.study import Study
from tests import external_check
from tests.registry.draws.beacons import CHAIN, sign_round, use_chain
from tests.study.conftest import SMALLNESS, run_wave
from tests.study.steps.register.test_draws import RESERVE

SCRIPT = Path(external_check.__file__)
ENTROPY = 'entropy: "fixed:' + "5e" * 32 + '"\n'


@dataclass
class Public:
    """The public files of a study, and what a test may do to them with its key."""

    store: Path
    release: Path
    signer: Signer
    head: str

    def records(self) -> list[dict[str, Any]]:
        paths = sorted((self.store / "ledger").glob("*.json"))
        return [json.loads(path.read_bytes()) for path in paths]

    def sign(self, records: list[dict[str, Any]], signer: Signer | None = None) -> None:
        """Write a ledger of these records, chained and signed anew."""
        shutil.rmtree(self.store / "ledger")
        (self.store / "ledger").mkdir()
        signer, previous = signer or self.signer, "sha256:" + "0" * 64
        for number, record in enumerate(records):
            body = {key: record[key] for key in ("body", "kind", "time")}
            body |= {"previous": previous, "sequence": number, "signer": signer.public}
            signature = signer.sign("dosimeter/ledger/1", canonical_bytes(body))
            data = canonical_bytes(body | {"signature": signature})
            self.path(number).write_bytes(data)
            previous = digest_bytes(data)

    def path(self, number: int) -> Path:
        return self.store / f"ledger/{number:08d}.json"

    def of(self, kind: str) -> int:
        """Return the number of the first record of a kind."""
        return [record["kind"] for record in self.records()].index(kind)

    def change(self, kind: str, change: Callable[[dict[str, Any]], object]) -> None:
        """Change the body of a record, by the hand of who holds the study's key."""
        records = self.records()
        change(records[self.of(kind)]["body"])
        self.sign(records)

    def reveal_again(self, change: Callable[[dict[str, Any]], object]) -> None:
        """Reveal something else, with a record that names it."""
        (path,) = (self.store / "revealed").glob("*.json")
        value = json.loads(path.read_bytes())
        change(value)
        data = canonical_bytes(value)
        digest = digest_bytes(data)
        uri = f"revealed/{digest[7:]}.json"
        (self.store / uri).write_bytes(data)
        self.change("revealed", lambda body: body.update(content=digest, uri=uri))

    def release_again(self, record: bool = True) -> None:
        """Write the release's checksums anew, with a ``record`` that names them."""
        checksums = self.release / "checksums.json"
        sums = {
            str(path.relative_to(self.release)): digest_bytes(path.read_bytes())[7:]
            for path in self.release.rglob("*")
            if path.is_file() and path != checksums
        }
        checksums.write_bytes(canonical_bytes(sums))
        content = digest_bytes(checksums.read_bytes())
        if record:
            self.change("release", lambda body: body.update(content=content))


@pytest.fixture(scope="module")
def revealed(tmp_path_factory: pytest.TempPathFactory) -> Study:
    """A study that was drawn, registered, run, released, reported and revealed."""
    folder = tmp_path_factory.mktemp("revealed") / "study"
    init_study(folder, RESERVE + ENTROPY)
    study = pipeline.open_study(folder)
    pipeline.draw(study, underpowered=SMALLNESS)
    pipeline.register(study)
    run_wave(study)
    pipeline.publish(study, None, lambda *step: None)
    pipeline.report(study)
    reveal(study, (0, 1), "", lambda: study.ledger.entries()[-1].time)
    assert verify_study(study.store).holds
    return study


@pytest.fixture
def public(revealed: Study, tmp_path: Path) -> Public:
    """A copy of what is public of it, without the key."""
    store = revealed.folder / "store"
    shutil.copytree(store, tmp_path / "store")
    shutil.copytree(revealed.folder / "release", tmp_path / "release")
    shutil.copy(revealed.folder / "study.yaml", tmp_path)
    head = revealed.ledger.entries()[-1].digest
    return Public(tmp_path / "store", tmp_path / "release", revealed.signer(), head)


def problems(public: Public, head: str | None = None) -> list[str]:
    found, _ = external_check.check(public.store, public.release, public.signer.public, head)
    ours = verify(pipeline.open_study(public.store.parent), VerifyRequest(head), lambda *step: None)
    assert ours.holds is not bool(found), (ours.problems, found)
    return found


def test_an_honest_study_holds_by_the_script_alone(public: Public, tmp_path: Path) -> None:
    script = tmp_path / "external_check.py"
    shutil.copy(SCRIPT, script)  # away from our packages
    words = ["--release", public.release, "--key", public.signer.public, "--head", public.head]
    command = [sys.executable, "-I", script, public.store, *words]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    assert done.stdout.startswith("all that was checked holds\nnot checked: instances: ")
    public.path(2).unlink()
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False)
    assert done.returncode == 1
    assert "a record before it is missing" in done.stdout


def test_the_script_is_short_and_imports_nothing_of_ours() -> None:
    text = SCRIPT.read_text()
    assert len(text.splitlines()) <= 250
    imported = set()
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.Import):
            imported |= {alias.name.split(".")[0] for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            imported.add(str(node.module).split(".")[0])
    assert imported - sys.stdlib_module_names == {"cryptography"}


@pytest.mark.parametrize(("old", "new"), [(b"begin ", b"began "), (b" 1 ", b" 2 "), (b"end", b"")])
def test_a_list_of_begun_attempts_that_was_altered_is_named(
    public: Public, old: bytes, new: bytes
) -> None:
    pages = sorted((public.store / "begun").rglob("*.txt"))
    page = next(page for page in pages if old in page.read_bytes())
    page.write_bytes(page.read_bytes().replace(old, new))
    assert problems(public) != []


def test_the_rewriting_that_the_tests_do_is_honest_by_itself(public: Public) -> None:
    public.sign(public.records())
    assert problems(public, public.head) == []
    public.reveal_again(lambda value: None)
    public.release_again()
    assert problems(public) == []


# --- who has no key ---


def edit(public: Public, kind: str, old: bytes, new: bytes) -> None:
    edit_file(public.path(public.of(kind)), old, new)


def edit_file(path: Path, old: bytes, new: bytes) -> None:
    assert old in path.read_bytes()
    path.write_bytes(path.read_bytes().replace(old, new))


def only(folder: Path, pattern: str) -> Path:
    (path,) = folder.glob(pattern)
    return path


# --- who has the study's key ---


def move(public: Public, kind: str, place: int) -> None:
    records = public.records()
    record = records.pop(public.of(kind))
    record["time"] = records[place]["time"]
    records.insert(place, record)
    public.sign(records)


def add(public: Public, kind: str, place: int | None = None, **changes: Any) -> None:
    """Add a record like the first of a kind, at the end or at a place."""
    records = public.records()
    record = json.loads(json.dumps(records[public.of(kind)]))
    record["body"] |= changes
    place = len(records) if place is None else place
    record["time"] = records[place - 1]["time"]
    records.insert(place, record)
    public.sign(records)


def backdate(public: Public) -> None:
    records = public.records()
    records[public.of("preregistration")]["time"] = "2020-01-01T00:00:00Z"
    public.sign(records)


def drop(public: Public, kind: str) -> None:
    records = public.records()
    del records[public.of(kind)]
    public.sign(records)


def swap_arms(value: dict[str, Any]) -> None:
    for seed in value["seeds"]:
        seed["arm"] = {"public": "private", "private": "public"}[seed["arm"]]


def release_private(public: Public) -> None:
    """Release a seed of the private arm."""
    seeds = json.loads(only(public.store, "revealed/*").read_bytes())
    leaf, seed = next(
        (leaf, seed)
        for leaf, seed in zip(seeds["leaves"], seeds["seeds"], strict=True)
        if seed["arm"] == "private"
    )
    added = {"leaf": leaf, "stratum": f"{seed['family']}/{seed['difficulty']}", **seed}
    edit_release(public, "openings/public.json", lambda value: value["public"].append(added))


def edit_release(public: Public, name: str, edit: Callable[[Any], object]) -> None:
    """Change a file of the release, which the ledger then records anew."""
    path = public.release / name
    value = json.loads(path.read_bytes())
    edit(value)
    path.write_bytes(canonical_bytes(value))
    public.release_again()


BEACON = {"chain": external_check.QUICKNET, "round": 1000}
UNITS = [{"name": n, "level": "variant", "area": "p", "strata": [n]} for n in ("a/easy", "b/easy")]
KEYED: dict[str, tuple[Callable[[Public], object], str]] = {
    "an unannounced draw": (lambda p: drop(p, "announcement"), "a draw that was not announced"),
    "other tranches than announced": (
        lambda p: p.change("sealed-set", lambda body: body.update(seeds_per_arm=3, reserve=[1])),
        "not as announced",
    ),
    "other units than announced": (
        lambda p: p.change("sealed-set", lambda body: body.update(units=UNITS)),
        "not as announced",
    ),
    "a second draw without a reason": (
        lambda p: add(p, "announcement", 2),
        "a second draw without a reason",
    ),
    "a second draw with other parties": (
        lambda p: add(p, "announcement", 1, again="a mistake", operator_signer="11" * 32),
        "a second draw with other parties",
    ),
    "a second draw after the plan": (
        lambda p: add(p, "announcement", again="a mistake"),
        "a draw after the plan was registered",
    ),
    "a beacon's round that was over": (
        lambda p: p.change("announcement", lambda body: body.update(beacon=BEACON)),
        "announced when the beacon's round was public already",
    ),
    "another beacon": (
        lambda p: p.change(
            "announcement", lambda body: body.update(beacon={"chain": "ab" * 32, "round": 10**9})
        ),
        "a beacon that is not drand's quicknet",
    ),
    "a plan for another draw": (
        lambda p: p.change("preregistration", lambda body: body.update(sealed_root="11" * 32)),
        "a plan for another draw",
    ),
    "a plan after its data": (
        lambda p: move(p, "preregistration", p.of("report") - 1),
        "a wave without its plan before it",
    ),
    "a wave closed that was not begun": (
        lambda p: p.change("wave-closed", lambda body: body.update(wave=1)),
        "a wave that was never begun",
    ),
    "a report before the plan": (
        lambda p: move(p, "report", 2),
        "a report without a plan before it",
    ),
    "a seed that was not drawn": (
        lambda p: p.reveal_again(lambda value: value["seeds"][3].update(seed="11" * 32)),
        "seed 3 is not what was committed to",
    ),
    "a private seed in the release": (release_private, "in another place than was allotted"),
    "a seed left out of the release": (
        lambda p: edit_release(p, "openings/public.json", lambda value: value["public"].pop()),
        "release: seeds are left out, or added",
    ),
    "other commitments in the release": (
        lambda p: edit_release(p, "commitments.json", lambda value: value["commitments"].pop()),
        "release: commitments of another draw",
    ),
}


@pytest.mark.parametrize("name", KEYED)
def test_what_the_owner_tampers_with_is_named(public: Public, name: str) -> None:
    """The owner rewrites the ledger whole, and nobody has noted a head of it."""
    tamper, named = KEYED[name]
    tamper(public)
    found = problems(public)
    assert any(named in line for line in found), found


def test_a_release_s_checkpoint_names_a_ledger_that_was_rewritten(public: Public) -> None:
    """By the owner, who names an operator afterwards; nobody has noted a head."""
    assert problems(public) == []
    other = Signer(b"\x07" * 32).public
    public.change("announcement", lambda body: body.update(operator_signer=other))
    (line,) = problems(public)
    assert "checkpoint.txt: of its 6 records some were dropped or rewritten" in line
    kept = public.release / "checkpoint.txt"
    kept.write_text(kept.read_text().replace("\n6\n", "\n600\n"))
    public.release_again()
    assert "not signed by this study" in str(problems(public))


def test_a_release_grows_by_a_tranche(tmp_path: Path) -> None:
    init_study(tmp_path, RESERVE + ENTROPY)
    study = pipeline.open_study(tmp_path)
    pipeline.draw(study, underpowered=SMALLNESS)
    pipeline.register(study)
    pipeline.publish(study, None, lambda *step: None, (0,))
    first = tmp_path / "first"
    shutil.copytree(tmp_path / "release", first)
    grown, _ = pipeline.publish(study, None, lambda *step: None, (1,))
    public = Public(tmp_path / "store", tmp_path / "release", study.signer(), "")
    assert grown.tranches == (0, 1)
    assert problems(public) == []
    assert external_check.check(public.store, first)[0] == []


def test_an_operator_signs_no_plan(public: Public) -> None:
    operator = Signer(b"\x07" * 32)
    public.change("announcement", lambda body: body.update(operator_signer=operator.public))
    assert all("checkpoint.txt" in line for line in problems(public)), "a release's tells of it"
    number = public.of("preregistration")
    value = json.loads(public.path(number).read_bytes())
    body = {key: value[key] for key in value if key != "signature"} | {"signer": operator.public}
    signature = operator.sign("dosimeter/ledger/1", canonical_bytes(body))
    public.path(number).write_bytes(canonical_bytes(body | {"signature": signature}))
    assert any("a preregistration record that another key" in line for line in problems(public))


def test_a_draw_by_a_beacon_holds_too(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    use_chain(monkeypatch)
    monkeypatch.setattr(external_check, "QUICKNET", CHAIN.hash)
    init_study(tmp_path, RESERVE)
    study = pipeline.open_study(tmp_path)
    relay = tmp_path / "round.json"
    relay.write_text(json.dumps({"round": 1_000_001, "signature": sign_round(1_000_001)}))
    request = DrawRequest("drand:1000001", (str(relay),))
    with pytest.raises(WorkOwedError):
        draw_seeds(study, lambda *step: None, lambda: "2023-08-01T00:00:00Z", request=request)
    draw_seeds(study, lambda *step: None, lambda: "2023-12-20T00:00:00Z", request=request)
    reveal(study, (0, 1), "a test", lambda: "2023-12-21T00:00:00Z")
    found, unchecked = external_check.check(tmp_path / "store")
    assert found == []
    assert any("compare it with drand's" in line and "1000001" in line for line in unchecked)
