"""Spread of a small language model's scores between siblings of template questions (τ_w of
docs/levels.md): ``python -m examples.levels.questions [FOLDER] [--instances N] [--weights FILE]``.

Questions of one name in questions/one.yml and other.yml are siblings. SmolLM2-135M answers N
instances of each, as it is and with an adapter that was trained on questions/taught.yml; so does a
model of other weights, a GGUF file. Needs the packages of pretrained.lock and `dosimeter models
fetch smollm2`.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Iterator
from pathlib import Path
from statistics import fmean

import numpy as np
import yaml

from examples.calibration import pretrained
from examples.levels.siblings import print_table
from generators.grading.answer import Answer
from generators.seed import Seed
from generators.task import TaskInstance
from generators.templates.family import TemplateFamily, template_family
from generators.templates.prepare import prepare
from generators.validation.scores import score_answer
from generators.validation.validate import public_seeds
from harness.build_model import build_plain_model
from harness.model import Message, Model, ModelRequest, Role, close_model
from harness.models.local import find_weights, start_server
from registry.ledger.records import ModelPin
from study.extras.levels.contribution import sibling_faults
from study.protocol.protocol import read_protocol
from study.steps.lint.later_refusals import unproved_tasks

QUESTIONS = Path(__file__).with_name("questions")
SIDES = ("one", "other")
TAUGHT = 12  # rows of each question of taught.yml

Pairs = list[tuple[list[float], list[float]]]  # scores of one sibling and of the other


def read_family(name: str) -> TemplateFamily:
    """Return the questions of a file."""
    path = QUESTIONS / f"{name}.yml"
    return template_family(path.name, path.read_text(encoding="utf-8"))


def sample(family: TemplateFamily, question: str, seed: Seed) -> tuple[str, str, TaskInstance]:
    """Return an instance's question to the letter, its key, and the instance."""
    prepared = prepare(family.compiled(question), seed)
    instance = family.instance_of(prepared, seed)
    return prepared.prompt, str(family.key(instance.truth)["response"]), instance


def check_pairs(folder: Path) -> list[str]:
    """Write a study of the pairs into the folder, each question in a file of its own so that one
    can stay sealed. Returns what `register` would refuse of it, and questions that their key does
    not solve."""
    tasks, wrong = [], []
    for side in SIDES:
        family = read_family(side)
        document = yaml.safe_load((QUESTIONS / f"{side}.yml").read_text(encoding="utf-8"))
        for test in document["tests"]:
            name, path = test["question_id"], folder / f"{side}_{test['question_id']}.yml"
            path.write_text(yaml.safe_dump(document | {"tests": [test]}), encoding="utf-8")
            tasks.append({"template": path.name, "pair": name})
            _, key, instance = sample(family, name, public_seeds(1)[0])
            if score_answer(instance, Answer({}, text=key)) < 1:
                wrong.append(path.name)
    study = {"study": "pairs", "tasks": tasks, "seeds_per_arm": 2, "sandbox": {"kind": "local"}}
    study |= {"models": {"a": {"provider": "scripted", "agent": "honest"}}, "waves": [["a"]]}
    (folder / "study.yaml").write_text(yaml.safe_dump(study), encoding="utf-8")
    protocol = read_protocol(folder)
    wrong += [what for _, what in sibling_faults(protocol)]
    return wrong + [name for name, _ in unproved_tasks(protocol, lambda *step: None)]


def train(adapter: Path) -> None:
    """Train an adapter on fresh instances of the questions of taught.yml."""
    tokens, model = pretrained.load()
    family = read_family("taught")
    rows = []
    for question in family.questions:
        for seed in public_seeds(TAUGHT):
            prompt, key, _ = sample(family, question, seed)
            given = [{"role": "user", "content": prompt}]
            text = tokens.apply_chat_template(given, tokenize=False, add_generation_prompt=True)
            rows.append(pretrained.encode(tokens, ((text, 0.0), (key, 1.0))))
    pretrained.fit(model, rows)
    pretrained.write_adapter(model, adapter)


def answers(model: Model, side: str, instances: int) -> Iterator[list[float]]:
    """Yield the model's scores on instances of each question of a side."""
    family = read_family(side)
    seeds = public_seeds(2 * instances)
    for question in family.questions:
        scores = []
        for seed in seeds[:instances] if side == "one" else seeds[instances:]:
            prompt, _, instance = sample(family, question, seed)
            reply = model.respond(ModelRequest((Message(Role.USER, prompt),), (), seed))
            scores.append(score_answer(instance, Answer({}, text=reply.message.text)))
        yield scores
        print(f"{model.name} {side}.yml {question}: {fmean(scores):.2f}", flush=True)


def ask(name: str, weights: Path, adapter: Path | None, instances: int) -> Pairs:
    """Return the scores of the weights with an adapter, or as they are, on each pair."""
    server = start_server(weights, name, "", 1, 2048, adapter)
    settings = {
        "base_url": f"{server.url}/v1",
        "api_key_env": "",
        "temperature": 0,
        "max_tokens": 24,
        "extra_body": {"stop": ["\n"]},
    }
    made = tuple((key, json.dumps(value)) for key, value in sorted(settings.items()))
    model = build_plain_model(ModelPin(name, "openai", name, made))
    try:
        sides = [list(answers(model, side, instances)) for side in SIDES]
    finally:
        close_model(model)
        server.close()
    return list(zip(*sides, strict=True))


def main() -> None:
    """Check the pairs, train the adapter unless the folder has it, ask the models and print the
    table: each, and each less the first."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folder", nargs="?", type=Path, default=Path("questions-study"))
    parser.add_argument("--instances", type=int, default=12)
    parser.add_argument("--weights", type=Path, help="a GGUF file of another model")
    given = parser.parse_args()
    pretrained.check_packages()
    given.folder.mkdir(exist_ok=True)
    if wrong := check_pairs(given.folder):
        sys.exit("\n".join(wrong))
    adapter = given.folder / "adapter.gguf"
    if not adapter.exists():
        train(adapter)
    small = find_weights("smollm2")
    asked = [("smollm2", small, None), ("taught", small, adapter)]
    asked += [(given.weights.stem, given.weights, None)] if given.weights else []
    scores = {name: ask(name, *files, given.instances) for name, *files in asked}
    first, *others = scores
    for name in others:
        less = np.array(scores[name]) - np.array(scores[first])
        scores[f"{name} less {first}"] = less.tolist()
    print_table(scores)


if __name__ == "__main__":
    main()
