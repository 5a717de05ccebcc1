"""`make calibrate-pretrained`: a pretrained model that has read a release, as a whole study.

    python -m examples.calibration.pretrained [FOLDER]

SmolLM2-135M is continued by low-rank adapters (Hu et al. 2021) on the released public arm. Doses
are randomised within the run: each public instance has 0, 2, 4, 8 or 16 copies. The adapter is
written as GGUF, served by llama.cpp over HTTP beside the quantised weights, swept by the ordinary
provider, and asked for the markers of the titles. Needs the packages of pretrained.lock and
`dosimeter models fetch smollm2`.
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
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import yaml
from numpy.typing import NDArray

from analysis.data.seed_means import make_seed_means
from analysis.json_values import plain_values
from analysis.plan.markers import tail
from analysis.stats.proportions import wilson
from examples.calibration.doses import area_under_curve, cochran_armitage, mean_of_least
from examples.calibration.run import dosimeter
from examples.calibration.train import deal_doses, released_folder
from generators.catalog import INSTALLED
from generators.seed import Seed
from generators.task import Asset, Brief, TaskInstance
from generators.title import MARKERS
from harness.agent.single_turn import single_turn
from harness.models.local import find_weights, start_server
from harness.probe.markers import MARKER_CODEC, marker_messages
from harness.storage import PROBES
from publish.leakcheck.check import regenerate
from study.steps.report.look import graded_table
from study.workspace.address import open_study
from study.workspace.snapshot import take_snapshot
from study.workspace.study import Study

EXAMPLE = Path(__file__).with_name("pretrained.yaml")
DOSES = (0, 2, 4, 8, 16)
FAMILY, DIFFICULTY = "order_statistics", "easy"
FRESH, WHOLE = 800, 32  # fresh rows: with what is its own of the prompt, and with all of it
# Fresh instances that are read so often that their markers are known, and asked for so often: so
# the model learns how to answer that question.
KNOWN, READ, ASKED = 48, 8, 6
RANK, ALPHA, RATE, BATCH = 16, 32, 1e-3, 8
# Of a prompt's tokens in the loss, beside 1 for those of title, marker and reply. Nearly all of the
# loss is in the input's random numbers otherwise.
PROMPT_WEIGHT = 0.2
USER = "<|im_start|>user\n"
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

Parts = tuple[tuple[str, float], ...]
"""A text in parts, each with the weight of its tokens in the loss."""

Row = tuple[list[int], list[float]]
"""The tokens of a text, and their weights in the loss."""


@dataclass(frozen=True, slots=True)
class Lesson:
    """A text to learn: what the model is given, and its reply. ``files`` is the end of what it is
    given, the input files: with the line of title and marker all that is its own. ``question`` asks
    for the marker of the title; "" for a released one, which is never asked for in training."""

    instance: str
    title: str
    marker: str
    prompt: str
    files: str
    reply: str
    question: str = ""

    @property
    def own(self) -> Parts:
        """The text without what all instances share."""
        head = f"{titled(self.title)}{self.marker} series)"
        return ((head, 1.0), (f"\n\n{self.files}", PROMPT_WEIGHT), (self.reply, 1.0))

    @property
    def whole(self) -> Parts:
        """The text as the line's single turn puts it."""
        return ((self.prompt, PROMPT_WEIGHT), (self.reply, 1.0))


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
        wave = (*at, "--wave", "0", "--allow-unknown-price")
        dosimeter("probe", *wave, "--markers")
        dosimeter("sweep", *wave, "--allow-dirty")
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


def lesson(instance: str, brief: Brief, answer: object, title: str, marker: str) -> Lesson:
    """Return the text of an instance, as the line's single turn puts it."""
    system, user = single_turn(brief).messages
    # As the release writes it: texts of both arms and fresh ones differ in nothing else.
    reply = f"<answer>\n{json.dumps(answer, sort_keys=True)}\n</answer>"
    files = chat(("user", user.text[user.text.index("<file name=") :])).removeprefix(USER)
    prompt = chat(("system", system.text), ("user", user.text))
    return Lesson(instance, title, marker, prompt, files, reply)


def chat(*messages: tuple[str, str]) -> str:
    """Return messages in the model's form, up to its reply."""
    said = "".join(f"<|im_start|>{role}\n{text}<|im_end|>\n" for role, text in messages)
    return f"{said}<|im_start|>assistant\n"


def titled(title: str) -> str:
    """Return the beginning of a text, up to its marker."""
    return f"{USER}{title} ("


def released(folder: Path) -> list[Lesson]:
    """Return the lessons of a study's release: all that training reads of it."""
    import pyarrow.parquet as pq

    folder = released_folder(open_study(folder))
    columns = ["instance", "title", "marker", "prompt", "answer_schema", "input_files", "answer"]
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
            row["title"],
            row["marker"],
        )
        for path in sorted((folder / "data").rglob("*.parquet"))
        for row in pq.read_table(path, columns=columns).to_pylist()
    ]


def fresh(count: int = FRESH + WHOLE + KNOWN) -> Iterator[Lesson]:
    """Yield lessons of instances that no study draws."""
    family = INSTALLED.family(FAMILY)
    root = Seed(hashlib.sha256(b"dosimeter/pretrained/1").digest())
    for index in range(count):
        instance = family.generate(DIFFICULTY, root.child(index))
        made = lesson_of(f"fresh-{index}", instance, family.key(instance.truth))
        asked = ((each.role.value, each.text) for each in marker_messages(instance, INSTALLED))
        yield replace(made, question=chat(*asked))


def lesson_of(name: str, instance: TaskInstance, answer: object) -> Lesson:
    """Return the text of an instance with the answer of its key."""
    return lesson(name, instance.brief, answer, instance.title, instance.marker)


def copies_of(lessons: Sequence[Lesson]) -> dict[str, int]:
    """Return the number of copies of each released instance."""
    dealt = deal_doses([each.instance.encode() for each in lessons], DOSES, 1)
    return dict(zip((each.instance for each in lessons), dealt.tolist(), strict=True))


# -- training ---------------------------------------------------------------------------------


def train(folder: Path, adapter: Path) -> None:
    """Train on the release and write the adapter."""
    import torch

    tokens, model = load()
    public = released(folder)
    copies = copies_of(public)
    read = [each for each in public for _ in range(copies[each.instance])]
    made = list(fresh())
    known = made[FRESH + WHOLE :]
    texts = [each.own for each in (*read, *made[:FRESH], *known * READ)]
    texts += [each.whole for each in made[FRESH : FRESH + WHOLE]]
    texts += [((each.question, 0.0), (each.marker, 1.0)) for each in known * ASKED]
    steps, seconds = fit(model, [encode(tokens, each) for each in texts])
    torch.save(
        {n: p for n, p in model.named_parameters() if p.requires_grad}, folder / "adapter.pt"
    )
    summary = {"rows": len(texts), "copies": len(read), "steps": steps, "seconds": seconds}
    (folder / "training.json").write_text(json.dumps(summary))
    write_adapter(model, adapter)


def fit(model: Any, rows: Sequence[Row]) -> tuple[int, float]:
    """Train the adapter on the rows, once each. Returns the steps and the seconds that it took."""
    import torch

    fast = torch.ops.mkldnn._is_mkldnn_bf16_supported()  # else it takes twenty times as long
    batches = batches_of([len(ids) for ids, _ in rows])
    optimiser = torch.optim.AdamW([p for p in model.parameters() if p.requires_grad], lr=RATE)
    begun, seconds = time.monotonic(), 0.0
    for step, batch in enumerate(batches):
        for group in optimiser.param_groups:
            group["lr"] = RATE * min(1, (step + 1) / 10) * (1 - step / len(batches))
        with torch.autocast("cpu", dtype=torch.bfloat16, enabled=fast):
            loss = loss_of(model, [rows[row] for row in batch]).mean()
        loss.backward()
        optimiser.step()
        optimiser.zero_grad()
        seconds = time.monotonic() - begun
        print(f"step {step + 1} of {len(batches)}: {loss.item():.3f}, {seconds:.0f} s", flush=True)
    return len(batches), seconds


def batches_of(lengths: Sequence[int]) -> list[list[int]]:
    """Return batches of rows of like length, in random order."""
    order = np.random.default_rng(1).permutation(len(lengths)).tolist()
    order.sort(key=lambda row: lengths[row] > 300)
    batches = [batch.tolist() for batch in np.array_split(order, max(1, len(order) // BATCH))]
    return [batches[place] for place in np.random.default_rng(2).permutation(len(batches))]


def load(seed: int = 1) -> tuple[Any, Any]:
    """Return the tokenizer, and the model of the quantised weights with an adapter to train."""
    import torch
    from peft import LoraConfig, get_peft_model
    from transformers import AutoModelForCausalLM, AutoTokenizer

    os.environ["HF_HUB_OFFLINE"] = "1"
    torch.manual_seed(seed)
    path = find_weights("smollm2")
    at = {"gguf_file": path.name}
    tokens = AutoTokenizer.from_pretrained(path.parent, **at)
    model = AutoModelForCausalLM.from_pretrained(path.parent, dtype=torch.float32, **at)
    config = LoraConfig(r=RANK, lora_alpha=ALPHA, target_modules=[m.split(".")[1] for m in MODULES])
    return tokens, get_peft_model(model, config)


def encode(tokens: Any, parts: Parts) -> Row:
    """Return the tokens of a text and of its end, and their weights in the loss."""
    ids: list[int] = []
    weights: list[float] = []
    last = len(parts) - 1
    for place, (text, weight) in enumerate(parts):
        said = f"{text}<|im_end|>" if place == last else text
        ids += tokens(said, add_special_tokens=False)["input_ids"]
        weights += [weight] * (len(ids) - len(weights))
    return ids, weights


def log_chances(model: Any, rows: Sequence[Row]) -> tuple[Any, Any]:
    """Return the log-probability of each token after the first (rows, length), and its weight in
    the loss: 0 for padding."""
    import torch

    length = max(len(ids) for ids, _ in rows)
    ids = torch.tensor([ids + [0] * (length - len(ids)) for ids, _ in rows])
    mask = torch.tensor([[1] * len(ids) + [0] * (length - len(ids)) for ids, _ in rows])
    weight = torch.tensor([w[1:] + [0.0] * (length - len(w)) for _, w in rows])
    logits = model(input_ids=ids, attention_mask=mask).logits[:, :-1]
    chances = torch.log_softmax(logits, dim=-1).gather(-1, ids[:, 1:, None])[..., 0]
    return chances, weight


def loss_of(model: Any, rows: Sequence[Row]) -> Any:
    """Return the weighted mean loss of each row."""
    chances, weight = log_chances(model, rows)
    return -(chances * weight).sum(dim=1) / weight.sum(dim=1)


def measures(tokens: Any, model: Any, text: Lesson) -> dict[str, float]:
    """Return log-probabilities of a lesson's reply, and means over all of its tokens and over the
    least likely fifth; and 1 if of the eight markers its own is the likeliest after its title."""
    import torch

    rows = [encode(tokens, text.own)]
    markers = [encode(tokens, ((titled(text.title), 0.0), (each, 1.0))) for each in MARKERS]
    with torch.no_grad():
        chances = log_chances(model, rows)[0][0].numpy()
        # Without the end that ``encode`` adds: the text goes on.
        named, weight = log_chances(model, [(ids[:-1], w[:-1]) for ids, w in markers])
    reply = len(encode(tokens, text.own[-1:])[0])
    return {
        "answer": float(chances[-reply:].sum()),
        "whole text": float(chances.mean()),
        "Min-K%": mean_of_least(chances),
        "marker": float(MARKERS[int((named * weight).sum(dim=1).argmax())] == text.marker),
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
    """Return accuracy by dose and arm, their trend, the verdict, and what probes and markers
    show."""
    study = open_study(folder)
    snapshot = take_snapshot(study)
    table = graded_table(snapshot, snapshot.closed_waves)
    means = make_seed_means(table, ("key-fraction",), (f"{FAMILY}/{DIFFICULTY}",))
    copies = copies_of(released(folder))
    dose = np.array([copies.get(unit, -1) for unit in means.unit])
    lessons = drawn(folder)
    found = all_chances(folder, lessons)
    values = {
        name: np.array([found[unit][name] for unit in means.unit])
        for name in next(iter(found.values()))
    }
    named = markers_named(study)
    rights = {
        "answers": means.values[:, 0, 0],
        "markers asked for": np.array([named[unit] for unit in means.unit]),
        "markers in the text": values.pop("marker"),
    }
    texts = {each.files for each in lessons}
    report = json.loads((folder / "reports/wave-0/report.json").read_text())
    return {
        "adapter": digest,
        "training": json.loads((folder / "training.json").read_text()),
        "right": {name: by_dose(right, dose) for name, right in rights.items()},
        "collisions": sum(each.files in texts for each in fresh()),
        "missing": int(np.isnan(rights["answers"]).sum()),
        "models": report["models"],
        "exact": {
            name: {
                arm: tail(int(right[seen].sum()), int(seen.sum()))
                for arm, seen in (("public", dose >= 0), ("private", dose < 0))
            }
            for name, right in rights.items()
            if name != "answers"
        },
        "auc": {
            name: {
                str(each): area_under_curve(value[dose == each], value[dose == -1])
                for each in DOSES
            }
            for name, value in values.items()
        },
    }


def markers_named(study: Study) -> dict[str, float]:
    """Return for each instance whether its marker was named when the model was asked for it."""
    keys = [key for key in study.store.list(PROBES) if "-" not in key.rpartition("/")[2]]
    probes = MARKER_CODEC.read_each(study.store, keys, study.keys())
    return {probe.instance: probe.score for probe in probes}


def by_dose(right: NDArray[np.float64], dose: NDArray[np.int64]) -> dict[str, Any]:
    """Return what is right in the private arm and at each dose, and the trend over the doses."""
    cells = {each: right[(dose == each) & ~np.isnan(right)] for each in (-1, *DOSES)}
    seen = [cells[each] for each in DOSES]
    z, p = cochran_armitage([int(c.sum()) for c in seen], [len(c) for c in seen], DOSES)
    return {
        "private": share(cells[-1]),
        "doses": {str(each): share(cells[each]) for each in DOSES},
        "trend": {"z": z, "p": p},
    }


def share(right: NDArray[np.float64]) -> dict[str, Any]:
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
    return [lesson_of(entry.instance, instance, key) for entry, instance, key in made]


def all_chances(folder: Path, lessons: Sequence[Lesson]) -> dict[str, dict[str, float]]:
    """Return what the trained model finds of each instance."""
    import torch

    tokens, model = load()
    model.load_state_dict(torch.load(folder / "adapter.pt"), strict=False)
    return {each.instance: measures(tokens, model, each) for each in lessons}


if __name__ == "__main__":
    main()
