"""Starts an agent's program inside a sandbox, with the model proxy at an address of its own.

Standard library only, in one file, because its source is what the program is started with
(``python3 -I -S -c SOURCE SOCKET MODEL MARK PROGRAM``). Agents want an HTTP address: this relays
the port to the socket. What the program prints to its standard error passes as it comes; the end of
its standard output follows when it is done, after the mark.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import socket
import subprocess
import sys

PORT = 8100
TAIL = 1 << 18  # bytes of the standard output that are its final message
HOME = "/tmp/agent"  # noqa: S108 - of the container


async def copy(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    """Copy bytes until one side ends."""
    with contextlib.suppress(OSError):
        while data := await reader.read(1 << 16):
            writer.write(data)
            await writer.drain()
    writer.close()


async def connected(path: str) -> socket.socket:
    """Return a connection to the socket, once it takes one: while its queue is full the kernel
    answers "try again", which asyncio would take for a connection that is being made."""
    link = socket.socket(socket.AF_UNIX)
    link.setblocking(False)
    while True:
        try:
            link.connect(path)
        except BlockingIOError:
            await asyncio.sleep(0.05)
        except OSError:
            link.close()
            raise
        else:
            return link


async def relay(path: str, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    """Relay one connection to the socket."""
    try:
        inner_reader, inner_writer = await asyncio.open_unix_connection(sock=await connected(path))
    except OSError:
        writer.close()
        return
    await asyncio.gather(copy(reader, inner_writer), copy(inner_reader, writer))


def environment(model: str) -> dict[str, str]:
    """The environment of the program: where its model is. The keys are no keys."""
    address = f"http://127.0.0.1:{PORT}"
    return {
        **os.environ,
        "HOME": HOME,
        "DOSIMETER_MODEL": model,
        "OPENAI_BASE_URL": f"{address}/v1",
        "OPENAI_API_BASE": f"{address}/v1",
        "OPENAI_API_KEY": "none",
        "ANTHROPIC_BASE_URL": address,
        "ANTHROPIC_API_KEY": "none",
    }


async def run(path: str, model: str, mark: str, program: str) -> int:
    """Run the program to its end; return its exit code."""
    os.makedirs(HOME, exist_ok=True)
    server = await asyncio.start_server(lambda r, w: relay(path, r, w), "127.0.0.1", PORT)
    # In memory, and not a pipe, which a process in the background could keep open.
    output = os.memfd_create("stdout")
    async with server:
        child = subprocess.Popen([program], stdout=output, env=environment(model))
        code = await asyncio.get_running_loop().run_in_executor(None, child.wait)
    size = os.fstat(output).st_size
    sys.stdout.buffer.write(mark.encode() + os.pread(output, TAIL, max(0, size - TAIL)))
    sys.stdout.buffer.flush()
    return code if code >= 0 else 128 - code


if __name__ == "__main__":
    os._exit(asyncio.run(run(*sys.argv[1:])))
