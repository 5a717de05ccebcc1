"""The check in the browser: each tampering has the same verdict there as by `dosimeter verify`, and
what is broken the same name."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
from collections.abc import Callable, Iterable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from registry.canonical import digest_bytes
from registry.checkpoints.timestamp import stamp_record
from registry.draws.allocation import place_seeds
from registry.draws.beacon import QUICKNET
from registry.draws.reveal import RevealedUnit, reveal_bytes, write_reveal
from registry.draws.seeds import FixedEntropy, allot_draw, announce_draw, draw, record_draw
from registry.ledger.draw_records import Beacon, DrawTerms, Unit
from registry.sealing import SealedSeeds, new_identity, unit_digest
from registry.signing import Signer
from registry.stores.folder import FolderStore
from registry.verify.findings import Verification
from registry.verify.verify import verify_study
from study.steps import pipeline
from study.steps.verify.verify import VerifyRequest, verify
from tests.ledgers import SIGNER, signed_ledger
from tests.study.extras.site.browser import MARKS, accessibility
from tests.study.extras.site.checker import Checker, Shown, open_checker
from tests.study.test_tamperings import ROWS, STRANGER, Tampering, World, kept, watched, world
from tests.test_external_check import KEYED, Public, edit, edit_file, only, public, revealed
from tests.tsa import Authority, make_authority, serve

__all__ = ["kept", "public", "revealed", "watched", "world"]  # fixtures
BEYOND = re.compile("and registered is|of its commit")  # takes study.yaml or a repository
CODE = "the code is what the records name"  # is compared with a repository, which no browser has

pytestmark = MARKS


@pytest.fixture(scope="module")
def checker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Checker]:
    """The page in one browser."""
    with open_checker(tmp_path_factory.mktemp("site")) as made:
        yield made


def compare(
    checker: Checker, public: Public, head: str | None = None, authorities: Path | None = None
) -> Shown:
    """Check a study in the browser and by `verify`: both say the same."""
    folder = public.store.parent
    request = VerifyRequest(head, public.release, authorities=authorities)
    ours = verify(pipeline.open_study(folder), request, lambda *step: None)
    shown = checker.check(folder, *filter(None, [authorities]), head=head)
    agree(shown, ours, folder)
    return shown


def agree(shown: Shown, ours: Verification, folder: Path) -> None:
    """Assert that the page says what `verify` says: problems, promises and stamps."""
    named = {bare(f"{place}: {problem}", folder) for place, problem in ours.problems}
    beyond = {words for words in named if BEYOND.search(words)}
    assert set(shown.problems) == named - beyond
    standings = {promise.promise: str(promise.standing) for promise in ours.promises}
    standings.pop(CODE, None)
    if not beyond:
        assert {name: shown.standings[name] for name in standings} == standings
    stamps = [
        f"{one.serial:x} of {one.authority}, of ledger record {one.sequence}, {one.time}; by the"
        for one in ours.stamps
    ]
    assert [words.partition(" root ")[0] for words in shown.stamps] == [
        f"time-stamp {words}" for words in stamps
    ]
    assert doubts(ours.unchecked) <= doubts(shown.unchecked)


def doubts(unchecked: Iterable[str]) -> set[str]:
    """Return what was not checked, in short, but for what takes more than a store."""
    short = {": ".join(words.partition(" (")[0].split(": ")[:2]) for words in unchecked}
    return {words for words in short if not words.startswith(("whether each grade", "the "))}


def bare(words: str, folder: Path) -> str:
    """Return what `verify` says without where the study lies, and without a reader's own words."""
    words = words.replace(f"{folder}/store/", "").replace(f"{folder}/", "")
    return re.sub(r"(not JSON) \(.*\)", r"\1", words)


def test_an_honest_study_holds(checker: Checker, public: Public) -> None:
    shown = compare(checker, public, public.head)
    assert shown.problems == []
    assert [*shown.lines.values()].count("holds") == 10, shown.lines
    assert shown.standings["the records are as they were made"] == "holds"
    assert accessibility(checker.page) == []


@pytest.mark.parametrize("name", KEYED)
def test_what_the_owner_tampers_with_is_named(checker: Checker, public: Public, name: str) -> None:
    tamper, _ = KEYED[name]
    tamper(public)
    assert compare(checker, public).problems != []


# --- Tamperings by anybody else ---


def remove(public: Public, pattern: str) -> None:
    first(public, pattern).unlink()


def first(public: Public, pattern: str) -> Path:
    return sorted(public.store.parent.glob(pattern))[0]


def flip(path: Path) -> None:
    """Change the last byte of a file."""
    data = path.read_bytes()
    path.write_bytes(data[:-1] + bytes([data[-1] ^ 1]))


def swap(public: Public, kind: str, other: str) -> None:
    """Exchange two records."""
    one, two = public.path(public.of(kind)), public.path(public.of(other))
    first, second = one.read_bytes(), two.read_bytes()
    one.write_bytes(second)
    two.write_bytes(first)


def rename_list(public: Public, old: bytes, new: bytes) -> None:
    pages = sorted((public.store / "begun").rglob("*.txt"))
    edit_file(next(page for page in pages if old in page.read_bytes()), old, new)


KEYLESS: dict[str, Callable[[Public], object]] = {
    "a record": lambda p: edit(p, "preregistration", b'"alpha":', b'"alpha": '),
    "a record's number": lambda p: edit(p, "preregistration", b'"looks":1', b'"looks":2'),
    "a record's form": lambda p: edit(p, "release", b'"count":', b'"kount":'),
    "no JSON": lambda p: p.path(2).write_bytes(b"{"),
    "a record that is gone": lambda p: p.path(3).unlink(),
    "two records exchanged": lambda p: swap(p, "release", "report"),
    "another key": lambda p: p.sign(p.records(), Signer(b"\x07" * 32)),
    "a released file": lambda p: flip(first(p, "release/data/*/*.parquet")),
    "a released file that is gone": lambda p: remove(p, "release/data/*/*.parquet"),
    "a file more in the release": lambda p: (p.release / "<b>.txt").write_text("more"),
    "an opening": lambda p: edit_file(
        p.release / "openings/public.json", b'"seed":"', b'"seed":"0'
    ),
    "the release's checkpoint": lambda p: flip(p.release / "checkpoint.txt"),
    "the revealed seeds": lambda p: edit_file(only(p.store, "revealed/*"), b"easy", b"hard"),
    "the sealed seeds": lambda p: flip(only(p.store, "sealed/*")),
    "an attempt": lambda p: flip(first(p, "store/attempts/*/*.cell")),
    "an attempt that is gone": lambda p: remove(p, "store/attempts/*/*.cell"),
    "an attempt more": lambda p: (p.store / f"attempts/{'ab' * 32}-0002.cell").write_bytes(b"more"),
    "an inventory": lambda p: flip(only(p.store, "inventory/parts/*")),
    "a begin in a list": lambda p: rename_list(p, b"begin ", b"began "),
    "an attempt in a list": lambda p: rename_list(p, b" 1 ", b" 2 "),
    "an end in a list": lambda p: rename_list(p, b"end", b""),
    "a list that is no text": lambda p: rename_list(p, b"before", b"\xff"),
}


@pytest.mark.parametrize("name", KEYLESS)
def test_what_anybody_tampers_with_is_named(checker: Checker, public: Public, name: str) -> None:
    KEYLESS[name](public)
    assert compare(checker, public).problems != []


@pytest.mark.slow
@pytest.mark.parametrize("attacker", ["stranger", "owner"])
@pytest.mark.parametrize(("name", "tamper"), [row[:2] for row in ROWS], ids=[r[0] for r in ROWS])
def test_each_tampering_with_a_finished_study(
    checker: Checker,
    world: World,
    name: str,
    tamper: Tampering,
    attacker: str,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    folder, kept = world.study.folder, world.checkpoint
    tamper(world, STRANGER if attacker == "stranger" else world.owner)
    monkeypatch.setenv("DOSIMETER_KEY_FILE", str(folder / "no-key"))
    request = VerifyRequest(release=folder / "release", checkpoints=(kept,))
    ours = verify(world.study, request, lambda *step: None)
    problems = tuple((place.replace(str(kept), kept.name), text) for place, text in ours.problems)
    agree(checker.check(folder, kept), replace(ours, problems=problems), folder)


# --- Time-stamps ---


@pytest.fixture(scope="module")
def authority(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Authority]:
    with serve(make_authority(tmp_path_factory.mktemp("tsa") / "one")) as served:
        yield served


def stamp(public: Public, authority: Authority) -> list[Path]:
    """Put time-stamps of the plan and of the last record into the store; return their files."""
    study = pipeline.open_study(public.store.parent)
    entries = study.ledger.entries()
    for number in (public.of("preregistration"), len(entries) - 1):
        stamp_record(study.store, entries[number], authority.url)
    return sorted((public.store / "stamps").glob("*/*.tsr"))


def test_stamps_show_when(checker: Checker, public: Public, authority: Authority) -> None:
    stamp(public, authority)
    shown = compare(checker, public, authorities=authority.root)
    assert len(shown.stamps) == 2
    for promise in ("the plan came before the data", "no attempt was thrown away"):
        assert shown.standings[promise] == "holds"


# Certificates: name, issuer, extensions, bits of the key.
RSA = (("ca", "ca", "root", 3072), ("middle", "ca", "root", 2048), ("tsa", "middle", "leaf", 2048))


@pytest.fixture(scope="module")
def rsa(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Authority]:
    """An authority as the large ones are: RSA, SHA-512, and a certificate between it and its
    root."""
    made = make_authority(tmp_path_factory.mktemp("tsa") / "rsa")
    config = made.folder / "config"
    middle = f"signer_digest = sha512\ncerts = {made.folder}/middle.pem"
    config.write_text(config.read_text().replace("signer_digest = sha256", middle))
    # The largest key signs the middle certificate, which so stands behind the other in their set.
    for name, above, kind, bits in RSA:
        file, issuer = f"{made.folder}/{name}", f"{made.folder}/{above}"
        new = f"req -config {config} -newkey rsa:{bits} -nodes -subj /CN={name} -keyout {file}.key"
        if name == above:
            openssl(f"{new} -x509 -extensions root -days 9 -out {file}.pem")
        else:
            openssl(f"{new} -out {file}.csr")
            by = f"-CA {issuer}.pem -CAkey {issuer}.key -set_serial 9 -days 9"
            form = f"-extfile {config} -extensions {kind}"
            openssl(f"x509 -req -in {file}.csr {by} {form} -out {file}.pem")
    with serve(made) as served:
        yield served


def openssl(command: str) -> None:
    subprocess.run(["openssl", *command.split()], check=True, capture_output=True)


def test_a_stamp_of_a_large_authority(checker: Checker, public: Public, rsa: Authority) -> None:
    flip(stamp(public, rsa)[0])
    (shown,) = compare(checker, public, authorities=rsa.root).stamps
    assert "of CN=middle, of ledger record" in shown
    assert compare(checker, public, authorities=rsa.folder / "tsa.pem").stamps == []


def later(path: Path) -> None:
    """Change the year of a stamp."""
    data = path.read_bytes()
    found = re.search(rb"\x18\x0f20(\d\d)", data)
    assert found
    path.write_bytes(data[: found.start(1)] + b"99" + data[found.end(1) :])


def of_another(path: Path) -> None:
    path.rename(path.parent.parent / "00000001" / path.name)


EC_KEY = bytes.fromhex("2a8648ce3d0201")  # the object identifier of such keys
STAMPS: dict[str, tuple[Callable[[Path], object], str]] = {
    "its signature": (flip, "not signed by an authority known here"),
    "its time": (later, "not signed by an authority known here"),
    "its authority": (lambda path: edit_file(path, b"Local", b"Lokal"), "not signed by"),
    "its form": (lambda path: path.write_bytes(b"0"), "not an RFC 3161 response in DER"),
    "its certificate": (
        lambda path: edit_file(path, b"\x2a\x86\x48\xce\x3d\x02\x01", b"1234567"),
        "",
    ),
}


@pytest.mark.parametrize("name", STAMPS)
def test_a_stamp_that_was_tampered_with_counts_nowhere(
    checker: Checker, public: Public, authority: Authority, name: str
) -> None:
    tamper, words = STAMPS[name]
    path, _ = stamp(public, authority)
    tamper(path)
    shown = compare(checker, public, authorities=authority.root)
    assert len(shown.stamps) == 1
    assert any(words in doubt for doubt in shown.unchecked)


def test_a_stamp_without_its_root_could_not_be_shown(
    checker: Checker, public: Public, authority: Authority, tmp_path: Path
) -> None:
    stamp(public, authority)
    assert compare(checker, public).lines["Time-stamps"] == "could not be shown"
    other = make_authority(tmp_path / "other").root
    assert compare(checker, public, authorities=other).stamps == []


# --- A beacon, and units ---

ROUND = 1000  # of quicknet, at 2023-08-23T15:59:24Z
SIGNATURE = (
    "b44679b9a59af2ec876b1a6b1ad52ea9b1615fc3982b19576350f93447cb1125"
    "e342b73a8dd2bacbe47e4b6b63ed5e39"
)


@pytest.fixture
def drawn(tmp_path: Path) -> Public:
    """A draw that a beacon allotted, with units, and all of it revealed."""
    store = FolderStore(tmp_path / "store")
    ledger, strata = signed_ledger(store), [(name, "1", "easy") for name in "abcd"]
    made = draw(strata, 2, FixedEntropy(b"\x5e" * 32), lambda *parts: digest_bytes(parts[3]))
    files, key = (("a.yaml", "text", ""),), "11" * 32
    units = tuple(
        Unit(f"{name}/easy", "family", "letters", (f"{name}/easy",), unit_digest(key, files))
        for name in "abcd"
    )
    terms = DrawTerms("study", (new_identity()[1],), Beacon(QUICKNET.hash, ROUND), units=units)
    announced = announce_draw(store, ledger, made, terms, lambda: "2023-08-01T00:00:00Z")
    sealed = allot_draw(announced, SealedSeeds(made.seeds, ""), SIGNATURE)
    record_draw(ledger, sealed, "2023-12-20T00:00:00Z")
    shown = [RevealedUnit(unit.name, key, files) for unit in units]
    data = reveal_bytes("study", sealed, place_seeds(made.seeds, sealed), (0,), shown)
    write_reveal(store, ledger, data, "a test", "2023-12-21T00:00:00Z")
    return Public(tmp_path / "store", tmp_path / "release", SIGNER, "")


def exchange_arms(body: dict[str, Any]) -> None:
    """Say that other units stay sealed, as another beacon's value would have it."""
    body["value"] = body["value"].replace("b44679", "b44678")


def reveal_alone(public: Public, named: str) -> None:
    """Reveal the first unit alone, by a record that names one."""
    alone: dict[str, Any] = {"leaves": [], "seeds": [], "tranches": []}
    public.reveal_again(lambda value: value.update(alone, units=value["units"][:1]))
    public.change("revealed", lambda body: body.update(tranches=[], count=0, units=[named]))


DRAWS: dict[str, tuple[Callable[[Public], object], str]] = {
    "nothing": (lambda p: p.sign(p.records()), ""),
    "the beacon's value": (
        lambda p: p.change("sealed-set", exchange_arms),
        "is not signed by drand for round 1000",
    ),
    "the beacon's round": (
        lambda p: p.change("announcement", lambda body: body["beacon"].update(round=1001)),
        "is not signed by drand for round 1001",
    ),
    "the allocation": (
        lambda p: p.change("sealed-set", lambda body: body.update(allocation_seed="5e" * 32)),
        "follows from the announced value",
    ),
    "an arm": (
        lambda p: p.reveal_again(lambda value: value["seeds"][0].update(arm="neither")),
        "does not hold what it must",
    ),
    "a unit alone": (lambda p: reveal_alone(p, "a/easy"), ""),
    "a unit's name": (lambda p: reveal_alone(p, "b/easy"), "holds other tranches, units or"),
    "a unit's files": (
        lambda p: p.reveal_again(lambda value: value["units"][1].update(key="22" * 32)),
        "the files of unit b/easy are missing",
    ),
}


@pytest.mark.parametrize("name", DRAWS)
def test_a_draw_by_a_beacon_with_units(checker: Checker, drawn: Public, name: str) -> None:
    tamper, words = DRAWS[name]
    tamper(drawn)
    shown = checker.check(drawn.store)
    agree(shown, verify_study(FolderStore(drawn.store)), drawn.store.parent)
    assert words in " ".join(shown.problems)
    assert bool(words) is bool(shown.problems)
    assert accessibility(checker.page) == []


# --- The page ---


def test_evidence_of_the_site_is_checked_by_keyboard(checker: Checker, public: Public) -> None:
    """Without sealed objects, which a site has no room for: they could not be compared."""
    evidence = checker.folder / "studies/demo/evidence"
    shutil.copytree(
        public.store, evidence, ignore=shutil.ignore_patterns("*.age", "*.cell", ".tmp")
    )
    shutil.copytree(public.release, evidence / "release")
    names = [str(path.relative_to(evidence)) for path in evidence.rglob("*.*") if path.is_file()]
    (evidence / "index.json").write_text(json.dumps(sorted(names)))
    checker.page.get_by_role("button", name="demo").press("Enter")
    shown = checker.read()
    assert shown.problems == []
    assert [words for words in shown.unchecked if "attempts/: nothing of this folder" in words]
    assert shown.lines["Stored objects"] == "could not be shown"
    assert [*shown.lines.values()].count("holds") == 9, shown.lines


def test_evidence_outside_its_folder_is_refused(checker: Checker) -> None:
    evidence = checker.folder / "studies/other/evidence"
    evidence.mkdir(parents=True)
    (evidence / "index.json").write_text('["../../../check.html"]')
    checker.page.get_by_role("button", name="other").press("Enter")
    checker.page.get_by_text("index.json: ../../../check.html lies outside its folder").wait_for()


def test_a_folder_and_a_file_are_dropped(
    checker: Checker, public: Public, authority: Authority
) -> None:
    stamp(public, authority)
    checker.page.locator("#clear").click()
    session = checker.page.context.new_cdp_session(checker.page)
    for path in (public.store.parent, authority.root):
        data = {"items": [], "files": [str(path)], "dragOperationsMask": 1}
        for kind in ("dragEnter", "dragOver", "drop"):
            event = {"type": kind, "x": 200, "y": 300, "data": data}
            session.send("Input.dispatchDragEvent", event)
        shown = checker.read()
    assert shown.problems == []
    assert len(shown.stamps) == 2


def test_what_files_say_is_shown_as_text(checker: Checker, public: Public) -> None:
    (public.release / "<img src=x onerror=alert(1)>.txt").write_text("")
    (problem,) = compare(checker, public).problems
    assert problem == "release/<img src=x onerror=alert(1)>.txt: not a file of the release"
    assert checker.page.locator("img").count() == 0


def test_a_second_ledger_is_not_passed_over(checker: Checker, drawn: Public) -> None:
    shutil.copytree(drawn.store, drawn.store / "pilot")
    words = "another ledger among these files, store/pilot/ledger/: give it alone"
    assert words in checker.check(drawn.store).unchecked


def test_files_without_a_ledger_are_none(checker: Checker, tmp_path: Path) -> None:
    (tmp_path / "one").mkdir()
    (tmp_path / "one/report.html").write_text("")
    assert "ledger/00000000.json" in checker.check(tmp_path / "one").status
