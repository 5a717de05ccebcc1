"""From a question and a seed to a sample: its prompt, its files, and the key to it.

A question is compiled once; a sample is then two streams, one for its variables and one for its
files, and a key computed from what was made."""

from __future__ import annotations

import json
import posixpath
import re
from collections.abc import Callable, Iterator, Mapping, Set
from dataclasses import dataclass, field, replace
from hashlib import sha256
from typing import Any, TypeVar

from generators.errors import TemplateError, TemplateLimitError
from generators.seed import Seed
from generators.stream import Stream
from generators.templates.components import ComponentMaker, compile_component
from generators.templates.components.schema import Given
from generators.templates.components.text_files import draw_tree
from generators.templates.functions.base import OpenFile
from generators.templates.language.placeholders import (
    CONSTANTS,
    Constant,
    Part,
    Scope,
    Text,
    Trace,
    fill_text,
    is_plain,
    parse_text,
    target_name,
    variables_of,
)
from generators.templates.language.template import Component, MadeFile, Question, TemplateFile
from generators.templates.language.values import ValueSet
from generators.templates.language.variables import Variable, draw_values
from generators.templates.scoring.json_edit import JSON_EDIT, complete_edit
from generators.templates.scoring.scorer import Key
from generators.yaml_lines import Place

T = TypeVar("T")
R = TypeVar("R")

VERSION = "2"  # of how samples are drawn: a change of any byte of a sample needs a new one
ATTEMPTS = 20  # at a sample that has a key
ARTIFACTS = "artifacts"  # the same neutral folder in every sandbox

_WRITTEN = ("type", "name", "target_file", "content", "config", "depends_on")
# Keys of a component's content that are numbers, whatever a placeholder makes of them.
_COUNTS = frozenset(
    ("rows", "count", "depth", "breadth", "minimum", "maximum", "min_length", "max_length")
)


@dataclass(frozen=True, slots=True)
class Prepared:
    """One sample of a question."""

    question: Question
    sample: int
    prompt: str
    variables: Mapping[str, str]
    files: tuple[MadeFile, ...]
    key: Key
    before: str  # the expected answer before its functions were computed
    log10_data: float  # log10 of the distinct contents that its files might have had
    redraws: int  # of samples without a key, before this one

    @property
    def qs_id(self) -> str:
        """Question and sample, as folders and keys name them."""
        return f"q{self.question.id}_s{self.sample}"


@dataclass(frozen=True, slots=True)
class ComponentPlan:
    """A component with its texts parsed; its maker where nothing in it is left to fill."""

    component: Component
    target: Text
    content: Any  # the content, each string of it parsed
    config: Any
    maker: ComponentMaker | None


@dataclass(frozen=True, slots=True)
class CompiledQuestion:
    """A question with texts ready to be filled, as ``prepare`` takes it."""

    file: str  # the template's name, which is in every stream's path
    question: Question
    prompt: Text
    expected: Text
    before: Text  # the expected answer with its functions left as written
    read: Text
    paths: tuple[Text, ...]
    plans: tuple[ComponentPlan, ...]
    variables: tuple[Variable, ...] = field(repr=False)

    @property
    def log10_variables(self) -> float:
        """log10 of how many configurations the variables may take; those of one row count once."""
        ordered = sorted(self.variables, key=lambda variable: variable.log10_values)
        return sum({each.group or each.key: each.log10_values for each in ordered}.values())


def compile_question(file: TemplateFile, question: Question) -> CompiledQuestion:
    """The question, its placeholders parsed. Raises TemplateError naming file, line and key."""

    def at(place: Place, make: Callable[[T], R], value: T) -> R:
        try:
            return make(value)
        except TemplateError as error:
            raise TemplateError(f"{file.show_place((*question.place, *place))}: {error}") from error

    def parse(value: str) -> Text:
        return parse_text(value, False, question.values)

    def text(key: str, value: str | None) -> Text:
        return at((key,), parse, value or "")

    def texts(key: str, values: tuple[str, ...]) -> tuple[Text, ...]:
        return tuple(at((key, index), parse, value) for index, value in enumerate(values))

    key = "expected_content" if question.expected_response is None else "expected_response"
    expected = text(key, getattr(question, key))
    prompt, read = text("template", question.template), text("file_to_read", question.file_to_read)
    paths = texts("files_to_check", question.files_to_check) or texts(
        "expected_structure", question.expected_structure
    )
    plans = [
        at(component.place[len(question.place) :], plan_component, component)
        for component in question.components
    ]
    inside = [text for _, texts in plans for text in texts]
    used = [
        variable
        for part in (prompt, read, expected, *paths, *inside)
        for variable in variables_of(part)
    ]
    variables = tuple({variable.key: variable for variable in used}.values())
    return CompiledQuestion(
        file=file.name,
        question=question,
        prompt=prompt,
        expected=expected,
        before=_before(question, getattr(question, key) or "", variables),
        read=read,
        paths=paths,
        plans=tuple(plan for plan, _ in plans),
        variables=variables,
    )


def prepare(
    compiled: CompiledQuestion,
    seed: Seed,
    sample: int = 1,
    artifacts: str = ARTIFACTS,
    attempts: int = ATTEMPTS,
    trace: Trace | None = None,
) -> Prepared:
    """The sample that a seed makes of a question: same seed, same bytes. ``artifacts`` is the
    folder that ``{{artifacts}}`` names; it may be absolute.

    What was drawn may have no key, such as the average of a department in which nobody is: it is
    drawn again, as often as ``attempts`` allow, and recorded. Raises TemplateError, which names
    the question, where there is still none, with what was wrong first. A bound that is struck is
    the template's, and TemplateLimitError is raised at once: another draw would strike it too, and
    what strikes a limit of time on one machine alone would make other bytes there. ``trace``
    receives what each function meets in the files.
    """
    question = compiled.question
    name = f"{compiled.file}: question {question.id}"
    root = seed.child("template", VERSION, compiled.file, question.id)
    first: TemplateError | None = None
    for attempt in range(attempts):
        drawn = root.child("attempt", attempt) if attempt else root
        try:
            return _prepare(compiled, drawn, sample, artifacts, attempt, trace)
        except TemplateLimitError as error:
            raise TemplateLimitError(f"{name}: {error}") from error
        except TemplateError as error:
            first = first or error
    raise TemplateError(f"{name}: {first}") from first


def _prepare(
    compiled: CompiledQuestion,
    root: Seed,
    sample: int,
    artifacts: str,
    redraws: int,
    trace: Trace | None,
) -> Prepared:
    question = compiled.question
    variables = compiled.variables
    values = draw_values(variables, _stream(root, "variables")) if variables else {}
    given = {**values, "artifacts": artifacts, "qs_id": f"q{question.id}_s{sample}"}
    made: dict[str, OpenFile] = {}
    scope = Scope(given, lambda file: _open(file, made), trace)
    paths = tuple([_confined(fill_text(path, scope), artifacts) for path in compiled.paths])
    if question.expected_structure:
        _check_folders(set(paths))
        given["expected_structure"] = draw_tree(paths)
    files, log10_data = _make_files(compiled.plans, scope, root, made, artifacts)
    expected = fill_text(compiled.expected, scope)
    if question.scoring_type == JSON_EDIT:  # its key holds the file as it was
        expected = complete_edit(expected, {file.path: file.data for file in files})
    return Prepared(
        question=question,
        sample=sample,
        prompt=fill_text(compiled.prompt, scope),
        variables=values,
        files=files,
        key=Key(
            question.scoring_type,
            expected=expected,
            file=_confined(fill_text(compiled.read, scope), artifacts),
            paths=paths,
        ),
        before=fill_text(compiled.before, scope),
        log10_data=log10_data,
        redraws=redraws,
    )


def _make_files(
    plans: tuple[ComponentPlan, ...],
    scope: Scope,
    root: Seed,
    made: dict[str, OpenFile],
    artifacts: str,
) -> tuple[tuple[MadeFile, ...], float]:
    """The files of all components, and log10 of what they might have been. ``made`` receives
    each component's own file, under its path and as a target."""
    files: list[MadeFile] = []
    space = 0.0
    taken: set[str] = set()
    for index, plan in enumerate(plans):
        target = _tidy(_confined(fill_text(plan.target, scope), artifacts))
        maker = plan.maker or fit_component(plan, scope)
        fresh = maker.make(_stream(root, "component", index), target)
        if fresh and fresh[0].path in taken:
            raise TemplateError(f"two components make {fresh[0].path}")
        # Distractors may meet clutter of the same name: one of the two suffices.
        kept = tuple(file for file in fresh if file.path not in taken)
        taken.update(file.path for file in kept)
        files += kept
        space += maker.log10_space
        _remember(kept, plan.component.name, len(plans) == 1, made)
    if len(taken) > 1:
        _check_folders(taken)
    return tuple(files), space


def _tidy(path: str) -> str:
    """The path as it is looked up: ``a//./b`` is ``a/b``."""
    return posixpath.normpath(path) if "//" in path or "/." in path or path[:2] == "./" else path


def _check_folders(paths: Set[str]) -> None:
    """Refuse a draw in which one name is that of a file and of a folder with files in it."""
    folders: set[str] = set()
    for path in paths:
        while (path := path.rpartition("/")[0]) and path not in folders:
            folders.add(path)
    for path in sorted(folders & paths):
        raise TemplateError(f"{path} would be a file, and a folder with files in it")


def _stream(root: Seed, *path: str | int) -> Stream:
    return Stream.of_digest(sha256(root.preimage(*path)).digest())


def _remember(
    fresh: tuple[MadeFile, ...], name: str, only: bool, made: dict[str, OpenFile]
) -> None:
    if not fresh:
        return
    main = OpenFile(fresh[0].path, fresh[0].data)
    made[main.path] = main
    if name:
        made[f"TARGET_FILE[{name}]"] = main
    if only or "TARGET_FILE" not in made:
        made["TARGET_FILE"] = main
    for file in fresh[1:]:
        made[file.path] = OpenFile(file.path, file.data)


def _open(file: str, made: Mapping[str, OpenFile]) -> OpenFile:
    opened = made.get(file) or made.get(_tidy(file))
    if opened is not None:
        return opened
    name = target_name(file)
    if name is not None:
        what = f"component {name!r}" if name else "sandbox_setup"
        raise TemplateError(f"{file}: there is no {what} that makes a file before it is asked for")
    known = ", ".join(path for path in made if not path.startswith("TARGET_FILE")) or "none"
    raise TemplateError(f"{file[:120]}: no such file in the sandbox; its files are: {known[:400]}")


def _confined(path: str, artifacts: str = ARTIFACTS) -> str:
    """The path, if it stays below the sandbox's root; one in ``artifacts`` may be absolute."""
    inside = path == artifacts or path.startswith(f"{artifacts}/")
    inner = path[len(artifacts) :] if inside else path
    if (
        (".." in inner and ".." in inner.split("/"))
        or (inner.startswith(("/", "~")) and not inside)
        or "\0" in inner
        or "\\" in inner
    ):
        raise TemplateError(
            f"{path[:120]!r} leads out of the sandbox: start paths with {{{{artifacts}}}}/ and "
            "use no .."
        )
    return path


# -- components -------------------------------------------------------------------------------


def plan_component(component: Component) -> tuple[ComponentPlan, list[Text]]:
    """The plan of a component, and all texts in it."""
    values = component.values
    target = parse_text(component.target_file, False, values)
    content, config = (_parse_value(part, values) for part in (component.content, component.config))
    texts = [*_texts_in(content), *_texts_in(config)]
    maker = compile_component(component) if all(map(is_plain, texts)) else None
    return ComponentPlan(component, target, content, config, maker), [target, *texts]


def fit_component(plan: ComponentPlan, scope: Scope) -> ComponentMaker:
    """The maker of one sample, of a component that has placeholders in it."""
    content, config = _fill_value(plan.content, scope), _fill_value(plan.config, scope)
    return compile_component(replace(plan.component, content=content, config=config))


def _parse_value(value: Any, values: ValueSet) -> Any:
    if isinstance(value, str):
        return parse_text(value, True, values)
    if isinstance(value, Mapping):
        return {_key(key, values): _parse_value(inner, values) for key, inner in value.items()}
    if isinstance(value, list | tuple):
        return [_parse_value(inner, values) for inner in value]
    return value


def _key(key: Any, values: ValueSet) -> Any:
    """A mapping's key: parsed where it has placeholders, since columns and fields may be drawn."""
    parsed = parse_text(key, False, values) if isinstance(key, str) else ()
    return key if is_plain(parsed) else parsed


def _fill_value(value: Any, scope: Scope, name: str = "") -> Any:
    if isinstance(value, tuple):
        filled = fill_text(value, scope)
        if name in _COUNTS:
            return _number(filled)
        return filled if is_plain(value) else Given(filled)  # a value, not a keyword
    if isinstance(value, dict):
        return {
            (fill_text(key, scope) if isinstance(key, tuple) else key): _fill_value(
                inner, scope, key if isinstance(key, str) else ""
            )
            for key, inner in value.items()
        }
    if isinstance(value, list):
        return [_fill_value(inner, scope) for inner in value]
    return value


def _number(text: str) -> Any:
    """The number of a text; the text itself if it is none, for the component to refuse."""
    try:
        value = json.loads(text)
    except ValueError:
        return text
    return value if isinstance(value, int | float) else text


def _texts_in(value: Any) -> Iterator[Text]:
    if isinstance(value, tuple):
        yield value
    elif isinstance(value, dict):
        for key, inner in value.items():
            yield from _texts_in(key)
            yield from _texts_in(inner)
    elif isinstance(value, list):
        for inner in value:
            yield from _texts_in(inner)


# -- records of a precheck file -----------------------------------------------------------------


def _before(question: Question, written: str, variables: tuple[Variable, ...]) -> Text:
    """The expected answer with nothing to fill but its variables: functions stay as written."""
    parts: dict[str, Part] = {f"{{{{{variable.key}}}}}": variable for variable in variables}
    for variable in variables:
        if variable.key.endswith((":integer", ":default")):  # which may be left out
            parts[f"{{{{{variable.key.rpartition(':')[0]}}}}}"] = variable
    for name in CONSTANTS:
        if name != "expected_structure" or question.expected_structure:
            parts[f"{{{{{name}}}}}"] = Constant(name)
    pieces = re.split(f"({'|'.join(map(re.escape, parts))})", written)
    return tuple(parts.get(piece, piece) for piece in pieces if piece)


def written_id(question: str) -> int | str:
    """The id of a question as it stands in the files of a run folder."""
    return int(question) if question.isdecimal() else question


def precheck_record(prepared: Prepared) -> dict[str, Any]:
    """The sample as ``precheck.jsonl`` has it, one a line; see ``docs/template-run.md``."""
    question, key = prepared.question, prepared.key
    record: dict[str, Any] = {
        "scoring_type": question.scoring_type,
        "question_id": written_id(question.id),
        "sample_number": prepared.sample,
        "template": question.template,
        "substituted_question": prepared.prompt,
        **prepared.variables,
    }
    if prepared.redraws:
        record["redraws"] = prepared.redraws
    if question.components:
        record["sandbox_components"] = [
            {key: getattr(component, key) for key in _WRITTEN}
            | {"depends_on": list(component.depends_on)}
            for component in question.components
        ]
    if key.file:
        record |= {"file_to_read": key.file, "expected_content": key.expected}
        record["expected_content_before_template_functions"] = prepared.before
    if question.files_to_check:
        record["files_to_check"] = list(key.paths)
    if question.expected_structure:
        record["expected_paths"] = list(key.paths)
    if question.expected_response is not None:
        record["expected_response"] = key.expected
        record["expected_response_before_template_functions"] = prepared.before
    return record
