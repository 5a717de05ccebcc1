"""Who can do what with the study's key, a recipient's and the operator's."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pytest

from harness.sweep.schedule import INSTANCES_CODEC
from registry.errors import BrokenPromise, RegistryError
from registry.ledger.chain import COPY, Ledger, _seal_entry, inspect_chain
from registry.provenance import utc_now
from registry.sealing import new_identity, open_seeds, read_identities, recipient_of, write_identity
from registry.signing import Signer
from registry.stores.folder import FolderStore
from registry.verify.verify import verify_study
from study.extras.judge.grade import GradeRequest, grade_study
from study.extras.probe.probe import ProbeRequest, probe_wave
from study.steps import pipeline
from study.steps.init.folder import init_study
from study.workspace.snapshot import without_arms
from study.workspace.study import Study, drawn_key
from tests.cases import cases
from tests.ledgers import plain_object
from tests.study.cli.program import refusal, run
from tests.study.conftest import draw_tiny, run_wave

RECIPIENT, RECIPIENT_PUBLIC = new_identity()
TEXT = cases(__file__, "text")
OF_CUSTODIANS = "this needs the study's key"


@dataclass(frozen=True)
class Custody:
    """A study whose key lies with custodians, and its operator's on the machine."""

    study: Study
    key: Path
    operator: Path
    copy: Path  # of the study's key

    def bring_back(self) -> None:
        """Put the study's key back where it was made."""
        shutil.copy2(self.copy, self.key)


def start(folder: Path) -> Custody:
    """A registered study, its key moved elsewhere."""
    init_study(folder, TEXT)
    here = ("--study", str(folder))
    made = run("keys", "new", "--operator", *here)
    assert made.exit_code == 0, made.stderr
    own = recipient_of(*read_identities(folder / "keys" / "study.txt"))
    with (folder / "study.yaml").open("a") as file:
        file.write(f"{made.stdout}recipients: [{own}, {RECIPIENT_PUBLIC}]\n")
    study = pipeline.open_study(folder)
    draw_tiny(study)
    pipeline.register(study)
    study.key_file.rename(folder / "copy.txt")
    return Custody(study, study.key_file, study.operator_key_file, folder / "copy.txt")


@pytest.fixture(scope="module")
def registered(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of such a study, to be copied."""
    return start(tmp_path_factory.mktemp("custody") / "study").study.folder


@pytest.fixture
def custody(registered: Path, tmp_path: Path) -> Custody:
    folder = tmp_path / "study"
    shutil.copytree(registered, folder)
    study = pipeline.open_study(folder)
    return Custody(study, study.key_file, study.operator_key_file, folder / "copy.txt")


def test_waves_need_the_operators_key_only_and_a_report_the_studys(custody: Custody) -> None:
    study = custody.study
    operator = Signer.of(read_identities(custody.operator)[0]).public
    run_wave(study, 0)
    assert grade_study(study, GradeRequest(("careless",)), lambda *step: None, utc_now).complete
    assert probe_wave(study, ProbeRequest(0), lambda *step: None, utc_now).complete
    for command in (["report"], ["publish"], ["show"], ["show", "--tools"]):
        assert OF_CUSTODIANS in refusal(*command, "--study", str(study.folder))
    custody.bring_back()
    pipeline.publish(study, None, lambda *step: None)
    custody.key.unlink()
    run_wave(study, 1)  # a new wave, after the release
    custody.bring_back()
    pipeline.report(study)
    signers = {entry.kind: entry.signer for entry in study.ledger.entries()}
    assert {kind for kind, signer in signers.items() if signer == operator} == {
        "run-manifest",
        "wave-closed",
        "graded",
        "probed",
    }
    assert verify_study(study.store, study.identities()).holds


def test_a_captured_operators_key_signs_no_plan_draw_release_or_report(custody: Custody) -> None:
    """Neither by our code nor by its own: the chain refuses it to any reader."""
    study, store = custody.study, custody.study.store
    signer = study.signer()
    custody.bring_back()
    pipeline.publish(study, None, lambda *step: None)
    entries = study.ledger.entries()
    records = [entry.record for entry in entries if entry.kind != "announcement"]
    kinds = [entry.kind for entry in entries[1:]]
    assert kinds == ["sealed-set", "preregistration", "study-files", "release"]
    custody.key.unlink()
    for record in records:
        with pytest.raises(RegistryError, match="the operator's key does not sign records"):
            Ledger(store, lambda: signer).append(record, utc_now())
    forged = replace(entries[-1], sequence=5, previous=entries[-1].digest, signer=signer.public)
    _, data = _seal_entry(forged, signer)
    store.put("ledger/00000005.json", data)  # by code of its own
    with pytest.raises(BrokenPromise, match="does not sign records of the kind 'release'"):
        study.ledger.entries()


def test_a_captured_operators_key_opens_no_arm(custody: Custody) -> None:
    """It reads every object of the store but the draw, and none of these has an arm."""
    study, store = custody.study, custody.study.store
    run_wave(study, 0)
    identities = read_identities(custody.operator)
    uri = study.sealed_set().uri
    with pytest.raises(RegistryError, match="not sealed to the key given"):
        open_seeds(store.get(uri), identities, uri)
    with pytest.raises(RegistryError, match=OF_CUSTODIANS):
        study.entries()
    opened = {key: plain_object(study, key) for key in sealed(study) if key != uri}
    assert {"drawn", "runs", "attempts", "results"} <= {key.partition("/")[0] for key in opened}
    custody.bring_back()
    entries = study.entries()
    assert set(study.instances()) == set(without_arms(entries))
    assert [*study.instances()] == sorted(study.instances(), key=lambda each: each.instance)
    nonces = [entry.nonce.encode() for entry in entries]
    for key, plain in opened.items():
        assert b'"arm"' not in plain, key
        assert not [nonce for nonce in nonces if nonce in plain], key


def sealed(study: Study) -> Iterator[str]:
    return (key for key in study.store.list() if key.endswith((".age", ".cell")))


def test_an_operator_cannot_exchange_the_list_of_instances(custody: Custody) -> None:
    """Only the study's key may have signed it."""
    study = custody.study
    key = drawn_key(study.sealed_set().root)
    fewer = study.instances()[1:]
    study.store.replace(key, study.keys().seal(key, INSTANCES_CODEC.encode(fewer)))
    with pytest.raises(BrokenPromise, match=f"{key}: signed by .* none of the study's"):
        run_wave(pipeline.open_study(study.folder), 0)  # which reads it anew


def test_the_draw_announces_the_operator_that_study_yaml_names(custody: Custody) -> None:
    study = custody.study
    operator = study.protocol.operator
    announced = study.announcement()
    assert operator is not None
    assert announced is not None
    assert announced.operator_recipient == operator.recipient
    assert announced.operator_signer == operator.signer
    path = study.folder / "study.yaml"
    path.write_text(path.read_text().replace(operator.signer, "ab" * 32))
    said = refusal("register", "--draw", "--study", str(study.folder))
    assert "`operator:` is not that of the ledger's first record" in said
    assert f"here is {'ab' * 6}…, and there {operator.signer[:12]}…" in said


def test_another_operators_key_is_refused(custody: Custody) -> None:
    custody.operator.unlink()
    write_identity(custody.operator)
    said = refusal("sweep", "--wave", "0", "--allow-dirty", "--study", str(custody.study.folder))
    assert "operator.txt: not the operator's key that the draw has announced, age1" in said


def test_the_operators_key_may_lie_elsewhere(
    custody: Custody, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    custody.operator.rename(tmp_path / "elsewhere.txt")
    said = refusal("sweep", "--wave", "0", "--allow-dirty", "--study", str(custody.study.folder))
    assert "keys/study.txt: No such file" in said
    monkeypatch.setenv("DOSIMETER_OPERATOR_KEY_FILE", str(tmp_path / "elsewhere.txt"))
    assert len(custody.study.instances()) == 6


def test_an_operator_that_may_open_the_draw_is_refused(tmp_path: Path) -> None:
    init_study(tmp_path, TEXT)
    (identity,) = read_identities(tmp_path / "keys" / "study.txt")
    public = recipient_of(identity)
    lines = f"operator: {{recipient: {public}, signer: {Signer.of(identity).public}}}\n"
    (tmp_path / "study.yaml").write_text(TEXT + lines)
    said = refusal("register", "--draw", "--underpowered", "a test", "--study", str(tmp_path))
    assert "operator: this key may open the draw" in said
    assert not pipeline.open_study(tmp_path).ledger.entries()


# --- the commands ---


def test_new_keys_are_for_studies_without_a_draw(custody: Custody) -> None:
    folder = ("--study", str(custody.study.folder))
    assert "its ledger was begun with a key" in refusal("keys", "new", *folder)
    assert "an operator needs a new study" in refusal("keys", "new", "--operator", *folder)
    assert not custody.key.exists()


def test_a_new_key_never_overwrites_one(tmp_path: Path) -> None:
    init_study(tmp_path, TEXT)
    key = tmp_path / "keys" / "study.txt"
    before = key.read_bytes()
    assert "a key is never overwritten" in refusal("keys", "new", "--study", str(tmp_path))
    assert key.read_bytes() == before
    key.unlink()
    made = run("keys", "new", "--study", str(tmp_path))
    assert (made.exit_code, made.stdout) == (0, "")
    assert key.stat().st_mode & 0o777 == 0o600
    assert key.read_bytes() != before


# --- the vault ---


@pytest.mark.s3
def test_what_is_removed_or_overwritten_in_a_vault_is_still_there(
    seaweedfs: Any, tmp_path: Path
) -> None:
    """SeaweedFS, with object lock in compliance mode."""
    import boto3
    from botocore.config import Config
    from botocore.exceptions import ClientError

    config = Config(s3={"addressing_style": "path"})
    client: Any = boto3.client("s3", endpoint_url=seaweedfs.endpoint, config=config)
    bucket = "vault"
    client.create_bucket(Bucket=bucket, ObjectLockEnabledForBucket=True)
    rule = {"DefaultRetention": {"Mode": "COMPLIANCE", "Days": 1}}
    lock = {"ObjectLockEnabled": "Enabled", "Rule": rule}
    client.put_object_lock_configuration(Bucket=bucket, ObjectLockConfiguration=lock)
    uri = f"s3://{bucket}/study?endpoint={seaweedfs.endpoint}&region=us-east-1"
    init_study(tmp_path / "study", TEXT + f'store: "{uri}"\n')
    study = pipeline.open_study(tmp_path / "study")
    draw_tiny(study)
    before = {key: study.store.get(key) for key in study.store.list() if key != COPY}
    for key in before:  # a thief with the store's own credentials
        client.delete_object(Bucket=bucket, Key=f"study/{key}")
    study.store.put("ledger/00000000.json", b"{}")
    versions = client.list_object_versions(Bucket=bucket, Prefix="study/")["Versions"]
    for version in versions:
        name = {"Bucket": bucket, "Key": version["Key"], "VersionId": version["VersionId"]}
        with pytest.raises(ClientError, match="AccessDenied"):
            client.delete_object(**name, BypassGovernanceRetention=True)
    assert not study.store.exists("ledger/00000001.json")
    restored = FolderStore(tmp_path / "restored")
    versions.reverse()  # of one key they are listed newest first, which settles equal times
    for version in sorted(versions, key=lambda each: each["LastModified"]):  # the first one counts
        name = {"Bucket": bucket, "Key": version["Key"], "VersionId": version["VersionId"]}
        restored.put(
            version["Key"].removeprefix("study/"), client.get_object(**name)["Body"].read()
        )
    assert {key: restored.get(key) for key in restored.list() if key != COPY} == before
    assert inspect_chain(restored)[1] == ()
