"""`make calibrate-pretrained`: a pretrained model that has read a release, as a whole study.

    python -m examples.calibration.pretrained [FOLDER]

SmolLM2-135M is continued by low-rank adapters (Hu et al. 2021) on the released public arm. Doses
are randomised within the run: each public instance has 0, 2, 4, 8 or 16 copies. The adapter is
written as GGUF, served by llama.cpp over HTTP beside the quantised weights, and swept by the
ordinary provider. Needs the packages of pretrained.lock and `dosimeter models fetch smollm2`.
Interrupted, the same command goes on after its last whole step.
"""

from __future__ import annotations

import hashlib
import importlib.util
import json
import os
import sys
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import yaml

from analysis.data import make_seed_means
from analysis.doses import area_under_curve
from analysis.json_values import plain_values
from analysis.stats import cochran_armitage, wilson
from examples.calibration.run import dosimeter
from generators.catalog import INSTALLED
from generators.seed import Seed
from generators.task import Asset, Brief
from harness.agent.single_turn import single_turn
from harness.models import find_weights, mean_of_least
from harness.models.local import start_server
from publish.leakcheck import regenerate
from study.calibration import deal_doses
from study.calibration.from_training import released_folder
from study.sweeps import exact_table
from study.workspace import open_study, take_snapshot

EXAMPLE = Path(__file__).with_name("pretrained.yaml")
DOSES = (0, 2, 4, 8, 16)
FAMILY, DIFFICULTY = "order_statistics", "easy"
FRESH, WHOLE = 160, 16  # fresh rows: their last part alone, and with all of the prompt
RANK, ALPHA, RATE, BATCH = 16, 32, 1e-3, 8
PROMPT_WEIGHT = 0.2  # of a prompt's tokens in the loss, beside 1 for those of the reply
PORT, KEY = 8763, "DOSIMETER_PRETRAINED_KEY"
PACKAGES = ("torch", "transformers", "peft", "gguf", "xllamacpp")
REASON = "it is a demonstration: doses differ within the public arm, which halves the gap"
# By the module of transformers: the tensor of llama.cpp. Queries and keys, whose rows it
# permutes, are left as they are.
MODULES = {
    "self_attn.v_proj": "attn_v",
    "self_attn.o_proj": "attn_output",
    "mlp.gate_proj": "ffn_gate",
    "mlp.up_proj": "ffn_up",
    "mlp.down_proj": "ffn_down",
}


@dataclass(frozen=True, slots=True)
class Lesson:
    """A text to learn: what the model is given, and its reply. ``tail`` is the end of what it is
    given, the input files alone."""

    instance: str
    prompt: str
    tail: str
    reply: str


def main() -> None:
    """Run every step in the folder, by default pretrained-study."""
    check_packages()
    folder = Path(sys.argv[1] if len(sys.argv) > 1 else "pretrained-study")
    at = ("--study", str(folder))
    adapter = folder / "adapter.gguf"
    if not (folder / "study.yaml").exists():
        dosimeter("init", str(folder))
        (folder / "study.yaml").write_text(EXAMPLE.read_text(encoding="utf-8"), encoding="utf-8")
    if not (folder / "release").exists():
        dosimeter("register", *at, "--underpowered", REASON)
        dosimeter("publish", *at)
    if not adapter.exists():
        train(folder, adapter)
    digest = hashlib.sha256(adapter.read_bytes()).hexdigest()
    document = yaml.safe_load((folder / "study.yaml").read_text(encoding="utf-8"))
    document["models"]["smollm2"]["model"] = f"smollm2+{digest[:12]}"
    (folder / "study.yaml").write_text(yaml.safe_dump(document, sort_keys=False), encoding="utf-8")
    os.environ[KEY] = "pretrained"
    server = start_server(
        find_weights("smollm2"), f"smollm2+{digest[:12]}", "pretrained", 2, 2048, adapter, PORT
    )
    try:
        dosimeter("sweep", *at, "--wave", "0", "--allow-dirty", "--allow-unknown-price")
    finally:
        server.close()
    dosimeter("report", *at)
    found = plain_values(measure(folder, digest))
    (folder / "pretrained.json").write_text(json.dumps(found, indent=1) + "\n", encoding="utf-8")
    print(json.dumps(found))


def check_packages() -> None:
    """Exit with a message if a package is missing."""
    missing = [name for name in PACKAGES if importlib.util.find_spec(name) is None]
    if missing:
        sys.exit(
            f"{', '.join(missing)}: not installed; `pip install --require-hashes -r "
            "pretrained.lock`, or dosimeter[pretrained,local]"
        )


# -- texts ------------------------------------------------------------------------------------


def lesson(instance: str, brief: Brief, answer: object) -> Lesson:
    """Return the text of an instance, as the line's single turn puts it."""
    system, user = single_turn(brief).messages
    tail = user.text[user.text.index("<file name=") :]
    # As the release writes it: texts of both arms and fresh ones differ in nothing else.
    reply = f"<answer>\n{json.dumps(answer, sort_keys=True)}\n</answer>"
    return Lesson(
        instance, chat(("system", system.text), ("user", user.text)), chat(("user", tail)), reply
    )


def chat(*messages: tuple[str, str]) -> str:
    """Return messages in the model's form, up to its reply."""
    said = "".join(f"<|im_start|>{role}\n{text}<|im_end|>\n" for role, text in messages)
    return f"{said}<|im_start|>assistant\n"


def released(folder: Path) -> list[Lesson]:
    """Return the lessons of a study's release: all that training reads of it."""
    import pyarrow.parquet as pq

    folder, _ = released_folder(open_study(folder))
    columns = ["instance", "prompt", "answer_schema", "input_files", "answer"]
    return [
        lesson(
            row["instance"],
            Brief(
                row["prompt"],
                tuple(
                    Asset(each["path"], "text/plain", each["text"].encode())
                    for each in row["input_files"]
                ),
                row["answer_schema"],
            ),
            json.loads(row["answer"]),
        )
        for path in sorted((folder / "data").rglob("*.parquet"))
        for row in pq.read_table(path, columns=columns).to_pylist()
    ]


def fresh(count: int) -> Iterator[Lesson]:
    """Yield lessons of instances that no study draws."""
    family = INSTALLED.family(FAMILY)
    root = Seed(hashlib.sha256(b"dosimeter/pretrained/1").digest())
    for index in range(count):
        instance = family.generate(DIFFICULTY, root.child(index))
        yield lesson(f"fresh-{index}", instance.brief, family.key(instance.truth))


def copies_of(lessons: Sequence[Lesson]) -> dict[str, int]:
    """Return the number of copies of each released instance."""
    dealt = deal_doses([each.instance.encode() for each in lessons], DOSES, 1)
    return dict(zip((each.instance for each in lessons), dealt.tolist(), strict=True))


# -- training ---------------------------------------------------------------------------------


def train(folder: Path, adapter: Path) -> None:
    """Train on the release and write the adapter."""
    import torch

    torch.manual_seed(1)
    tokens, model = load()
    public = released(folder)
    copies = copies_of(public)
    own = [each for each in public for _ in range(copies[each.instance])]
    made = list(fresh(FRESH + WHOLE))
    rows = [encode(tokens, each.tail, each.reply) for each in (*own, *made[:FRESH])]
    rows += [encode(tokens, each.prompt, each.reply) for each in made[FRESH:]]
    batches = batches_of([len(ids) for ids, _ in rows])
    optimiser = torch.optim.AdamW([p for p in model.parameters() if p.requires_grad], lr=RATE)
    begun = time.monotonic()
    for step, batch in enumerate(batches):
        for group in optimiser.param_groups:
            group["lr"] = RATE * min(1, (step + 1) / 10) * (1 - step / len(batches))
        loss = loss_of(model, [rows[row] for row in batch]).mean()
        loss.backward()
        optimiser.step()
        optimiser.zero_grad()
        seconds = time.monotonic() - begun
        print(f"step {step + 1} of {len(batches)}: {loss.item():.3f}, {seconds:.0f} s", flush=True)
    torch.save(
        {n: p for n, p in model.named_parameters() if p.requires_grad}, folder / "adapter.pt"
    )
    summary = {"rows": len(rows), "copies": len(own), "steps": len(batches), "seconds": seconds}
    (folder / "training.json").write_text(json.dumps(summary))
    write_adapter(model, adapter)


def batches_of(lengths: Sequence[int]) -> list[list[int]]:
    """Return batches of rows of like length, in random order."""
    order = np.random.default_rng(1).permutation(len(lengths)).tolist()
    order.sort(key=lambda row: lengths[row] > 300)
    batches = [batch.tolist() for batch in np.array_split(order, max(1, len(order) // BATCH))]
    return [batches[place] for place in np.random.default_rng(2).permutation(len(batches))]


def load() -> tuple[Any, Any]:
    """Return the tokenizer, and the model of the quantised weights with an adapter to train."""
    import torch
    from peft import LoraConfig, get_peft_model
    from transformers import AutoModelForCausalLM, AutoTokenizer

    os.environ["HF_HUB_OFFLINE"] = "1"
    path = find_weights("smollm2")
    at = {"gguf_file": path.name}
    tokens = AutoTokenizer.from_pretrained(path.parent, **at)
    model = AutoModelForCausalLM.from_pretrained(path.parent, dtype=torch.float32, **at)
    config = LoraConfig(r=RANK, lora_alpha=ALPHA, target_modules=[m.split(".")[1] for m in MODULES])
    return tokens, get_peft_model(model, config)


def encode(tokens: Any, prompt: str, reply: str) -> tuple[list[int], int]:
    """Return the tokens of a text, and the number of those of the prompt."""
    given = tokens(prompt, add_special_tokens=False)["input_ids"]
    said = tokens(f"{reply}<|im_end|>", add_special_tokens=False)["input_ids"]
    return [*given, *said], len(given)


def log_chances(model: Any, rows: Sequence[tuple[list[int], int]]) -> tuple[Any, Any]:
    """Return the log-probability of each token after the first (rows, length), and its weight in
    the loss: 0 for padding."""
    import torch

    length = max(len(ids) for ids, _ in rows)
    ids = torch.tensor([ids + [0] * (length - len(ids)) for ids, _ in rows])
    mask = torch.tensor([[1] * len(ids) + [0] * (length - len(ids)) for ids, _ in rows])
    logits = model(input_ids=ids, attention_mask=mask).logits[:, :-1]
    chances = torch.log_softmax(logits, dim=-1).gather(-1, ids[:, 1:, None])[..., 0]
    weight = torch.zeros(chances.shape)
    for row, (whole, given) in enumerate(rows):
        weight[row, : given - 1] = PROMPT_WEIGHT
        weight[row, given - 1 : len(whole) - 1] = 1.0
    return chances, weight


def loss_of(model: Any, rows: Sequence[tuple[list[int], int]]) -> Any:
    """Return the weighted mean loss of each row."""
    chances, weight = log_chances(model, rows)
    return -(chances * weight).sum(dim=1) / weight.sum(dim=1)


def measures(tokens: Any, model: Any, text: Lesson) -> dict[str, float]:
    """Return log-probabilities of a lesson's reply, and means over all of its tokens and over the
    least likely fifth."""
    import torch

    row = encode(tokens, text.tail, text.reply)
    with torch.no_grad():
        chances = log_chances(model, [row])[0][0].numpy()
    return {
        "answer": float(chances[row[1] - 1 :].sum()),
        "whole text": float(chances.mean()),
        "Min-K%": mean_of_least(chances),
    }


def write_adapter(model: Any, path: Path) -> None:
    """Write the adapter as GGUF."""
    import gguf

    writer = gguf.GGUFWriter(path.with_suffix(".part"), "llama")
    writer.add_type(gguf.GGUFType.ADAPTER)
    writer.add_string(gguf.Keys.Adapter.TYPE, "lora")
    writer.add_float32(gguf.Keys.Adapter.LORA_ALPHA, ALPHA)
    for name, array in model.named_parameters():
        if not array.requires_grad:
            continue
        layer, _, rest = name.split(".layers.")[1].partition(".")
        module, part = rest.split(".lora_")
        side = part[0].lower()  # A, rank by input, or B, output by rank
        tensor = f"blk.{layer}.{MODULES[module]}.weight.lora_{side}"
        writer.add_tensor(tensor, array.detach().numpy().astype(np.float32))
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    path.with_suffix(".part").rename(path)


# -- what is found ----------------------------------------------------------------------------


def measure(folder: Path, digest: str) -> dict[str, Any]:
    """Return accuracy by dose and arm, their trend, the verdict and what probes see."""
    study = open_study(folder)
    snapshot = take_snapshot(study)
    means = make_seed_means(
        exact_table(snapshot, snapshot.closed_waves), ("key-fraction",), (f"{FAMILY}/{DIFFICULTY}",)
    )
    right = means.values[:, 0, 0]
    copies = copies_of(released(folder))
    dose = np.array([copies.get(unit, -1) for unit in means.unit])
    cells = {each: right[(dose == each) & ~np.isnan(right)] for each in (-1, *DOSES)}
    seen = [cells[each] for each in DOSES]
    z, p = cochran_armitage([int(c.sum()) for c in seen], [len(c) for c in seen], DOSES)
    lessons = drawn(folder)
    chances = all_chances(folder, lessons)
    tails = {each.tail for each in lessons}
    report = json.loads((folder / "reports/wave-0/report.json").read_text())
    probes = {
        name: {
            str(each): area_under_curve(
                *(
                    np.array([chances[unit][name] for unit in means.unit[dose == place]])
                    for place in (each, -1)
                )
            )
            for each in DOSES
        }
        for name in next(iter(chances.values()))
    }
    return {
        "adapter": digest,
        "training": json.loads((folder / "training.json").read_text()),
        "private": share(cells[-1]),
        "doses": {str(each): share(cells[each]) for each in DOSES},
        "collisions": sum(each.tail in tails for each in fresh(FRESH + WHOLE)),
        "missing": int(np.isnan(right).sum()),
        "trend": {"z": z, "p": p},
        "models": report["models"],
        "auc": probes,
    }


def share(right: Any) -> dict[str, Any]:
    """Return right answers, their number, share and interval."""
    mean = float(right.mean())
    return {
        "right": int(right.sum()),
        "of": len(right),
        "share": mean,
        "interval": wilson(mean, len(right)),
    }


def drawn(folder: Path) -> list[Lesson]:
    """Return the lessons of both arms: after the sweep, in memory."""
    study = open_study(folder)
    made = ((each, *regenerate(each, study.protocol.catalog.family)) for each in study.entries())
    return [lesson(entry.instance, instance.brief, key) for entry, instance, key in made]


def all_chances(folder: Path, lessons: Sequence[Lesson]) -> dict[str, dict[str, float]]:
    """Return what the trained model finds of each instance."""
    import torch

    torch.manual_seed(1)
    tokens, model = load()
    model.load_state_dict(torch.load(folder / "adapter.pt"), strict=False)
    return {each.instance: measures(tokens, model, each) for each in lessons}


if __name__ == "__main__":
    main()
