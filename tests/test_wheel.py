"""What strangers use: the wheel alone, the package dosimeter, the notebook, the GitHub Action."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
import tomllib
from importlib import metadata
from pathlib import Path
from typing import Any

import pytest
import yaml
from packaging.requirements import Requirement

from registry.canonical import digest_bytes
from registry.provenance import PACKAGES, read_provenance
from study.errors import EXTRA_MODULES
from tests.study.conftest import SMALLNESS, TINY

ROOT = Path(__file__).resolve().parent.parent
STEPS = f"lint .|register --underpowered {SMALLNESS!r}|sweep --wave 0|publish|report|verify"
COUNTS = "model,arm,stratum,k,n\nnew,public,all,90,100\nnew,private,all,30,100\n"


@pytest.fixture(scope="module")
def installed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder that pip has installed the wheel into; libraries are those of this environment."""
    out = tmp_path_factory.mktemp("wheel")
    build = [sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-d", str(out)]
    subprocess.run(build, cwd=ROOT, check=True, capture_output=True)
    pip = [sys.executable, "-m", "pip", "install", "-q", "--no-deps", "--no-index", "--target"]
    subprocess.run([*pip, str(out / "site"), *out.glob("*.whl")], check=True, capture_output=True)
    return out / "site"


def run(command: str, folder: Path, **env: str) -> subprocess.CompletedProcess[str]:
    """Run a script of bash in which ``dosimeter`` is that of PYTHONPATH, or else of this tree."""
    script = f'dosimeter() {{ "{sys.executable}" -m dosimeter "$@"; }}\n{command}'
    bash = ["bash", "--noprofile", "--norc", "-eo", "pipefail", "-c", script]
    env = {**os.environ, "PYTHONPATH": str(ROOT), **env}
    return subprocess.run(bash, cwd=folder, env=env, capture_output=True, text=True, timeout=600)


def test_the_wheel_has_every_file_and_its_provenance_is_its_digest(installed: Path) -> None:
    git = ["git", "ls-files", *PACKAGES]
    listed = subprocess.run(git, cwd=ROOT, check=True, capture_output=True, text=True)
    name = f"dosimeter-{metadata.version('dosimeter')}"
    record = (installed / f"{name}.dist-info/RECORD").read_text().splitlines(keepends=True)
    own = sorted(r for r in record if r.split("/")[0] in PACKAGES and ",sha256=" in r)
    files = {name for name in listed.stdout.split() if (ROOT / name).exists()}
    assert {line.split(",")[0] for line in own} == files
    assert {f"{package}/py.typed" for package in PACKAGES} <= files
    now = read_provenance(installed, "none")
    assert now.commit == f"{name}@{digest_bytes(''.join(own).encode())}"
    assert now.code == f"wheel {now.commit[: -64 + 12]}"
    (added := installed / "generators/added.py").write_text("")
    edited = read_provenance(installed, "none")
    added.unlink()
    assert (edited.commit, edited.code) == (now.commit, f"{now.code} with changes")


@pytest.mark.slow
def test_a_study_runs_on_the_wheel_from_an_empty_folder(installed: Path, tmp_path: Path) -> None:
    (tmp_path / "tiny.yaml").write_text(TINY)
    steps = "".join(f"dosimeter {step}\n" for step in STEPS.split("|"))
    begin = "dosimeter init mine; cp tiny.yaml mine/study.yaml; cd mine\n"
    done = run(begin + steps, tmp_path, PYTHONPATH=str(installed))
    now = read_provenance(installed, "none")
    assert (done.returncode, now.code in done.stdout) == (0, True), done.stderr
    assert "not checked: the code" not in done.stdout
    (page,) = tmp_path.glob("mine/reports/*/report.html")
    assert now.commit in page.read_text()
    assert "uncommitted changes" not in page.read_text()


def test_a_library_of_an_extra_that_is_missing_is_one_line(tmp_path: Path) -> None:
    hidden = "import sys; sys.modules |= {'pyarrow': None, 'xllamacpp': None}\n"
    (tmp_path / "sitecustomize.py").write_text(hidden)
    (tmp_path / "table.csv").write_text(COUNTS)
    paths = f"{tmp_path}:{ROOT}"
    analyze = "analyze table.csv --allocation random", "pyarrow", "analysis"
    for command, library, extra in (analyze, ("models serve smollm2", "xllamacpp", "local")):
        refused = run(f"dosimeter {command}", tmp_path, PYTHONPATH=paths)
        line = f"dosimeter: {library} is not installed: pip install 'dosimeter[{extra}]'\n"
        assert (refused.returncode, refused.stderr) == (2, line)


def test_errors_name_every_library_of_an_extra() -> None:
    extras = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"][
        "optional-dependencies"
    ]
    wanted = {Requirement(each).name for group in extras.values() for each in group}
    texts = [path.read_text() for package in PACKAGES for path in (ROOT / package).rglob("*.py")]
    imported = {n for text in texts for n in re.findall(r"^\s*(?:from|import) (\w+)", text, re.M)}
    of_module = metadata.packages_distributions()
    needed = {module for module in imported if wanted & {*of_module.get(module, ())}}
    assert needed <= {module for modules in EXTRA_MODULES.values() for module in modules.split()}
    assert EXTRA_MODULES.keys() <= extras.keys()


@pytest.mark.parametrize("name", ["study", "registry"])
def test_a_folder_that_hides_a_package_is_named_at_import(tmp_path: Path, name: str) -> None:
    (tmp_path / name).mkdir()
    (tmp_path / name / "__init__.py").touch()
    done = run("dosimeter --version", tmp_path)
    last = done.stderr.splitlines()[-1]
    assert f"the package '{name}' is taken from {tmp_path / name}" in last


def test_the_notebook_runs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "replications").symlink_to(ROOT / "examples/replications")
    monkeypatch.chdir(tmp_path)
    names: dict[str, Any] = {}
    for cell in json.loads((ROOT / "examples/analyze.ipynb").read_text())["cells"]:
        if cell["cell_type"] == "code":
            exec("".join(cell["source"]), names)
    assert len(names["verdicts"]) == 44


def test_the_action_adds_the_verdicts_to_the_summary(tmp_path: Path) -> None:
    (tmp_path / "table.csv").write_text(COUNTS)
    steps = yaml.safe_load((ROOT / "action.yml").read_text())["runs"]["steps"]
    assert not [step["name"] for step in steps if "${{" in step["run"]]
    env = {"TABLE": "table.csv", "ALLOCATION": "random", "PRE_EXPOSURE": "", "PLAN": ""}
    assert env.keys() == steps[-1]["env"].keys()
    files = {"GITHUB_STEP_SUMMARY": "summary", "GITHUB_OUTPUT": "output"}
    done = run(steps[-1]["run"], tmp_path, RUNNER_TEMP=str(tmp_path), **env, **files)
    assert done.returncode == 0, done.stderr
    assert "contaminated" in (tmp_path / "summary").read_text()
