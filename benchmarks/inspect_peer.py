"""Inspect AI at the same work, for the benchmarks that compare with it (extra ``bench``).

Its mock model is given token counts, since counting would fetch a tokenizer from the network.
A run that did not succeed is never timed: each function says why there is no figure.
"""

from __future__ import annotations

import importlib.util
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

FILE, PROGRAM = "data.csv", "print(sum(1 for _ in open('data.csv')))"
ROWS = "x\n" * 1000
_COMPOSE = """\
services:
  default:
    image: IMAGE
    x-local: true
    command: [python3, -c, "import time; time.sleep(86400)"]
    network_mode: none
    mem_limit: 1g
"""


def measure_samples(count: int) -> dict[str, Any]:
    """CPU-ms and samples a second of mock samples without a sandbox, its live log on and off."""
    if not _installed():
        return _missing("inspect_ai is not installed (extra `bench`)")
    import inspect_ai
    from inspect_ai.dataset import Sample
    from inspect_ai.scorer import match

    def samples(many: int) -> Any:
        dataset = [Sample(input=f"What is {number}?", target="x") for number in range(many)]
        return inspect_ai.Task(dataset=dataset, scorer=match())

    figures: dict[str, Any] = {"version": inspect_ai.__version__}
    for name, live in (("", True), ("_no_live_log", False)):
        _run(samples(10), _say, log_realtime=live)  # imports and caches
        cpu, wall = _run(samples(count), _say, log_realtime=live)
        figures[f"cpu_ms_each{name}"] = round(cpu * 1e3 / count, 3)
        figures[f"samples_per_second_wall{name}"] = round(count / wall, 1)
    return figures


def measure_sandboxed(image: str, count: int, wide: int, kind: str = "docker") -> dict[str, Any]:
    """Samples a second with one Python call in a container each, ``wide`` at once, and its CPU."""
    if not _installed():
        return _missing("inspect_ai is not installed (extra `bench`)")
    import inspect_ai
    from inspect_ai.dataset import Sample
    from inspect_ai.scorer import match
    from inspect_ai.solver import generate, use_tools
    from inspect_ai.tool import python

    with tempfile.TemporaryDirectory() as folder:
        compose = Path(folder, "compose.yaml")
        compose.write_text(_COMPOSE.replace("IMAGE", image))
        task = inspect_ai.Task(
            dataset=[
                Sample(input=f"How many rows? ({number})", target="1000", files={FILE: ROWS})
                for number in range(count)
            ],
            solver=[use_tools(python(timeout=60)), generate()],
            scorer=match(numeric=True),
            sandbox=(kind, str(compose)) if kind == "docker" else kind,
        )
        options = {"max_samples": wide, "max_sandboxes": wide, "max_subprocesses": wide}
        try:
            cpu, wall = _run(task, _call, **options)
        except Exception as error:  # its own requirements, most of all
            return _missing(" ".join(str(error).removeprefix("ERROR: ").split())[:200])
    return {
        "samples_per_second": round(count / wall, 2),
        "client_cpu_s_each": round(cpu / count, 4),
    }


def _installed() -> bool:
    return importlib.util.find_spec("inspect_ai") is not None


def _missing(reason: str) -> dict[str, str]:
    return {"not_available": reason}


def _run(task: Any, model: Callable[..., Any], **options: Any) -> tuple[float, float]:
    """Seconds of CPU, its programs' too, and of wall time. Raises RuntimeError."""
    import inspect_ai
    from inspect_ai.model import get_model

    mock = get_model("mockllm/model", custom_outputs=model, memoize=False)
    with tempfile.TemporaryDirectory() as logs:
        begun, used = time.perf_counter(), _cpu_seconds()
        log = inspect_ai.eval(task, model=mock, log_dir=logs, display="none", **options)[0]
        spent = _cpu_seconds() - used, time.perf_counter() - begun
    done = log.results.completed_samples if log.results else 0
    if log.status != "success" or done != log.eval.dataset.samples:
        raise RuntimeError(log.error.message if log.error else f"{done} samples were completed")
    scores = log.results.scores if log.results else []
    if options.get("max_sandboxes") and scores[0].metrics["accuracy"].value != 1:
        raise RuntimeError("the Python calls did not work")
    return spent


def _cpu_seconds() -> float:
    import resource

    own, programs = (
        resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)
    )
    return own.ru_utime + own.ru_stime + programs.ru_utime + programs.ru_stime


def _say(*_: Any) -> Any:
    return _with_usage("It is 3.")


def _call(messages: Any, *_: Any) -> Any:
    """One Python call, then what it printed."""
    from inspect_ai.model import ModelOutput

    last = messages[-1]
    if last.role == "tool":
        return _with_usage(f"There are {last.text.strip()}")
    return _counted(ModelOutput.for_tool_call("mockllm/model", "python", {"code": PROGRAM}))


def _with_usage(text: str) -> Any:
    from inspect_ai.model import ModelOutput

    return _counted(ModelOutput.from_content("mockllm/model", text))


def _counted(output: Any) -> Any:
    from inspect_ai.model import ModelUsage

    output.usage = ModelUsage(input_tokens=10, output_tokens=5, total_tokens=15)
    return output
