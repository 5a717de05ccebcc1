"""An owner who chooses before anything is recorded: what others see of it without a key."""

from __future__ import annotations

import http.server
import json
import re
import shutil
import threading
from collections.abc import Iterator
from datetime import timedelta
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from harness.storage import ATTEMPTS, RESULTS
from registry.checkpoints import timestamp
from registry.checkpoints.timestamp import Authorities
from registry.verify.findings import Standing
from registry.verify.promises import selection_words
from registry.verify.verify import verify_study
from study.steps import pipeline
from study.steps.init.folder import init_study
from study.steps.register import draw
from study.steps.register.draw import DrawRequest
from study.steps.sweep import sweep
from study.steps.sweep.sweep import SweepRequest
from study.steps.verify.verify import check_claims
from study.workspace.study import Study
from tests.registry.draws.beacons import sign_round, use_chain
from tests.study.conftest import SMALLNESS, TINY
from tests.tsa import Authority, make_authority, serve

pytestmark = pytest.mark.skipif(shutil.which("openssl") is None, reason="needs openssl")
REQUEST = SweepRequest(0, allow_dirty=True)


class _Relay(http.server.BaseHTTPRequestHandler):
    """A relay of the tests' beacon."""

    def do_GET(self) -> None:
        number = int(self.path.rpartition("/")[2])
        body = json.dumps({"round": number, "signature": sign_round(number)}).encode()
        self.send_response(200)
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, format: str, *args: object) -> None:
        return


@pytest.fixture
def relay() -> Iterator[str]:
    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), _Relay)
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    yield f"http://127.0.0.1:{server.server_port}"
    server.shutdown()
    thread.join()
    server.server_close()


@pytest.fixture
def authority(tmp_path: Path) -> Iterator[Authority]:
    with serve(make_authority(tmp_path / "tsa")) as served:
        yield served


@pytest.fixture
def study(
    tmp_path: Path, authority: Authority, relay: str, monkeypatch: pytest.MonkeyPatch
) -> Study:
    """A registered study with beacon and stamps."""
    use_chain(monkeypatch)
    monkeypatch.setattr(draw, "_AHEAD", timedelta(seconds=6))
    text = f"{TINY}stamps: [{authority.url}]\n"
    init_study(tmp_path / "study", text)
    made = pipeline.open_study(tmp_path / "study")
    pipeline.draw(made, underpowered=SMALLNESS, request=DrawRequest(relays=(relay,)))
    pipeline.register(made)
    return made


def standings(study: Study, authority: Authority | None) -> list[str]:
    """The standings of arms, plan and attempts, as others check them without a key."""
    pem = b"" if authority is None else authority.root.read_bytes()
    found = verify_study(study.store, authorities=Authorities.known(pem))
    return [str(promise.standing) for promise in found.promises[:3]]


def test_a_study_with_beacon_and_stamps_shows_that_nothing_was_chosen(
    study: Study, authority: Authority, monkeypatch: pytest.MonkeyPatch
) -> None:
    pipeline.sweep(study, REQUEST, lambda progress: None)
    assert standings(study, authority) == [Standing.HOLDS] * 3
    assert standings(study, None) == [Standing.UNSHOWN] * 3, "its root is known to few"
    assert verify_study(study.store, study.identities()).holds
    stamps = [*study.store.list("stamps/")]
    assert len(stamps) == len({key.split("/")[1] for key in stamps}) >= 4
    entries = study.ledger.entries()
    assert "attempts could have been chosen" in selection_words(study.store, entries)
    monkeypatch.setattr(timestamp, "_system_roots", timestamp._system_roots.__wrapped__)
    monkeypatch.setenv("SSL_CERT_FILE", str(authority.root))
    words = selection_words(study.store, entries)
    assert words.startswith("Time-stamps show others that the arms were allotted by chance, that ")
    assert re.search(rf"\({len(stamps)} of them, number \w+ to \w+, of CN=Root\)", words)
    said = SimpleNamespace(selection=words)
    issued: Any = SimpleNamespace(kind="report", record=said, sequence=len(entries), place="9")
    assert [*check_claims(study, [*entries, issued], Authorities.known())] == []
    monkeypatch.undo()
    claims = [*check_claims(study, [*entries, issued], Authorities.known())]
    assert claims == [("", "what the report of 9 says of the arms, plan and attempts")]


def test_runs_that_were_mixed_from_copies_are_named_without_a_key(
    study: Study, authority: Authority, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Copies of a begun wave are finished each, the better episodes kept, and one is closed."""
    with monkeypatch.context() as cheating:
        cheating.setattr(sweep, "close_wave", _leave)
        copies = [study]
        with pytest.raises(InterruptedError):
            pipeline.sweep(study, REQUEST, _leave)
        shutil.copytree(study.folder, tmp_path / "copy")
        copies.append(pipeline.open_study(tmp_path / "copy"))
        for copy in copies:
            with pytest.raises(InterruptedError):
                pipeline.sweep(copy, REQUEST, lambda progress: None)
    mine, theirs = (copy.folder / "store" for copy in copies)
    for folder in (ATTEMPTS, RESULTS):
        better = next((theirs / folder).rglob("*.cell"))
        shutil.copyfile(better, mine / better.relative_to(theirs))
    pipeline.sweep(study, REQUEST, lambda progress: None)
    assert standings(study, authority) == [Standing.HOLDS, Standing.HOLDS, Standing.BROKEN]
    whole = verify_study(study.store, study.identities())
    assert [words for _, words in whole.problems] == [
        "wave 0: 1 stored attempts are not those that ended by a list"
    ]


def test_an_authority_that_is_away_loses_nothing(
    study: Study, authority: Authority, caplog: pytest.LogCaptureFixture
) -> None:
    authority.status, authority.answer = 503, b""
    pipeline.sweep(study, REQUEST, lambda progress: None)
    assert "no time-stamp: it answers 503" in caplog.text
    held, planned, attempted = standings(study, authority)
    assert (held, planned, attempted) == (Standing.HOLDS, Standing.UNSHOWN, Standing.UNSHOWN)
    authority.status, authority.answer = 200, None
    stamped = len([*study.store.list("stamps/")])
    pipeline.publish(study, None, lambda *step: None)
    assert len([*study.store.list("stamps/")]) == stamped + 1
    assert standings(study, authority) == [Standing.HOLDS] * 3, "late by less than the limit"


def _leave(*given: object) -> None:
    raise InterruptedError
