"""The records of a draw: announced, allotted to arms, revealed."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

SeedsPerArm = int | tuple[int, ...]  # in each stratum, or of each in the order of the strata


def sizes_of(seeds_per_arm: SeedsPerArm, strata: Sequence[str]) -> tuple[int, ...]:
    """The seeds per arm of each stratum."""
    return (seeds_per_arm,) * len(strata) if isinstance(seeds_per_arm, int) else seeds_per_arm


@dataclass(frozen=True, slots=True)
class Underpowered:
    """A plan that cannot be expected to answer, and was drawn or registered all the same."""

    reason: str  # as given, in words
    shortfalls: tuple[str, ...]  # what it lacks, as found then


@dataclass(frozen=True, slots=True)
class Unproved:
    """Template questions in which `dosimeter template check` finds an error, and families of
    installed packages in which `dosimeter tasks check` does, that were registered all the same."""

    reason: str  # as given, in words
    tasks: tuple[str, ...]  # file and question, or family@version; errors might quote a template


@dataclass(frozen=True, slots=True)
class Beacon:
    """A round of a public randomness beacon of drand."""

    chain: str  # hash of its parameters, 64 hexadecimal digits
    round: int


VARIANT, FAMILY = "variant", "family"  # levels


@dataclass(frozen=True, slots=True)
class Unit:
    """Tasks that are published or stay sealed together. Of the units of an area one half is
    published, by lot; a pair is an area of the variant level, with two."""

    name: str
    level: str  # VARIANT or FAMILY
    area: str
    strata: tuple[str, ...]
    digest: str = ""  # hex HMAC of its own files under a key that a reveal shows; "" without any
    tranche: int | None = None  # that has all of its seeds


def arm_sizes(
    strata: Sequence[str],
    seeds_per_arm: SeedsPerArm,
    reserve: Sequence[int] = (),
    units: Sequence[Unit] = (),
) -> dict[tuple[int, str], int]:
    """The seeds per arm of each tranche and stratum."""
    only = {s: unit.tranche for unit in units for s in unit.strata if unit.tranche is not None}
    sizes = {(tranche, name): 0 for name in strata for tranche in range(1 + len(reserve))}
    for name, size in zip(strata, sizes_of(seeds_per_arm, strata), strict=True):
        for tranche, count in enumerate((size, *reserve)):
            sizes[only.get(name, tranche), name] += count
    return sizes


@dataclass(frozen=True, slots=True)
class Parties:
    """The operator, who runs waves of a study without its key. It is that of the first
    announcement, for good."""

    operator_recipient: str = ""  # age public key, "" for none
    operator_signer: str = ""  # public signing key, "" for none


@dataclass(frozen=True, slots=True)
class DrawTerms:
    """What an announcement says of a draw beside its seeds. ``beacon`` allots the seeds, or else a
    secret that is sealed with them."""

    study: str
    recipients: tuple[str, ...]  # age public keys
    beacon: Beacon | None = None
    again: str = ""  # reason of a draw that replaces the one before it
    underpowered: Underpowered | None = None
    unproved: Unproved | None = None
    # As in Parties.
    operator_recipient: str = ""
    operator_signer: str = ""
    units: tuple[Unit, ...] = ()  # of tasks, half of which stay sealed


@dataclass(frozen=True, slots=True, kw_only=True)
class Announcement(DrawTerms):
    """Seeds are drawn and sealed, and will be allotted to arms by a value that is named here and
    that nobody, or nobody else, knows yet. The first one is the first record of a ledger: its
    signer is the study's key for all that follows."""

    strata: tuple[str, ...]
    seeds_per_arm: SeedsPerArm
    reserve: tuple[int, ...]  # seeds per arm and stratum of tranche 1 and so on
    root: str  # hex; RFC 6962 over the commitments, in the order drawn
    ciphertext: str  # digest of the sealed object
    entropy: str  # "operating system", or "fixed" for demonstrations
    beacon: Beacon | None  # whose value allots the seeds
    commitment: str  # without a beacon: hex HMAC of the sealed secret that does; else ""

    @property
    def parties(self) -> Parties:
        """The operator of the study."""
        return Parties(self.operator_recipient, self.operator_signer)


@dataclass(frozen=True, slots=True)
class SealedSet:
    """An announced draw with its arms: what is promised of it in public."""

    strata: tuple[str, ...]
    seeds_per_arm: SeedsPerArm
    count: int
    commitments: tuple[str, ...]  # hex HMACs, both arms, in the order drawn
    root: str  # hex; RFC 6962 over the commitments
    ciphertext: str  # digest of the sealed object
    uri: str  # its key in the store
    recipients: tuple[str, ...]  # age public keys
    entropy: str  # "operating system", or "fixed" for demonstrations
    allocation_seed: str  # hex; it gives the arms of the commitments
    # Seeds per arm and stratum of tranche 1 and so on; those of tranche 0, the panel, are above.
    reserve: tuple[int, ...] = ()
    underpowered: Underpowered | None = None
    unproved: Unproved | None = None
    # Hex: the beacon's signature of the announced round, or the secret that was committed to.
    value: str = ""
    units: tuple[Unit, ...] = ()


@dataclass(frozen=True, slots=True)
class Revealed:
    """The seeds and nonces of some tranches, of both arms, are public from here on; or the files of
    a unit alone, without a tranche."""

    tranches: tuple[int, ...]
    root: str  # of the draw
    count: int  # seeds
    content: str  # digest of the object that holds them
    uri: str  # its key in the store
    reason: str = ""  # for a reveal before its waves were closed
    units: tuple[str, ...] = ()  # the names of those that are revealed alone
