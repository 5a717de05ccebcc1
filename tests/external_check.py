"""Check a revealed study from its public files alone, by docs/formats.md: nothing of dosimeter is
imported, only Python's standard library and the package `cryptography`.

    python external_check.py STORE [--release FOLDER] [--key HEX] [--head DIGEST]

STORE holds the store's `ledger/`, `revealed/` and `sealed/`. The key is the study's public signing
key, and the head the digest of a record, both as known from elsewhere.
"""

import argparse
import hashlib
import hmac
import json
import re
import sys
from datetime import UTC, datetime
from pathlib import Path

from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey

RECORD = re.compile(
    rb'\{"body":(?P<body>.*),"kind":"(?P<kind>[a-z-]+)","previous":"(?P<previous>sha256:\w{64})",'
    rb'"sequence":(?P<sequence>\d+)(?P<signed>,"signature":"(?P<signature>[0-9a-f]{128})"),'
    rb'"signer":"(?P<signer>[0-9a-f]{64})","time":"(?P<time>[0-9T:.-]+Z)"\}',
    re.DOTALL,
)
OPERATOR = {"run-manifest", "wave-closed", "graded", "regraded", "judge-checked", "probed"}
QUICKNET = "52db9ba70e0cc0f6eaf7803dd07447a1f5477735fd3f661792ba94600c84e971"
DRAWN = ("strata", "seeds_per_arm", "reserve", "root", "ciphertext", "recipients", "entropy")


def flag(place, *checks):
    return [f"{place}: {text}" for wrong, text in checks if wrong]


def sha256(data):
    return "sha256:" + hashlib.sha256(data).hexdigest()


def holds(path, digest):
    return path.is_file() and sha256(path.read_bytes()) == digest


def join(*parts, size=4):
    return b"".join(len(part).to_bytes(size, "big") + part for part in parts)


def merkle(leaves):
    if len(leaves) < 2:
        return hashlib.sha256(b"\0" + leaves[0] if leaves else b"").digest()
    split = 1 << (len(leaves) - 1).bit_length() - 1
    return hashlib.sha256(b"\1" + merkle(leaves[:split]) + merkle(leaves[split:])).digest()


def commitment(seed):
    parts = (b"dosimeter/commitment", b"1", seed["instance"].encode(), bytes.fromhex(seed["seed"]))
    return hmac.new(bytes.fromhex(seed["nonce"]), join(*parts), hashlib.sha256).hexdigest()


def allocation_seed(announced, value):
    """The seed of an allocation; None for a value that the announcement did not name."""
    content, study = bytes.fromhex(value), announced["study"].encode()
    if announced["beacon"]:
        content = hashlib.sha256(content).digest()  # of the beacon's signature
    else:
        message = join(b"dosimeter/allocation-secret/1", study)
        if hmac.new(content, message, hashlib.sha256).hexdigest() != announced["commitment"]:
            return None
    parts = (b"dosimeter/allocation-seed/1", study, bytes.fromhex(announced["root"]), content)
    return hashlib.sha256(join(*parts)).hexdigest()


def places(drawn):
    """Arm, tranche and stratum of each leaf of a draw."""
    seed, counts = bytes.fromhex(drawn["allocation_seed"]), [drawn["seeds_per_arm"]]
    for stratum in drawn["strata"]:
        tag, blocks = (b"dosimeter/allocation/1", seed, stratum.encode()), []
        for tranche, count in enumerate(counts + drawn.get("reserve", [])):
            for arm in ("public", "private"):
                blocks += [(arm, tranche, stratum)] * count
        ranks = [hashlib.sha256(join(*tag, b"%d" % n)).digest() for n in range(len(blocks))]
        order = dict(zip(sorted(ranks), blocks, strict=True))
        yield from (order[rank] for rank in ranks)


def read_ledger(store, key, head, records):
    """Append the records of a ledger, and yield what is wrong with their chain and signatures."""
    previous, clock, operator = "sha256:" + "0" * 64, datetime.min.replace(tzinfo=UTC), ""
    for number, path in enumerate(sorted((store / "ledger").glob("*.json"))):
        data = path.read_bytes()
        found = RECORD.fullmatch(data)
        try:
            part = {name: text.decode() for name, text in found.groupdict().items()}
            body, at = json.loads(part["body"]), datetime.fromisoformat(part["time"])
            public = Ed25519PublicKey.from_public_bytes(bytes.fromhex(part["signer"]))
            message = join(b"dosimeter/ledger/1", data.replace(found["signed"], b""), size=8)
            public.verify(bytes.fromhex(part["signature"]), message)
        except (AttributeError, ValueError):
            yield f"{path.name}: no record of a ledger in canonical form"
            return
        except InvalidSignature:
            yield f"{path.name}: was altered: its signature does not hold"
        kind, signer = part["kind"], part["signer"]
        if number == 0:
            key, operator = key or signer, body.get("operator_signer", "")
        foreign = signer != key and not (signer == operator and kind in OPERATOR)
        moved = path.stem != f"{number:08d}" or part["sequence"] != str(number)
        yield from flag(
            path.name,
            (moved, "a record before it is missing, or it was moved"),
            (part["previous"] != previous, "the record before it was altered or replaced"),
            (foreign, f"a {kind} record that another key than the study's has signed"),
            (at < clock, "dated before the record before it"),
        )
        previous, clock = sha256(data), at
        records.append((path.name, kind, body, at, sha256(found["body"]), previous))
    if not records or head not in (None, *(record[-1] for record in records)):
        yield "ledger: the head noted elsewhere is not in it: records were dropped or rewritten"


def check_records(records, store):
    """Yield what is wrong with draws and reveals, and with a plan that came after the data."""
    announced = drawn = plan = None
    drawn_before, manifests, closed = False, set(), set()
    for name, kind, body, at, content, _ in records:
        if kind == "announcement":
            beacon = body["beacon"] or {"chain": QUICKNET, "round": 10**10}
            due = datetime.fromtimestamp(1692803367 + 3 * (beacon["round"] - 1), UTC)
            yield from flag(
                name,
                (drawn_before and not body.get("again"), "a second draw without a reason"),
                (plan, "a draw after the plan was registered"),
                (beacon["chain"] != QUICKNET, "a beacon that is not drand's quicknet"),
                (at >= due, "announced when the beacon's round was public already"),
            )
            announced, drawn_before = body, True
        elif kind == "sealed-set":
            if announced is None:
                yield f"{name}: a draw that was not announced"
                return
            root = merkle([bytes.fromhex(text) for text in body["commitments"]]).hex()
            wrong = allocation_seed(announced, body["value"]) != body["allocation_seed"]
            lost = not holds(store / body["uri"], body["ciphertext"])
            other = any(announced[each] != body.get(each, []) for each in DRAWN)
            yield from flag(
                name,
                (root != body["root"], "its root is not over its commitments"),
                (other, "another draw than was announced"),
                (wrong, "arms that do not follow from what was announced"),
                (lost, "its sealed seeds are missing or altered"),
            )
            drawn, announced = body, None
        elif kind == "preregistration":
            other = announced or drawn is None or body["sealed_root"] != drawn["root"]
            yield from flag(name, (plan, "a second plan"), (other, "a plan for another draw"))
            plan = plan or content
        elif kind == "run-manifest":
            yield from flag(name, (body["plan"] != plan, "a wave without its plan before it"))
            manifests.add(content)
        elif kind == "wave-closed":
            unknown = body["manifest"] not in manifests or body["wave"] in closed
            yield from flag(name, (unknown, "a wave that was closed already, or never begun"))
            closed.add(body["wave"])
        elif kind in ("release", "report"):
            yield from flag(name, (plan is None, f"a {kind} without a plan before it"))
        elif kind == "revealed":
            path = store / body["uri"]
            if not holds(path, body["content"]):
                yield f"{name}: the revealed seeds are missing or altered"
                continue
            value, where = json.loads(path.read_bytes()), list(places(drawn))
            owed = [leaf for leaf, place in enumerate(where) if place[1] in body["tranches"]]
            yield from flag(name, (value["leaves"] != owed, "seeds are left out, or added"))
            for leaf, seed in zip(value["leaves"], value["seeds"], strict=True):
                place = (seed["arm"], seed["tranche"], f"{seed['family']}/{seed['difficulty']}")
                broken = commitment(seed) != drawn["commitments"][leaf]
                yield from flag(
                    name,
                    (broken, f"seed {leaf} is not what was committed to"),
                    (place != where[leaf], f"seed {leaf} is in another place than was allotted"),
                )


def check_release(folder, records):
    sums = json.loads((folder / "checksums.json").read_bytes())
    found = {str(p.relative_to(folder)): p for p in folder.rglob("*") if p.is_file()}
    recorded = [body["content"] for _, kind, body, *_ in records if kind == "release"]
    yield from flag(
        "release",
        (found.keys() - {"checksums.json"} != sums.keys(), "files are missing, or added"),
        (sha256(found.pop("checksums.json").read_bytes()) not in recorded, "is not in the ledger"),
    )
    for name, path in found.items():
        yield from flag(f"release/{name}", (not holds(path, f"sha256:{sums.get(name)}"), "altered"))
    drawn = [body for _, kind, body, *_ in records if kind == "sealed-set"][-1]
    where = list(places(drawn))
    for seed in json.loads(found["commitments.json"].read_bytes())["public"]:
        leaf = seed["leaf"]
        yield from flag(
            "release",
            (where[leaf][0] != "public", f"seed {leaf} is of the private arm"),
            (commitment(seed) != drawn["commitments"][leaf], f"seed {leaf} was not committed to"),
        )


def check(store, release=None, key=None, head=None):
    records = []
    problems = list(read_ledger(store, key, head, records))
    # Place for checkpoints: signed notes over the digests of records.
    if not problems:  # what records say counts only if they are the study's
        problems += check_records(records, store)
    if not problems and release:
        problems += check_release(release, records)
    left = ["instances: `dosimeter reveal --check FILE` makes each again from its seed"]
    left += ["records dropped from the end: no head was given"] * (head is None)
    beacons = [body["beacon"] for _, kind, body, *_ in records if kind == "announcement"]
    left += [f"compare the value with drand's round {each['round']}" for each in beacons if each]
    return problems, left


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("store", type=Path)
    for option, kind in (("--release", Path), ("--key", str), ("--head", str)):
        parser.add_argument(option, type=kind)
    broken, left = check(**vars(parser.parse_args()))
    print(*(broken or ["all that was checked holds"]), sep="\n")
    print(*(f"not checked: {line}" for line in left), sep="\n")
    sys.exit(bool(broken))
