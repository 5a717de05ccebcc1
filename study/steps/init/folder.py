"""The folder of a new study, written whole or not at all."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from contextlib import ExitStack, suppress
from pathlib import Path
from string import Template

from registry.provenance import utc_now
from registry.sealing import write_identity
from study.errors import StudyError
from study.protocol.protocol import FILE_NAME, PRICES_NAME, read_protocol
from study.protocol.schema import SCHEMA_NAME
from study.protocol.yaml import quoted
from study.steps.init.items import guess_pool

_FOUND = 3.3  # gap × √seeds that `dosimeter power` finds with .8, questions of four choices
_RELIED = ", judges: {judge-1: {min_sensitivity: 0.9, min_specificity: 0.9}}"
_ELSEWHERE = "give another folder: `dosimeter init FOLDER`"


def init_study(folder: Path, protocol: str | None = None) -> Path:
    """Write a new study's folder: ``study.yaml`` of this text, a fresh key, a .gitignore for both
    secrets and store. Without a text, a study of two waves with its price file. Raises StudyError
    if the folder holds one of these files."""
    if protocol is not None:
        return _write_folder(folder, protocol, {})
    return _create(folder, _fill_template("new_study.yaml", name=quoted(_study_name(folder))))


def study_of_items(folder: Path, pool: Path) -> tuple[Path, tuple[str, ...]]:
    """Write a new study's folder for a file of given items, or a data set of the Hub, all of which
    it draws, with a local server's models. Return its path, and examples of what a model will see.
    Raises StudyError as ``init_study``, and for a file that makes no pool."""
    guessed, here = guess_pool(pool), folder.resolve()
    if not (seeds := len(guessed.groups) // 2):
        raise StudyError(f"{pool}: one item or group makes no two arms")
    judged = guessed.source.columns.score == "judge"
    text = _fill_template(
        "new_items.yaml",
        name=quoted(_study_name(folder)),
        tasks=guessed.lines(here),
        seeds=seeds,
        judges=_fill_template("new_judge.yaml") if judged else "",
        relied=_RELIED if judged else "",
        gap=min(0.5, math.ceil(20 * _FOUND / math.sqrt(seeds)) / 20),
    )
    path = _create(folder, text)
    if (path_of_pool := guessed.source.path).is_relative_to(here):
        _ignore(folder / ".gitignore", (str(path_of_pool.relative_to(here)),))
    return path, tuple(guessed.examples())


def _create(folder: Path, text: str) -> Path:
    """Write the folder of a new study, with its price file and the schema for editors. Either all
    of it is written, or nothing is left. Raises StudyError if the folder holds one of these
    files."""
    from study.protocol.schema import study_schema  # which no other command needs

    schema = json.dumps(study_schema(), indent=2, ensure_ascii=False) + "\n"
    prices = _fill_template("new_prices.yaml", today=utc_now()[:10])
    return _write_folder(folder, text, {PRICES_NAME: prices, SCHEMA_NAME: schema})


def _write_folder(folder: Path, protocol: str, files: Mapping[str, str]) -> Path:
    """Write the folder. The protocol, which makes a folder a study, is written last; whatever stops
    the writing, all that it has made is removed."""
    path = folder / FILE_NAME
    if path.exists():
        raise StudyError(f"{path}: a study is there already; {_ELSEWHERE}")
    for name in files:
        if (folder / name).exists():
            raise StudyError(f"{folder / name}: is there already; move it away")
    key, draft = folder / "keys" / "study.txt", folder / f".{FILE_NAME}.new"
    try:
        with ExitStack() as undo:
            for place in (*reversed(folder.parents), folder, key.parent):
                if not place.exists():
                    place.mkdir(exist_ok=True)
                    undo.callback(_remove, place)
            for made in (key, folder / ".gitignore"):
                if not made.exists():
                    undo.callback(_remove, made)
            if not key.exists():
                write_identity(key)
            _ignore(folder / ".gitignore", ("keys/", "store/", ".sweep-*.lock", ".grade.lock"))
            for made, text in (*((folder / n, t) for n, t in files.items()), (draft, protocol)):
                undo.callback(_remove, made)
                made.write_text(text, encoding="utf-8")
            read_protocol(folder, draft.name)  # a protocol that does not hold makes no study
            draft.replace(path)
            undo.pop_all()
    except OSError as error:
        raise StudyError(f"{folder}: {error.strerror}; give a folder that you may write") from error
    return path


def _remove(path: Path) -> None:
    """Remove a file or an empty folder, if it is there."""
    with suppress(OSError):
        path.rmdir() if path.is_dir() else path.unlink()


def _ignore(path: Path, names: tuple[str, ...]) -> None:
    """Add names to a .gitignore that lacks them. Raises OSError."""
    old = path.read_text(encoding="utf-8") if path.exists() else ""
    if missing := [name for name in names if name not in old.splitlines()]:
        start = old if not old or old.endswith("\n") else old + "\n"
        draft = path.with_name(f"{path.name}.new")
        draft.write_text(start + "".join(f"{name}\n" for name in missing), encoding="utf-8")
        draft.replace(path)


def _study_name(folder: Path) -> str:
    """Return the name of a new study by its folder."""
    name = "".join(c if c.isalnum() else "-" for c in folder.resolve().name.lower()).strip("-")
    return name[:63] if name and name.isascii() else "my-study"


def _fill_template(file: str, /, **values: object) -> str:
    """Return the text of a template that lies beside this module, with values for its names."""
    return Template(Path(__file__).with_name(file).read_text(encoding="utf-8")).substitute(values)
