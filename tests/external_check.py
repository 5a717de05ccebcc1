"""Check a revealed study from its public files alone, by docs/formats.md: with Python's standard
library and `cryptography`, nothing of dosimeter. STORE holds `ledger/`, `revealed/` and `sealed/`;
key (the study's public one), head and checkpoint are as known from elsewhere."""

import argparse
import base64
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
    rb'(?s)\{"body":(?P<body>.*),"kind":"(?P<kind>[a-z-]+)","previous":"(?P<previous>sha256:\w{64})",'
    rb'"sequence":(?P<sequence>\d+)(?P<signed>,"signature":"(?P<signature>[0-9a-f]{128})"),'
    rb'"signer":"(?P<signer>[0-9a-f]{64})","time":"(?P<time>[0-9T:.-]+Z)"\}'
)
OPERATOR = {"run-manifest", "wave-closed", "graded", "regraded", "judge-checked", "probed"}
QUICKNET = "52db9ba70e0cc0f6eaf7803dd07447a1f5477735fd3f661792ba94600c84e971"
DRAWN = ("strata", "seeds_per_arm", "reserve", "root", "ciphertext", "recipients", "entropy")
PARTIES = ("study", "operator_recipient", "operator_signer", "witnesses", "witness_threshold")


class Problems(list):
    def need(self, place, right, text):
        self += [] if right else [f"{place}: {text}"]


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


def is_signed(public, signature, message):
    try:
        return Ed25519PublicKey.from_public_bytes(public).verify(signature, message) is None
    except (InvalidSignature, ValueError):
        return False


def commitment(seed):
    parts = (b"dosimeter/commitment", b"1", seed["instance"].encode(), bytes.fromhex(seed["seed"]))
    return hmac.new(bytes.fromhex(seed["nonce"]), join(*parts), hashlib.sha256).hexdigest()


def allocation_seed(announced, value):
    content, study = bytes.fromhex(value), announced["study"].encode()
    message = join(b"dosimeter/allocation-secret/1", study)
    if announced["beacon"]:
        content = hashlib.sha256(content).digest()  # of the beacon's signature
    elif hmac.new(content, message, hashlib.sha256).hexdigest() != announced["commitment"]:
        return None  # not the value that was announced
    parts = (b"dosimeter/allocation-seed/1", study, bytes.fromhex(announced["root"]), content)
    return hashlib.sha256(join(*parts)).hexdigest()


def places(drawn):
    seed, counts = bytes.fromhex(drawn["allocation_seed"]), [drawn["seeds_per_arm"]]
    for stratum in drawn["strata"]:
        tag, blocks = (b"dosimeter/allocation/1", seed, stratum.encode()), []
        for tranche, count in enumerate(counts + drawn.get("reserve", [])):
            blocks += [(a, tranche, stratum) for a in ("public", "private") for _ in range(count)]
        ranks = [hashlib.sha256(join(*tag, b"%d" % n)).digest() for n in range(len(blocks))]
        yield from map(dict(zip(sorted(ranks), blocks, strict=True)).get, ranks)


def check_ledger(bad, store, key, head):
    records = []
    last, clock, operator = "sha256:" + "0" * 64, datetime.min.replace(tzinfo=UTC), ""
    for number, path in enumerate(sorted((store / "ledger").glob("*.json"))):
        name, data = path.name, path.read_bytes()
        if not (found := RECORD.fullmatch(data)):
            bad.need(name, False, "no record of a ledger in canonical form")
            break
        part = {name: text.decode() for name, text in found.groupdict().items()}
        kind, signer, signature = part["kind"], part["signer"], bytes.fromhex(part["signature"])
        body, at = json.loads(part["body"]), datetime.fromisoformat(part["time"])
        message = join(b"dosimeter/ledger/1", data.replace(found["signed"], b""), size=8)
        if number == 0:
            key, operator = key or signer, body.get("operator_signer", "")
        known = signer == key or (signer == operator and kind in OPERATOR)
        in_place = path.stem == f"{number:08d}" and part["sequence"] == str(number)
        signed = is_signed(bytes.fromhex(signer), signature, message)
        bad.need(name, signed, "was altered: its signature does not hold")
        bad.need(name, in_place, "a record before it is missing, or it was moved")
        bad.need(name, part["previous"] == last, "the record before it was altered or replaced")
        bad.need(name, known, f"a {kind} record that another key than the study's has signed")
        bad.need(name, at >= clock, "dated before the record before it")
        last, clock = sha256(data), at
        records.append((name, kind, body, at, sha256(found["body"]), last, signer, data))
    has_head = records and head in (None, *(record[5] for record in records))
    bad.need("ledger", has_head, "the head noted elsewhere is not in it: it was cut or rewritten")
    return records


def check_checkpoint(bad, path, records):
    text, _, lines = path.read_text().rpartition("\n\n")
    origin, size, root, *_ = (text := text + "\n").split("\n")
    named, study, signed = records[0][2].get("witnesses", []), records[0][6], set()
    keys = {name: base64.b64decode(key) for name, _, key in (line.split("+", 2) for line in named)}
    keys[f"dosimeter/{study}"] = b"\1" + bytes.fromhex(study)
    for name, code in re.findall(r"^— (\S+) (\S+)$", lines, re.MULTILINE):
        key, data, message = keys.get(name, b""), base64.b64decode(code), text
        if key[:1] == b"\4":
            message = f"cosignature/v1\ntime {int.from_bytes(data[4:12], 'big')}\n{text}"
        ident = hashlib.sha256(name.encode() + b"\n" + key).digest()[:4]
        if data[:4] == ident and is_signed(key[1:], data[-64:], message.encode()):
            signed.add(name)
    ours = origin == f"dosimeter/{study}" and origin in signed
    files = [record[7] for record in records[: int(size)]]
    kept = int(size) == len(files) and base64.b64decode(root) == merkle(files)
    bad.need(path, ours, "no checkpoint that this study signed: the ledger was replaced")
    bad.need(path, kept, f"of its {size} records some were dropped or rewritten")
    return signed - {origin}


def check_records(bad, records, store):
    first, announced, drawn, plan, manifests, closed = records[0][2], None, None, None, set(), set()
    for name, kind, body, at, content, *_ in records:
        if kind == "announcement":
            beacon = body["beacon"] or {"chain": QUICKNET, "round": 10**10}
            due = datetime.fromtimestamp(1692803367 + 3 * (beacon["round"] - 1), UTC)
            bad.need(name, body is first or body.get("again"), "a second draw without a reason")
            bad.need(name, all(body.get(p) == first.get(p) for p in PARTIES), "other parties")
            bad.need(name, plan is None, "a draw after the plan was registered")
            bad.need(name, beacon["chain"] == QUICKNET, "a beacon that is not drand's quicknet")
            bad.need(name, at < due, "announced when the beacon's round was public already")
            announced = body
        elif kind == "sealed-set":
            if announced is None:
                return bad.need(name, False, "a draw that was not announced")
            root = merkle([bytes.fromhex(text) for text in body["commitments"]]).hex()
            same = all(announced[each] == body.get(each, []) for each in DRAWN)
            follows = allocation_seed(announced, body["value"]) == body["allocation_seed"]
            sealed = holds(store / body["uri"], body["ciphertext"])
            bad.need(name, root == body["root"], "its root is not over its commitments")
            bad.need(name, same, "another draw than was announced")
            bad.need(name, follows, "arms that do not follow from what was announced")
            bad.need(name, sealed, "its sealed seeds are missing or altered")
            drawn, announced = body, None
        elif kind == "preregistration":
            own = drawn and not announced and body["sealed_root"] == drawn["root"]
            bad.need(name, plan is None, "a second plan")
            bad.need(name, own, "a plan for another draw")
            plan = plan or content
        elif kind == "run-manifest":
            bad.need(name, body["plan"] == plan, "a wave without its plan before it")
            manifests.add(content)
        elif kind == "wave-closed":
            known = body["manifest"] in manifests and body["wave"] not in closed
            bad.need(name, known, "a wave that was closed already, or never begun")
            closed.add(body["wave"])
        elif kind in ("release", "report"):
            bad.need(name, plan, f"a {kind} without a plan before it")
        elif kind == "revealed":
            check_reveal(bad, name, body, store, drawn)


def check_seed(bad, name, leaf, seed, in_place, drawn):
    opens = commitment(seed) == drawn["commitments"][leaf]
    bad.need(name, opens, f"seed {leaf} is not what was committed to")
    bad.need(name, in_place, f"seed {leaf} is in another place than was allotted")


def check_reveal(bad, name, body, store, drawn):
    if not holds(path := store / body["uri"], body["content"]):
        return bad.need(name, False, "the revealed seeds are missing or altered")
    value, where = json.loads(path.read_bytes()), list(places(drawn))
    owed = [leaf for leaf, place in enumerate(where) if place[1] in body["tranches"]]
    bad.need(name, value["leaves"] == owed, "seeds are left out, or added")
    for leaf, seed in zip(value["leaves"], value["seeds"], strict=True):
        place = (seed["arm"], seed["tranche"], f"{seed['family']}/{seed['difficulty']}")
        check_seed(bad, name, leaf, seed, place == where[leaf], drawn)


def check_release(bad, folder, records):
    found = {str(p.relative_to(folder)): p for p in folder.rglob("*") if p.is_file()}
    listed = found.pop("checksums.json").read_bytes()
    sums, recorded = json.loads(listed), [body.get("content") for _, _, body, *_ in records]
    bad.need("release", found.keys() == sums.keys(), "files are missing, or added")
    bad.need("release", sha256(listed) in recorded, "is not in the ledger")
    for name, path in found.items():
        bad.need(f"release/{name}", holds(path, f"sha256:{sums.get(name)}"), "altered")
    drawn = [body for _, kind, body, *_ in records if kind == "sealed-set"][-1]
    where = list(places(drawn))
    for value in [json.loads(p.read_bytes()) for p in (folder / "openings").glob("*.json")]:
        for seed in value["public"]:
            place = ("public", value["tranche"], seed["stratum"])
            check_seed(bad, "release", seed["leaf"], seed, place == where[seed["leaf"]], drawn)


def check(store, release=None, key=None, head=None, checkpoints=()):
    bad = Problems()
    records = check_ledger(bad, store, key, head)
    if not bad:  # what records say counts only if they are the study's
        check_records(bad, records, store)
    if not bad and release:
        check_release(bad, release, records)
    notes = [*checkpoints, *(release or store).glob("checkpoint.txt")]
    signed = [check_checkpoint(bad, path, records) for path in notes if records]
    watched = any(len(names) >= records[0][2].get("witness_threshold", 99) for names in signed)
    left = ["instances: `dosimeter reveal --check FILE` makes each again from its seed"]
    left += ["records dropped from the end: no head was given"] * (head is None)
    left += ["records rewritten by the study itself: too few witnesses signed"] * (not watched)
    beacons = filter(None, (body.get("beacon") for _, _, body, *_ in records))
    left += [f"compare the value with drand's round {beacon['round']}" for beacon in beacons]
    return bad, [f"not checked: {line}" for line in left]


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    for option, kind in (("store", Path), ("--release", Path), ("--key", str), ("--head", str)):
        parser.add_argument(option, type=kind)
    parser.add_argument("--checkpoint", dest="checkpoints", type=Path, action="append", default=[])
    broken, left = check(**vars(parser.parse_args()))
    print(*(broken or ["all that was checked holds"]), *left, sep="\n")
    sys.exit(bool(broken))
