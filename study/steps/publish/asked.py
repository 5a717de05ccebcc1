"""An instance of a release as the one message that Inspect asks."""

from __future__ import annotations

from generators.grading.programs import hidden_inputs
from generators.task import TaskInstance
from harness.agent.single_turn import single_turn
from harness.errors import HarnessError
from publish.inspect_task import Question

LONGEST = 100_000  # characters of a question


def ask(instance: TaskInstance) -> Question | None:
    """Return an instance as one message, as a study asks it in a single turn. None if it has no
    such form, more than one picture or LONGEST characters, or nothing that its answer's text alone
    decides."""
    parts, assets = instance.rubric.parts, instance.brief.assets
    pictures = [asset for asset in assets if asset.media_type.startswith("image/")]
    if len(pictures) > 1 or all(part.check is None for part in parts):
        return None
    if hidden_inputs(instance.rubric):
        return None
    try:
        messages = single_turn(instance.brief).messages
    except HarnessError:
        return None
    text, images = "\n\n".join(message.text for message in messages), messages[-1].images
    return Question(text, images[0].url if images else "") if len(text) <= LONGEST else None
