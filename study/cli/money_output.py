"""Output of ``sweep --estimate`` and ``sweep --dry-run``."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, replace
from typing import Any

from rich.markup import escape

from harness.spending import Price
from study.cli.output import print_json, print_records, stdout
from study.estimate import BOUNDS, FREE, LEVEL, QUANTITIES, Estimate, Forecast, Interval, total_usd
from study.sweeps import ALLOW, Rendered, RenderedJudge, judge_json, rendered_json, share_texts


def print_estimate(made: Estimate, as_json: bool) -> None:
    """Print an estimate."""
    if as_json:
        print_json(_estimate_json(made))
        return
    judges, again = made.judges, made.regrading
    if again is not None:
        judges = (*judges, replace(again, model=f"{again.model}, wave 0 again"))
    print_records(
        [_row(each) for each in made.forecasts], False, title=f"What wave {made.wave} still owes"
    )
    if judges:
        rows = [{"judge": row.pop("model"), **row} for row in map(_row, judges)]
        print_records(rows, False, title="To have it graded by judges")
    console = stdout()
    for line in (*_notes(made), *_judge_notes(judges)):
        console.print(escape(line), soft_wrap=True)


def print_dry_run(
    rendered: Sequence[Rendered], judges: Sequence[RenderedJudge], as_json: bool
) -> None:
    """Print the first requests to models and judges."""
    if as_json:
        requests = [rendered_json(each) for each in rendered]
        print_json({"requests": requests, "judges": [judge_json(each) for each in judges]})
        return
    console = stdout()
    for models, each in share_texts(rendered):
        console.rule(escape(f"{each.stratum} for {', '.join(models)}"), align="left")
        for message in each.messages:
            console.print(f"[bold]{message.role}[/]")
            console.print(message.text, markup=False, soft_wrap=True)
        for tool in each.tools:
            console.print(f"[bold]tool[/] {tool.name}: {escape(tool.description)}", soft_wrap=True)
    for judge in judges:
        console.rule(escape(f"{judge.stratum} by judge {judge.judge}"), align="left")
        for message in judge.messages:
            console.print(f"[bold]{message.role}[/]")
            console.print(message.text, markup=False, soft_wrap=True)
    print_records([_request_row(each) for each in rendered], False, title="First requests")
    if judges:
        print_records([_judge_row(each) for each in judges], False, title="Judges")
    console.print("tokens are estimates on the safe side; nothing was sent and nothing written")


def _request_row(each: Rendered) -> dict[str, Any]:
    return {
        "model": each.model,
        "stratum": each.stratum,
        "form": each.form,
        "tokens": each.tokens,
        "text": each.text_tokens,
        "pictures": each.picture_tokens,
        "tools": each.tool_tokens,
        "files": len(each.files),
        "turns": each.limits.turns if each.form == "agentic" else 1,
        "minutes": each.limits.episode_seconds / 60,
    }


def _judge_row(each: RenderedJudge) -> dict[str, Any]:
    return {
        "judge": each.judge,
        "stratum": each.stratum,
        "criteria": each.criteria,
        "calls": each.calls,
        "tokens of the first": each.tokens,
        "of all": each.every,
        "USD an episode": "unknown" if each.usd is None else _usd_range(*each.usd),
    }


def _usd_range(sent: float, longest: float | None) -> str:
    return f"{sent:.4f} … {'no bound' if longest is None else f'{longest:.4f}'}"


def _estimate_json(made: Estimate) -> dict[str, Any]:
    return {
        "wave": made.wave,
        "level": LEVEL,
        "prices": made.pricing.prices.digest or None,
        "models": [_forecast_json(each) for each in made.forecasts],
        "cost_usd": _interval_json(total_usd(made.forecasts)),
        "judges": [_forecast_json(each, "judge") for each in made.judges],
        "judges_cost_usd": _interval_json(total_usd(made.judges)),
        "regrading": None if made.regrading is None else _forecast_json(made.regrading, "judge"),
    }


def _forecast_json(each: Forecast, kind: str = "model") -> dict[str, Any]:
    return {
        kind: each.model,
        "episodes": each.episodes,
        "basis": each.basis,
        "pilots": each.pilots,
        "pilot_model": each.pilot_model or None,
        "pooled_strata": list(each.pooled),
        "price": _price_json(each.price),
        **{name: _interval_json(getattr(each, name)) for name in QUANTITIES},
    }


def _price_json(price: Price | None) -> dict[str, Any] | None:
    if price is None:
        return None
    return {
        "input": float(price.input),
        "cached_input": float(price.cached_input),
        "output": float(price.output),
        "date": price.date,
        "source": price.source,
    }


def _interval_json(interval: Interval | None) -> dict[str, float | None] | None:
    return None if interval is None else asdict(interval)


def _row(each: Forecast) -> dict[str, Any]:
    return {
        "model": each.model,
        "owed": each.episodes,
        "basis": f"{each.pilots} pilots" if each.pilots else each.basis,
        "input tokens": _range(each.input_tokens, 0),
        "cached": _range(each.cached_tokens, 0),
        "output tokens": _range(each.output_tokens, 0),
        "USD": _cost(each),
    }


def _cost(each: Forecast) -> str:
    if each.basis == FREE:
        return "no call is paid for"
    if not each.episodes:
        return "–"
    return "unknown" if each.cost_usd is None else _range(each.cost_usd, 2)


def _range(interval: Interval | None, digits: int) -> str:
    if interval is None:
        return "–"
    high = "no bound" if interval.high is None else f"{interval.high:,.{digits}f}"
    return f"{interval.low:,.{digits}f} … {high}"


def _judge_notes(judges: Sequence[Forecast]) -> list[str]:
    lines = []
    for each in judges:
        if each.basis == BOUNDS:
            lines.append(
                f"judge {each.model}: it has graded no two instances, so these are bounds: every "
                "call made three times, about the longest answers; without `max_tokens` there "
                "is no upper one"
            )
            if each.cost_usd is not None and each.cost_usd.mean is not None:
                lines.append(
                    f"judge {each.model}: about USD {each.cost_usd.mean:,.2f} if each call is made "
                    "once, about answers as long as the keys"
                )
        if each.pooled:
            lines.append(f"judge {each.model}: by other strata's: {', '.join(each.pooled)}")
        if each.basis != FREE and each.price is None:
            lines.append(f"judge {each.model}: its price is unknown; grading needs {ALLOW}")
    return lines


def _notes(made: Estimate) -> list[str]:
    """Notes on the numbers, a line each."""
    lines = [f"intervals at {LEVEL:.0%}; what failed attempts took is counted in the pilots"]
    for each in made.forecasts:
        if each.basis == BOUNDS:
            lines.append(
                f"{each.model}: no two pilots, so these are bounds from the limits, for one "
                "attempt at each episode; without `context` and `max_tokens` there is no upper one"
            )
        if each.pilot_model and each.pilot_model != each.model:
            lines.append(f"{each.model}: by the pilots of another model, {each.pilot_model}")
        if each.pooled:
            lines.append(f"{each.model}: by the pilots of other strata: {', '.join(each.pooled)}")
        if each.price is not None:
            lines.append(f"{each.model}: priced as of {each.price.date} ({each.price.source})")
    lines += [
        f"{each.name}: its price is unknown; sweeping it needs {ALLOW}"
        for each in made.pricing.unknown
    ]
    total = total_usd(made.forecasts)
    lines.append("in all: " + ("unknown" if total is None else f"USD {_range(total, 2)}"))
    return lines
