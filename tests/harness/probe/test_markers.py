"""Marker probes: the question shows nothing of the answer, and any reply counts."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace

import pytest

from generators.catalog import INSTALLED
from generators.seed import Seed
from generators.task import TaskInstance
from generators.title import MARKERS
from harness.model import ModelRequest
from harness.models.scripted import Memory, SolvingAgent
from harness.probe.markers import marker_messages, read_marker
from tests.cases import cases


def instance_of(number: int) -> TaskInstance:
    return INSTALLED.family("compute_average").generate("easy", Seed(bytes([number]) * 32))


def question_of(instance: TaskInstance) -> str:
    return marker_messages(instance, INSTALLED)[1].text


def test_a_question_holds_the_title_and_the_markers_and_nothing_else() -> None:
    instance = instance_of(1)
    title, _, listed = question_of(instance).partition("\nSeries: ")
    assert title == f"Title: {instance.title}"
    assert sorted(listed.split(", ")) == sorted(MARKERS)


def test_the_order_shows_nothing_of_the_marker() -> None:
    instance = instance_of(1)
    asked = {question_of(replace(instance, marker=marker, id=marker)) for marker in MARKERS}
    assert asked == {question_of(instance)}


def test_orders_differ_between_instances_and_put_each_marker_everywhere() -> None:
    instance = instance_of(1)
    firsts = Counter(
        question_of(replace(instance, title=f"T, run {n}")).partition("Series: ")[2][:3]
        for n in range(800)
    )
    assert len(firsts) == len(MARKERS)
    assert all(60 <= count <= 140 for count in firsts.values())  # 100 ± 9.4, by chance


@pytest.mark.parametrize(("reply", "named"), cases(__file__, "replies"))
def test_a_reply_names_one_marker_or_none(reply: str, named: str) -> None:
    assert read_marker(reply) == named


def test_who_has_read_a_title_knows_its_marker_and_others_guess() -> None:
    read, other = instance_of(1), instance_of(2)
    spiked = SolvingAgent("s", 0.0, Memory({}, {}, {read.title: read.marker}))
    for agent, instance in ((spiked, read), (spiked, other), (SolvingAgent("h", 0.0), read)):
        request = ModelRequest(marker_messages(instance, INSTALLED), (), Seed(bytes(32)))
        named = read_marker(agent.respond(request).message.text)
        known = agent is spiked and instance is read
        first = question_of(instance).partition("Series: ")[2].split(", ")[0]
        assert named == (read.marker if known else first)
