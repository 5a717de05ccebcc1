"""Small models behind the OpenAI chat protocol: ``python -m examples.calibration.server FOLDER``.

Serves each file of weights in the folder under its ``served_name``, for single turns.
"""

from __future__ import annotations

import argparse
import json
import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any, ClassVar

from examples.calibration.model import LENGTH, answers_to, read_weights, served_name
from generators.ladder.order_statistics.parameters import NAME

PORT = 8764
Reply = tuple[Mapping[str, Any], int, int]  # answer block or message, tokens read and written
Model = Callable[[str], Reply]  # of a prompt


class ChatHandler(BaseHTTPRequestHandler):
    """Answers chat completions with what a model says to the last message."""

    models: ClassVar[Mapping[str, Model]] = {}  # by served name
    uses_tools = False
    protocol_version = "HTTP/1.1"
    wbufsize = -1  # head and body in one packet
    disable_nagle_algorithm = True

    def do_POST(self) -> None:
        body = self.rfile.read(int(self.headers.get("Content-Length", 0)))
        try:
            asked = json.loads(body)
            name, last = asked["model"], asked["messages"][-1]
            text = _text(last["content"])
        except (ValueError, LookupError, TypeError):
            self._reply(400, {"error": {"message": "not a chat completion"}})
            return
        if self.path != "/v1/chat/completions" or name not in self.models:
            self._reply(404, {"error": {"message": f"no model {name} at {self.path}"}})
        elif asked.get("tools") and not self.uses_tools:
            message = "the model uses no tools: give its tasks `mode: single_turn`"
            self._reply(400, {"error": {"message": message}})
        else:
            self._reply(200, completion(name, *self.answer_to(name, last["role"], text)))

    def answer_to(self, name: str, role: str, text: str) -> Reply:
        """Return a model's message to one of a role, and tokens read and written."""
        block, read, written = self.models[name](text)
        return {"content": f"<answer>\n{json.dumps(block)}\n</answer>"}, read, written

    def _reply(self, status: int, body: Mapping[str, Any]) -> None:
        data = json.dumps(body).encode()
        self.send_response(status)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(data)))
        self.end_headers()
        self.wfile.write(data)

    def log_message(self, format: str, *args: Any) -> None:
        """Log nothing."""


def _text(content: str | list[dict[str, Any]]) -> str:
    if isinstance(content, str):
        return content
    return "".join(part.get("text", "") for part in content)


def open_model(data: bytes) -> Model:
    """Return what a file of weights answers: an empty block where it can read no question. Raises
    ValueError for no weights of the small model."""
    weights = read_weights(data)

    def reply(text: str) -> Reply:
        answers = answers_to(weights, text)
        listed = [{"id": id_, "answer": answer} for id_, answer in answers.items()]
        block = {"task": NAME, "answers": listed} if listed else {}
        return block, LENGTH * len(listed), len(listed)

    return reply


def completion(name: str, message: Mapping[str, Any], read: int, written: int) -> dict[str, Any]:
    """Return a chat completion with a message."""
    reason = "tool_calls" if message.get("tool_calls") else "stop"
    return {
        "id": "chatcmpl-small",
        "object": "chat.completion",
        "created": 0,
        "model": name,
        "choices": [
            {"index": 0, "message": {"role": "assistant", **message}, "finish_reason": reason}
        ],
        "usage": {
            "prompt_tokens": read,
            "completion_tokens": written,
            "total_tokens": read + written,
        },
    }


@contextmanager
def serving(
    folder: Path,
    port: int = PORT,
    opened: Callable[[bytes], Model] = open_model,
    served_by: type[ChatHandler] = ChatHandler,
) -> Iterator[str]:
    """Serve a folder's models for the time of a ``with``; yields the base URL. Port 0 is any free
    one. ``opened`` makes a model of a file of weights. Raises OSError."""
    models = {served_name(path): opened(path.read_bytes()) for path in folder.glob("*.npz")}
    handler = type("Handler", (served_by,), {"models": models})
    with ThreadingHTTPServer(("127.0.0.1", port), handler) as server:
        server.daemon_threads = True
        threading.Thread(target=server.serve_forever, daemon=True).start()
        try:
            yield f"http://127.0.0.1:{server.server_port}/v1"
        finally:
            server.shutdown()


def main() -> None:
    """Serve until interrupted."""
    parser = argparse.ArgumentParser("python -m examples.calibration.server", description=__doc__)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--port", type=int, default=PORT, help="0: a free one")
    given = parser.parse_args()
    with serving(given.folder, given.port) as url:
        print(url, flush=True)
        threading.Event().wait()


if __name__ == "__main__":
    main()
