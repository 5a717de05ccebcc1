/** Lists of begun attempts of a closed wave (docs/formats.md, Lists of begun attempts). */

import { Broken, hexDigest, text, utf8 } from "./bytes.js";
import { readInventory } from "./objects.js";
import { firstStamp } from "./stamps.js";

const LATE_SECONDS = 1200; // from a step of an attempt to the stamp of its list
const AHEAD_SECONDS = 60; // by which a worker's clock may be ahead of the authority's
const MOST_REPEATED = 0.05; // of the episodes of a model in an arm
const ATTEMPT = /^attempts\/[0-9a-f]{2}\/([0-9a-f]{64})-([0-9]{4})\.cell$/;
const STEP = "([0-9a-f]{64}) ([1-9][0-9]{0,3}) (\\d{4}-\\d\\d-\\d\\dT[\\d:]{8}Z)";
const FORMS = [new RegExp(`^begin ${STEP}()$`), new RegExp(`^end ${STEP} ([0-9a-f]{64})$`)];
const PAGE = /^([0-9]{6}-[0-9]+)\/([0-9]{6})\.txt$/;

/**
 * Reads the lists of a wave and compares them with what was recorded of them before it was closed.
 *
 * @param {import("./findings.js").Findings} findings
 * @param {any} closed record of its closing
 * @param {string} recipient public key of its run
 * @returns {Promise<{attempts: number, again: number, problems: string[], doubts: (group: number) => string[]}>} Throws Broken, Missing.
 */
export async function readAttempts(findings, closed, recipient) {
  const folder = `begun/${hexDigest(utf8(recipient))}/`;
  const last = new Map(closed.heads.map((head) => [head.worker, head]));
  const lists = { begun: new Map(), ended: new Map(), waits: [0] };
  for (const [worker, recorded] of recordedHeads(findings, closed)) {
    const pages = await readList(findings.store, folder, last.get(worker) ?? recorded.at(-1).head);
    checkRecorded(`${folder}${worker}`, pages, recorded, last.has(worker));
    addPages(lists, pages, recorded);
  }
  const workers = findings.store.list(folder).map((key) => PAGE.exec(key.slice(folder.length))?.[1]);
  const unnamed = new Set(workers.filter((worker) => worker && !last.has(worker))).size;
  return compare(lists, await readInventory(findings.store, closed.objects_root), unnamed);
}

/** The heads of each worker's list, as they were recorded, with the first stamp of each record. */
function recordedHeads(findings, closed) {
  const known = new Map();
  for (const [entry, record] of findings.records)
    if (["attempts-begun", "wave-closed"].includes(entry.kind) && record.wave === closed.wave) {
      const stamp = firstStamp(findings.stamps, entry.sequence);
      for (const head of record.heads)
        known.set(head.worker, [...(known.get(head.worker) ?? []), { stamp, head }]);
    }
  return known;
}

function checkRecorded(place, pages, recorded, named) {
  for (const { head } of recorded)
    if (head.pages > pages.length || pages[head.pages - 1]?.digest !== head.digest)
      throw new Broken(`${place}: not the list recorded before`);
  if (!named) throw new Broken(`${place}: recorded before, and left out at the close`);
}

async function readList(store, folder, head) {
  const keys = Array.from(
    { length: head.pages },
    (_, n) => `${folder}${head.worker}/${String(n).padStart(6, "0")}.txt`,
  );
  if (!keys.length || !PAGE.test(keys[0].slice(folder.length)))
    throw new Broken(`${folder}: a head of no list, '${head.worker.slice(0, 40)}'`);
  const pages = [];
  let before = "0".repeat(64);
  for (const key of keys) {
    const data = await store.read(key);
    const [first, ...lines] = text(data).trimEnd().split("\n");
    const steps = lines.map((line) => FORMS[0].exec(line) ?? FORMS[1].exec(line));
    if (first !== `before ${before}` || steps.includes(null))
      throw new Broken(`${key}: it, or the page before it, was altered or replaced`);
    before = hexDigest(data);
    pages.push({
      digest: before,
      steps: steps.map(([, episode, attempt, time, end]) => ({
        place: `${episode} ${Number(attempt)}`,
        time,
        end,
      })),
    });
  }
  if (before !== head.digest)
    throw new Broken(`${keys.at(-1)}: was altered: ${head.digest} expected, ${before} found`);
  return pages;
}

function addPages({ begun, ended, waits }, pages, recorded) {
  const own = new Set();
  for (const [number, { steps }] of pages.entries()) {
    const { stamp } = recorded.find(({ head }) => head.pages > number);
    for (const { place, time, end } of steps) {
      waits.push(stamp ? (Date.parse(stamp.time) - Date.parse(time)) / 1000 : Infinity);
      if (!end) {
        own.add(place);
        begun.set(place, (begun.get(place) ?? 0) + 1);
      } else if (own.has(place)) ended.set(place, [...(ended.get(place) ?? []), end]); // an end before its beginning is none
    }
  }
}

function compare({ begun, ended, waits }, objects, unnamed) {
  const attempts = objects
    .map(([key, found]) => [ATTEMPT.exec(key), found.slice(7)])
    .filter(([attempt]) => attempt);
  const stored = new Map(attempts.map(([attempt, found]) => [`${attempt[1]} ${Number(attempt[2])}`, found]));
  const episodes = new Set(attempts.map(([attempt]) => attempt[1]));
  const results = new Set(
    objects.filter(([key]) => key.startsWith("results/")).map(([key]) => key.split("/").at(-1).slice(0, 64)),
  );
  const total = (counts) => counts.reduce((sum, count) => sum + count, 0);
  const begins = total([...begun.values()]);
  const again = Math.max(begins, total([...ended.values()].map((ends) => ends.length))) - episodes.size;
  const number = {
    extra: [...stored.keys()].filter((place) => !begun.has(place)).length,
    other: [...stored].filter(([place, found]) => !(ended.get(place) ?? []).includes(found)).length,
    bare: [...results].filter((episode) => !episodes.has(episode)).length,
  };
  const times = waits.reduce(([least, most], wait) => [Math.min(least, wait), Math.max(most, wait)], [0, 0]);
  return {
    attempts: stored.size,
    again,
    problems: problemsOf(number),
    doubts: (group) => doubtsOf(times, { again, begins, unnamed }, group),
  };
}

const problemsOf = ({ extra, other, bare }) =>
  [
    extra && `${extra} stored attempts were never begun by a list`,
    other && `${other} stored attempts are not those that ended by a list`,
    bare && `${bare} results have no attempt`,
  ].filter(Boolean);

function doubtsOf([soonest, latest], { again, begins, unnamed }, group) {
  const late =
    latest > LATE_SECONDS && `a step of an attempt was stamped ${(latest / 60).toFixed(0)} minutes later`;
  return [
    latest === Infinity ? "its lists have no time-stamp" : late,
    soonest < -AHEAD_SECONDS && "a step of an attempt is dated after its time-stamp",
    unnamed && `${unnamed} lists that its closing does not name`,
    again > MOST_REPEATED * group && `${again} failed or were begun more than once, of ${begins}`,
  ].filter(Boolean);
}
