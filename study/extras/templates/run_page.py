"""The page of results of ``dosimeter template run``: one HTML file, nothing loaded. Texts of agents
are untrusted: they are escaped, and control and bidirectional characters are spelled out."""

from __future__ import annotations

import json
import unicodedata
from collections.abc import Iterable, Mapping
from html import escape
from pathlib import Path
from statistics import fmean
from typing import Any

from analysis.report.figures.style import CSS
from study.extras.templates.run_folder import (
    CONVERSATIONS,
    PRECHECK,
    Result,
    RunScores,
    read_rounds,
)

PAGE = "results.html"
_MOST_TEXT = 4_000  # characters shown of one text
_MOST_MESSAGES = 60  # of one conversation
_STYLE = """
body { margin: 0 auto; max-width: 64rem; padding: 1.5rem; background: var(--paper);
  color: var(--ink); font: 16px/1.5 var(--sans); }
h1 { font-size: 1.5rem; margin: 0 0 .3rem; } h2 { font-size: 1.15rem; margin: 2.2rem 0 .4rem; }
p { margin: .3rem 0; } .soft, .role { color: var(--muted); } .right { color: var(--clean); }
.wrong { color: var(--contaminated); } .wide { overflow-x: auto; }
.big { font-size: 2rem; font-weight: 600; }
table { border-collapse: collapse; font-variant-numeric: tabular-nums; font-size: .9rem; }
th, td { padding: .25rem .8rem .25rem 0; text-align: right; border-bottom: 1px solid var(--rule);
  white-space: nowrap; }
th { font-weight: 600; color: var(--muted); }
.text { text-align: left; white-space: normal; overflow-wrap: anywhere; min-width: 10.5rem; }
details { border-bottom: 1px solid var(--rule); padding: .3rem 0; } summary { cursor: pointer; }
pre { white-space: pre-wrap; overflow-wrap: anywhere; margin: .2rem 0 .6rem; padding: .5rem .7rem;
  border-left: 3px solid var(--rule); font-size: .85rem; }
.role { font-size: .85rem; margin-top: .4rem; }
"""
COLUMNS = {  # of tables of scores, by the name of the value
    "samples": "total",
    "strict": "correct",
    "lenient": "lenient_correct",
    "formatting failures": "formatting_failures",
    "task failures": "task_failures",
    "missing": "missing_responses",
    "undetermined": "undetermined",
    "lost runs": "lost_runs",
}


def run_page(run: Path, scores: RunScores, agent: str) -> str:
    """The whole page: totals, questions, scoring types, and each sample with its conversation."""
    summary = scores.as_json()
    head = summary["metadata"]
    title = f"Template run {head['test_id']}"
    total, right = head["total_questions"], head["correct_answers"]
    share = f"{head['accuracy_percentage']} %" if total else "–"
    rounds = [count for count in read_rounds(run).values() if count is not None]
    lengths = ""
    if rounds:
        mean, most = fmean(rounds), max(rounds)
        lengths = f" Rounds of a conversation: {mean:.1f} on average, {most} at most."
    prompts = _prompts(run / PRECHECK)
    talks = [
        _conversation(run / CONVERSATIONS / f"{result.sample.qs_id}.json")
        for result in scores.results
    ]
    failed = sum(bool(talk.get("error_message")) for talk in talks)
    failures = f'<p class="wrong">Failed conversations: {failed}.</p>\n' if failed else ""
    samples = (
        _sample(result, prompts.get(result.sample.line, ""), talk)
        for result, talk in zip(scores.results, talks, strict=True)
    )
    return (
        "<!doctype html>\n"
        '<html lang="en"><head><meta charset="utf-8">'
        '<meta name="viewport" content="width=device-width, initial-scale=1">'
        f"<title>{_safe(title)}</title><style>{CSS}{_STYLE}</style></head><body>\n"
        f'<h1>{_safe(title)}</h1>\n<p class="soft">{_safe(agent)}, scored '
        f"{scores.at:%Y-%m-%d %H:%M} UTC</p>\n"
        f'<p><span class="big">{share}</span> right strictly ({right} of {total}); '
        f"{head['lenient_correct_answers']} leniently.{lengths}</p>\n"
        f"{failures}{''.join(f'<p>{_safe(warning)}</p>' for warning in scores.warnings)}\n"
        f"<h2>By question</h2>\n{_table('question', summary['by_question'])}\n"
        f"<h2>By scoring type</h2>\n{_table('scoring type', summary['by_scoring_type'])}\n"
        f"<h2>Samples</h2>\n{''.join(samples)}</body></html>\n"
    )


def _table(name: str, groups: Mapping[str, Mapping[str, Any]]) -> str:
    head = "".join(f"<th>{column}</th>" for column in COLUMNS)
    rows = "".join(
        f'<tr><td class="text">{_safe(group)}</td>'
        + "".join(f"<td>{tally[key]}</td>" for key in COLUMNS.values())
        + "</tr>"
        for group, tally in groups.items()
    )
    return (
        f'<div class="wide"><table><tr><th class="text">{name}</th>{head}</tr>{rows}</table></div>'
    )


def _sample(result: Result, prompt: str, conversation: Mapping[str, Any]) -> str:
    sample, key = result.sample, result.sample.key
    expected = key.expected or "\n".join(key.paths)
    parts = [_block("question", prompt), _block("expected", expected)]
    if result.strict.error:
        parts.append(_block("why it is wrong", result.strict.error))
    messages = conversation.get("conversation_history")
    messages = messages[1:] if isinstance(messages, list) else []
    parts += [_message(message) for message in messages[:_MOST_MESSAGES]]
    if len(messages) > _MOST_MESSAGES:
        parts.append(f'<p class="soft">{len(messages) - _MOST_MESSAGES} more messages</p>')
    if error := conversation.get("error_message"):
        parts.append(_block("the conversation failed", str(error)))
    verdict = result.failure or "right"
    if error and not result.strict.correct:
        verdict += ", conversation failed"
    color = "" if result.undetermined else "right" if result.strict.correct else "wrong"
    return (
        f"<details><summary>{_safe(sample.qs_id)} "
        f'<span class="soft">{_safe(key.scoring_type)}</span> '
        f'<span class="{color}">{verdict}</span></summary>{"".join(parts)}</details>\n'
    )


def _message(message: object) -> str:
    fields = message if isinstance(message, dict) else {}
    role = "agent" if fields.get("role") == "assistant" else "tool"
    return _block(role, str(fields.get("content", "")))


def _block(name: str, text: str) -> str:
    return f'<div class="role">{name}</div><pre>{_safe(text)}</pre>'


def _conversation(path: Path) -> Mapping[str, Any]:
    """The conversation of a sample; empty if it cannot be read."""
    try:
        conversation = json.loads(path.read_bytes())
    except (OSError, ValueError, RecursionError):
        return {}
    return conversation if isinstance(conversation, dict) else {}


def _prompts(path: Path) -> dict[int, str]:
    """The questions as they were asked, by the line of the key."""
    lines = enumerate(path.read_bytes().splitlines(), 1)
    return {
        number: str(json.loads(line).get("substituted_question", ""))
        for number, line in lines
        if line.strip()
    }


def _safe(text: str) -> str:
    """The text for HTML: its beginning if it is long, with every character visible."""
    shown = text[:_MOST_TEXT]
    more = f" … ({len(text) - len(shown):,} more characters)" if len(text) > len(shown) else ""
    return escape(_visible(shown)) + more


def _visible(text: Iterable[str]) -> str:
    return "".join(
        f"\\u{{{ord(char):x}}}"
        if unicodedata.category(char)[0] == "C" and char not in "\n\t"
        else char
        for char in text
    )
