"""The playground in Chromium: made, answered right and wrong, graded; and no other host is asked,
by the page or by the server."""

from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import pytest

from study.extras.playground.work import make
from tests.cases import cases
from tests.study.extras.site.browser import MARKS, accessibility, open_browser

pytestmark = MARKS
SERVE = cases(__file__, "serve")


@dataclass(frozen=True)
class Served:
    """A playground that is at work, and where it keeps files and notes other hosts."""

    address: str
    files: Path
    asked: Path


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    place = tmp_path_factory.mktemp("playground")
    (files := place / "tmp").mkdir()
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = str(free.getsockname()[1])
    env = {**os.environ, "TMPDIR": str(files), "ASKED": str(place / "asked")}
    command = [sys.executable, "-c", SERVE, "playground", "--port", port]
    with subprocess.Popen(command, env=env, stdout=subprocess.PIPE, text=True) as server:
        assert server.stdout is not None
        line = server.stdout.readline()
        assert f"http://127.0.0.1:{port}" in line
        yield Served(f"http://127.0.0.1:{port}", files, place / "asked")
        server.send_signal(signal.SIGTERM)
        server.communicate(timeout=60)
    assert list(files.iterdir()) == []


@pytest.fixture(scope="module")
def browser() -> Iterator[Any]:
    with open_browser() as made:
        yield made


def expect(place: Any) -> Any:
    from playwright.sync_api import expect

    return expect(place)


def ask(page: Any, family: str, seed: str) -> None:
    page.get_by_label("Task family").click()
    page.get_by_role("option", name=family).click()
    page.get_by_label("Seed").fill(seed)
    page.get_by_role("button", name="Make an instance").click()


def graded(page: Any, answer: str, score: str) -> None:
    page.get_by_label("Your answer").fill(answer)
    page.get_by_role("button", name="Grade my answer").click()
    page.get_by_text(f"Score: {score}").wait_for()


def test_instances_are_made_answered_and_graded(served: Served, browser: Any) -> None:
    page = browser.new_page()
    hosts, errors = set(), []
    page.on("request", lambda request: hosts.add(urlsplit(request.url).netloc))
    page.on("pageerror", lambda error: errors.append(str(error)))
    page.on("console", lambda each: errors.append(each.text) if each.type == "error" else None)
    page.goto(served.address)
    ask(page, "compute_average", "seed of a visitor")
    made = make("compute_average", "easy", "seed of a visitor")
    expect(page.get_by_label("Prompt")).to_have_value(made.instance.brief.prompt)
    key = json.dumps(made.key)
    assert key not in page.content()
    page.get_by_text("input_numbers.txt (").click()
    graded(page, f"<answer>\n{key}\n</answer>", "100.0 %")
    graded(page, "no idea", "0.0 %")
    page.get_by_role("button", name="Show key and rubric").click()
    page.get_by_text("An answer with full marks").wait_for()
    assert accessibility(page) == []
    ask(page, "count_circles", "another")
    page.get_by_alt_text("1.png").wait_for()
    assert page.evaluate("() => document.querySelector('figure img').naturalWidth") > 100
    assert page.get_by_text("Score:").count() == 0
    circles = make("count_circles", "easy", "another")
    graded(page, json.dumps(circles.key), "100.0 %")
    assert accessibility(page) == []
    assert (errors, hosts - {"", urlsplit(served.address).netloc}) == ([], set())
    asked = served.asked.read_text("utf-8").split() if served.asked.exists() else []
    assert asked == []


def test_a_bad_seed_is_explained_and_nothing_is_uploaded(served: Served, browser: Any) -> None:
    page = browser.new_page(viewport={"width": 400, "height": 900})
    page.goto(served.address)
    ask(page, "order_statistics", " ")
    page.get_by_text("a seed is a text of 1 to 200 characters").wait_for()
    wide = page.evaluate("() => document.documentElement.scrollWidth - window.innerWidth")
    assert wide <= 0
    sent = page.request.post(
        f"{served.address}/gradio_api/upload",
        multipart={"files": {"name": "a.txt", "mimeType": "text/plain", "buffer": b"12"}},
    )
    assert sent.status == 413
    policy = page.request.get(served.address).headers["content-security-policy"]
    assert policy.startswith("default-src 'self' data: blob:")
    assert not [path for path in served.files.rglob("*") if path.is_file()]
