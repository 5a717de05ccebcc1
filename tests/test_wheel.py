"""The wheel alone: its files, a study from an empty folder, and what is missing without extras."""

from __future__ import annotations

import ast
import os
import subprocess
import sys
import tomllib
import zipfile
from importlib import metadata
from pathlib import Path

import pytest
from packaging.requirements import Requirement

from registry.canonical import digest_bytes
from registry.provenance import PACKAGES, read_provenance
from study.errors import EXTRA_MODULES
from tests.study.conftest import SMALLNESS, TINY

ROOT = Path(__file__).resolve().parent.parent
STEPS = (
    ("lint", "."),
    ("register", "--underpowered", SMALLNESS),
    ("sweep", "--wave", "0"),
    ("publish",),
    ("report",),
    ("verify",),
)


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    out = tmp_path_factory.mktemp("wheel")
    build = [sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-d", str(out)]
    subprocess.run(build, cwd=ROOT, check=True, capture_output=True)
    return next(out.glob("*.whl"))


@pytest.fixture(scope="module")
def installed(wheel: Path) -> Path:
    """The folder that pip has installed the wheel into; libraries are those of this environment."""
    pip = [sys.executable, "-m", "pip", "install", "-q", "--no-deps", "--no-index", "--target"]
    subprocess.run([*pip, str(wheel.parent / "site"), str(wheel)], check=True, capture_output=True)
    return wheel.parent / "site"


def run(site: Path, folder: Path, *words: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "study.main", *words]
    env = os.environ | {"PYTHONPATH": str(site)}
    return subprocess.run(command, cwd=folder, env=env, capture_output=True, text=True, timeout=300)


def test_the_wheel_has_every_file_of_the_packages(wheel: Path) -> None:
    git = ["git", "ls-files", *PACKAGES]
    listed = subprocess.run(git, cwd=ROOT, check=True, capture_output=True, text=True)
    names = {name for name in zipfile.ZipFile(wheel).namelist() if ".dist-info/" not in name}
    assert names >= {name for name in listed.stdout.split() if (ROOT / name).exists()}
    assert {f"{package}/py.typed" for package in PACKAGES} <= names


def test_the_provenance_of_a_wheel_is_its_digest(wheel: Path, installed: Path) -> None:
    with zipfile.ZipFile(wheel) as archive:
        (record,) = [name for name in archive.namelist() if name.endswith("/RECORD")]
        lines = archive.read(record).decode().splitlines()
    own = sorted(line for line in lines if line.split("/")[0] in PACKAGES)
    digest = digest_bytes("".join(f"{line}\n" for line in own).encode())
    now = read_provenance(installed, "none")
    assert (now.commit, now.dirty) == (f"dosimeter-{metadata.version('dosimeter')}@{digest}", False)
    assert now.code == f"wheel {now.commit[: -64 + 12]}"
    added = installed / "generators/added.py"
    added.write_text("")
    edited = read_provenance(installed, "none")
    added.unlink()
    assert (edited.commit, edited.code) == (now.commit, f"{now.code} with changes")


@pytest.mark.slow
def test_a_study_runs_on_the_wheel_from_an_empty_folder(installed: Path, tmp_path: Path) -> None:
    assert run(installed, tmp_path, "init", "mine").returncode == 0
    folder = tmp_path / "mine"
    (folder / "study.yaml").write_text(TINY)
    done = {words[0]: run(installed, folder, *words) for words in STEPS}
    assert {name: step.stderr for name, step in done.items() if step.returncode} == {}
    now = read_provenance(installed, "none")
    assert now.code in done["register"].stdout
    assert "not checked: the code" not in done["verify"].stdout
    (page,) = folder.glob("reports/*/report.html")
    assert now.commit in page.read_text()
    assert "uncommitted changes" not in page.read_text()


def test_a_library_of_an_extra_that_is_missing_is_one_line(tmp_path: Path) -> None:
    (tmp_path / "sitecustomize.py").write_text("import sys; sys.modules['pyarrow'] = None\n")
    (tmp_path / "table.csv").write_text("model,arm,stratum,instance,score\n")
    command = ("analyze", "table.csv", "--allocation", "random")
    refused = run(Path(f"{tmp_path}:{ROOT}"), tmp_path, *command)
    line = "dosimeter: pyarrow is not installed: pip install 'dosimeter[analysis]'\n"
    assert (refused.returncode, refused.stderr) == (2, line)


def test_errors_name_every_library_of_an_extra() -> None:
    extras = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    wanted = {
        Requirement(each).name
        for group in extras["optional-dependencies"].values()
        for each in group
    }
    files = [path for package in PACKAGES for path in (ROOT / package).rglob("*.py")]
    nodes = [node for path in files for node in ast.walk(ast.parse(path.read_text()))]
    names = {str(node.module) for node in nodes if isinstance(node, ast.ImportFrom)}
    names |= {a.name for node in nodes if isinstance(node, ast.Import) for a in node.names}
    of_module = metadata.packages_distributions()
    modules = {name.split(".")[0] for name in names}
    ours = {module for module in modules if wanted & {*of_module.get(module, ())}}
    assert ours <= {module for text in EXTRA_MODULES.values() for module in text.split()}
    assert EXTRA_MODULES.keys() <= extras.keys()
