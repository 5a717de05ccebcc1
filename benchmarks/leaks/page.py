"""The numbers of docs/calibration.md, from what benchmarks/leaks has stored.

Sentences are written by hand. What stands between ``<!-- made: NAME -->`` and ``<!-- end -->`` is
made here.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

from analysis.stats.intervals import p_words, points, signed

_MADE = re.compile(r"(<!-- made: ([a-z ]+) -->\n).*?(<!-- end -->)", re.S)
BAND = (0.015, 0.037)  # of false alarms, for 1,000 tests at .025

Stored = Mapping[str, Any]


def _table(head: Sequence[str], rows: Iterator[Sequence[str]]) -> str:
    lines = [head, ["---"] * len(head), *rows]
    return "".join(f"| {' | '.join(line)} |\n" for line in lines)


def _share(value: float) -> str:
    return f"{value:.3f}".removeprefix("0")


def _ends(interval: Sequence[float], form: Callable[[float], str] = _share) -> str:
    return f"{form(interval[0])} to {form(interval[1])}"


def _doses(stored: Stored) -> str:
    study = stored["study"]
    rows = (
        (
            str(row["dose"]),
            f"{_share(row['public']['mean'])} ({_ends(row['public']['interval'])})",
            f"{_share(row['private']['mean'])} ({_ends(row['private']['interval'])})",
            f"{signed(row['gap'])} ({_ends(row['interval'], signed)})",
            f"{row['found']} of {row['tested']}",
        )
        for row in study["rows"]
    )
    head = ("copies", "public", "private", "gap, points", "contaminated")
    reached = study["dose_at_limit"]
    at = "reached by no dose" if reached is None else f"reached at {reached:.1f} copies"
    return (
        f"{study['instances']} instances an arm, {study['models_of_the_look']} models in the look."
        f"\n\n{_table(head, rows)}\nLimit of blank {points(study['blank'])} points; limit of "
        f"detection {points(study['limit'])} points, {at}.\n"
    )


def _blank(stored: Stored) -> str:
    part = stored["blank"]
    kept = "within" if BAND[0] <= part["rate"] <= BAND[1] else "outside"
    return (
        f"{part['models']} models of dose 0, each tested on {part['draws']} draws of its own: "
        f"{part['false_alarms']} of {part['models'] * part['draws']:,} tests at one-sided .025 "
        f"gave a false alarm, {_share(part['rate'])} ({_ends(part['interval'])}), {kept} the band "
        f"{_share(BAND[0])} to {_share(BAND[1])}.\n"
    )


def _power(stored: Stored) -> str:
    part = stored["doses"]
    sizes = [str(each["instances"]) for each in part["doses"][0]["by_size"]]

    def cell(each: Mapping[str, Any]) -> str:
        forecast = "" if each["forecast"] is None else f"; {_share(each['forecast'])}"
        found = each["found"] / each["of"]
        return f"{_share(found)} ({_ends(each['interval'])}){forecast}"

    rows = (
        (str(row["dose"]), signed(row["gap"]), *map(cell, row["by_size"])) for row in part["doses"]
    )
    head = ("copies", "mean gap", *(f"{size} an arm" for size in sizes))
    models = part["training_seeds"] * part["draws"]
    cells = [each for row in part["doses"] for each in row["by_size"] if each["forecast"]]
    outside = sum(not e["interval"][0] <= e["forecast"] <= e["interval"][1] for e in cells)
    return (
        f"{models} models of each dose.\n\n{_table(head, rows)}\n"
        f"{outside} of {len(cells)} intervals leave their forecast out.\n"
    )


def _trend(stored: Stored) -> str:
    trends = stored["study"]["trends"]
    doses = trends[0]["doses"]
    rows = (
        (
            trend["model"],
            *(
                f"{right:g} of {count}"
                for right, count in zip(trend["right"], trend["instances"], strict=True)
            ),
            _share(trend["private"]["mean"]),
            f"{trend['z']:.1f}",
            str(trend["verdict"]),
        )
        for trend in trends
    )
    head = ("model", *(_copies(dose) for dose in doses), "private", "trend z", "verdict")
    return _table(head, rows)


def _probes(stored: Stored) -> str:
    rows = stored["study"]["rows"]
    names = [probe["probe"] for probe in rows[-1]["probes"]]

    def cells(name: str) -> Iterator[str]:
        for row in rows:
            probe = next((each for each in row["probes"] if each["probe"] == name), None)
            needed = probe and probe["instances"]
            count = "–" if needed is None or needed > MOST_SHOWN else f"{needed:,}"
            yield "–" if probe is None else f"{_share(probe['auc'])}, {count}"

    head = ("measure", *(_copies(row["dose"]) for row in rows))
    return _table(head, ((name, *cells(name)) for name in names))


MOST_SHOWN = 2_000  # instances an arm: a measure that needs more sees nothing


def _copies(dose: int) -> str:
    return f"{dose} cop{'y' if dose == 1 else 'ies'}"


def _key_size(stored: Stored) -> str:
    rows = stored["study"]["rows"]
    groups = rows[0]["by_key"]
    head = ("bits of the answer", *(_copies(row["dose"]) for row in rows))
    lines = (
        (f"{group['bits']:.1f}", *(signed(row["by_key"][place]["gap"]) for row in rows))
        for place, group in enumerate(groups)
    )
    return _table(head, lines)


def _private(stored: Stored) -> str:
    rows = [row for row in stored["study"]["rows"] if row["private_rise"] is not None]
    head = ("copies", "private arm against dose 0, points")
    return _table(
        head,
        (
            (
                str(row["dose"]),
                f"{signed(row['private_rise'])} ({_ends(row['rise_interval'], signed)})",
            )
            for row in rows
        ),
    )


def _forms(stored: Stored) -> str:
    part = stored["forms"]
    head = ("leak", "public", "private", "gap", "found", *("answer", "whole text", "input"))
    seeds = part["training_seeds"]
    rows = (
        (
            name,
            _share(form["public"]),
            _share(form["private"]),
            signed(form["public"] - form["private"]),
            f"{round(form['found'] * seeds)} of {seeds}",
            *(_share(form[f"auc_{each}"]) for each in ("answer", "text", "prompt")),
        )
        for name, form in part["forms"].items()
    )
    return f"{_copies(part['dose'])} of each instance of the leak.\n\n{_table(head, rows)}"


def _pretrained(stored: Stored) -> str:
    part = stored["pretrained"]
    training = part["training"]
    groups = _groups(part["right"]["answers"])
    rows = [
        ("right", *(f"{each['right']} of {each['of']}" for each in groups.values())),
        ("share", *(_share(each["share"]) for each in groups.values())),
        ("interval", *(_ends(each["interval"]) for each in groups.values())),
        *(
            (f"{name}, area under the curve", "", *map(_share, found.values()))
            for name, found in part["auc"].items()
        ),
    ]
    (model,) = part["models"]
    return (
        f"{training['rows']:,} texts, {training['copies']:,} of them copies of the release, "
        f"{training['steps']} steps, {training['seconds'] / 60:.0f} minutes on two cores.\n\n"
        f"{_table(('', *groups), iter(rows))}\n"
        f"The registered test on all {model['n_public']} public and {model['n_private']} private "
        f"instances: {model['verdict']}, gap {signed(model['estimate'])} points, "
        f"p {p_words(model['p'])}.\n"
    )


def _markers(stored: Stored) -> str:
    part = stored["pretrained"]
    rows = (
        (
            name,
            *(f"{each['right']} of {each['of']}" for each in _groups(found).values()),
            f"{found['trend']['z']:.1f}, {p_words(found['trend']['p'])}",
            p_words(part["exact"][name]["public"]) if name in part["exact"] else "–",
        )
        for name, found in part["right"].items()
    )
    head = ("right", *_groups(part["right"]["answers"]), "trend z, p", "exact p, public arm")
    return _table(head, rows)


def _groups(found: Mapping[str, Any]) -> dict[str, Mapping[str, Any]]:
    doses = {_copies(int(dose)): each for dose, each in found["doses"].items()}
    return {"private": found["private"], **doses}


PARTS: Mapping[str, Callable[[Stored], str]] = {
    "doses": _doses,
    "blank": _blank,
    "power": _power,
    "trend": _trend,
    "probes": _probes,
    "key size": _key_size,
    "private": _private,
    "forms": _forms,
    "pretrained": _pretrained,
    "markers": _markers,
}


def render_page(page: str, stored: Stored) -> str:
    """The page with every made part made anew."""
    return _MADE.sub(lambda match: f"{match[1]}\n{PARTS[match[2]](stored)}\n{match[3]}", page)
