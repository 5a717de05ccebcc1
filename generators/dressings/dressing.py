"""A dressing as its file states it, checked against the family that it dresses."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import PurePosixPath
from string import Formatter
from typing import Any

from generators.catalog import Catalog
from generators.dressings.renames import Renames
from generators.errors import GeneratorError, nearest, unknown
from generators.family import FamilyOfParts
from generators.yaml_lines import Place, YamlDocument, YamlLimits, parse_yaml

_LIMITS = YamlLimits("a dressing", 1_000_000)
_TEXTS = {
    "dresses": (r"\w+@\w+", "a family at its version, such as hubble_constant@3,"),
    "prompt": (r"(?s).*\S.*", "the text of the task"),
}
_PART = r"[A-Za-z0-9*][A-Za-z0-9*._-]*"
# Of the new names under a key: their form, and a description of it.
_NAMES = {
    "files": (rf"{_PART}(/{_PART})*", "a path in the work folder, such as sky/plates.csv,"),
    "columns": (r"[A-Za-z][\w ()\[\]/.-]*", "letters, digits and units, such as mass [kg],"),
    "words": (r"\w+", "one word"),
}

Faults = Iterator[tuple[Place, str]]


@dataclass(frozen=True, slots=True)
class Dressing:
    """Another surface of a built-in family: its prompt, and other names of files, of columns and
    of words in texts."""

    document: YamlDocument
    text: str  # of the file
    base: FamilyOfParts[Any]
    prompt: str
    renames: Renames

    @property
    def dresses(self) -> str:
        """The family that it dresses, at its version."""
        return f"{self.base.name}@{self.base.version}"


def is_dressing(text: str) -> bool:
    """Report if the text of a task file is a dressing, and no template."""
    return re.search(r"^\ufeff?dresses\s*:", text, re.M) is not None


def read_dressing(file_name: str, text: str) -> Dressing:
    """The dressing of a file's text. Raises GeneratorError with everything that is wrong, one a
    line: file, line, key, what is wrong and what would be right."""
    document = parse_yaml(text.encode("utf-8", "replace"), file_name, _LIMITS)
    refuse(document, (((), fault.what) for fault in document.faults))
    refuse(document, _form_faults(document.value))
    value = document.value
    known, name = Catalog.built_in(), value["dresses"]
    if name not in known.entries():
        refuse(document, [(("dresses",), str(unknown("family", name, known.entries())))])
    base: Any = known.family(name)
    renames = Renames(*(value.get(key) or {} for key in _NAMES))
    dressing = Dressing(document, text, base, value["prompt"], renames)
    refuse(document, _prompt_faults(dressing))
    return dressing


def refuse(document: YamlDocument, faults: Iterable[tuple[Place, str]]) -> None:
    """Raise GeneratorError with the faults at places of a file, if there are any."""
    if lines := [f"{document.place(place)}: {what}" for place, what in faults]:
        raise GeneratorError("\n".join(lines))


def _form_faults(value: Any) -> Faults:
    if not isinstance(value, dict):
        yield (), "a mapping that starts with `dresses:` is right"
        return
    known = (*_TEXTS, *_NAMES)
    for key in value:
        if key not in known:
            yield (key,), f"unknown key; {nearest(str(key), known)}"
    for key, (pattern, right) in _TEXTS.items():
        if not isinstance(text := value.get(key), str) or not re.fullmatch(pattern, text):
            yield (key,), f"the key {key!r} is missing or wrong: {right} is right"
    for key, (pattern, right) in _NAMES.items():
        names = value.get(key) or {}
        if not isinstance(names, dict) or not all(isinstance(new, str) for new in names.values()):
            yield (key,), "old names and new ones, each a text, are right"
            continue
        for old, new in names.items():
            if not re.fullmatch(pattern, new, re.ASCII):
                yield (key, old), f"{new!r}: {right} is right"
            elif other := next((o for o, n in names.items() if n == new and o != old), None):
                yield (key, old), f"{new!r} is the new name of {other!r} too; give each its own"
            elif key == "files":
                yield from (((key, old), what) for what in _path_faults(old, new))


def _path_faults(old: str, new: str) -> Iterator[str]:
    if old.count("*") > 1 or old.count("*") != new.count("*"):
        yield f"{new!r}: one * in both names, or none in either, is right"
    if (ending := PurePosixPath(old).suffix) != PurePosixPath(new).suffix:
        yield f"{new!r}: another ending; {ending or 'none'} is right"
    if new == "answer.json":
        yield f"{new!r} is the file of an answer; give another name"


def _prompt_faults(dressing: Dressing) -> Faults:
    base, prompt, renames = dressing.base, dressing.prompt, dressing.renames
    try:
        stated, wanted = _fields(prompt), _fields(base.prompt)
        for parameters in base.by_difficulty.values() if stated == wanted else ():
            prompt.format(parameters=parameters)
    except ValueError as error:
        yield ("prompt",), f"{error}: write {{{{ and }}}} for braces that hold no field"
        return
    for name in sorted(wanted - stated):
        yield ("prompt",), f"the field {{{name}}} is missing: a dressing leaves nothing out"
    for name in sorted(stated - wanted):
        yield ("prompt",), f"unknown field {{{name}}}; {nearest(name, sorted(wanted))}"
    if _blocks(prompt, renames) != (blocks := _blocks(base.prompt, renames)):
        yield ("prompt",), f"the answer block is another; the family's is {' and '.join(blocks)}"
    if "`answer.json`" not in prompt:
        yield ("prompt",), "`answer.json` is missing, the file that may hold the answer instead"
    for old, new in renames.files.items():
        if new.partition("*")[0] not in prompt:
            yield ("files", old), f"{new!r} is not in the prompt, which must name it"
        if "*" not in old and old in prompt.replace(new, ""):
            yield ("prompt",), f"{old!r} stands in it, which is {new!r} here"
    for old, new in renames.columns.items():
        if new not in prompt:
            yield ("columns", old), f"{new!r} is not in the prompt, which must name it"


def _fields(prompt: str) -> set[str]:
    """The names of a prompt's fields. Raises ValueError for braces that do not match."""
    return {name for _, name, _, _ in Formatter().parse(prompt) if name is not None}


def _blocks(prompt: str, renames: Renames) -> list[str]:
    """The answer blocks that a prompt shows, each on one line, with the new names of the files and
    columns that they refer to."""
    found = re.findall(r"^<answer>$.*?^</answer>$", prompt, re.M | re.S)
    for quotes, names in (('""', renames.files), ("<>", renames.columns)):
        for old, new in names.items():
            found = [block.replace(old.join(quotes), new.join(quotes)) for block in found]
    return [" ".join(block.split()) for block in found]
