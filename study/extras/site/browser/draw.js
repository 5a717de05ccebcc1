/** The draw: announcement, commitments, allotment of the seeds to the arms, and what was revealed. */

import { isSignedRound, roundTime } from "./beacon.js";
import { Broken, digest, fromHex, hexDigest, isHex32, join4, keyedDigest, sha256, toHex } from "./bytes.js";
import { canonical, parseCanonical } from "./canonical.js";
import { placeOf, spell } from "./findings.js";
import { readForm } from "./forms.js";
import { leafHash, rootOf } from "./merkle.js";

const PROMISED = [
  "strata",
  "seeds_per_arm",
  "reserve",
  "root",
  "ciphertext",
  "recipients",
  "entropy",
  "units",
];
const PUBLIC = "public";
const PRIVATE = "private";

/** @param {{instance: string, seed: string, nonce: string}} seed @returns {string} hex. Throws Broken. */
export function commitmentOf({ instance, seed, nonce }) {
  const hex = /^([0-9a-f]{2})*$/i;
  if (!isHex32(nonce) || !hex.test(seed) || (seed.length !== 64 && seed.slice(64, 66) !== "7b"))
    throw new Broken("a seed or nonce in it is not 64 hexadecimal digits");
  return keyedDigest(nonce, join4("dosimeter/commitment", "1", instance, fromHex(seed)));
}

/** @param {any} drawn a sealed set @returns {number[]} seeds per arm of each stratum */
const sizesOf = (drawn) =>
  Array.isArray(drawn.seeds_per_arm) ? drawn.seeds_per_arm : drawn.strata.map(() => drawn.seeds_per_arm);

/** @param {any} drawn a sealed set @returns {{arm: string, tranche: number, stratum: string}[]} of each seed. Throws Broken. */
export function placesOf(drawn) {
  const sizes = sizesOf(drawn);
  const few = [...sizes, ...drawn.reserve].find((count) => count < 1);
  if (few !== undefined) throw new Broken(`seeds per arm must be at least 1, not ${few}`);
  if (
    !drawn.strata.length ||
    new Set(drawn.strata).size !== drawn.strata.length ||
    sizes.length !== drawn.strata.length
  )
    throw new Broken("a draw takes one stratum or more, each named once, with its size");
  if (!isHex32(drawn.allocation_seed)) throw new Broken("an allocation seed is 64 hexadecimal digits");
  const hidden = new Set(sealedUnits(drawn).flatMap((unit) => unit.strata));
  const only = new Map(drawn.units.flatMap((unit) => unit.strata.map((name) => [name, unit.tranche])));
  return drawn.strata.flatMap((stratum, n) =>
    split(stratum, [sizes[n], ...drawn.reserve], drawn.allocation_seed).map(([arm, tranche]) => ({
      arm: hidden.has(stratum) ? PRIVATE : arm,
      tranche: only.get(stratum) ?? tranche,
      stratum,
    })),
  );
}

/** Units that stay sealed: half of those of each area, rounded down, by rank. */
function sealedUnits({ units, allocation_seed }) {
  const seed = fromHex(allocation_seed);
  const areas = new Map();
  for (const unit of byRank(units, ({ level, area, name }) => [
    "dosimeter/units/1",
    seed,
    level,
    area,
    name,
  ])) {
    const area = JSON.stringify([unit.level, unit.area]);
    areas.set(area, [...(areas.get(area) ?? []), unit]);
  }
  return [...areas.values()].flatMap((area) => area.slice(0, Math.floor(area.length / 2)));
}

/** Arm and tranche of each seed of a stratum. */
function split(stratum, counts, allocationSeed) {
  const seed = fromHex(allocationSeed);
  const arms = counts.flatMap((count, tranche) =>
    [PUBLIC, PRIVATE].flatMap((arm) => Array.from({ length: count }, () => [arm, tranche])),
  );
  const order = byRank([...arms.keys()], (index) => ["dosimeter/allocation/1", seed, stratum, String(index)]);
  const placed = [];
  order.forEach((index, rank) => (placed[index] = arms[rank]));
  return placed;
}

function byRank(values, parts) {
  const ranked = values.map((value) => ({ value, rank: toHex(sha256(join4(...parts(value)))) }));
  return ranked.sort((one, other) => (one.rank < other.rank ? -1 : 1)).map(({ value }) => value);
}

/** @param {any} announced @param {string} value hex @returns {string} seed of the allocation. Throws Broken. */
function allocationSeed(announced, value) {
  const { beacon, study, root } = announced;
  if (beacon && !isSignedRound(beacon, value))
    throw new Broken(`its value is not signed by drand for round ${beacon.round}`);
  if (
    !beacon &&
    (!isHex32(value) ||
      keyedDigest(value, join4("dosimeter/allocation-secret/1", study)) !== announced.commitment)
  )
    throw new Broken("its value is not the secret that the announcement committed to");
  if (!isHex32(root)) throw new Broken("its root is not 64 hexadecimal digits");
  const content = beacon ? sha256(fromHex(value)) : fromHex(value);
  return hexDigest(join4("dosimeter/allocation-seed/1", study, fromHex(root), content));
}

/** @param {import("./findings.js").Findings} findings Checks the records of draws, and what they name. */
export async function checkDraws(findings) {
  findings.under("Commitments under the draw's root");
  for (const [entry, record] of findings.of("sealed-set")) {
    for (const problem of brokenSet(record)) findings.add(placeOf(entry), problem);
    findings.count(record.commitments.length);
  }
  findings.under("Stored objects");
  for (const [, record] of findings.of("sealed-set"))
    await findings.check(record.uri, async () => {
      const found = digest(await findings.store.read(record.uri));
      if (found !== record.ciphertext)
        throw new Broken(`was altered: digest ${record.ciphertext} expected, ${found} found`);
    });
  checkOrder(findings);
  await checkReveals(findings);
}

function* brokenSet(record) {
  if (!record.commitments.every(isHex32)) {
    yield "a commitment in it is not 64 hexadecimal digits";
    return;
  }
  const root = toHex(rootOf(record.commitments.map((each) => leafHash(fromHex(each)))));
  if (root !== record.root) yield `root ${record.root} expected over the commitments, ${root} found`;
  const drawn = 2 * (sum(sizesOf(record)) + sum(record.reserve) * record.strata.length);
  if (drawn !== record.count || drawn !== record.commitments.length)
    yield `${drawn} commitments expected, ${record.commitments.length} found`;
  if (record.uri !== `sealed/${record.ciphertext.replace("sha256:", "")}.age`)
    yield `the sealed object's name ${record.uri} is not that of its digest`;
}

const sum = (numbers) => numbers.reduce((total, number) => total + number, 0);

/** Checks the order of the draws, and the allocation of each. */
function checkOrder(findings) {
  findings.under("Allotment of the seeds to the arms");
  const state = { first: null, pending: null, registered: null, drawn: null };
  for (const [entry, record] of findings.records) {
    const problems = ORDER[entry.kind]?.(state, record, entry) ?? [];
    for (const problem of problems) findings.add(placeOf(entry), `${entry.kind}: ${problem}`);
    if (entry.kind === "sealed-set") findings.count(record.commitments.length);
  }
}

const ORDER = {
  *announcement(state, record, entry) {
    state.first ??= record;
    state.pending = record;
    yield* faults(state, record, entry);
  },
  *"sealed-set"(state, record, entry) {
    const { drawn, pending } = state;
    state.drawn = record;
    state.pending = null;
    if (pending) yield* unlike(record, pending, entry);
    else if (drawn) yield "a second draw without a record that announces it, and its reason";
    else yield "an unannounced draw: no announcement stands before it";
  },
  *preregistration(state, record) {
    state.registered = record;
    if (state.pending) yield "registered while an announced draw had no allocation yet";
    if (state.drawn && record.sealed_root !== state.drawn.root)
      yield `registered for another draw than the newest, root ${state.drawn.root}`;
  },
};

/** Yields what is wrong with an announcement. */
function* faults({ first, registered }, record, entry) {
  if (registered) yield "a draw was announced after the plan was registered";
  if (record !== first && !record.again.trim()) yield "a second draw was announced without a reason";
  if (
    record.operator_recipient !== first.operator_recipient ||
    record.operator_signer !== first.operator_signer
  )
    yield "announced with another operator than the first";
  if (record.study !== first.study)
    yield `announced for the study '${record.study}', and the first for '${first.study}'`;
  if ((record.beacon === null) === (record.commitment === ""))
    yield "a draw is announced with either a beacon or the commitment to a secret";
  if (record.beacon) yield* late(record.beacon, entry);
}

function* late(beacon, entry) {
  try {
    if (Date.parse(entry.time) >= roundTime(beacon))
      yield `announced at ${entry.time}, when drand round ${beacon.round} was public already`;
  } catch (error) {
    yield messageOf(error);
  }
}

/** Yields where a sealed set is not the one that was announced. */
function* unlike(record, announced, entry) {
  for (const name of PROMISED)
    if (canonical(announced[name]) !== canonical(record[name]))
      yield `${name} ${spell(announced[name])} announced, ${spell(record[name])} found`;
  try {
    const seed = allocationSeed(announced, record.value);
    if (seed !== record.allocation_seed)
      yield `allocation seed ${seed} follows from the announced value, not the recorded one`;
    const { beacon } = announced;
    if (beacon && Date.parse(entry.time) < roundTime(beacon))
      yield `allotted at ${entry.time}, before drand round ${beacon.round} was public`;
  } catch (error) {
    yield messageOf(error);
  }
}

function messageOf(error) {
  if (!(error instanceof Broken)) throw error;
  return error.message;
}

/** Checks what the ledger says was revealed. */
async function checkReveals(findings) {
  findings.under("Revealed seeds that open their commitments");
  let drawn = null;
  for (const [entry, record] of findings.records) {
    if (entry.kind === "sealed-set") drawn = record;
    if (entry.kind !== "revealed") continue;
    if (!findings.store.has(record.uri) && !findings.store.covers(record.uri)) {
      findings.leave(record.uri);
      continue;
    }
    try {
      for (const problem of brokenReveal(await findings.store.read(record.uri), record, drawn, findings))
        findings.add(placeOf(entry), `revealed: ${problem}`);
    } catch (error) {
      findings.add(placeOf(entry), `revealed: ${messageOf(error)}`);
    }
  }
}

function* brokenReveal(data, record, drawn, findings) {
  const found = digest(data);
  if (found !== record.content) {
    yield `${record.uri} was altered: digest ${record.content} expected, ${found} found`;
    return;
  }
  const revealed = readReveal(data, record.uri);
  const named = [record.tranches, record.root, record.count, record.units];
  const names = revealed.units.map((unit) => unit.name);
  const alone = revealed.tranches.length ? [] : names;
  if (canonical(named) !== canonical([revealed.tranches, revealed.root, revealed.seeds.length, alone]))
    yield `${record.uri} holds other tranches, units or another draw than its record names`;
  if (!drawn) {
    yield "of no draw: no sealed set stands before it";
    return;
  }
  findings.count(revealed.seeds.length + names.length);
  yield* brokenSeeds(revealed, drawn);
}

function readReveal(data, place) {
  try {
    const value = parseCanonical(data);
    if (value?.format !== "dosimeter/reveal/1")
      throw new Broken("not a reveal of the form dosimeter/reveal/1");
    const revealed = readForm("reveal", value);
    if (revealed.leaves.length !== revealed.seeds.length)
      throw new Broken("it has not one leaf for each seed");
    return revealed;
  } catch (error) {
    throw new Broken(`${place}: ${messageOf(error)}`);
  }
}

/** Yields what is wrong with revealed seeds: those of other commitments or places, and missing ones. */
function* brokenSeeds(revealed, drawn) {
  if (revealed.root !== drawn.root) {
    yield `of the draw with root ${revealed.root}, and drawn is ${drawn.root}`;
    return;
  }
  const places = placesOf(drawn);
  const owed = [...places.keys()].filter((leaf) => revealed.tranches.includes(places[leaf].tranche));
  if (canonical(owed) !== canonical(revealed.leaves)) {
    yield `${owed.length} seeds of tranches ${revealed.tranches.join(", ")} expected, others found`;
    return;
  }
  yield* brokenUnits(revealed, drawn);
  const opened = openAll(revealed.seeds);
  if (!opened) {
    yield "a seed or nonce in it is not 64 hexadecimal digits";
    return;
  }
  for (const [n, leaf] of revealed.leaves.entries()) {
    const seed = revealed.seeds[n];
    if (opened[n] !== drawn.commitments[leaf]) yield `seed ${leaf} is not what was committed to`;
    if (seed.arm !== places[leaf].arm || seed.tranche !== places[leaf].tranche)
      yield `seed ${leaf} is in another arm or tranche than the allocation gives`;
    if (`${seed.family}/${seed.difficulty}` !== places[leaf].stratum)
      yield `seed ${leaf} is of another stratum than was drawn there`;
  }
}

const digestOf = ({ key, files }) =>
  isHex32(key) ? keyedDigest(key, join4("dosimeter/unit/1", ...files.flat())) : "";

/** Yields the units whose revealed files do not give their digests. */
function* brokenUnits(revealed, drawn) {
  const digests = new Map(drawn.units.filter((u) => u.digest).map((u) => [u.name, u.digest]));
  const shown = new Map(revealed.units.map((unit) => [unit.name, digestOf(unit)]));
  const whole = revealed.tranches.length === drawn.reserve.length + 1;
  for (const name of new Set([...(whole ? digests.keys() : []), ...shown.keys()]))
    if (shown.get(name) !== digests.get(name))
      yield `the files of unit ${name} are missing, or not those that were announced`;
}

function openAll(seeds) {
  try {
    return seeds.map(commitmentOf);
  } catch (error) {
    messageOf(error);
    return null;
  }
}
