"""Tools: what a model may send, and what it is told. Nothing it sends is an error of ours."""

from __future__ import annotations

import hashlib
import io
import json
import random
import struct
import time
import zlib
from typing import Any

import jsonschema
import pytest
from PIL import Image

from generators.child_process import ChildLimits
from generators.task import Limits
from harness.agent.images import SHOWN_BYTES, show_image
from harness.agent.tools import MAX_ARGUMENT_CHARS, MAX_COMMAND_CHARS, TOOLS, cut_text, use_tool
from harness.episode import ToolUse
from harness.model import ToolCall
from harness.sandboxes.sandbox import Sandbox
from tests.cases import cases

LIMITS = Limits(output_bytes=2_000)


def use(sandbox: Sandbox, name: str, arguments: Any, seconds: float = 10.0) -> ToolUse:
    text = arguments if isinstance(arguments, str) else json.dumps(arguments)
    return use_tool(ToolCall("c1", name, text), sandbox, LIMITS, seconds, time.monotonic)


def png(width: int, height: int, mode: str = "L") -> bytes:
    held = io.BytesIO()
    Image.new(mode, (width, height), 200).save(held, "PNG")
    return held.getvalue()


def png_claiming(width: int, height: int) -> bytes:
    """A PNG whose header promises more pixels than anybody should decode."""
    header = struct.pack(">IIBBBBB", width, height, 8, 0, 0, 0, 0)

    def chunk(kind: bytes, data: bytes) -> bytes:
        return (
            struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))
        )

    body = zlib.compress(b"\0" * 1_000_000)
    return (
        b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", header) + chunk(b"IDAT", body) + chunk(b"IEND", b"")
    )


def png_with(kind: bytes, data: bytes) -> bytes:
    """A PNG file with one more chunk behind its header."""
    whole, name = png_claiming(8, 8), kind + data
    chunk = struct.pack(">I", len(data)) + name + struct.pack(">I", zlib.crc32(name))
    return whole[:33] + chunk + whole[33:]


BOMB = zlib.compress(bytes(64 << 20))


def test_the_model_is_told_of_five_tools_with_valid_schemas() -> None:
    assert [tool.name for tool in TOOLS] == [
        "execute_python", "run_command", "read_file", "write_file", "view_image",
    ]  # fmt: skip
    for tool in TOOLS:
        jsonschema.Draft202012Validator.check_schema(dict(tool.parameters))
        assert tool.parameters["additionalProperties"] is False


def test_python_runs_in_the_work_folder(sandbox: Sandbox) -> None:
    used = use(sandbox, "execute_python", {"code": "print(open('notes.txt').read().upper())"})
    assert used.result.text.startswith("ONE\nTWO\n")
    assert "[exit code 0," in used.result.text
    assert (used.exit_code, used.limits, used.call_id) == (0, (), "c1")
    assert 0 < used.seconds < 10


def test_a_failing_program_shows_its_error_and_exit_code(sandbox: Sandbox) -> None:
    used = use(sandbox, "execute_python", {"code": "raise SystemExit('no luck')"})
    assert used.exit_code == 1
    assert "no luck" in used.result.text


def test_a_program_past_its_time_is_stopped_and_the_limit_recorded(sandbox: Sandbox) -> None:
    used = use(sandbox, "execute_python", {"code": "import time; time.sleep(60)"}, seconds=0.5)
    assert used.limits == ("time",)
    assert "limits hit: time" in used.result.text
    assert used.seconds < 10


def test_long_output_is_cut_and_says_so(sandbox: Sandbox) -> None:
    code = "print('head'); print('x' * 100_000); print('tail')"
    text = use(sandbox, "execute_python", {"code": code}).result.text
    assert text.startswith("head\n")
    assert "tail\n" in text
    assert "cut" in text
    assert len(text) < 4_000


def test_cutting_keeps_head_and_tail_and_counts_the_rest() -> None:
    assert cut_text("short", 10) == "short"
    cut = cut_text("a" * 50 + "b" * 50, 20)
    assert cut == "a" * 10 + "\n[… 80 of 100 characters cut …]\n" + "b" * 10


def test_the_longest_command_passes_whatever_it_is_made_of(sandbox: Sandbox) -> None:
    """The frame into the sandbox must hold it: a frame too large would cost the sandbox."""
    for filler in ("\N{SNOWMAN}", "\N{GRINNING FACE}", "a "):
        command = "ls " + filler * ((MAX_COMMAND_CHARS - 3) // len(filler))
        begun = time.monotonic()
        assert use(sandbox, "run_command", {"command": command}).exit_code in (1, 2, 126)
        assert time.monotonic() - begun < 5
    assert use(sandbox, "run_command", {"command": "cat notes.txt"}).exit_code == 0


def test_hashing_every_file_takes_one_command(sandbox: Sandbox) -> None:
    used = use(sandbox, "run_command", {"command": "find . -type f -exec sha256sum {} +"})
    digest = hashlib.sha256(b"one\ntwo\n").hexdigest()
    assert f"{digest}  ./notes.txt\n" in used.result.text


@pytest.mark.parametrize(
    ("command", "hint"),
    [
        *cases(__file__, "refused"),
        ("ls " + "a" * 30_000, "at most 20,000 are read: use write_file or execute_python"),
    ],
)
def test_commands_that_bash_cannot_take_are_explained(
    sandbox: Sandbox, command: str, hint: str
) -> None:
    used = use(sandbox, "run_command", {"command": command})
    assert used.result.text.startswith("Error: ")
    assert hint in used.result.text
    assert used.exit_code is None


@pytest.mark.parametrize(
    ("name", "arguments", "hint"),
    [
        *cases(__file__, "bad_calls"),
        ("execute_python", "[" * 100_000, "not valid JSON"),
        ("view_image", {"path": "p" * 5_000}, "'path' must be"),
    ],
)
def test_bad_calls_are_answered_not_raised(
    sandbox: Sandbox, name: str, arguments: Any, hint: str
) -> None:
    used = use(sandbox, name, arguments)
    assert used.result.text.startswith("Error: ")
    assert hint in used.result.text
    assert used.result.call_id == "c1"


def test_ten_megabytes_of_arguments_are_not_even_parsed(sandbox: Sandbox) -> None:
    used = use(sandbox, "write_file", {"path": "x", "content": "y" * 10_000_000})
    assert f"at most {MAX_ARGUMENT_CHARS:,}" in used.result.text


@pytest.mark.parametrize("path", ["../up.txt", "/etc/passwd", "missing.txt"])
@pytest.mark.parametrize("tool", ["read_file", "view_image"])
def test_paths_that_lead_out_or_nowhere_are_refused(sandbox: Sandbox, tool: str, path: str) -> None:
    assert use(sandbox, tool, {"path": path}).result.text.startswith("Refused: ")


def test_a_written_file_reads_back(sandbox: Sandbox) -> None:
    assert (
        "7 bytes"
        in use(sandbox, "write_file", {"path": "d/u.txt", "content": "grün\n!"}).result.text
    )
    assert use(sandbox, "read_file", {"path": "d/u.txt"}).result.text == "grün\n!"


def test_a_binary_file_is_not_shown_as_text(sandbox: Sandbox) -> None:
    for data in (b"\xff\xfe\x00", b"a\0b"):
        sandbox.write("x.bin", data)
        assert "not a text file" in use(sandbox, "read_file", {"path": "x.bin"}).result.text


def test_an_image_comes_back_as_it_is(sandbox: Sandbox) -> None:
    data = png(30, 20)
    sandbox.write("p.png", data)
    used = use(sandbox, "view_image", {"path": "p.png"})
    assert used.result.text == "image/png, 30 × 20 pixels."
    assert [(image.media_type, image.data) for image in used.result.images] == [("image/png", data)]


@pytest.mark.parametrize(
    ("data", "hint"),
    [
        (b"not an image", "not an image of type PNG"),
        (b"%!PS-Adobe-3.0 EPSF-3.0\n%%BoundingBox: 0 0 9 9\n", "not an image of type PNG"),
        (png(30, 20)[:-30], "do not decode"),
        (png(9_000, 2), "9000 × 2 pixels; at most"),
        (png_claiming(60_000, 60_000), "far too many pixels; at most"),
        (png_claiming(7_900, 7_900), "7900 × 7900 pixels; at most"),
        (png_claiming(3_000, 3_000), "do not decode"),
        (png_with(b"zTXt", b"Comment\0\0" + BOMB), "do not decode"),
        (png_with(b"iCCP", b"icc\0\0" + BOMB), "do not decode"),
    ],
)
def test_images_that_cannot_be_shown_are_explained(
    sandbox: Sandbox, data: bytes, hint: str
) -> None:
    sandbox.write("p.png", data)
    used = use(sandbox, "view_image", {"path": "p.png"})
    assert used.result.text.startswith("Error: ")
    assert used.result.images == ()
    assert hint in used.result.text


@pytest.mark.parametrize(
    ("kind", "shown", "options"),
    [
        ("JPEG", "jpeg", {}),
        ("MPO", "png", {"save_all": True, "append_images": [Image.new("L", (9, 9))]}),
    ],
)
def test_a_jpeg_is_shown_and_of_a_camera_s_several_the_first(
    kind: str, shown: str, options: Any, sandbox: Sandbox
) -> None:
    held = io.BytesIO()
    Image.new("L", (2_000, 1_000)).save(held, kind, progressive=True, **options)
    sandbox.write("p.jpg", held.getvalue())
    used = use(sandbox, "view_image", {"path": "p.jpg"})
    assert used.result.text == f"image/{shown}, 2000 × 1000 pixels."


def test_a_view_costs_its_limit_at_most_and_is_the_model_s(
    sandbox: Sandbox, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("harness.agent.images._LIMITS", ChildLimits(1, 9_000_000))
    sandbox.write("p.png", png(4_000, 4_000, "RGB"))
    used = use(sandbox, "view_image", {"path": "p.png"})
    assert used.result.text == "Error: the image takes more than 9 MB of memory"


@pytest.mark.parametrize("mode", ["L", "RGBA", "P", "1", "I;16", "CMYK"])
def test_a_large_image_is_scaled_down_and_the_model_is_told(sandbox: Sandbox, mode: str) -> None:
    kind = "JPEG" if mode == "CMYK" else "PNG"
    held = io.BytesIO()
    Image.linear_gradient("L").resize((2_300, 920)).convert(mode).save(held, kind)
    sandbox.write("p.png", held.getvalue())
    used = use(sandbox, "view_image", {"path": "p.png"})
    assert used.result.text == "image/png, 2000 × 800 pixels, scaled down from 2300 × 920."
    (shown,) = used.result.images
    with Image.open(io.BytesIO(shown.data)) as image:
        assert (image.format, image.size) == ("PNG", (2_000, 800))
        grey = image.convert("L")
    dark, middle, light = (grey.getpixel((1_000, y)) for y in (20, 400, 780))
    if mode != "I;16":  # its gradient is that of 8 bits
        assert dark < 30 < 225 < light, "its content is as it was"
        assert mode == "1" or 110 < middle < 145


def test_grey_of_sixteen_bits_keeps_its_tones() -> None:
    wide = bytes(byte for x in range(2_300) for byte in (x * 28).to_bytes(2, "little"))
    held = io.BytesIO()
    Image.frombytes("I;16", (2_300, 20), wide * 20).save(held, "PNG")
    shown = show_image(held.getvalue()).value()
    with Image.open(io.BytesIO(shown.image.data)) as image:
        tones = [image.convert("L").getpixel((x, 5)) for x in (0, 500, 1_000, 1_500, 1_999)]
    assert tones == pytest.approx([0, 62, 125, 188, 251], abs=2)


def test_an_image_that_no_png_makes_small_enough_becomes_a_jpeg() -> None:
    noise = Image.frombytes("RGB", (2_100, 2_100), random.Random(1).randbytes(3 * 2_100**2))
    held = io.BytesIO()
    noise.save(held, "PNG")
    shown = show_image(held.getvalue()).value()
    assert (shown.image.media_type, shown.size) == ("image/jpeg", (2_000, 2_000))
    assert len(shown.image.data) <= SHOWN_BYTES


def test_an_image_of_too_many_bytes_is_refused_before_it_is_read(sandbox: Sandbox) -> None:
    sandbox.write("p.png", b"\0" * 6_000_000)
    assert use(sandbox, "view_image", {"path": "p.png"}).result.text.startswith("Refused: ")
