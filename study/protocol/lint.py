"""Check a study file without doing anything: what is wrong with it, and what later steps would
refuse as far as that needs no ledger, key, network or container engine."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from datetime import date
from itertools import chain
from pathlib import Path

from generators.yaml_lines import Place, key_of
from harness.build_model import build_model
from harness.errors import HarnessError, ModelUnavailable
from harness.judging import build_judge
from harness.spending import OWN_PROVIDERS, PriceList, read_prices
from registry.ledger import JudgePin, ModelPin
from registry.provenance import utc_now
from study.errors import StudyFileError
from study.protocol.draw_checks import design_shortfalls, draw_faults
from study.protocol.plan_section import Faults
from study.protocol.protocol import Protocol, examine_protocol
from study.protocol.yaml import load_yaml

_BUILT_IN = "scripted"


@dataclass(frozen=True, slots=True)
class Finding:
    """Something in a study file that is wrong, or that a later step will ask for."""

    level: str  # "error" or "warning"
    file: str
    line: int
    key: str  # "" for the file as a whole
    message: str

    @property
    def place(self) -> str:
        """File, line and key."""
        return f"{self.file}:{self.line}" + (f": {self.key}" if self.key else "")

    def __str__(self) -> str:
        return f"{self.place}: {'warning: ' if self.level == 'warning' else ''}{self.message}"


def lint_protocol(path: Path, environment: Mapping[str, str]) -> list[Finding]:
    """Return the findings on a study file, in the order of its lines. Errors inside a section hide
    what could be found between sections. Raises StudyError for a file that cannot be read."""
    try:
        protocol, faults = examine_protocol(path.parent, path.name)
    except StudyFileError as error:
        protocol, faults = None, [error]
    if protocol is None:
        found = [Finding("error", f.file, f.line, f.key, f.message) for f in faults]
        return sorted(dict.fromkeys(found), key=lambda finding: finding.line)
    document = load_yaml(path)
    checks: tuple[tuple[str, Callable[..., Faults]], ...] = (
        ("error", _model_errors),
        ("error", _sandbox_errors),
        ("error", _price_errors),
        ("warning", _missing_here),
        ("warning", _missing_prices),
        ("warning", _idle_models),
        ("warning", _unready),
    )
    found = [
        Finding(level, document.path, document.line(place), key_of(place), message)
        for level, check in checks
        for place, message in check(protocol, path.parent, environment)
    ]
    return sorted(found, key=lambda finding: finding.line)


def _buyers(protocol: Protocol) -> Iterator[tuple[Place, ModelPin | JudgePin]]:
    """Yield the place and pin of each model and judge that is not built in."""
    for section, pins in (("models", protocol.models), ("judges", protocol.judges)):
        for pin in pins:
            if pin.provider != _BUILT_IN:
                yield (section, pin.name), pin


def _build(pin: ModelPin | JudgePin, environment: Mapping[str, str], folder: Path) -> None:
    """Build a model or judge, which makes no request. Raises HarnessError."""
    if isinstance(pin, JudgePin):
        build_judge(pin, str(folder), environment)
    else:
        build_model(pin, environment, str(folder))


class EveryKey(Mapping[str, str]):
    """An environment in which every key is set."""

    def __getitem__(self, name: str) -> str:
        return "key"

    def __iter__(self) -> Iterator[str]:
        return iter(())

    def __len__(self) -> int:
        return 0


def _model_errors(protocol: Protocol, folder: Path, environment: Mapping[str, str]) -> Faults:
    """Yield settings that no machine could use, such as a single turn without a context window."""
    for place, pin in _buyers(protocol):
        try:
            _build(pin, EveryKey(), folder)
        except ModelUnavailable:
            continue
        except HarnessError as error:
            yield place, str(error)


def _missing_here(protocol: Protocol, folder: Path, environment: Mapping[str, str]) -> Faults:
    """Yield what models need and this machine lacks: keys, libraries, weights."""
    for place, pin in _buyers(protocol):
        try:
            _build(pin, environment, folder)
        except ModelUnavailable as error:
            yield place, str(error)
        except HarnessError:
            continue  # an error everywhere


def _sandbox_errors(protocol: Protocol, folder: Path, environment: Mapping[str, str]) -> Faults:
    """Yield models whose programs would run in a sandbox that does not isolate."""
    for place, pin in _buyers(protocol):
        runs_nothing = isinstance(pin, JudgePin) or pin.provider == "agent_server"
        single_turn = dict(pin.settings).get("mode") == '"single_turn"'
        if protocol.sandbox.kind == "local" and not (runs_nothing or single_turn):
            yield (
                place,
                "it is not built in, and the local sandbox does not isolate what it runs: set "
                "`sandbox: {kind: docker}`",
            )


def _read_prices(protocol: Protocol, folder: Path) -> PriceList:
    return (
        PriceList("", "", ()) if protocol.prices is None else read_prices(folder / protocol.prices)
    )


def _price_errors(protocol: Protocol, folder: Path, environment: Mapping[str, str]) -> Faults:
    """Yield a price file that cannot be read."""
    try:
        _read_prices(protocol, folder)
    except HarnessError as error:
        yield ("prices",), str(error)


def _missing_prices(protocol: Protocol, folder: Path, environment: Mapping[str, str]) -> Faults:
    """Yield the models and judges that must be paid for and have no price."""
    try:
        prices = _read_prices(protocol, folder)
    except HarnessError:
        return
    for place, pin in _buyers(protocol):
        if pin.provider not in OWN_PROVIDERS and prices.of(pin.provider, pin.version) is None:
            named = "no `prices:` file is named" if protocol.prices is None else "no price is known"
            yield (
                place,
                f"{named} for {pin.version} of {pin.provider}: state it (docs/money.md), or give "
                "the sweep --allow-unknown-price",
            )


def _idle_models(protocol: Protocol, folder: Path, environment: Mapping[str, str]) -> Faults:
    """Yield models that are in no wave."""
    planned = {name for wave in protocol.waves for name in wave}
    for pin in protocol.models:
        if pin.name not in planned:
            yield ("models", pin.name), "it is in no wave, so it never runs"


def _unready(protocol: Protocol, folder: Path, environment: Mapping[str, str]) -> Faults:
    """Yield what `draw` and `register` refuse. Waves that are opened later may have it."""
    today = date.fromisoformat(utc_now()[:10])
    yield from chain(draw_faults(protocol, today), design_shortfalls(protocol))
