"""A dressed family: a built-in family that shows itself under a dressing's prompt and names."""

from __future__ import annotations

import hashlib
import json
import re
import sqlite3
from collections.abc import Callable, Iterable, Sequence
from contextlib import closing
from dataclasses import dataclass, fields, replace
from functools import partial
from itertools import chain
from pathlib import PurePosixPath
from typing import TYPE_CHECKING, Any

from generators.attackers import Attacker, Files, NoisySolver
from generators.catalog import INSTALLED, Catalog
from generators.dressings.dressing import Dressing, Faults, is_dressing, read_dressing, refuse
from generators.dressings.renames import TABLES, Renames, Table
from generators.errors import nearest
from generators.family import Drawn, FamilyOfParts, InputFiles, read_part
from generators.seed import Streams

if TYPE_CHECKING:
    from generators.templates.family import TemplateFamily

_DIGEST_DIGITS = 16


@dataclass(frozen=True, slots=True, eq=False, kw_only=True)
class DressedFamily(FamilyOfParts[Any]):
    """The family of a dressing. Truth, rubric, key and guesses are the base family's, and so are
    the programs, which run on the files under their first names."""

    dressing: Dressing

    def solver(self) -> str:
        """The base family's solver behind a start that gives the files their first names."""
        back, solver = self.dressing.renames.back(), self.dressing.base.solver()
        return f"{read_part(__package__, 'renames.py')}\n\nrun_solver({back!r}, {solver!r})\n"

    def attackers(self) -> tuple[Attacker, ...]:
        """The base family's shortcuts."""
        made = self.dressing.base.attackers()
        return tuple(replace(each, attack=partial(self._on_base, each.attack)) for each in made)

    def noisy_solvers(self) -> tuple[NoisySolver, ...]:
        """The base family's solvers of falling skill."""
        made = self.dressing.base.noisy_solvers()
        return tuple(replace(each, solve=partial(self._on_base, each.solve)) for each in made)

    def _on_base(self, program: Callable[..., Any], files: Files, *draws: Any) -> Any:
        back = self.dressing.renames.back()
        return program(dict(_renamed(back, path, data) for path, data in files.items()), *draws)

    def chosen(self, named: Sequence[str] | None) -> tuple[str, ...]:
        """The named difficulties, or all. Raises GeneratorError for an unknown one."""
        for difficulty in named or ():
            self.parameters(difficulty)
        return tuple(dict.fromkeys(named or self.by_difficulty))

    def is_shown_by(self, prompt: str) -> bool:
        """Report if a prompt is that of an instance of this family."""
        texts = re.split(r"\{parameters[^{}]*\}", self.prompt)
        return all(text.replace("{{", "{").replace("}}", "}") in prompt for text in texts)


def dressed_family(file_name: str, text: str) -> DressedFamily:
    """The family of a dressing's file. Raises GeneratorError with all that is wrong with it."""
    from generators.templates.family import family_name

    dressing = read_dressing(file_name, text)
    base, digest = dressing.base, hashlib.sha256(text.encode()).hexdigest()
    stem = PurePosixPath(file_name).name
    name = stem if stem.startswith(f"{base.name}_") else f"{base.name}_{stem}"
    changes: dict[str, Any] = {
        "name": family_name(name),
        "version": f"{base.version}.{digest[:_DIGEST_DIGITS]}",
        "summary": f"{base.summary}; in the dressing {stem}",
        "draw": partial(_draw, dressing),
        "prompt": dressing.prompt,
    }
    parts = {each.name: getattr(base, each.name) for each in fields(base)}
    return DressedFamily(**parts | changes, dressing=dressing)


def dressed_families(sources: Iterable[tuple[str, str, str]]) -> tuple[DressedFamily, ...]:
    """The families of the dressings among task files, given as ``catalog_with`` takes them."""
    return tuple(dressed_family(name, text) for name, text, _ in sources if is_dressing(text))


def task_family(file_name: str, text: str, values: str = "") -> DressedFamily | TemplateFamily:
    """The family of a task file: a dressing, or a template with the text of its values file. Raises
    GeneratorError."""
    from generators.templates.family import template_family

    if is_dressing(text):
        return dressed_family(file_name, text)
    return template_family(file_name, text, values)


def catalog_with(sources: Iterable[tuple[str, str, str]]) -> Catalog:
    """The catalogue of a study: built-in and installed families, and those of its task files, each
    given as file name, text, and text of its values file. Raises GeneratorError."""
    return INSTALLED.with_templates(task_family(*source) for source in sources)


def _draw(dressing: Dressing, parameters: Any, streams: Streams) -> Drawn:
    """The base family's files and truth of a seed, the files under their new names. Raises
    GeneratorError for names that this instance's files cannot bear."""
    drawn = dressing.base.draw(parameters, streams)
    files, paths = InputFiles(), {}
    try:
        for asset in drawn.files.assets:
            path, data = _renamed(dressing.renames, asset.path, asset.data)
            paths[asset.path] = path
            files.assets.append(replace(asset, path=path, data=data))
        refuse(dressing.document, _drawn_faults(dressing, drawn, files))
    except sqlite3.Error as error:
        refuse(dressing.document, [(("columns",), f"no names for a database: {error}")])
    made = {asset.path: asset.digest for asset in files.assets}
    for name, digest in drawn.files.digests:
        path, mark, what = name.partition("#")
        new = paths[path]
        files.digests.append((f"{new}{mark}{what}", digest if mark else made[new]))
    return replace(drawn, files=files)


def _renamed(renames: Renames, path: str, data: bytes) -> tuple[str, bytes]:
    return renames.path(path), renames.content(path, data, _write_tables)


def _write_tables(tables: Sequence[Table]) -> bytes:
    """The database of these tables, the same bytes everywhere."""
    from generators.templates.components.sqlite.database import write_database

    return write_database([(name, made, [row[1:] for row in rows]) for name, made, rows in tables])


def _drawn_faults(dressing: Dressing, drawn: Drawn, files: InputFiles) -> Faults:
    """Yield the names that the files of an instance cannot bear."""
    renames, back = dressing.renames, dressing.renames.back()
    assets = drawn.files.assets
    for old in renames.files:
        one = replace(renames, files={old: renames.files[old]})
        if all(one.path(asset.path) == asset.path for asset in assets):
            known = nearest(old, [asset.path for asset in assets])
            yield ("files", old), f"the family has no such file; {known}"
    columns = sorted(frozenset().union(*(names_in(each.path, each.data) for each in assets)))
    for old in sorted({*renames.columns} - {*columns}):
        yield ("columns", old), f"the family has no such column or table; {nearest(old, columns)}"
    answer = json.dumps(dressing.base.key(drawn.truth), ensure_ascii=False)
    for word in (*renames.words, *renames.words.values()):
        if re.search(rf"\b{re.escape(word)}\b", answer):
            yield ("words",), f"{word!r} stands in answers, which stay as they are; leave it out"
    for old_file, new_file in zip(assets, files.assets, strict=True):
        path, data = _renamed(back, new_file.path, new_file.data)
        names = [PurePosixPath(each).name for each in (old_file.path, new_file.path)]
        if path != old_file.path:
            yield ("files",), f"{new_file.path!r} would be two files; give each its own name"
        elif data != old_file.data:
            key = "columns" if path.endswith(TABLES) else "words"
            yield (key,), f"a new name stands in {path!r} already; give another"
        elif len({*names}) > 1 and f'"{names[0]}"' in answer:
            yield ("files",), f"answers name {names[0]!r}: change its folder, and not its name"


def names_in(path: str, data: bytes) -> frozenset[str]:
    """The names of the columns of a CSV table, or of a database's tables and their columns."""
    if path.endswith(".csv"):
        return frozenset(data.partition(b"\n")[0].decode().split(","))
    if not path.endswith(".sqlite"):
        return frozenset()
    with closing(sqlite3.connect(":memory:")) as database:
        database.deserialize(data)
        query = "SELECT m.name, c.name FROM sqlite_master m, pragma_table_info(m.name) c"
        return frozenset(chain(*database.execute(query)))
