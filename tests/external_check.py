"""Check a revealed study from its public files, as docs/formats.md says, without dosimeter."""

import argparse
import hashlib
import hmac
import json
import re
from binascii import a2b_base64, b2a_base64, unhexlify
from contextlib import suppress
from datetime import UTC, datetime
from pathlib import Path

from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey

RECORD = re.compile(
    rb'(?s)\{"body":(\{.*\}),"kind":"[a-z-]+","previous":"sha256:\w{64}","sequence":\d+'
    rb'(,"signature":"[0-9a-f]{128}"),"signer":"[0-9a-f]{64}","time":"[\d-]{10}T[\d:]{8}Z"\}'
)
OPERATOR = "run-manifest exported wave-closed graded regraded judge-checked probed attempts-begun"
QUICKNET = "52db9ba70e0cc0f6eaf7803dd07447a1f5477735fd3f661792ba94600c84e971"
DRAWN = "strata units seeds_per_arm reserve root ciphertext recipients entropy"


def broken(place, rules):
    try:  # a rule: whether it holds, and what is wrong if not
        yield from (f"{place}: {text}" for right, text in rules if not right)
    except Exception as error:  # whatever a file holds
        yield f"{place}: missing, or not of the documented form: {type(error).__name__}: {error}"


def sha256(data):
    return "sha256:" + hashlib.sha256(data).hexdigest()


def join(*parts, size=4):
    return b"".join(len(part).to_bytes(size, "big") + part for part in parts)


def merkle(leaves):
    if len(leaves) < 2:
        return hashlib.sha256(b"\0" + leaves[0] if leaves else b"").digest()
    split = 1 << (len(leaves) - 1).bit_length() - 1
    return hashlib.sha256(b"\1" + merkle(leaves[:split]) + merkle(leaves[split:])).digest()


def is_signed(key, sig, data):
    with suppress(Exception):  # InvalidSignature, or ValueError for what is no key
        return not Ed25519PublicKey.from_public_bytes(unhexlify(key)).verify(unhexlify(sig), data)


def commitment(seed):
    parts = (b"dosimeter/commitment", b"1", seed["instance"].encode(), unhexlify(seed["seed"]))
    return hmac.new(unhexlify(seed["nonce"]), join(*parts), hashlib.sha256).hexdigest()


def allocation_seed(announced, value):
    content, study = unhexlify(value), announced["study"].encode()
    message = join(b"dosimeter/allocation-secret/1", study)
    if announced["beacon"]:
        content = hashlib.sha256(content).digest()  # of the beacon's signature
    elif hmac.new(content, message, hashlib.sha256).hexdigest() != announced["commitment"]:
        return None  # not the value that was announced
    parts = (b"dosimeter/allocation-seed/1", study, unhexlify(announced["root"]), content)
    return hashlib.sha256(join(*parts)).hexdigest()


def places(drawn):
    size, seed, areas, only = drawn["seeds_per_arm"], unhexlify(drawn["allocation_seed"]), {}, {}
    for unit in drawn.get("units", []):
        names = [unit[name].encode() for name in ("level", "area", "name")]
        rank = hashlib.sha256(join(b"dosimeter/units/1", seed, *names)).digest()
        areas.setdefault(tuple(names[:2]), []).append((rank, unit["strata"]))
        only |= {s: unit["tranche"] for s in unit["strata"] if "tranche" in unit}
    sealed = {s for u in areas.values() for _, strata in sorted(u)[: len(u) // 2] for s in strata}
    sizes = size if isinstance(size, list) else [size] * len(drawn["strata"])
    for size, stratum in zip(sizes, drawn["strata"], strict=True):
        counts = enumerate((size, *drawn.get("reserve", [])))
        arms = "private" if stratum in sealed else "public", "private"
        allotted = [(arm, n) for n, k in counts for arm in arms for _ in range(k)]
        tag = b"dosimeter/allocation/1", seed, stratum.encode()
        ranks = [hashlib.sha256(join(*tag, b"%d" % n)).digest() for n in range(len(allotted))]
        placed = map(dict(zip(sorted(ranks), allotted, strict=True)).get, ranks)
        yield from ((arm, only.get(stratum, n), stratum) for arm, n in placed)


def check_record(path, key, records):
    text, signed = RECORD.fullmatch(data := path.read_bytes()).groups()
    record = json.loads(data) | {"data": data, "digest": sha256(data), "content": sha256(text)}
    last = records[-1] if records else {"digest": "sha256:" + "0" * 64, "time": ""}
    records.append(record)
    kind, signer, first = record["kind"], record["signer"], records[0]
    operator = first["body"].get("operator_signer") if kind in OPERATOR.split() else None
    message = join(b"dosimeter/ledger/1", data.replace(signed, b""), size=8)
    yield is_signed(signer, record["signature"], message), "was altered: its signature is wrong"
    yield record["sequence"] == int(path.stem) == len(records) - 1, "a record before it is missing"
    yield record["previous"] == last["digest"], "the record before it was altered or replaced"
    yield signer in (key or first["signer"], operator), f"a {kind} record that another key signed"
    yield record["time"] >= last["time"], "dated before the record before it"


def check_checkpoint(path, records):
    text, _, line = path.read_bytes().decode().rpartition("\n\n")
    origin, size, root, head = text.split("\n")
    study, files = records[0]["signer"], [record["data"] for record in records[: int(size)]]
    name, code = re.fullmatch(r"— (\S+) (\S+)\n", line).groups()
    data = a2b_base64(code, strict_mode=True)
    ident = hashlib.sha256(name.encode() + b"\n\1" + unhexlify(study)).digest()[:4]
    own = origin == name == f"dosimeter/{study}" and data[:4] == ident
    found = str(len(files)), b2a_base64(merkle(files), newline=False).decode(), sha256(files[-1])
    yield own and is_signed(study, data[4:].hex(), f"{text}\n".encode()), "not signed by this study"
    yield (size, root, head[5:]) == found, f"of its {size} records some were dropped or rewritten"


def check_announcement(body, time, state):
    first = state.setdefault("first", body)
    beacon = body["beacon"] or {"chain": QUICKNET, "round": 10**10}
    due = datetime.fromtimestamp(1692803367 + 3 * (beacon["round"] - 1), UTC)
    yield body is first or body.get("again"), "a second draw without a reason"
    same = [body.get(p) == first.get(p) for p in ("study", "operator_recipient", "operator_signer")]
    yield all(same), "a second draw with other parties"
    yield "plan" not in state, "a draw after the plan was registered"
    yield beacon["chain"] == QUICKNET, "a beacon that is not drand's quicknet"
    yield time < due.isoformat(), "announced when the beacon's round was public already"


def check_draw(body, announced, store):
    yield merkle([*map(unhexlify, body["commitments"])]).hex() == body["root"], "not its root"
    yield all(announced.get(n, []) == body.get(n, []) for n in DRAWN.split()), "not as announced"
    yield allocation_seed(announced, body["value"]) == body["allocation_seed"], "not its arms"
    yield sha256((store / body["uri"]).read_bytes()) == body["ciphertext"], "altered sealed seeds"


def check_body(record, state, store):
    kind, body, drawn = record["kind"], record["body"], state.get("sealed-set")
    yield "plan" in state or kind not in ("release", "report"), f"a {kind} without a plan before it"
    if kind == "announcement":
        yield from check_announcement(body, record["time"], state)
        state |= {"announcement": body, "sealed-set": None}
    elif kind == "sealed-set":
        yield "announcement" in state, "a draw that was not announced"
        yield from check_draw(body, state.pop("announcement"), store)
        state["sealed-set"] = body
    elif kind == "preregistration":
        yield "plan" not in state, "a second plan"
        yield drawn and body["sealed_root"] == drawn["root"], "a plan for another draw"
        state["plan"] = record["content"]
    elif kind == "run-manifest":
        yield body["plan"] == state.get("plan"), "a wave without its plan before it"
        state[record["content"]] = body["wave"]
        state["folder"] = hashlib.sha256(body["run_recipient"].encode()).hexdigest()
    elif kind == "wave-closed":
        yield state.get(body["manifest"]) == body["wave"], "a wave that was never begun"
        yield body["wave"] not in state, "a wave that was closed already"
        state[body["wave"]] = True
        attempts = yield from check_objects(body["objects_root"], store)
        if "heads" in body:  # else they could have been chosen
            yield from check_lists(body["heads"], attempts, store / "begun" / state["folder"])
    elif kind == "release":
        same = state.setdefault(f"tranches {body.get('tranches', [0])}", body["content"])
        yield same == body["content"], "a second release, of other content"
    elif kind == "revealed":
        value = json.loads(data := (store / body["uri"]).read_bytes())
        yield sha256(data) == body["content"], "the revealed seeds were altered"
        yield from check_seeds(value["leaves"], value["seeds"], drawn, body["tranches"])


def check_objects(root, store):
    parts = (store / f"inventory/{root}.txt").read_text().split()
    pages = [(store / f"inventory/parts/{part}.txt").read_text() for part in parts]
    lines = [line.split("  ") for page in pages for line in page.splitlines()]
    leaves = [key.encode() + unhexlify(digest) for digest, key in lines]
    yield merkle(leaves).hex() == root, "its list of objects was altered"
    for digest, key in lines:
        yield sha256((store / key).read_bytes()) == f"sha256:{digest}", f"{key} was altered"
    return {key[12:-5]: digest for digest, key in lines if key.startswith("attempts/")}


def check_lists(heads, attempts, folder):
    begun, ended = set(), set()
    for head in heads:
        before = "0" * 64
        for number in range(head["pages"]):
            data = (folder / head["worker"] / f"{number:06d}.txt").read_bytes()
            first, *lines = (line.split(" ") for line in data.decode().splitlines())
            yield first == ["before", before], "a list of begun attempts was altered"
            before = sha256(data)[7:]
            begun |= {f"{s[1]}-{int(s[2]):04d}" for s in lines if s[0] == "begin"}
            ended |= {(f"{s[1]}-{int(s[2]):04d}", s[4]) for s in lines if s[0] == "end"}
        yield before == head["digest"], "a list of begun attempts was cut or replaced"
    yield attempts.keys() <= begun, "attempts that were never begun by a list"
    yield attempts.items() <= ended, "attempts that are not those that ended by a list"


def check_seeds(leaves, seeds, drawn, tranches, arms=("public", "private")):
    where = list(places(drawn))
    owed = [n for n, (arm, tranche, _) in enumerate(where) if arm in arms and tranche in tranches]
    yield sorted(leaves) == owed, "seeds are left out, or added"
    for n, seed in zip(leaves, seeds, strict=True):
        stratum = seed.get("stratum") or f"{seed['family']}/{seed['difficulty']}"
        place = seed["arm"], seed["tranche"], stratum
        yield commitment(seed) == drawn["commitments"][n], f"seed {n} is not what was committed to"
        yield place == where[n], f"seed {n} is in another place than was allotted"


def check_release(folder, records, drawn):
    found = {str(p.relative_to(folder)): p for p in folder.rglob("*") if p.is_file()}
    digest, sums = sha256(data := found.pop("checksums.json").read_bytes()), json.loads(data)
    kept = [r["body"] for r in records if r["kind"] == "release" and r["body"]["content"] == digest]
    yield kept, "is not in the ledger"
    yield found.keys() == sums.keys(), "files are missing, or added"
    for name, path in found.items():
        yield sha256(path.read_bytes()) == f"sha256:{sums.get(name)}", f"{name} was altered"
    listed = json.loads(found["commitments.json"].read_bytes())
    yield all(listed[p] == drawn[p] for p in ("root", "commitments")), "commitments of another draw"
    opened = [json.loads(path.read_bytes()) for path in folder.glob("openings/*.json")]
    seeds = [s | {"arm": "public", "tranche": v["tranche"]} for v in opened for s in v["public"]]
    leaves = [seed["leaf"] for seed in seeds]
    yield from check_seeds(leaves, seeds, drawn, kept[0].get("tranches", [0]), ("public",))


def unchecked(records, head):
    yield False, "instances: `reveal --check`; grades: `verify --regrade`; stamps: `openssl ts`"
    yield head is not None, "records dropped from the end: no head was given"
    for body in (record["body"] for record in records):
        yield not body.get("beacon"), f"the value: compare it with drand's {body.get('beacon')}"


def check(store, release=None, key=None, head=None, checkpoints=()):
    bad, records, state = [], [], {}
    for path in sorted((store / "ledger").glob("*.json")):
        bad += broken(path.name, check_record(path, key, records))
    if not records or head not in (None, *(record["digest"] for record in records)):
        bad.append("ledger: the head noted elsewhere is not in it: it was cut or rewritten")
    for number, record in enumerate(() if bad else records):  # which then are the study's
        bad += broken(f"{number:08d}.json", check_body(record, state, store))
    if release and not bad:
        bad += broken("release", check_release(release, records, state.get("sealed-set")))
    for path in (*checkpoints, *(release or store).glob("checkpoint.txt")):
        bad += broken(path, check_checkpoint(path, records))
    return bad, [*broken("not checked", unchecked(records, head))]


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    for option, kind in (("store", Path), ("--release", Path), ("--key", str), ("--head", str)):
        parser.add_argument(option, type=kind)
    parser.add_argument("--checkpoint", dest="checkpoints", type=Path, action="append", default=[])
    wrong, left = check(**vars(parser.parse_args()))
    print(*(wrong or ["all that was checked holds"]), *left, sep="\n")
    raise SystemExit(bool(wrong))
