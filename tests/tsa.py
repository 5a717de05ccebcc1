"""A time-stamping authority on this machine: ``openssl ts`` behind HTTP."""

from __future__ import annotations

import http.server
import subprocess
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from tests.cases import cases

_CONFIG = cases(__file__, "config")


@dataclass(slots=True)
class Authority:
    """An authority with a root certificate of its own. ``answer`` is sent instead of a stamp,
    with ``status``, if it is not None."""

    folder: Path
    url: str = ""
    answer: bytes | None = None
    status: int = 200

    @property
    def root(self) -> Path:
        """The file of the root certificate."""
        return self.folder / "ca.pem"

    def stamp(self, request: bytes) -> bytes:
        """Return the response to a request."""
        (self.folder / "request").write_bytes(request)
        _openssl(
            *("ts", "-reply", "-config", str(self.folder / "config"), "-section", "here"),
            *("-queryfile", str(self.folder / "request"), "-out", str(self.folder / "response")),
        )
        return (self.folder / "response").read_bytes()

    def verifies(self, data: Path, response: Path) -> bool:
        """Report if openssl finds the response to be of a file, by this authority."""
        command = ["openssl", "ts", "-verify", "-data", str(data), "-in", str(response)]
        command += ["-CAfile", str(self.root)]
        return subprocess.run(command, capture_output=True, check=False).returncode == 0


def make_authority(folder: Path) -> Authority:
    """Make the keys and certificates of an authority in a new folder."""
    folder.mkdir()
    config = folder / "config"
    config.write_text(_CONFIG.format(folder=folder))
    (folder / "serial").write_text("01\n")
    common = ("-config", str(config), "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256")
    root = ("-x509", "-extensions", "root", "-subj", "/CN=Root", "-days", "30", "-nodes")
    _openssl("req", *common, *root, "-keyout", f"{folder}/ca.key", "-out", f"{folder}/ca.pem")
    _openssl("req", *common, "-nodes", "-keyout", f"{folder}/tsa.key", "-out", f"{folder}/tsa.csr")
    _openssl(
        *("x509", "-req", "-in", f"{folder}/tsa.csr", "-CA", f"{folder}/ca.pem", "-days", "30"),
        *("-CAkey", f"{folder}/ca.key", "-set_serial", "2", "-extfile", str(config)),
        *("-extensions", "leaf", "-out", f"{folder}/tsa.pem"),
    )
    return Authority(folder)


@contextmanager
def serve(authority: Authority) -> Iterator[Authority]:
    """Serve an authority over HTTP while the block runs."""

    class Handler(http.server.BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            request = self.rfile.read(int(self.headers["Content-Length"]))
            assert self.headers["Content-Type"] == "application/timestamp-query"
            given = authority.answer
            body = authority.stamp(request) if given is None else given
            self.send_response(authority.status)
            self.send_header("Content-Type", "application/timestamp-reply")
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, format: str, *args: object) -> None:
            return

    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    authority.url = f"http://127.0.0.1:{server.server_port}/tsr"
    try:
        yield authority
    finally:
        server.shutdown()
        thread.join()
        server.server_close()


def _openssl(*arguments: str) -> None:
    subprocess.run(["openssl", *arguments], check=True, capture_output=True)
