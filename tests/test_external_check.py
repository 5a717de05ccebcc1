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
from registry.ledger.chain import record_key
from registry.signing import Signer
from registry.stores.folder import FolderStore
from registry.verify.verify import verify_study
from study.errors import WorkOwedError
from study.extras.reveal.reveal import reveal
from study.steps import pipeline
from study.steps.init.folder import init_study
from study.steps.publish.release import withdraw_arm
from study.steps.register.draw import DrawRequest, draw_seeds
from study.steps.verify.verify import VerifyRequest, verify
from study.workspace.study import Study
from tests import external_check
from tests.registry.checkpoints.watched import begin, publish
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
    assert sum(1 for line in text.splitlines() if line.strip()) < 200
    imported = set()
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.Import):
            imported |= {alias.name.split(".")[0] for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            imported.add(str(node.module).split(".")[0])
    assert imported - sys.stdlib_module_names == {"cryptography"}


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


def swap(public: Public) -> None:
    one, two = public.path(3), public.path(4)
    first = one.read_bytes()
    one.write_bytes(two.read_bytes())
    two.write_bytes(first)


def alter(path: Path) -> None:
    data = bytearray(path.read_bytes())
    data[len(data) // 2] ^= 1
    path.write_bytes(data)


def only(folder: Path, pattern: str) -> Path:
    (path,) = folder.glob(pattern)
    return path


KEYLESS: dict[str, tuple[Callable[[Public], object], str]] = {
    "a loosened margin": (
        lambda p: edit(p, "preregistration", b'"margin":0.05', b'"margin":0.45'),
        "was altered: its signature does not hold",
    ),
    "another date": (
        lambda p: edit(p, "preregistration", b'"time":"2', b'"time":"1'),
        "was altered: its signature does not hold",
    ),
    "a record that is not canonical": (
        lambda p: edit(p, "sealed-set", b'"count":8', b'"count": 8'),
        "was altered: its signature does not hold",
    ),
    "a record of another form": (
        lambda p: p.path(2).write_bytes(b"{}"),
        "00000002.json: missing, or not of the documented form",
    ),
    "a dropped record": (lambda p: p.path(2).unlink(), "a record before it is missing"),
    "swapped records": (swap, "a record before it is missing"),
    "a ledger that ends earlier": (
        lambda p: p.path(len(p.records()) - 1).unlink(),
        "the head noted elsewhere is not in it",
    ),
    "a ledger of another's key": (
        lambda p: p.sign(p.records(), Signer(bytes(32))),
        "that another key than the study's has signed",
    ),
    "an altered result": (
        lambda p: alter(sorted(p.store.glob("results/*/*"))[0]),
        ".age was altered",
    ),
    "a missing attempt": (
        lambda p: sorted(p.store.glob("attempts/*/*"))[0].unlink(),
        "No such file or directory",
    ),
    "an altered list of objects": (
        lambda p: edit_file(only(p.store, "inventory/parts/*"), b"  results/", b"  Results/"),
        "its list of objects was altered",
    ),
    "no ledger": (lambda p: shutil.rmtree(p.store / "ledger"), "the head noted elsewhere"),
    "other sealed seeds": (
        lambda p: alter(only(p.store, "sealed/*")),
        "altered sealed seeds",
    ),
    "other revealed seeds": (
        lambda p: edit_file(only(p.store, "revealed/*"), b'"arm":"public"', b'"arm":"private"'),
        "the revealed seeds were altered",
    ),
    "revealed seeds that cannot be read": (
        lambda p: only(p.store, "revealed/*").write_text("seeds"),
        "missing, or not of the documented form: JSONDecodeError",
    ),
    "no revealed seeds": (
        lambda p: only(p.store, "revealed/*").unlink(),
        "missing, or not of the documented form: FileNotFoundError",
    ),
    "an altered file of the release": (
        lambda p: alter(p.release / "README.md"),
        "release: README.md was altered",
    ),
    "a file more in the release": (
        lambda p: (p.release / "more.txt").write_text("more"),
        "files are missing, or added",
    ),
    "a file less in the release": (
        lambda p: (p.release / "README.md").unlink(),
        "files are missing, or added",
    ),
    "other checksums": (
        lambda p: (alter(p.release / "README.md"), p.release_again(record=False)),
        "is not in the ledger",
    ),
}


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


def withdraw(public: Public, content: str = "") -> None:
    """Withdraw the release, or what has another content."""
    records = public.records()
    content = content or records[public.of("release")]["body"]["content"]
    body = {"content": content, "location": "release", "reason": "an error"}
    records.append({"kind": "withdrawal", "body": body, "time": records[-1]["time"]})
    public.sign(records)


BEACON = {"chain": external_check.QUICKNET, "round": 1000}
KEYED: dict[str, tuple[Callable[[Public], object], str]] = {
    "an unannounced draw": (lambda p: drop(p, "announcement"), "a draw that was not announced"),
    "an allocation by choice": (
        lambda p: p.change("sealed-set", lambda body: body.update(allocation_seed="11" * 32)),
        "arms that do not follow from what was announced",
    ),
    "another secret": (
        lambda p: p.change("sealed-set", lambda body: body.update(value="11" * 32)),
        "arms that do not follow from what was announced",
    ),
    "other tranches than announced": (
        lambda p: p.change("sealed-set", lambda body: body.update(seeds_per_arm=3, reserve=[1])),
        "another draw than was announced",
    ),
    "other seeds than announced": (
        lambda p: p.change("announcement", lambda body: body.update(root="11" * 32)),
        "another draw than was announced",
    ),
    "another commitment": (
        lambda p: p.change("sealed-set", lambda body: body["commitments"].reverse()),
        "its root is not over its commitments",
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
    "dates out of order": (backdate, "dated before the record before it"),
    "a second plan": (lambda p: add(p, "preregistration"), "a second plan"),
    "a plan for another draw": (
        lambda p: p.change("preregistration", lambda body: body.update(sealed_root="11" * 32)),
        "a plan for another draw",
    ),
    "a plan after its data": (
        lambda p: move(p, "preregistration", p.of("report") - 1),
        "a wave without its plan before it",
    ),
    "another plan than the wave's": (
        lambda p: p.change("preregistration", lambda body: body["plan"].update(margin=0.45)),
        "a wave without its plan before it",
    ),
    "a wave closed twice": (
        lambda p: add(p, "wave-closed"),
        "a wave that was closed already",
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
    "another nonce": (
        lambda p: p.reveal_again(lambda value: value["seeds"][5].update(nonce="11" * 32)),
        "seed 5 is not what was committed to",
    ),
    "another instance": (
        lambda p: p.reveal_again(lambda value: value["seeds"][5].update(instance="sha256:11")),
        "seed 5 is not what was committed to",
    ),
    "arms the other way round": (
        lambda p: p.reveal_again(swap_arms),
        "seed 0 is in another place than was allotted",
    ),
    "a seed left out": (
        lambda p: p.reveal_again(lambda value: (value["seeds"].pop(), value["leaves"].pop())),
        "seeds are left out, or added",
    ),
    "a private seed in the release": (release_private, "in another place than was allotted"),
    "another seed in the release": (
        lambda p: edit_release(
            p, "openings/public.json", lambda value: value["public"][0].update(seed="11" * 32)
        ),
        "is not what was committed to",
    ),
    "a seed left out of the release": (
        lambda p: edit_release(p, "openings/public.json", lambda value: value["public"].pop()),
        "release: seeds are left out, or added",
    ),
    "other commitments in the release": (
        lambda p: edit_release(p, "commitments.json", lambda value: value["commitments"].pop()),
        "release: commitments of another draw",
    ),
    "a second release of other content": (
        lambda p: add(p, "release", content="sha256:" + "1" * 64),
        "a second release, of other content",
    ),
    "a withdrawal of nothing": (
        lambda p: withdraw(p, "sha256:" + "1" * 64),
        "a withdrawal of what was not released",
    ),
    "a release after its withdrawal": (
        lambda p: (withdraw(p), add(p, "release")),
        "a release after it was withdrawn",
    ),
}


@pytest.mark.parametrize("name", KEYLESS)
def test_what_someone_without_a_key_tampers_with_is_named(public: Public, name: str) -> None:
    tamper, named = KEYLESS[name]
    tamper(public)
    found = problems(public, public.head)
    assert any(named in line for line in found), found


@pytest.mark.parametrize("name", KEYED)
def test_what_the_owner_tampers_with_is_named(public: Public, name: str) -> None:
    """The owner rewrites the ledger whole, and nobody has noted a head of it."""
    tamper, named = KEYED[name]
    tamper(public)
    found = problems(public)
    assert any(named in line for line in found), found


def test_without_a_head_a_ledger_that_ends_earlier_is_said_to_be_unchecked(public: Public) -> None:
    public.path(len(public.records()) - 1).unlink()
    found, unchecked = external_check.check(public.store, public.release, public.signer.public)
    assert found == []
    assert any("records dropped from the end" in line for line in unchecked)


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


CHECKPOINTS: dict[str, Callable[[bytes], bytes]] = {
    "an empty file": lambda data: b"",
    "no signature": lambda data: data[: data.index(b"\n\n") + 1],
    "a line less": lambda data: data.replace(b"\nhead ", b" "),
    "a line more": lambda data: data.replace(b"\n\n", b"\nmore\n\n"),
    "a size that is no number": lambda data: data.replace(b"\n6\n", b"\nsix\n"),
    "a size below 0": lambda data: data.replace(b"\n6\n", b"\n-1\n"),
    "a root of another length": lambda data: data.replace(b"=\n", b"AAAA=\n", 1),
    "a line of another form": lambda data: data + b"signed by somebody\n",
    "a signature that is no base64": lambda data: data[:-4] + b"***\n",
    "a signature that is cut": lambda data: data[:-9] + b"\n",
    "a signature of another length": lambda data: data[:-5] + b"AAAA\n",
    "not UTF-8": lambda data: data.replace(b"dosimeter", b"\xff"),
    "other ends of lines": lambda data: data.replace(b"\n", b"\r\n"),
}


@pytest.mark.parametrize("name", CHECKPOINTS)
def test_a_malformed_checkpoint_is_named(public: Public, tmp_path: Path, name: str) -> None:
    kept, note = (public.release / "checkpoint.txt").read_bytes(), tmp_path / "note.txt"
    note.write_bytes(kept)
    assert external_check.check(public.store, checkpoints=(note,))[0] == []
    assert CHECKPOINTS[name](kept) != kept
    note.write_bytes(CHECKPOINTS[name](kept))
    found, _ = external_check.check(public.store, checkpoints=(note,))
    assert found
    assert all(line.startswith(f"{note}: ") for line in found), found


def test_a_checkpoint_of_another_ledger_is_named(public: Public, tmp_path: Path) -> None:
    ledger = begin(FolderStore(tmp_path / "other"), 5)
    path = tmp_path / "note.txt"
    path.write_bytes(publish(ledger).note)
    found, _ = external_check.check(public.store, checkpoints=(path,))
    assert f"{path}: of another ledger: not signed by this study" in found


def test_no_record_of_another_form_ends_the_check(public: Public) -> None:
    """Whatever stands in a field, signed by the study's key: problems are named, at most."""
    honest, named = public.records(), 0
    for number, record in enumerate(honest):
        for name in record["body"]:
            for value in (None, [1]):
                body = record["body"] | {name: value}
                public.sign([*honest[:number], record | {"body": body}, *honest[number + 1 :]])
                found, _ = external_check.check(public.store, public.release)
                named += bool(found)
    assert named


def test_a_release_grows_by_a_tranche_and_is_withdrawn(tmp_path: Path) -> None:
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
    withdraw_arm(study, "an error", lambda: study.ledger.entries()[-1].time)
    assert problems(public) == []
    public.sign([each for each in public.records() if each["body"].get("tranches") != [0, 1]])
    (line,) = external_check.check(public.store, public.release)[0]
    assert line.endswith("a withdrawal of what was not released")


def test_only_a_record_of_a_release_names_one(public: Public) -> None:
    """A report, for one, can name the same digest."""
    edit_file(public.release / "README.md", b"1", b"2")
    public.release_again(record=False)
    content = digest_bytes((public.release / "checksums.json").read_bytes())
    public.change("report", lambda body: body.update(content=content))
    found, _ = external_check.check(public.store, public.release)
    assert "release: is not in the ledger" in found


def test_a_kept_checkpoint_names_a_record_that_was_dropped(tmp_path: Path) -> None:
    store, path = tmp_path / "store", tmp_path / "kept.txt"
    path.write_bytes(publish(begin(FolderStore(store), 4)).note)
    assert external_check.check(store, checkpoints=(path,))[0] == []
    (store / record_key(3)).unlink()
    found, _ = external_check.check(store, checkpoints=(path,))
    assert "of its 4 records some were dropped or rewritten" in str(found)


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
