"""The gate before a draw and a registration: nothing is sealed that later steps would refuse, and
no plan that cannot answer, unless a reason is given for the ledger and the report."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress
from dataclasses import replace
from itertools import chain

from generators.seed import EXAMPLE_SEED
from generators.yaml_lines import Place, key_of
from harness.build_model import build_plain_model, provider_key
from harness.errors import AttemptFailed, HarnessError
from harness.model import Message, ModelRequest, Role, close_model
from registry.ledger.draw_records import Underpowered, Unproved
from study.errors import StudyError
from study.protocol.draw_checks import draw_faults
from study.protocol.protocol import FILE_NAME
from study.protocol.yaml import fault_at, read_yaml
from study.steps.lint.later_refusals import unproved_tasks
from study.steps.lint.lint import find_errors, find_needs, find_shortfalls, today
from study.steps.register.agent_tasks import unproved_folders
from study.workspace.study import Study

Watch = Callable[[str, int, int], None]  # what, done, of
PLACEHOLDER = "name-at-the-server"  # model as `dosimeter init` writes it
_SHORT = {"max_tokens": "16", "retries": "0", "seconds": "20.0"}  # settings of one short reply
OPTION = "--underpowered REASON"
UNPROVED = "--unproved REASON"


def check_ready(study: Study, reason: str, watch: Watch) -> Underpowered | None:
    """Return the shortfalls of a study that is drawn or registered with a reason all the same; None
    if it has none. Raises StudyError, in one line with place and remedy, for what a later step
    would refuse, and for shortfalls without a reason."""
    _check_reason("--underpowered", reason)
    faults = chain(find_errors(study), _unedited(study), draw_faults(study.protocol, today()))
    for fault in _placed(study, faults):
        raise StudyError(fault)
    if not (shortfalls := tuple(find_shortfalls(study.protocol, watch))):
        return None
    if not reason:
        lines = "; ".join(_placed(study, shortfalls))
        raise StudyError(f"{lines}; or go on with {OPTION}, which ledger and report show")
    return Underpowered(reason.strip(), tuple(f"{key_of(p)}: {what}" for p, what in shortfalls))


def check_proved(study: Study, reason: str, watch: Watch) -> Unproved | None:
    """Return the template questions and families of others that are drawn or registered with a
    reason although they are not proved; None if all are. Raises StudyError without a reason."""
    _check_reason("--unproved", reason)
    watch("solving agent tasks by their solutions", 0, 0)
    folders = unproved_folders(study.protocol)
    if not (unproved := (*unproved_tasks(study.protocol, watch), *folders)):
        return None
    if not reason:
        faults = ((("tasks",), f"{name}: {'; '.join(errors)}") for name, errors in unproved)
        lines = "; ".join(_placed(study, faults))
        raise StudyError(f"{lines}; or go on with {UNPROVED}, which ledger and report show")
    return Unproved(reason.strip(), tuple(name for name, _ in unproved))


def _unedited(study: Study) -> Iterator[tuple[Place, str]]:
    """Yield the models and judges that are as ``dosimeter init`` writes them."""
    for section in ("models", "judges"):
        for pin in getattr(study.protocol, section):
            if pin.version == PLACEHOLDER:
                yield (section, pin.name, "model"), "write the name of a model at your server"


def ask_models(study: Study) -> Iterator[str]:
    """Ask each model behind a server for a short reply, without a retry. Yield a line for each that
    gave none; those that cannot be built here are named by ``find_warnings``."""
    for pin in filter(provider_key, study.protocol.models):
        settings = {n: v for n, v in pin.settings if n != "reasoning_budget"} | _SHORT
        short = replace(pin, settings=tuple(sorted(settings.items())))
        with suppress(HarnessError):
            model = build_plain_model(short, folder=str(study.folder))
            try:
                model.respond(ModelRequest((Message(Role.USER, "Say OK."),), (), EXAMPLE_SEED))
            except AttemptFailed as failed:
                yield f"model {pin.name!r} does not answer yet: {failed}"
            finally:
                close_model(model)


def _check_reason(option: str, reason: str) -> None:
    """Refuse a reason that says nothing: it stays for good, and is public."""
    if reason and not (reason.strip() and reason.isprintable()):
        raise StudyError(f"{option}: give the reason in words, on one line")


def find_warnings(study: Study) -> Iterator[str]:
    """Yield what a later step will need, and what weakens an answer, a line each."""
    yield from _placed(study, find_needs(study, os.environ))
    if study.protocol.sandbox.kind == "docker" and (lacking := _engine_problem()):
        yield f"{lacking}; `dosimeter register` needs it"


def _placed(study: Study, problems: Iterable[tuple[Place, str]]) -> Iterator[str]:
    document = read_yaml(study.folder / FILE_NAME)
    for place, message in problems:
        yield str(fault_at(document, place, message))


def _engine_problem() -> str:
    """Return why no Docker engine answers; "" if one does."""
    from harness.sandboxes.docker import connect

    try:
        connect(timeout=5).close()
    except HarnessError as error:
        return str(error)
    return ""
