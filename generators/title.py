"""Title and marker of an instance, both drawn: the words under which a model may remember it.

The title stands in the first message, so that a model that has read the instance can know it again
before it opens a file; it has 45 bits, so that nobody guesses it. The marker is one of eight, of no
use for the task: a model that names the markers of public titles more often than one time in eight
has read them."""

from __future__ import annotations

from generators.seed import Seed

MARKERS = ("amber", "cobalt", "crimson", "indigo", "jade", "ochre", "silver", "violet")

_FIRST = (
    "Alder Anvil Basalt Birch Bramble Bronze Canyon Cedar Cinder Copper Coral Crystal Cypress "
    "Delta Drift Dune Ember Fallow Fern Flint Garnet Glacier Gorse Granite Harbour Hazel "
    "Heather Hollow Iron Ivory Juniper Kelp Lantern Larch Laurel Lichen Linden Marble Marsh "
    "Meadow Mica Mineral Moraine Moss Oak Onyx Opal Pebble Pine Plover Quartz Reed Rowan "
    "Saffron Sage Salt Sedge Slate Spruce Tamarind Thistle Timber Walnut Willow"
)
_SECOND = (
    "Abbey Acre Arch Bank Bay Beacon Bend Bluff Bridge Brook Burrow Cairn Cape Chapel Cliff "
    "Coast Cove Crag Creek Crossing Dale Dell Edge Falls Fen Field Ford Forge Gate Glen Gorge "
    "Grange Grove Gulf Heath Hill Inlet Island Junction Knoll Lagoon Lake Landing Ledge Lock "
    "Mill Moor Narrows Orchard Pass Peak Point Pond Quarry Reach Ridge Rise Sound Spring Summit "
    "Terrace Vale Well Yard"
)
_FIRSTS, _SECONDS = _FIRST.split(), _SECOND.split()
_RUNS = 10**10


def title_of(seed: Seed) -> str:
    """The title of the instance of a seed: two words and a run number of ten digits."""
    draws = seed.child("title").rng()
    words = f"{draws.choice(_FIRSTS)} {draws.choice(_SECONDS)}"
    return f"{words}, run {draws.integer(0, _RUNS - 1):010d}"


def marker_of(seed: Seed) -> str:
    """The marker of the instance of a seed: one of MARKERS, each equally likely."""
    return seed.child("marker").rng().choice(MARKERS)


def add_headline(title: str, marker: str, task: str) -> str:
    """The prompt of an instance: a line with its title and marker, and the task."""
    return f"{title} ({marker} series)\n\n{task}"


def split_headline(prompt: str) -> tuple[str, str]:
    """The first line of a prompt, and the task, which instances may share."""
    first, _, task = prompt.partition("\n\n")
    return first, task
