"""The text of an instance: what a release shows, measured where it is unlike that of others."""

from __future__ import annotations

import pytest

from generators.catalog import INSTALLED
from generators.seed import Seed
from generators.templates.family import template_family
from generators.templates.library import NAMES, library_text
from harness.probe.probing import MOST, OPENING, released_text

FAMILIES = {each.name: each for each in INSTALLED.families()}
CHEAP = ("compute_average", "count_circles", "hubble_constant")  # to make


@pytest.mark.parametrize("name", CHEAP)
def test_what_is_measured_is_the_instance_s_own(name: str) -> None:
    task = FAMILIES[name]
    made = [task.generate("easy", Seed(bytes([number]) * 32)) for number in (7, 8)]
    first, second = (released_text(instance, INSTALLED) for instance in made)
    assert first is not None
    assert second is not None
    assert first.text[: first.start] == second.text[: second.start]  # context, which all share
    assert first.text[first.start :] != second.text[second.start :]
    assert len(first.text) - first.start <= MOST
    headline, _, prompt = made[0].brief.prompt.partition("\n\n")
    assert first.text.startswith(f"{task.name}\n\n{prompt[:40]}")
    own = first.text[first.start :]
    digest = made[0].brief.assets[0].digest.removeprefix("sha256:")
    # The names of its files, where they are its own; else its title.
    assert own[:60] in f"{prompt}\n\n{headline}\n{digest}"
    assert name == "hubble_constant" or own.startswith(headline)
    assert released_text(made[0], INSTALLED) == first
    assert own not in repr(first)


def test_a_text_file_is_quoted_from_its_beginning_and_no_further() -> None:
    instance = FAMILIES["compute_average"].generate("hard", Seed(b"x" * 32))
    (asset,) = instance.brief.assets
    text = released_text(instance, INSTALLED)
    assert text is not None
    data = asset.data.decode()
    assert f"  {asset.path}\n{data[:OPENING]}".rstrip() in text.text
    assert data[: OPENING + 1] not in text.text


def test_questions_of_templates_are_measured_from_where_they_differ() -> None:
    name = sorted(NAMES)[0]
    made = template_family(f"{name}.yml", library_text(name))
    catalog, seen = INSTALLED.with_templates([made]), 0
    for question in made.questions[:6]:
        text = released_text(made.generate(question, Seed(b"t" * 32)), catalog)
        if text is not None:
            seen += 1
            assert 0 < text.start < len(text.text)
            assert text.text[text.start - 1].isspace()
    assert seen
