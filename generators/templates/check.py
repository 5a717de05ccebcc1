"""A template file, checked whole before anything runs: every error at once, and how easily its
answers are guessed."""

from __future__ import annotations

import hashlib
import json
import re
from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import asdict, dataclass, field, replace
from time import process_time
from typing import Any

from generators.errors import TemplateError, TemplateLimitError, nearest
from generators.seed import Seed
from generators.templates.family import family_name
from generators.templates.language.diagnostics import Problem, foremost, place_in
from generators.templates.language.keys import CONTENT_KEYS
from generators.templates.language.parse import ParsedTemplate, read_template
from generators.templates.language.template import Component, Question, TemplateFile, others_of
from generators.templates.prepare import Prepared, compile_question, prepare
from generators.templates.proof import FEWEST, Proof, interval
from generators.templates.question_texts import compile_once, complaints, texts_of
from generators.templates.scoring.json_edit import JSON_EDIT, complete_edit
from generators.yaml_lines import Place

SAMPLES = 200  # that are simulated of each question
GUESSABLE = 0.15  # share of the most frequent answer above which a question is warned of
MOST_SIMULATED = 256 << 20  # bytes of files made for one question
MOST_SECONDS = 10.0  # of CPU for one question, the first sample let be
MOST_SECONDS_IN_ALL = 60.0  # and for a file; of questions after that one sample is made
_ENOUGH_FAILURES = 12  # samples without a key; where none ever had one, a quarter of it
_JSON_NAMES = {"id": "question_id", "distinct": "distinct_answers"}
_JSON_NAMES |= {"most_frequent": "most_frequent_share"}
_JSON = ("jsonmatch", "readfile_jsonmatch")
_VARYING = re.compile(r"[0-9]+|'[^']*'|on [^ ]+:")
_COMPONENT_KEYS = ("content", "config", "type")


@dataclass(frozen=True, slots=True)
class QuestionReport:
    """One question: how many instances it has, and how often a constant guess is right.

    Sizes are log10 of distinct configurations (the paper, section 5): of the variables, and of
    the contents of its files. The last four are of simulated samples; the shares are None if
    there are fewer than 20.
    """

    id: str
    scoring_type: str
    samples: int
    log10_variables: float | None = None
    log10_data: float | None = None
    simulated: int = 0
    distinct: int | None = None  # answers among them
    most_frequent: float | None = None  # share of the answer that came most often
    constant_guess: float | None = None  # right answers of the best guess of the other half
    key_in_prompt: bool = False  # in every sample
    faults: tuple[str, ...] = ()  # errors in it; a question without any is proved

    @property
    def log10_instances(self) -> float | None:
        """log10 of the distinct instances; None if it is not known."""
        if self.log10_variables is None or self.log10_data is None:
            return None
        return self.log10_variables + self.log10_data

    def as_json(self) -> dict[str, Any]:
        """The value as plain JSON."""
        values = {_JSON_NAMES.get(name, name): _rounded(x) for name, x in asdict(self).items()}
        faults = values.pop("faults")
        return {**values, "proved": not faults}


@dataclass(frozen=True, slots=True)
class TemplateReport:
    """All that is wrong with a template file, by line, and what is known of its questions."""

    path: str
    digest: str
    errors: tuple[Problem, ...]
    warnings: tuple[Problem, ...]
    questions: tuple[QuestionReport, ...]

    @property
    def holds(self) -> bool:
        """True if the items meet the check."""
        return not self.errors

    @property
    def log10_tests(self) -> float | None:
        """log10 of the distinct tests: of all samples of all questions together."""
        sizes = [question.log10_instances for question in self.questions]
        if any(size is None for size in sizes):
            return None
        return sum(
            question.samples * (size or 0.0)
            for question, size in zip(self.questions, sizes, strict=True)
        )

    def as_json(self) -> dict[str, Any]:
        """The value as plain JSON."""
        return {
            "file": self.path,
            "digest": self.digest,
            "holds": self.holds,
            "errors": [_problem_json(problem) for problem in self.errors],
            "warnings": [_problem_json(problem) for problem in self.warnings],
            "log10_tests": _rounded(self.log10_tests),
            "questions": [question.as_json() for question in self.questions],
        }


def _problem_json(problem: Problem) -> dict[str, Any]:
    written = {"line": problem.line or None, "key": problem.key, "what": problem.what}
    return {**written, "file": problem.file} if problem.file else written


def _rounded(value: Any) -> Any:
    return round(value, 4) if isinstance(value, float) else value


def check_text(
    text: str | bytes, path: str, chosen: Collection[str] | None = None, values: str = ""
) -> TemplateReport:
    """The report on a template file's text, which names the file ``path``; of the chosen questions,
    or of all. ``values`` is the text of the values file that it names."""
    reading = _reading(text, path, values)
    finder, wanted = _finder_of(reading, chosen)
    questions = tuple(finder.proved(question) for question in wanted)
    finder.report_time()
    return TemplateReport(
        path,
        reading.file.digest,
        foremost(finder.errors),
        tuple(sorted(finder.warnings, key=lambda problem: problem.line)),
        questions,
    )


def check_form(
    text: str | bytes, path: str, values: str = "", chosen: Collection[str] | None = None
) -> None:
    """Check all that can be checked without samples, of the chosen questions or of all. Raises
    TemplateError with every error, a line each, as ``check_text`` reports them."""
    finder, wanted = _finder_of(_reading(text, path, values), chosen)
    for question in wanted:
        finder.texts(question)
    if not finder.errors:
        return
    what = "\n".join(error.text(path) for error in foremost(finder.errors))
    right = [question.id for question in wanted if question.place not in finder.faulty]
    single = all(place[:1] == ("tests",) and len(place) > 1 for place in finder.faulty)
    raise TemplateError(what + (others_of(right) if single else ""))


def place_error(file: TemplateFile, question: Question, error: TemplateError) -> TemplateError:
    """The error of a sample, which begins with file, line and key."""
    place, what = _inside(file, question, _inner(str(error)))
    return TemplateError(Problem(file.line(place), place, what).text(file.path))


def _reading(text: str | bytes, path: str, values: str) -> ParsedTemplate:
    reading = read_template(text, path, values)
    try:
        family_name(path)
    except TemplateError as error:
        problem = Problem(1, (), str(error).removeprefix(f"{path}: "))
        reading = replace(reading, errors=(problem, *reading.errors))
    return reading


def _finder_of(
    reading: ParsedTemplate, chosen: Collection[str] | None
) -> tuple[_Finder, tuple[Question, ...]]:
    """The finder of a file, with what its reading found, and the chosen questions; errors in other
    questions are let be."""
    file = reading.file
    strata = None if chosen is None else {id for named in chosen for id in file.strata_of(named)}
    wanted = tuple(q for q in file.questions if strata is None or q.id in strata)
    others = {question.place for question in file.questions} - {q.place for q in wanted}

    def of_wanted(problems: Iterable[Problem]) -> list[Problem]:
        return [problem for problem in problems if problem.place[:2] not in others]

    errors = dict.fromkeys(of_wanted(reading.errors))
    finder = _Finder(file, errors, of_wanted(reading.warnings), reading.whole)
    known = [question.id for question in file.questions]
    for missing in sorted((strata or set()) - set(known)):
        finder.error((), f"no question {missing!r}; {nearest(missing, known)}")
    return finder, wanted


@dataclass(slots=True)
class _Finder:
    file: TemplateFile
    errors: dict[Problem, None]
    warnings: list[Problem]
    whole: bool = True  # the file, so that samples can be made
    left: float = field(init=False)  # seconds of CPU
    hurried: int = 0  # questions that had less than their time
    faulty: set[Place] = field(init=False)  # the questions that have errors

    def __post_init__(self) -> None:
        self.left = MOST_SECONDS_IN_ALL
        self.faulty = {problem.place[:2] for problem in self.errors}

    def error(self, place: Place, what: str) -> None:
        place = self.written(place)
        self.errors[Problem(self.file.line(place), place, what)] = None
        self.faulty.add(place[:2])

    def written(self, place: Place) -> Place:
        """The place in the file: of a key that was made of another, that other."""
        made = {"expected_content": "edit_verification", "file_to_read": "modified_file"}
        if place and place[-1] in made and place not in self.file.lines:
            other = (*place[:-1], made[str(place[-1])])
            return other if other in self.file.lines else place
        return place

    def warn(self, place: Place, what: str) -> None:
        place = self.written(place)
        self.warnings.append(Problem(self.file.line(place), place, what))

    def proved(self, question: Question) -> QuestionReport:
        """The report on a question, with the errors in it."""
        report = self.question(question)
        faults = [error.what for error in self.errors if error.place[:2] == question.place[:2]]
        return replace(report, faults=tuple(faults))

    def question(self, question: Question) -> QuestionReport:
        self.texts(question)
        bare = QuestionReport(question.id, question.scoring_type, question.samples)
        if question.place in self.faulty or not self.whole:
            return bare
        try:
            return self.simulation(question, bare)
        except TemplateError as error:
            self.error(question.place, _inner(str(error)))
            return bare

    # -- checks of the texts alone --------------------------------------------------------------

    def texts(self, question: Question) -> None:
        """Check the placeholders and components."""
        structured = bool(question.expected_structure)
        for place, text, lorem in texts_of(question):
            for what in complaints(text, lorem, structured, question.values):
                self.error(place, what)
        for component in question.components:
            self.component(component)

    def component(self, component: Component) -> None:
        """Compile a component, its variables drawn once. Those with functions in them wait for
        the simulation, since they need files of other components."""
        if component.type not in CONTENT_KEYS or not component.content:
            return
        try:
            known = CONTENT_KEYS[component.type]  # others were reported when the file was read
            content = {key: value for key, value in component.content.items() if key in known}
            compile_once(replace(component, content=content, target_file=""))
        except TemplateError as error:
            known_places = {problem.place for problem in self.errors}
            for complaint in str(error).splitlines():
                place, what = place_in(complaint, *_COMPONENT_KEYS)
                if (*component.place, *place) not in known_places:
                    known_places.add((*component.place, *place))
                    self.error((*component.place, *place), what)

    # -- checks of samples ----------------------------------------------------------------------

    def simulation(self, question: Question, bare: QuestionReport) -> QuestionReport:
        compiled = compile_question(self.file, question)
        root = Seed(hashlib.sha256(f"template check {self.file.digest}".encode()).digest())
        made: list[tuple[str, float]] = []
        failed: dict[str, list[str]] = {}  # by what they share: paths and values differ
        faults: Counter[str] = Counter()
        size = tried = 0
        failures = 0
        proof = Proof(question, tuple(texts_of(question)), _answer_place(question))
        begun = process_time()
        end = begun + min(MOST_SECONDS, self.left)
        while tried < SAMPLES and size <= MOST_SIMULATED and failures < _ENOUGH_FAILURES:
            if tried and process_time() > end:
                break
            tried += 1
            proof.begin()
            try:
                seed = root.child(question.id, tried)
                sample = prepare(compiled, seed, tried, attempts=1, trace=proof.trace)
            except TemplateLimitError as error:
                where, what = _inside(self.file, question, _inner(str(error)))
                self.error(where, f"{what} (in sample {tried}, and no other is tried)")
                break
            except TemplateError as error:
                what = _inner(str(error))
                failed.setdefault(_VARYING.sub("#", what), []).append(what)
                failures += 1 if made else 4
                continue
            size += sum(len(file.data) for file in sample.files)
            made.append((_answer(sample), sample.log10_data))
            proof.add(sample, made[-1][0])
            faults.update(_faults(sample))
        self.left -= process_time() - begun
        hurried = tried < SAMPLES and self.left <= 0
        self.hurried += hurried
        struck = question.place in self.faulty
        self.report_failures(question, failed, faults, tried)
        if tried < SAMPLES and made and not (failed or hurried or struck):
            self.warn(
                question.place,
                f"only {tried} of {SAMPLES} samples were simulated: they are slow, or large",
            )
        if made or not struck:
            proof.report(self.error, self.warn)
        if not made:
            return bare
        answers = [answer for answer, _ in made]
        enough = len(made) >= min(FEWEST, SAMPLES)
        report = QuestionReport(
            question.id,
            question.scoring_type,
            question.samples,
            log10_variables=compiled.log10_variables,
            log10_data=sum(data for _, data in made) / len(made),
            simulated=len(made),
            distinct=len(set(answers)),
            most_frequent=Counter(answers).most_common(1)[0][1] / len(made) if enough else None,
            constant_guess=constant_guess(answers) if enough else None,
            key_in_prompt=proof.is_given,
        )
        self.judge(question, report)
        return report

    def report_failures(
        self, question: Question, failed: dict[str, list[str]], faults: Counter[str], tried: int
    ) -> None:
        """Report samples without a key, or with one that no answer meets."""
        place = _answer_place(question)
        failures = sum(map(len, failed.values()))
        say = self.error if failures == tried else self.warn
        for places in sorted(failed.values(), key=len, reverse=True)[:3]:
            where, what = _inside(self.file, question, places[0])
            say(where, f"{what} (in {len(places)} of {tried} samples, which have no key)")
        for what, count in faults.items():
            say = self.warn if what.startswith("the expected answer is empty") else self.error
            say(place, f"{what} (in {count} of {tried} samples)")

    def report_time(self) -> None:
        if self.hurried:
            self.warn(
                ("tests",),
                f"of {self.hurried} questions fewer than {SAMPLES} samples were simulated: the "
                f"file had its {MOST_SECONDS_IN_ALL:.0f} seconds; check its parts for more",
            )

    def judge(self, question: Question, report: QuestionReport) -> None:
        place = _answer_place(question)
        if (report.most_frequent or 0) > GUESSABLE:
            self.warn(
                place,
                f"guessable: one answer is right in {report.most_frequent:.0%} of "
                f"{report.simulated} samples (above {GUESSABLE:.0%}; "
                f"{interval(report.most_frequent or 0, report.simulated)})",
            )
        instances = report.log10_instances
        if instances is not None and instances < 6 and 10**instances < question.samples:
            self.warn(
                question.place,
                f"{round(10**instances)} distinct instances for {question.samples} samples",
            )


def constant_guess(answers: Sequence[str]) -> float:
    """Share of right constant guesses: each half's most frequent answer, tried on the other.

    Unlike the most frequent answer's share it is not above chance merely because the answer was
    chosen after the samples were seen.
    """
    if len(answers) < 2:
        return 1.0
    halves = answers[::2], answers[1::2]
    right = 0
    for learnt, tried in (halves, halves[::-1]):
        counts = Counter(learnt)
        guess = min(counts, key=lambda answer: (-counts[answer], answer))
        right += tried.count(guess)
    return right / len(answers)


def _answer(sample: Prepared) -> str:
    """The key as one text; equal for keys that the same answer meets."""
    key = sample.key
    if key.paths:
        return "\n".join(key.paths)
    if key.scoring_type in _JSON:
        try:
            return json.dumps(json.loads(key.expected), sort_keys=True)
        except (ValueError, RecursionError):
            return key.expected
    return key.expected.strip()


def _faults(sample: Prepared) -> Iterator[str]:
    """Find the faults that make a key impossible to meet, or met by every answer."""
    key = sample.key
    if key.paths:
        return
    if not key.expected.strip():
        yield "the expected answer is empty"
    elif key.scoring_type in _JSON:
        try:
            json.loads(key.expected)
        except (ValueError, RecursionError):
            yield "the expected answer is no valid JSON, so that no answer is right"
    elif key.scoring_type == JSON_EDIT:
        try:
            complete_edit(key.expected, {file.path: file.data for file in sample.files})
        except TemplateError as error:
            yield f"the edit cannot be verified: {error}"


def _inside(file: TemplateFile, question: Question, what: str) -> tuple[Place, str]:
    """The place that an error is about: inside a component, or else the answer."""
    place, complaint = place_in(what.split("\n")[0], *_COMPONENT_KEYS)
    for component in question.components:
        if place and (*component.place, *place) in file.lines:
            return (*component.place, *place), complaint
    return _answer_place(question), " ".join(what.split())


def _answer_place(question: Question) -> Place:
    for key in ("expected_response", "expected_content", "files_to_check", "expected_structure"):
        if getattr(question, key):
            return (*question.place, key)
    return question.place


def _inner(message: str) -> str:
    """An error's text without the file and question that ``prepare`` puts before it."""
    return re.sub(r"^[^:\n]*: question [^:\n]*: ", "", message)
