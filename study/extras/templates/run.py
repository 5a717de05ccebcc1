"""``dosimeter template run``: the samples of a template put to an agent, one conversation after the
other, and scored.

The run folder has the key, ``precheck.jsonl``, beside the folder ``sandbox`` that the agent works
in. A sample is done when its line is in ``responses.jsonl``: a run that was killed continues with
the first sample without one, in a fresh tree, so it costs at most one conversation.
"""

from __future__ import annotations

import json
import os
import secrets
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

from generators.seed import Seed
from generators.templates.family import TemplateFamily
from generators.templates.prepare import Prepared, written_id
from harness.models.providers.retry import RETRIED
from registry.files import write_whole
from study.errors import StudyError
from study.extras.templates.agents import Conversation, RunAgent
from study.extras.templates.prepare import (
    SANDBOX,
    Layout,
    SampleTree,
    Watch,
    load_family,
    make_sample,
    write_samples,
)
from study.extras.templates.run_folder import (
    CONVERSATIONS,
    PRECHECK,
    RESPONSES,
    RunScores,
    read_responses,
    score_run,
    write_scores,
)
from study.extras.templates.run_page import PAGE, run_page
from study.files import exclusive, new_folder

if TYPE_CHECKING:
    from harness.episode import Turn

ABOUT = "run.json"
_LOCK = ".lock"
# Failures for which the next sample would fail as well.
_STOPPING = ("auth", "quota", *RETRIED)


@dataclass(frozen=True, slots=True)
class TemplateRunRequest:
    """What a run is asked for. ``seed`` is drawn if it is None."""

    file: str
    out: Path
    seed: str | None = None
    samples: int | None = None
    questions: tuple[str, ...] | None = None  # ids; None: all
    shared: bool = False


@dataclass(frozen=True, slots=True)
class TemplateRun:
    """A run whose samples all have a response, with its scores."""

    folder: Path
    scores: RunScores
    failed: int  # conversations that failed

    @property
    def page(self) -> Path:
        """The page of results."""
        return self.folder / PAGE


def run_template(request: TemplateRunRequest, agent: RunAgent, watch: Watch) -> TemplateRun:
    """Prepare the samples, ask the agent about each, score the answers and write the page of
    results; or continue a run that is there. Raises TemplateError, GeneratorError for a bad seed,
    StudyError if the folder holds something else, or if the agent cannot be asked."""
    family = load_family(request.file, request.questions)
    resumed = os.path.lexists(request.out)
    seed = _begin(request, family, agent, watch)
    with exclusive(request.out / _LOCK, "another run in this folder"):
        _ask_all(request, family, seed, agent, watch, resumed)
    scores = score_run(request.out, datetime.now(UTC))
    write_scores(request.out, scores)
    lines = (request.out / RESPONSES).read_bytes().splitlines()
    records = [json.loads(line) for line in lines if line.strip()]
    failed = sum(record["execution_successful"] is not True for record in records)
    write_whole(request.out / PAGE, run_page(request.out, scores, agent.name))
    return TemplateRun(request.out, scores, failed)


# --- beginning


def _layout(request: TemplateRunRequest, agent: RunAgent) -> Layout:
    sandbox = str(request.out.resolve() / SANDBOX)
    if not agent.in_place:
        return Layout(keys=sandbox)
    return Layout(sandbox, request.shared)


def _begin(
    request: TemplateRunRequest, family: TemplateFamily, agent: RunAgent, watch: Watch
) -> Seed:
    """Make the run folder, or check that the one that is there is of the same run. Return its
    seed."""
    layout, out = _layout(request, agent), request.out
    about = {
        "template": family.file.name,
        "version": family.version,
        "agent": "server" if agent.in_place else agent.name,  # which may come back elsewhere
        "asked": dict(agent.asked),
        "samples": request.samples,
        "questions": None if request.questions is None else list(request.questions),
        "shared": layout.shared,
        "root": layout.root or layout.keys,
    }
    if os.path.lexists(out):
        return _check_begun(request, about)
    chosen = family.file.chosen(request.questions)
    seed = request.seed or secrets.token_hex(32)
    root = Seed.from_hex(seed)
    with new_folder(out) as draft:
        write_samples(family, chosen, root, draft, request.samples, watch, layout)
        (draft / CONVERSATIONS).mkdir()
        (draft / RESPONSES).touch()
        (draft / PRECHECK).chmod(0o600)
        write_whole(draft / ABOUT, json.dumps({**about, "seed": seed}, indent=2) + "\n")
        (draft / ABOUT).chmod(0o600)
    return root


def _check_begun(request: TemplateRunRequest, about: Mapping[str, Any]) -> Seed:
    path = request.out / ABOUT
    try:
        begun = json.loads(path.read_bytes())
        seed = Seed.from_hex(begun["seed"])
    except (OSError, ValueError, TypeError, KeyError, RecursionError):
        raise StudyError(
            f"{request.out}: is there already and holds no run; give a folder that is not"
        ) from None
    wanted = {**about, "seed": request.seed or begun["seed"]}
    for name, value in wanted.items():
        if begun.get(name) != value:
            stated = "another one" if name == "seed" else f"{begun.get(name)!r}, not {value!r}"
            raise StudyError(
                f"{request.out}: was begun with {name} {stated}; give the same to continue it, or "
                "another folder"
            )
    return seed


# --- asking


def _ask_all(
    request: TemplateRunRequest,
    family: TemplateFamily,
    seed: Seed,
    agent: RunAgent,
    watch: Watch,
    resumed: bool,
) -> None:
    """Ask about every sample without a response; the first one of a resumed run may have been begun
    before. Raises StudyError if the agent cannot be asked."""
    run, layout = request.out, _layout(request, agent)
    _drop_cut_line(run / RESPONSES)
    answered, _ = read_responses(run / RESPONSES)
    samples = [
        (family.compiled(question.id), number)
        for question in family.file.chosen(request.questions)
        for number in range(1, (request.samples or question.samples) + 1)
    ]
    dirty, answering = resumed, bool(answered)
    for done, (compiled, number) in enumerate(samples):
        watch("asking", done, len(samples))
        if (written_id(compiled.question.id), number) in answered:
            continue
        sample = make_sample(family.file, compiled, seed, number, layout)
        tree = SampleTree(run.resolve() / SANDBOX, sample, layout)
        if dirty:
            tree.reset()
        own = seed.child("agent", sample.qs_id)
        held = agent.ask(tree, family.instance_of(sample, own), own)
        _check_asked(held, agent, answering)
        if held.files is not None:
            tree.bring_back(held.files)
        _record(run, sample, held, agent.name)
        dirty, answering = False, True
    watch("asking", len(samples), len(samples))


def _check_asked(held: Conversation, agent: RunAgent, answering: bool) -> None:
    """Raise StudyError if the agent failed in a way that the next sample would meet too.
    ``answering``: there is a response from it already."""
    boundary, _, kind = held.error.partition(":")
    lasting = not answering or kind.partition(" ")[0] in _STOPPING or boundary == "sandbox"
    if held.error and not held.steps and lasting:
        raise StudyError(
            f"{agent.name}: {held.error}; no answer came. Start it, or mend the address, and give "
            "the same command again: it continues where this one stopped"
        )


# --- writing


def _record(run: Path, sample: Prepared, held: Conversation, name: str) -> None:
    """Write the conversation, and then the response, with which the sample is done."""
    ids = {
        "question_id": written_id(sample.question.id),
        "sample_number": sample.sample,
        "timestamp": datetime.now(UTC).isoformat(),
    }
    outcome = {
        "execution_successful": not held.error,
        "error_message": held.error or None,
        "model_info": next((step.reply.served_version for step in held.steps), "") or name,
    }
    conversation = {
        **ids,
        "initial_question": sample.prompt,
        "conversation_history": _history(sample.prompt, held.steps),
        "statistics": _statistics(held),
        "final_response": held.answer,
        **outcome,
    }
    write_whole(
        run / CONVERSATIONS / f"{sample.qs_id}.json", json.dumps(conversation, indent=2) + "\n"
    )
    line = json.dumps({**ids, "response_text": held.answer, **outcome}) + "\n"
    with open(run / RESPONSES, "ab") as file:
        file.write(line.encode())
        file.flush()
        os.fsync(file.fileno())


def _history(prompt: str, steps: Sequence[Turn]) -> list[dict[str, str]]:
    """The messages as PICARD writes them: results of tools are messages of the user."""
    history = [{"role": "user", "content": prompt}]
    for step in steps:
        if step.prompt:
            history.append({"role": "user", "content": step.prompt})
        if step.reply.message.text.strip():
            history.append({"role": "assistant", "content": step.reply.message.text})
        history += [{"role": "user", "content": use.result.text} for use in step.uses]
    return history


def _statistics(held: Conversation) -> dict[str, Any]:
    uses = [use for step in held.steps for use in step.uses]
    return {
        "total_messages": len(_history("", held.steps)),
        "inference_rounds": len(held.steps),
        "tool_calls": len(uses),
        "tools_used": sorted({use.name for use in uses}),
        "execution_time_seconds": round(held.seconds, 2),
    }


def _drop_cut_line(path: Path) -> None:
    """Remove a last line that a kill cut off."""
    data = path.read_bytes()
    whole = data.rfind(b"\n") + 1
    if whole < len(data):
        os.truncate(path, whole)
