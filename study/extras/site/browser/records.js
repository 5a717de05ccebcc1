/** What the records say of each other, as `registry/verify/records.py` has it. */

import { digest } from "./bytes.js";
import { canonical, canonicalBytes } from "./canonical.js";
import { placeOf } from "./findings.js";
import { bodyOf } from "./forms.js";

// What a study has one record of, by kind: in words, and its subject.
const ONE = {
  preregistration: ["plan for this draw", (record) => record.sealed_root],
  "wave-closed": ["closing of this wave", (record) => record.wave],
  graded: ["grading of this wave by this judge", (record) => `${record.wave} ${pinDigest(record.judge)}`],
  regraded: [
    "second grading by this judge at this wave",
    (record) => `${record.wave} ${pinDigest(record.judge)}`,
  ],
};
const REPEATED = new Set(["announcement", "run-manifest", "exported"]);
const ASKING = new Set(
  "base_url api_key_env bridge bridge_url seconds connect_seconds silence_seconds retries backoff_seconds".split(
    " ",
  ),
);
const TIME = /^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d+)?(Z|[+-]\d\d:\d\d)$/;

/** @param {string} kind @param {any} record @returns {string} digest of its body, which names it elsewhere */
export const recordDigest = (kind, record) => digest(canonicalBytes(bodyOf(kind, record)));

/** A pin without what changes no answer: addresses, timeouts and retries. */
function answeringPin(pin) {
  const keeps = (name) => !ASKING.has(name) || (name === "seconds" && pin.provider === "agent_server");
  return { ...pin, settings: pin.settings.filter(([name]) => keeps(name)) };
}

/** @param {any} pin of a model or judge @returns {string} the digest that names it */
export function pinDigest(pin) {
  const { settings, ...rest } = answeringPin(pin);
  return digest(canonicalBytes(settings.length ? { ...rest, settings } : rest));
}

/** @param {import("./findings.js").Findings} findings Checks the records against each other. */
export function checkRecords(findings) {
  findings.under("What the records say of each other");
  findings.count(findings.records.length);
  checkTimes(findings);
  checkRepetitions(findings);
  checkManifests(findings);
  checkLinks(findings);
}

function checkTimes(findings) {
  let latest = null;
  for (const entry of findings.entries) {
    const time = TIME.test(entry.time) ? Date.parse(entry.time) : NaN;
    if (Number.isNaN(time)) {
      findings.add(placeOf(entry), `'${entry.time.slice(0, 40)}' is not a time`);
    } else if (latest && time < latest.time) {
      const before = `${placeOf(latest.entry)}, which stands before it, ${latest.entry.time}`;
      findings.add(placeOf(entry), `its time goes back: it is dated ${entry.time}, and ${before}`);
    } else latest = { time, entry };
  }
}

function checkRepetitions(findings) {
  const seen = new Map();
  for (const [entry, record] of findings.records) {
    if (REPEATED.has(entry.kind)) continue;
    const one = ONE[entry.kind];
    const subject = `${entry.kind} ${one ? one[1](record) : recordDigest(entry.kind, record)}`;
    const first = seen.get(subject);
    if (!first) seen.set(subject, entry);
    else if (one)
      findings.add(placeOf(entry), `a second ${entry.kind}: there is one ${one[0]}, ${placeOf(first)}`);
    else findings.add(placeOf(entry), `a second ${entry.kind} with the same content as ${placeOf(first)}`);
  }
}

/** Manifests of one wave differ in what changes no answer only, and stand before its closing. */
function checkManifests(findings) {
  const first = new Map();
  const closed = new Set();
  for (const [entry, record] of findings.records) {
    if (entry.kind === "wave-closed") closed.add(record.wave);
    if (entry.kind !== "run-manifest") continue;
    if (closed.has(record.wave))
      findings.add(placeOf(entry), `a manifest of wave ${record.wave}, which was closed before`);
    if (!first.has(record.wave)) first.set(record.wave, record);
    const begun = first.get(record.wave);
    for (const name of differences(begun, record))
      findings.add(placeOf(entry), `a second manifest of wave ${record.wave} with another ${name}`);
    const others = [...first.values()].filter((other) => other !== record);
    const shares = (other) =>
      record.run_recipient === other.run_recipient;
    if (record === begun && others.some(shares))
      findings.add(placeOf(entry), `wave ${record.wave} has the keys of another wave's run`);
  }
}

function differences(begun, record) {
  const pins = (manifest) => canonical(manifest.models.map(answeringPin));
  const free = new Set(["provenance", "prices", "retention"]);
  if (pins(begun) === pins(record)) free.add("models");
  return Object.keys(begun).filter(
    (name) => !free.has(name) && canonical(begun[name]) !== canonical(record[name]),
  );
}

/** Each record names ones that stand in the ledger before it. */
function checkLinks(findings) {
  const seen = Object.fromEntries(
    ["roots", "plans", "closed", "graded", "calibrations", "begun", "ended"].map((name) => [name, new Set()]),
  );
  const state = { ...seen, releases: [], manifests: new Map(), drawn: null };
  for (const [entry, record] of findings.records) {
    const add = (problem) => findings.add(placeOf(entry), problem);
    const known = (what, named, there) => {
      if (!there.has(named)) add(`${entry.kind}: its ${what} ${named} is of no record before it`);
    };
    LINKS[entry.kind]?.({ record, state, kind: entry.kind, add, known });
  }
}

const LINKS = {
  "sealed-set": ({ record, state }) => {
    state.roots.add(record.root);
    state.drawn = record;
  },
  preregistration: ({ record, state, known }) => {
    known("sealed root", record.sealed_root, state.roots);
    state.plans.add(recordDigest("preregistration", record));
  },
  "run-manifest": (link) => {
    const { record, state, known } = link;
    known("instances root", record.instances_root, state.roots);
    known("plan", record.plan, state.plans);
    checkTranches(link, record.tranches, record.models.length);
    state.manifests.set(recordDigest("run-manifest", record), record);
    state.begun.add(record.wave);
  },
  "wave-closed": (link) => {
    const { record, state, known } = link;
    known("manifest", record.manifest, state.manifests);
    state.closed.add(record.manifest);
    state.ended.add(record.wave);
    const manifest = state.manifests.get(record.manifest);
    if (manifest) checkClosing(link, manifest);
  },
  exported: ({ record, state, known }) => known("manifest", record.manifest, state.manifests),
  "attempts-begun": ({ record, state, known }) => known("manifest", record.manifest, state.manifests),
  "study-files": ({ state, add }) => state.plans.size || add("study-files: no plan was registered before it"),
  calibrated: ({ record, state, known }) => {
    known("plan", record.plan, state.plans);
    state.calibrations.add(record.result);
  },
  probed: ({ record, state, known }) => known("plan", record.plan, state.plans),
  graded: (link) => {
    const { record, state, known } = link;
    known("closed wave's manifest", record.manifest, state.closed);
    checkPinned(link, state.manifests.get(record.manifest));
    state.graded.add(gradingOf(record));
  },
  regraded: ({ record, state, known }) => known("first grading", gradingOf(record), state.graded),
  leak: (link) => checkTranches(link, [[link.record.tranche]], 1),
  release: (link) => {
    const { record, state, known, add } = link;
    known("instances root", record.instances_root, state.roots);
    if (!state.plans.size) add("release: no plan was registered before it");
    checkRelease(link);
    state.releases.push(record);
  },
  look: ({ record, state, known }) => record.waves.forEach(([wave]) => known("wave", wave, state.begun)),
  report: ({ record, state, known }) => {
    known("plan", record.plan, state.plans);
    known("last wave", record.through_wave, state.ended);
    record.calibrations.forEach((result) => known("calibration", result, state.calibrations));
  },
};

function checkClosing({ record, add }, manifest) {
  if (manifest.wave !== record.wave)
    add(`closes wave ${record.wave} for a manifest of wave ${manifest.wave}`);
  const promised = manifest.sandbox === "elsewhere" ? manifest.models.map((pin) => pin.name) : [];
  if (canonical(record.elsewhere.map((ran) => ran.model)) !== canonical(promised))
    add("wave-closed: the models run elsewhere are not its manifest's");
}

function checkTranches({ state, kind, add }, tranches, models) {
  const last = state.drawn ? state.drawn.reserve.length : 0;
  for (const tranche of [...new Set(tranches.flat())].sort((one, other) => one - other))
    if (tranche < 0 || tranche > last) add(`${kind}: tranche ${tranche} was not drawn`);
  if (tranches.length && (tranches.length !== models || !tranches.every((each) => each.length)))
    add(`${kind}: its tranches are not those of its models`);
}

function checkRelease({ record, state, add }) {
  const grows = (before) => {
    const now = new Set(record.tranches);
    return before.tranches.every((each) => now.has(each)) && now.size > new Set(before.tranches).size;
  };
  const other = (before) =>
    before.instances_root === record.instances_root && before.content !== record.content;
  if (state.releases.some((before) => other(before) && !grows(before)))
    add("a second release of this draw, of other content and no further tranche");
}

function checkPinned({ record, add }, manifest) {
  if (!manifest) return;
  const named = manifest.judges.map(pinDigest).includes(pinDigest(record.judge));
  const pinned = record.pinned ? "True" : "False";
  if (record.pinned !== named)
    add(
      `graded by judge ${record.judge.name}: pinned ${pinned}, but the wave's manifest ${named ? "names it" : "does not name it"}`,
    );
}

const gradingOf = (record) =>
  `of ${record.manifest} by judge ${record.judge.name} (${pinDigest(record.judge)})`;
