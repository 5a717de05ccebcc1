"""A server with the part of Kubernetes' API that the sandboxes use. It does what it is asked: each
Pod is a container of this machine's Docker engine, as the Pod's own text says."""

from __future__ import annotations

import asyncio
import json
import re
import subprocess
import tempfile
import threading
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
import yaml
from aiohttp import WSMsgType, web

from harness.sandboxes import pods

TOKEN, PLACE = "a-token", "/api/v1/namespaces/boxes"
Json = dict[str, Any]
_ROLE, *_ = yaml.safe_load_all((Path(__file__).parents[1] / "deploy/sandbox-pods.yaml").read_text())
_ALLOWED = {each: rule["verbs"] for rule in _ROLE["rules"] for each in rule["resources"]}
_VERBS = {"POST": ("create",) * 2, "GET": ("list", "get"), "DELETE": ("deletecollection", "delete")}


def engine(*argv: str) -> str:
    """What the Docker engine's own program prints; "" if it fails."""
    done = subprocess.run(["docker", *argv], capture_output=True, text=True, check=False)
    return done.stdout.strip() if done.returncode == 0 else ""


def command_of(pod: Json, network: str, variables: dict[str, str]) -> list[str]:
    """The engine's arguments for the container of a Pod, as a kubelet would have it made."""
    (container,), spec = pod["spec"]["containers"], pod["spec"]
    secure, user = container["securityContext"], spec["securityContext"]
    sizes = {each["name"]: each["emptyDir"]["sizeLimit"] for each in spec["volumes"]}
    variables |= {each["name"]: each["value"] for each in container["env"]}
    argv = ["run", "--detach", f"--network={network}", f"--name={pod['metadata']['name']}"]
    argv += [f"--user={user['runAsUser']}:{user['runAsGroup']}", f"--hostname={spec['hostname']}"]
    argv += [f"--cap-drop={each}" for each in secure["capabilities"]["drop"]]
    argv += ["--read-only"] * secure["readOnlyRootFilesystem"]
    argv += ["--security-opt=no-new-privileges"] * (not secure["allowPrivilegeEscalation"])
    for mount in container["volumeMounts"]:
        owned = f"size={sizes[mount['name']]},uid={user['runAsUser']},exec"
        argv.append(f"--tmpfs={mount['mountPath']}:{owned}")
    limits = container["resources"]["limits"]
    argv += [f"--memory={limits['memory']}", f"--memory-swap={limits['memory']}"]
    argv += [f"--cpus={limits['cpu']}", f"--workdir={container['workingDir']}"]
    argv += [f"--env={name}={value}" for name, value in variables.items()]
    return [*argv, "--entrypoint=", container["image"].partition("@")[2], *container["command"]]


@dataclass
class PodServer:
    """Its Pods by name. ``phase`` is what a new one is in, if not at work; ``refuse`` a status and
    message that creation is answered with."""

    url: str = ""
    network: str = "none"
    pods: dict[str, Json] = field(default_factory=dict)
    phase: Json | None = None
    refuse: tuple[int, str] | None = None
    asked: list[str] = field(default_factory=list)

    def status(self, name: str) -> Json:
        """The status of a Pod, from that of its container."""
        if self.phase is not None:
            return self.phase
        state = json.loads(engine("inspect", "--format={{json .State}}", name) or "{}")
        if state.get("Status", "created") in ("created", "running"):
            return {"phase": ("Pending", "Running")[bool(state.get("Running"))]}
        reason = "OOMKilled" if state["OOMKilled"] else "Error"
        ended = {"reason": reason, "finishedAt": re.sub(r"\.\d+", "", state["FinishedAt"])}
        phase = "Failed" if state["ExitCode"] else "Succeeded"
        return {"phase": phase, "containerStatuses": [{"state": {"terminated": ended}}]}

    def remove(self, name: str) -> None:
        """Delete a Pod and its container."""
        engine("rm", "--force", name)
        self.pods.pop(name, None)

    async def answer(self, request: web.Request) -> web.StreamResponse:
        """Answer one request."""
        name, executes = request.match_info["name"], request.match_info["verb"] == "exec"
        self.asked.append(verb := _VERBS[request.method][bool(name)])
        if request.headers.get("Authorization") != f"Bearer {TOKEN}":
            return refusal(401, "Unauthorized")
        if verb not in _ALLOWED["pods/exec" if executes else "pods"]:
            return refusal(403, f"pods is forbidden: cannot {verb}")
        if name and name not in self.pods:
            return refusal(404, f'pods "{name}" not found')
        if executes:
            return await execute(request, name)
        if request.method == "POST":
            return await self.create(await request.json())
        key, _, value = request.query.get("labelSelector", "").partition("=")
        labelled = (n for n, p in self.pods.items() if p["metadata"]["labels"].get(key) == value)
        names = [name] if name else list(labelled)
        found = [self.pods[n] | {"status": await asyncio.to_thread(self.status, n)} for n in names]
        if request.method == "DELETE":
            for each in names:
                await asyncio.to_thread(self.remove, each)
        for phase in re.findall(r"status.phase!=(\w+)", request.query.get("fieldSelector", "")):
            found = [each for each in found if each["status"]["phase"] != phase]
        return web.json_response(found[0] if name else {"items": found})

    async def create(self, pod: Json) -> web.Response:
        """Create a Pod, or refuse to."""
        if self.refuse is not None:
            return refusal(*self.refuse)
        if (name := pod["metadata"]["name"]) in self.pods:
            return refusal(409, f'pods "{name}" already exists')
        pod["metadata"]["creationTimestamp"] = f"{datetime.now(UTC):%Y-%m-%dT%H:%M:%SZ}"
        self.pods[name] = pod
        if self.phase is None:
            host, port = self.url.split("/")[2].split(":")
            place = {"KUBERNETES_SERVICE_HOST": host, "KUBERNETES_SERVICE_PORT": port}
            await asyncio.to_thread(engine, *command_of(pod, self.network, place))
        return web.json_response(pod, status=201)


def refusal(status: int, message: str) -> web.Response:
    """An error as the API words it."""
    body = {"kind": "Status", "status": "Failure", "message": message, "code": status}
    return web.json_response(body, status=status)


async def execute(request: web.Request, name: str) -> web.StreamResponse:
    """Run a program in a Pod, its channels in the frames of a WebSocket."""
    channels = web.WebSocketResponse(protocols=["v4.channel.k8s.io"])
    await channels.prepare(request)
    pipe = asyncio.subprocess.PIPE
    program = await asyncio.create_subprocess_exec(
        *("docker", "exec", "--interactive", name, *request.query.getall("command")),
        stdin=pipe,
        stdout=pipe,
        stderr=asyncio.subprocess.DEVNULL,
    )
    assert program.stdin is not None
    assert program.stdout is not None

    async def send(output: asyncio.StreamReader) -> None:
        with suppress(ConnectionError):
            while data := await output.read(32 << 10):
                await channels.send_bytes(b"\1" + data)
            status = "Failure" if await program.wait() else "Success"
            await channels.send_bytes(b"\3" + json.dumps({"status": status}).encode())
            await channels.close()

    sending = asyncio.create_task(send(program.stdout))
    with suppress(ConnectionError):
        async for message in channels:
            if message.type is WSMsgType.BINARY and message.data[:1] == b"\0":
                program.stdin.write(message.data[1:])
                await program.stdin.drain()
    program.stdin.close()
    await sending
    return channels


@contextmanager
def pod_server(network: str = "none") -> Iterator[PodServer]:
    """A running server, as it is found by a process within its cluster. Its Pods vanish with it."""
    served, loop = PodServer(network=network), asyncio.new_event_loop()
    app = web.Application()
    app.router.add_route("*", PLACE + "/pods{a:/?}{name:[^/]*}{b:/?}{verb:[a-z]*}", served.answer)
    runner = web.AppRunner(app, access_log=None, shutdown_timeout=0)
    loop.run_until_complete(runner.setup())
    loop.run_until_complete(web.TCPSite(runner, "127.0.0.1", 0).start())
    served.url = f"http://127.0.0.1:{runner.addresses[0][1]}{PLACE}"
    thread = threading.Thread(target=loop.run_forever, daemon=True)
    thread.start()
    with ExitStack() as stack:
        patch = stack.enter_context(pytest.MonkeyPatch.context())
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory()))
        (folder / "token").write_text(TOKEN)
        patch.setattr(pods, "_ACCOUNT", folder)
        patch.setenv(pods.ADDRESS, served.url)
        yield served
    for name in list(served.pods):
        served.remove(name)
    asyncio.run_coroutine_threadsafe(runner.cleanup(), loop).result()
    loop.call_soon_threadsafe(loop.stop)
    thread.join()
