"""A sandbox image with an agent in it: ``python -m harness.external_agents.agent_image NAME``.

The agent's locked packages lie in ``/opt/NAME``, where programs of the sandbox do not find them,
and its program is ``/opt/agents/NAME``. The tag is a digest of the sandbox image's tag and of the
recipe, so a changed recipe is another image.
"""

from __future__ import annotations

import hashlib
import shutil
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path

from harness.errors import HarnessError
from harness.sandboxes.debian_rootfs import install_wheels
from harness.sandboxes.image import ensure_image

RECIPES = Path(__file__).parent / "recipes"
_DOCKERFILE = (RECIPES / "Dockerfile").read_text(encoding="utf-8")


def ensure_agent_image(name: str, progress: Callable[[str], None] = lambda line: None) -> str:
    """Return the tag of the image with an agent, built first if it is not there. Raises
    HarnessError."""
    from harness.sandboxes.docker import DockerSandboxes, build_image, connect, find_image

    recipe = RECIPES / name
    if not (recipe / "program").is_file():
        known = ", ".join(sorted(path.name for path in RECIPES.iterdir() if path.is_dir()))
        raise HarnessError(f"no recipe for an agent {name!r}; known: {known}")
    base = ensure_image(progress).tag
    tag = agent_tag(base, name)
    client = connect()
    if find_image(client, tag) is not None:
        return tag
    sandboxes = DockerSandboxes(base)
    try:
        version = dict(sandboxes.libraries)["Python"]
    finally:
        sandboxes.close()
    with tempfile.TemporaryDirectory(prefix="dosimeter-agent-") as folder:
        context = Path(folder)
        progress(f"agent image: installing {name} for Python {version}")
        lock, target = recipe / "requirements.lock", context / "opt" / name
        install_wheels(lock, target, ".".join(version.split(".")[:2]))
        program = context / "opt/agents" / name
        program.parent.mkdir()
        shutil.copy(recipe / "program", program)
        program.chmod(0o755)
        (context / "Dockerfile").write_text(_DOCKERFILE.format(base=base, name=name))
        progress("agent image: building")
        build_image(client, tag, 3600, True, path=str(context))
    return tag


def agent_tag(base: str, name: str) -> str:
    """Return the tag of the image that this checkout's recipe makes of a base."""
    hasher = hashlib.sha256(repr((base, _DOCKERFILE)).encode())
    for file in ("program", "requirements.lock"):
        hasher.update(hashlib.sha256((RECIPES / name / file).read_bytes()).digest())
    repository = base.partition(":")[0]
    return f"{repository}:{name}-{hasher.hexdigest()[:16]}"


def main() -> int:
    """Make sure of an agent's image, and print what to write in study.yaml."""
    try:
        (name,) = sys.argv[1:]
    except ValueError:
        print("usage: python -m harness.external_agents.agent_image NAME", file=sys.stderr)
        return 2
    try:
        tag = ensure_agent_image(name, lambda line: print(line, file=sys.stderr, flush=True))
    except HarnessError as error:
        print(f"agent image: {error}", file=sys.stderr)
        return 2
    print(f"sandbox: {{image: {tag}}}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
