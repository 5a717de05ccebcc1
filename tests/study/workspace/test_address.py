"""A study by the address of its store alone, with no folder: what is in force is what was recorded
last, signed by the study's key."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import pytest

from harness.sandboxes.user_folder import make_user_folder
from registry.canonical import digest_bytes
from registry.errors import BrokenPromise
from registry.ledger.chain import Ledger
from registry.ledger.records import FILES, StudyFiles
from registry.provenance import utc_now
from registry.sealing import decrypt, encrypt, new_identity, read_identities, write_identity
from registry.signing import Signer
from registry.stores import open_store
from registry.verify.verify import verify_study
from study.steps import pipeline
from study.steps.init.folder import init_study
from study.workspace.address import record_files
from study.workspace.study import Study
from tests.cases import cases
from tests.study.cli.program import commands, refusal, run
from tests.study.conftest import draw_tiny, make_study, run_wave
from tests.study.extras.templates.test_template_study import OWN

TEXT = cases(__file__, "text")
TEMPLATE = "values: words/ours.yml\n" + OWN
VALUES = "format: 1\npools:\n  default: [quokka, numbat]\n"
PRICES = "prices: []  # of ours\n"
WRITERS = {
    *(("register",), ("publish",), ("report",), ("calibrate",), ("reveal",)),
    *(("judge", "check"), ("wave", "open")),
    ("keys", "new"),
}


@dataclass(frozen=True, slots=True)
class Moved:
    """The store of a study elsewhere, and its two keys; its folder is gone."""

    store: Path
    study_key: Path
    operator_key: Path

    @property
    def address(self) -> str:
        return f"file:{self.store}"


def start(folder: Path) -> Study:
    """A registered study with an operator, a template file and a price file."""
    init_study(folder, TEXT.replace("  - {template: ours/own.yml}\n", "").replace("prices:", "#"))
    (folder / "ours/words").mkdir(parents=True)
    (folder / "ours/own.yml").write_text(TEMPLATE)
    (folder / "ours/words/ours.yml").write_text(VALUES)
    (folder / "prices.yaml").write_text(PRICES)
    made = run("keys", "new", "--operator", "--study", str(folder))
    assert made.exit_code == 0, made.stderr
    (folder / "study.yaml").write_text(TEXT + made.stdout)
    study = pipeline.open_study(folder)
    draw_tiny(study)
    pipeline.register(study)
    return study


def move(folder: Path, elsewhere: Path) -> Moved:
    """Move store and keys away, and remove the rest."""
    elsewhere.mkdir()
    places = [elsewhere / name for name in ("bucket", "study.txt", "operator.txt")]
    for name, place in zip(("store", "keys/study.txt", "keys/operator.txt"), places, strict=True):
        shutil.move(folder / name, place)
    shutil.rmtree(folder)
    return Moved(*places)


@pytest.fixture(autouse=True)
def no_keys(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """No key but those that a test names, and a cache of its own."""
    for name in ("DOSIMETER_KEY_FILE", "DOSIMETER_OPERATOR_KEY_FILE"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))


@pytest.fixture(scope="module")
def registered(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of such a study, to be copied."""
    return start(tmp_path_factory.mktemp("address") / "study").folder


@pytest.fixture
def folder(registered: Path, tmp_path: Path) -> Path:
    return Path(shutil.copytree(registered, tmp_path / "study"))


@pytest.fixture
def moved(folder: Path, tmp_path: Path) -> Moved:
    return move(folder, tmp_path / "elsewhere")


@pytest.fixture
def operated(moved: Moved, monkeypatch: pytest.MonkeyPatch) -> Moved:
    """With the operator's key in the environment."""
    monkeypatch.setenv("DOSIMETER_OPERATOR_KEY_FILE", str(moved.operator_key))
    return moved


# --- What is there is used ---


def test_a_wave_is_run_and_verified_by_address_and_operators_key(operated: Moved) -> None:
    study = pipeline.open_study(operated.address)
    assert study.folder.is_relative_to(make_user_folder("studies"))
    assert (study.folder / "prices.yaml").read_text() == PRICES
    assert (study.folder / "ours/words/ours.yml").read_text() == VALUES
    assert run_wave(study, 0).finished == 12
    listed = run("wave", "list", "--study", operated.address, "--json")
    assert [row["state"] for row in json.loads(listed.stdout)] == ["closed"]
    for command in ("status", "verify", "log"):
        done = run(command, "--study", operated.address)
        assert done.exit_code == 0, done.output


@pytest.mark.parametrize("form", ["s3-like", "path"])
def test_a_folder_of_a_store_is_an_address_with_and_without_its_scheme(
    operated: Moved, form: str
) -> None:
    place = operated.address if form == "s3-like" else operated.store
    assert pipeline.open_study(place).store.uri == operated.address


def test_the_study_key_opens_it_as_well(moved: Moved, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("DOSIMETER_KEY_FILE", str(moved.study_key))
    study = pipeline.open_study(moved.address)
    assert len(study.entries()) == 12
    assert verify_study(study.store, study.identities()).holds


def test_the_same_files_are_recorded_once_and_changed_ones_come_into_force(
    folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    again = run("register", "--study", str(folder))
    assert again.exit_code == 0, again.stderr
    assert len(pipeline.open_study(folder).ledger.find("study-files")) == 1
    (folder / "prices.yaml").write_text(PRICES + "# later\n")
    assert run("register", "--study", str(folder)).exit_code == 0
    opened = run("wave", "open", "--models", "other", "--study", str(folder))
    assert opened.exit_code == 0, opened.stderr
    assert len(pipeline.open_study(folder).ledger.find("study-files")) == 3
    there = move(folder, tmp_path / "elsewhere")
    monkeypatch.setenv("DOSIMETER_OPERATOR_KEY_FILE", str(there.operator_key))
    study = pipeline.open_study(there.address)
    assert study.protocol.waves == (("honest",), ("other",))
    assert (study.folder / "prices.yaml").read_text() == PRICES + "# later\n"


def test_a_wave_opened_without_the_study_key_is_not_recorded_and_says_so(folder: Path) -> None:
    """The operator's key, which is here, does not sign what is in force."""
    (folder / "keys/study.txt").unlink()
    opened = run("wave", "open", "--models", "other", "--study", str(folder))
    assert opened.exit_code == 0, opened.stderr
    assert "dosimeter register" in opened.stderr
    assert "this needs the study's key" in opened.stderr
    assert len(list((folder / "store/files").iterdir())) == 1
    assert len(pipeline.open_study(folder).ledger.find("study-files")) == 1


def test_nothing_of_the_files_is_in_the_store_in_plain(moved: Moved) -> None:
    whole = b"".join(path.read_bytes() for path in moved.store.rglob("*") if path.is_file())
    for secret in (b"error_rate", b"Respond only", b"# of ours", b"ours/own.yml", b"quokka"):
        assert secret not in whole


def test_an_operator_does_not_get_a_fixed_entropy(tmp_path: Path) -> None:
    folder = tmp_path / "study"
    init_study(folder, TEXT.replace("  - {template: ours/own.yml}\n", "").replace("prices:", "#"))
    lines = run("keys", "new", "--operator", "--study", str(folder)).stdout
    with (folder / "study.yaml").open("a") as file:
        file.write(f'{lines}entropy: "fixed:{"5e" * 32}"\n')
    study = pipeline.open_study(folder)
    draw_tiny(study)
    pipeline.register(study)
    (key,) = list(study.store.list(FILES))
    sealed = study.store.get(key)
    assert b"5e5e" in decrypt(sealed, study.identities(), key)
    with pytest.raises(Exception, match="not sealed to the key given"):
        decrypt(sealed, read_identities(study.operator_key_file), key)


# --- Bad input ---


def test_an_address_without_a_ledger_is_refused(operated: Moved, tmp_path: Path) -> None:
    said = refusal("status", "--study", f"file:{tmp_path / 'nowhere'}")
    assert f"{tmp_path}/nowhere: there is no ledger" in said
    assert not (tmp_path / "nowhere").exists()
    assert "no such file" in refusal("status", "--study", str(tmp_path / "nowhere"))
    assert "no stores of the scheme" in refusal("status", "--study", "gs://bucket/study")


def test_a_ledger_without_a_registration_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    init_study(tmp_path / "study", TEXT.replace("  - {template: ours/own.yml}\n", ""))
    (tmp_path / "study/prices.yaml").write_text(PRICES)
    study = pipeline.open_study(tmp_path / "study")
    draw_tiny(study)
    monkeypatch.setenv("DOSIMETER_KEY_FILE", str(study.key_file))
    said = refusal("status", "--study", study.store.uri)
    assert "no study.yaml is on record yet" in said
    assert "`dosimeter register`" in said


def test_files_that_were_altered_are_refused(operated: Moved) -> None:
    (path,) = (operated.store / "files").iterdir()
    sealed = encrypt(b'{"study.yaml":"study: forged"}', [new_identity()[1]])
    path.write_bytes(sealed)
    said = refusal("sweep", "--wave", "0", "--study", operated.address, code=3)
    assert f"digest sha256:{path.stem} expected, {digest_bytes(sealed)} found" in said
    found = verify_study(open_store(operated.address))
    assert [place for place, _ in found.problems] == [f"files/{path.name}"]
    path.unlink()
    assert "no such object" in refusal("status", "--study", operated.address)
    missing = verify_study(open_store(operated.address))
    assert missing.problems == ((f"files/{path.name}", "missing: it was removed from the store"),)


def test_no_key_and_keys_of_others_are_refused(
    moved: Moved, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert "DOSIMETER_OPERATOR_KEY_FILE" in refusal("status", "--study", moved.address)
    monkeypatch.setenv("DOSIMETER_OPERATOR_KEY_FILE", str(tmp_path / "none.txt"))
    assert "none.txt" in refusal("status", "--study", moved.address)
    write_identity(tmp_path / "other.txt")
    monkeypatch.setenv("DOSIMETER_KEY_FILE", str(tmp_path / "other.txt"))
    assert "other.txt: not the key that began this ledger" in refusal(
        "status", "--study", moved.address, code=3
    )


def test_an_operators_key_must_name_the_study_that_it_is_of(operated: Moved) -> None:
    text = operated.operator_key.read_text()
    signer = Signer.of(read_identities(operated.study_key)[0]).public
    assert f"# study: {signer}\n" in text
    operated.operator_key.write_text(text.replace(f"# study: {signer}\n", ""))
    said = refusal("status", "--study", operated.address)
    assert f"add the line `# study: {signer}`" in said
    operated.operator_key.write_text(text.replace(signer, "ab" * 32))
    assert "not the ledger of the study" in refusal("status", "--study", operated.address, code=3)


def test_a_ledger_that_another_has_made_for_this_operator_is_refused(
    operated: Moved, tmp_path: Path
) -> None:
    """Who can write to the store cannot have a machine run a study.yaml of theirs."""
    announced = Ledger(open_store(operated.address)).entries()[0].record
    lines = {"recipient": announced.operator_recipient, "signer": announced.operator_signer}
    text = TEXT.replace("  - {template: ours/own.yml}\n", "").replace("prices:", "#")
    forged = make_study(tmp_path / "forged", f"{text}operator: {json.dumps(lines)}\n")
    said = refusal("sweep", "--wave", "0", "--study", forged.store.uri, code=3)
    assert "not the ledger of the study" in said


def test_a_judge_that_reads_a_release_is_refused(
    folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    judge = "judges: {careless: {provider: scripted, agent: careless, release: release}}\n"
    with (folder / "study.yaml").open("a") as file:
        file.write(judge)
    assert run("register", "--study", str(folder)).exit_code == 0
    there = move(folder, tmp_path / "elsewhere")
    monkeypatch.setenv("DOSIMETER_OPERATOR_KEY_FILE", str(there.operator_key))
    assert "judge 'careless' reads the folder of a release" in refusal(
        "status", "--study", there.address
    )


def test_files_that_are_recorded_before_the_plan_are_reported(tmp_path: Path) -> None:
    init_study(tmp_path / "study", TEXT.replace("  - {template: ours/own.yml}\n", ""))
    (tmp_path / "study/prices.yaml").write_text(PRICES)
    study = pipeline.open_study(tmp_path / "study")
    draw_tiny(study)
    assert record_files(study, utc_now())
    ((_, problem),) = verify_study(study.store).problems
    assert problem == "study-files: no plan was registered before it"


def test_the_operator_puts_no_files_in_force(operated: Moved) -> None:
    study = pipeline.open_study(operated.address)
    with pytest.raises(Exception, match="does not sign records of the kind 'study-files'"):
        study.ledger.append(StudyFiles("sha256:" + "0" * 64), utc_now())


@pytest.mark.parametrize("form", ["../prices.yaml", "{}/prices.yaml"])
def test_a_file_outside_of_the_folder_is_refused_at_registration(tmp_path: Path, form: str) -> None:
    name = form.format(tmp_path)
    (tmp_path / "prices.yaml").write_text(PRICES)
    text = TEXT.replace("  - {template: ours/own.yml}\n", "").replace("prices.yaml", name)
    init_study(tmp_path / "study", text)
    study = pipeline.open_study(tmp_path / "study")
    with pytest.raises(Exception, match=f"{name}: lies outside of the study's folder"):
        pipeline.register(study, underpowered="a test has few instances")
    assert not study.ledger.entries(), "nothing is drawn either"


def test_a_path_that_leads_out_is_not_written(
    moved: Moved, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("DOSIMETER_KEY_FILE", str(moved.study_key))
    study = pipeline.open_study(moved.address)
    data = encrypt(b'{"../../planted":"x"}', study.readers())
    record = StudyFiles(digest_bytes(data))
    study.store.put(record.key, data)
    study.ledger.append(record, utc_now())
    with pytest.raises(BrokenPromise, match="planted"):
        pipeline.open_study(moved.address)


def test_every_command_that_needs_the_folder_refuses_an_address(operated: Moved) -> None:
    arguments: dict[tuple[str, ...], tuple[str, ...]] = {
        ("judge", "check"): ("careless",),
        ("reveal",): ("--all",),
        ("wave", "open"): ("--models", "other"),
    }
    for command in WRITERS:
        given = (*command, *arguments.get(command, ()), "--study", operated.address)
        said = refusal(*given)
        assert f"{' '.join(command)}` needs the study's folder" in said
        assert operated.address in said


def test_all_other_commands_take_an_address() -> None:
    found: dict[tuple[str, ...], Callable[..., object]] = dict(commands())
    texts = {
        path: option.help or ""
        for path, command in found.items()
        for option in getattr(command, "params", [])
        if option.name == "place"
    }
    assert texts.keys() >= WRITERS
    for path, text in texts.items():
        assert ("address" in text) == (path not in WRITERS), path
