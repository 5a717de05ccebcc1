/** Stored objects against the inventories of closed waves, as `registry/verify/objects.py` has it. */

import { Broken, concat, digest, fromHex, hexDigest, sha256, text, toHex, utf8 } from "./bytes.js";
import { Missing } from "./evidence.js";
import { placeOf } from "./findings.js";
import { leafHash, MerkleTree } from "./merkle.js";
import { pinDigest } from "./records.js";

const PROMISING = ["wave-closed", "graded", "regraded", "judge-checked", "calibrated", "probed"];
const RUN_FOLDERS = ["attempts/", "responses/", "results/"];
const BY_DIGEST =
  /^(sealed\/[0-9a-f]{64}\.age$|inventory\/parts\/|checks\/|calibrations\/|checkpoints\/|files\/)/;
const ATTEMPT = /^attempts\/[0-9a-f]{2}\/[0-9a-f]{64}-([0-9]{4})\.cell$/;
const LINE = /^([0-9a-f]{64}) {2}([!-~]+)$/;
const REMOVED = "missing: it was removed from the store";

/** @param {import("./evidence.js").Folder} store @param {string} root @returns {Promise<[string, string][]>} keys and digests. Throws Broken. */
export async function readInventory(store, root) {
  const lines = [];
  const head = `inventory/${root}.txt`;
  const parts = linesOf(await store.read(head), head);
  if (!parts.every((part) => /^[0-9a-f]{64}$/.test(part)))
    throw new Broken(`${head}: was altered: not a list of inventory parts`);
  for (const part of parts)
    for (const [key, found] of await readPart(store, `inventory/parts/${part}.txt`, part)) {
      if (lines.length && key <= lines.at(-1)[0])
        throw new Broken(`inventory/parts/${part}.txt: ${key} is out of order`);
      lines.push([key, found]);
    }
  return lines;
}

async function readPart(store, key, part) {
  const data = await store.read(key);
  if (hexDigest(data) !== part)
    throw new Broken(`${key}: was altered: digest sha256:${part} expected, ${digest(data)} found`);
  return linesOf(data, key).map((line) => {
    const found = LINE.exec(line);
    if (!found) throw new Broken(`${key}: not a line of an inventory: '${line.slice(0, 80)}'`);
    return [found[2], `sha256:${found[1]}`];
  });
}

function linesOf(data, key) {
  const lines = text(data).split("\n");
  if (lines.pop()) throw new Broken(`${key}: was cut: its last line is not whole`);
  return lines;
}

/**
 * Compares each object with the lines that promise it.
 *
 * @param {import("./findings.js").Findings} findings
 * @param {(done: number, of: number) => Promise<void>} progress
 */
export async function checkObjects(findings, progress) {
  findings.under("Stored objects");
  const promises = await readPromises(findings);
  const promised = new Map();
  for (const [key, found] of promises.flatMap((each) => each.lines))
    promised.set(key, new Set([...(promised.get(key) ?? []), found]));
  const elsewhere = new Set(
    [...findings.of("sealed-set"), ...findings.of("revealed")].map(([, record]) => record.uri),
  );
  for (const { record } of promises) elsewhere.add(`inventory/${record.objects_root}.txt`);
  const keys = [...new Set([...findings.store.names, ...promised.keys()])].sort();
  checkNames(findings, keys, promised);
  const compared = findings.store.names.filter((key) => !key.startsWith("ledger/") && !elsewhere.has(key));
  let done = 0;
  for await (const [key, data] of findings.store.readEach(compared)) {
    await progress((done += 1), compared.length);
    checkObject(findings, key, promised.get(key) ?? new Set(), await data);
  }
  checkStudyFiles(findings);
  const whole = promises.filter((each) => !each.broken);
  for (const each of whole)
    for (const problem of brokenInventory(each, whole)) findings.add(each.place, problem);
}

/** Finds objects that are missing, and those that nothing promises. */
function checkNames(findings, keys, promised) {
  const { store } = findings;
  const episodes = new Episodes(findings);
  for (const key of keys) {
    if (!store.has(key) && !store.covers(key)) {
      findings.leave(key);
      continue;
    }
    episodes.add(key, promised.has(key));
    if (!store.has(key)) findings.add(key, REMOVED);
  }
  episodes.end();
}

function checkStudyFiles(findings) {
  for (const [, record] of findings.of("study-files")) {
    const key = `files/${record.content.replace("sha256:", "")}.age`;
    if (findings.store.has(key)) continue;
    if (findings.store.covers(key)) findings.add(key, REMOVED);
    else findings.leave(key);
  }
}

function checkObject(findings, key, promised, data) {
  const expected = BY_DIGEST.test(key)
    ? new Set([...promised, `sha256:${key.split("/").at(-1).split(".")[0]}`])
    : promised;
  const found = digest(data);
  if (expected.size) findings.count();
  for (const each of expected)
    if (each !== found) findings.add(key, `was altered: digest ${each} expected, ${found} found`);
}

async function readPromises(findings) {
  const promises = [];
  for (const kind of PROMISING)
    for (const [entry, record] of findings.of(kind).filter((pair) => pair[1].objects_root)) {
      const promise = { kind, place: placeOf(entry), record, lines: [], broken: false };
      promises.push(promise);
      try {
        promise.lines = await readInventory(findings.store, record.objects_root);
      } catch (error) {
        promise.broken = true;
        if (error instanceof Missing && !findings.store.covers("inventory/")) findings.leave("inventory/");
        else findings.caught(promise.place, error);
      }
    }
  return promises;
}

/** Attempts, paid replies and results of each episode, which come in the order of their keys. */
class Episodes {
  constructor(findings) {
    const closed = new Set(
      findings
        .of("wave-closed")
        .filter((pair) => pair[1].objects_root)
        .map(([, record]) => record.wave),
    );
    this.findings = findings;
    this.open = findings.of("run-manifest").some(([, record]) => !closed.has(record.wave));
    // Without its inventory nobody knows what a closed wave has.
    this.unknown = !findings.store.covers("inventory/") && closed.size > 0;
    this.reset("");
  }

  reset(stem) {
    Object.assign(this, { stem, promised: false, unlisted: [], attempts: [] });
  }

  add(key, promised) {
    if (!RUN_FOLDERS.some((folder) => key.startsWith(folder))) return;
    const stem = key.slice(0, key.lastIndexOf("/") + 65);
    if (stem !== this.stem) {
      this.end();
      this.reset(stem);
    }
    if (promised) this.promised = true;
    else this.unlisted.push(key);
    const attempt = ATTEMPT.exec(key);
    if (attempt) this.attempts.push(Number(attempt[1]));
  }

  end() {
    if ((this.promised || !this.open) && !this.unknown)
      for (const key of this.unlisted)
        this.findings.add(key, "an extra object: no inventory of a closed wave lists it");
    this.attempts.forEach((number, n) => {
      const before = n ? this.attempts[n - 1] : 0;
      const lost = `attempt ${before + 1} of this episode is not stored`;
      if (number > before + 1)
        this.findings.add(`${this.stem}-${String(number).padStart(4, "0")}.cell`, `${lost}, and this one is`);
    });
    this.reset("");
  }
}

/** Numbers and roots of an inventory's lines. */
function sumUp({ kind, record, lines }) {
  const objects = new MerkleTree();
  const results = new MerkleTree();
  const counts = countsFor(kind, record);
  const graded = [];
  for (const [key, found] of lines) {
    const leaf = fromHex(found.slice(7));
    objects.addHash(leafHash(concat(utf8(key), leaf)));
    if (key.startsWith("results/")) results.addHash(leafHash(leaf));
    if (counts(key)) graded.push(key.split("/").at(-1).split(".")[0]);
  }
  return { objects, results, graded: graded.length, episodes: toHex(sha256(utf8(graded.join("")))) };
}

function countsFor(kind, record) {
  const hex = (pin) => pinDigest(pin).replace("sha256:", "");
  if (kind === "probed")
    return (key) => new RegExp(`^probes/${hex(record.model)}/[0-9a-f]{64}\\.age$`).test(key);
  const folders = {
    graded: () => `grades/${hex(record.judge)}/`,
    "judge-checked": () => `grades/${hex(record.judge)}/`,
    regraded: () => `regrades/${hex(record.judge)}/${String(record.wave).padStart(4, "0")}/`,
  };
  const folder = folders[kind]?.() ?? "results/";
  return (key) => key.startsWith(folder);
}

/** Yields where an inventory, read to its end, is not the one that the ledger promises. */
function* brokenInventory(promise, every) {
  const { kind, record } = promise;
  const found = sumUp(promise);
  const root = toHex(found.objects.root());
  const pairs = [
    ["objects root", record.objects_root, root],
    ["objects", record.objects, found.objects.size],
    ...PAIRS[kind](record, found, every),
  ];
  for (const [what, expected, now] of pairs)
    if (expected !== now) yield `${NAMES[kind](record)}: ${what} ${expected}, ${now} found`;
}

const nameOfResult = (folder, record) => [
  ["the name of its result", `${folder}${record.result.replace("sha256:", "")}.json`, record.uri],
];

function gradedPairs(record, found, every) {
  const of = every.filter(
    ({ kind, record: other }) => kind === "wave-closed" && other.manifest === record.manifest,
  );
  const whole = (record.share ?? 1) === 1;
  const episodes = whole ? of.map((other) => ["graded episodes", sumUp(other).episodes, found.episodes]) : [];
  return [["grades", record.graded, found.graded], ...episodes];
}

const PAIRS = {
  "wave-closed": (record, found) => [
    ["results root", record.results_root, toHex(found.results.root())],
    ["results", record.owed, found.results.size],
    ["cells", record.owed, record.finished + record.missing],
  ],
  graded: gradedPairs,
  regraded: gradedPairs,
  probed: (record, found) => [["probes", record.probes, found.graded]],
  "judge-checked": (record) => nameOfResult("checks/", record),
  calibrated: (record) => nameOfResult("calibrations/", record),
};

const NAMES = {
  "wave-closed": (record) => `wave ${record.wave}`,
  graded: (record) => `wave ${record.wave} by judge ${record.judge.name}`,
  regraded: (record) => `wave ${record.first} by judge ${record.judge.name} again at wave ${record.wave}`,
  probed: (record) => `wave ${record.wave}, ${record.what} put to ${record.model.name}`,
  "judge-checked": (record) => `check of judge ${record.judge.name}`,
  calibrated: () => "calibration",
};
