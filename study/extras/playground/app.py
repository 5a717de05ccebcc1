"""The playground as a Gradio app, for this machine and for a Space of the Hub.

It asks no other host for anything, keeps no file and takes no upload; instances are made one
at a time, and a request beyond the queue is refused in words.
"""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from functools import wraps
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any, TypeVar

from generators.errors import GeneratorError
from study.errors import StudyError
from study.extras.playground.page import files_html, grade_html, key_html
from study.extras.playground.work import (
    LONGEST_ANSWER,
    LONGEST_SEED,
    families,
    make,
    mark,
    summary_of,
)
from study.printing import print_line

if TYPE_CHECKING:
    import gradio as gr

T = TypeVar("T")
WAITING = 16  # requests at most
_SILENT = {"GRADIO_ANALYTICS_ENABLED": "False", "HF_HUB_DISABLE_TELEMETRY": "1"}
_POLICY = (
    "default-src 'self' data: blob: 'unsafe-inline' 'unsafe-eval'; form-action 'none'; "
    "object-src 'none'"
)
_STYLE = """
figure {display: inline-block; margin: 4px}
figure img {max-width: 260px; max-height: 260px; border: 1px solid #888}
pre {white-space: pre-wrap; overflow-wrap: anywhere; max-height: 24em; overflow: auto}
figcaption {font-size: 80%; overflow-wrap: anywhere; max-width: 260px}
a[download], .info-text {color: inherit}
button.primary, button.primary:hover {background: #c2410c}
td, th {text-align: left; padding: 2px 12px 2px 0; vertical-align: top}
"""
_INTRO = """# Playground

Make an instance of a task family from a seed of your own, answer it, and be graded by the grader
that studies use. The same seed gives the same instance to everybody. A study's own instances come
from seeds that nobody knows: none of them can be made here."""


def _explained(function: Callable[..., T]) -> Callable[..., T]:
    """Show a generator's refusal on the page, in its own words."""

    @wraps(function)
    def shown(*given: Any) -> T:
        import gradio as gr

        try:
            return function(*given)
        except GeneratorError as error:
            raise gr.Error(str(error), print_exception=False) from None

    return shown


@_explained
def _make(name: str, difficulty: str, seed: str) -> tuple[object, ...]:
    """What the page shows of a new instance, and what makes it again; answer, grade and key are
    cleared."""
    import gradio as gr

    brief = make(name, difficulty, seed).instance.brief
    schema = json.dumps(json.loads(brief.answer_schema), indent=2)
    shown = (gr.Column(visible=True), brief.prompt, files_html(brief), schema)
    return (name, difficulty, seed), *shown, "", "", ""


@_explained
def _mark(made_from: tuple[str, str, str] | None, answer: str) -> str:
    if made_from is None:
        raise GeneratorError("make an instance first")
    return grade_html(mark(make(*made_from), answer))


@_explained
def _key(made_from: tuple[str, str, str] | None) -> str:
    if made_from is None:
        raise GeneratorError("make an instance first")
    return key_html(make(*made_from))


def build_app() -> gr.Blocks:
    """Return the app, not served yet."""
    os.environ.update(_SILENT)
    import gradio as gr

    names = [(f"{name}: {summary_of(name)}", name) for name in families()]
    levels = sorted({level for each in families().values() for level in each})
    app = gr.Blocks(title="dosimeter playground", analytics_enabled=False)
    with app:
        gr.Markdown(_INTRO)
        made_from = gr.State()
        with gr.Row():
            family = gr.Dropdown(
                names, value=names[0][1], label="Task family", scale=3, min_width=330
            )
            level = gr.Dropdown(levels, value="easy", label="Difficulty", min_width=110)
            seed = gr.Textbox("my seed", label="Seed: any text", max_length=LONGEST_SEED)
        button = gr.Button("Make an instance", variant="primary")
        with gr.Column(visible=False) as instance:
            prompt = gr.Textbox(label="Prompt", lines=10, max_lines=30, interactive=False)
            files = gr.HTML(container=True, padding=True)
            schema = gr.Textbox(label="JSON Schema of the answer", max_lines=12, interactive=False)
            answer = gr.Textbox(
                label="Your answer",
                info="One JSON object, between <answer> and </answer> if text stands around it.",
                lines=6,
                max_lines=20,
                max_length=LONGEST_ANSWER,
            )
            with gr.Row():
                grade = gr.Button("Grade my answer", variant="primary")
                ask = gr.Button("Show key and rubric")
            result, key = gr.HTML(), gr.HTML()
        shown = [made_from, instance, prompt, files, schema, answer, result, key]
        # One queue for all three: each may make an instance.
        one: dict[str, Any] = {"concurrency_id": "make", "concurrency_limit": 1}
        one["api_visibility"] = "private"
        button.click(_make, [family, level, seed], shown, **one)
        grade.click(_mark, [made_from, answer], result, **one)
        ask.click(_key, [made_from], key, **one)
    return app


def serve(port: int | None = None) -> None:
    """Serve the app until the process is stopped. Without a port it is Gradio's own choice, as a
    Space expects it. Raises StudyError for a port that is in use."""
    from starlette.middleware import Middleware

    with TemporaryDirectory() as folder:
        os.environ["GRADIO_TEMP_DIR"] = folder
        app = build_app()
        try:
            _, address, _ = app.queue(max_size=WAITING).launch(
                server_port=port,
                share=False,
                max_file_size=1,  # byte: nothing is uploaded
                footer_links=[],
                ssr_mode=False,
                css=_STYLE,
                quiet=True,
                prevent_thread_lock=True,
                app_kwargs={"middleware": [Middleware(_Policy)]},
            )
        except OSError:
            raise StudyError(f"port {port} cannot be had: give another one") from None
        print_line(f"{address} serves the playground until Ctrl-C")
        app.block_thread()


class _Policy:
    """Middleware that forbids pages to load anything from another host."""

    def __init__(self, app: Any) -> None:
        self.app = app

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        """Add the header to each response."""

        async def with_header(message: Any) -> None:
            if message["type"] == "http.response.start":
                header = (b"content-security-policy", _POLICY.encode())
                message["headers"] = [*message.get("headers", ()), header]
            await send(message)

        await self.app(scope, receive, with_header)
