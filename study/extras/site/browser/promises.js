/** What a study promises, and how far others can check it, as `registry/verify/promises.py` has it. */

import { roundTime } from "./beacon.js";
import { readAttempts } from "./begun.js";
import { Broken } from "./bytes.js";
import { Missing } from "./evidence.js";
import { placeOf, promiseOf, UNSHOWN } from "./findings.js";
import { firstStamp } from "./stamps.js";

const ARMS = "the arms could have been chosen by the owner";
const PLAN = "the plan may be younger than the data";
const ATTEMPTS = "attempts could have been chosen";

/** @param {import("./findings.js").Findings} findings @returns {Promise<any[]>} promises that an owner could break by choosing */
export async function selectionPromises(findings) {
  return [
    allotted(findings),
    planned(findings),
    await attempted(findings),
    {
      promise: "this is the owner's only study, and its only draw",
      standing: UNSHOWN,
      reason: "an owner can make several and publish one: ask where this one was announced",
    },
  ];
}

function allotted(findings) {
  const announced = findings.of("announcement");
  const [holds, unshown] = announced.length
    ? byChance(findings, announced)
    : ["", [`${ARMS}: no draw is announced`]];
  return promiseOf(
    "the arms were allotted by chance",
    holds,
    unshown,
    problemsAt(findings, "announcement", "sealed-set"),
  );
}

function byChance(findings, announced) {
  const [entry, { beacon }] = announced.at(-1);
  const again =
    announced.length > 1 ? [`drawn ${announced.length} times, for the reasons in the ledger`] : [];
  if (!beacon) return ["", [`${ARMS}: a secret of theirs allotted them, not a public beacon`, ...again]];
  const stamp = firstStamp(findings.stamps, entry.sequence);
  const due = dueAt(beacon);
  if (!stamp || !(Date.parse(stamp.time) < due))
    return [
      "",
      [`${ARMS}: no time-stamp of the announcement before the beacon's round ${beacon.round}`, ...again],
    ];
  const round = new Date(due).toISOString().slice(0, 19).replace("T", " ");
  const others = "others announced for that round are seen only where they are published";
  return [`announced before ${stamp.time}, drand round ${round} UTC; ${others}`, again];
}

function dueAt(beacon) {
  try {
    return roundTime(beacon);
  } catch (error) {
    if (!(error instanceof Broken)) throw error;
    return NaN; // of another chain: a problem already
  }
}

function planned(findings) {
  const [plan] = findings.of("preregistration");
  const [wave] = findings.of("run-manifest");
  let holds = "";
  let unshown = [`${PLAN}: no plan is registered`];
  if (plan) {
    const begun = wave?.[0].sequence ?? Infinity;
    const stamp = firstStamp(findings.stamps, plan[0].sequence, begun);
    const later = wave ? firstStamp(findings.stamps, begun) : stamp;
    const shown = stamp && later && later.time >= stamp.time;
    holds = shown ? `registered before ${stamp.time}` : "";
    unshown = shown ? [] : [`${PLAN}: no time-stamps of the plan and then of the first wave`];
  }
  return promiseOf("the plan came before the data", holds, unshown, problemsAt(findings, "preregistration"));
}

async function attempted(findings) {
  findings.under("Lists of begun attempts");
  const closed = findings.of("wave-closed");
  const state = { doubts: new Map(), problems: [], attempts: 0, again: 0 };
  const doubt = (words, wave) => state.doubts.set(words, [...(state.doubts.get(words) ?? []), wave]);
  const ended = new Set(closed.map(([, record]) => record.wave));
  const begun = new Set(findings.of("run-manifest").map(([, record]) => record.wave));
  [...begun]
    .filter((wave) => !ended.has(wave))
    .sort((one, other) => one - other)
    .forEach((wave) => doubt("begun and not closed", wave));
  const scored = findings
    .of("preregistration")
    .some(([, { plan }]) => plan.judges.some((rule) => rule.scores.length));
  if (scored)
    findings.of("graded").forEach(([, record]) => doubt("a judge's replies stand in no list", record.wave));
  for (const [, record] of closed)
    await addWave(findings, state, record, (words) => doubt(words, record.wave));
  findings.count(state.attempts);
  for (const problem of state.problems) findings.add("begun/", problem);
  const unshown = [...state.doubts].map(([words, waves]) => `${words} (wave ${waves.join(", ")})`);
  if (!closed.length) unshown.push("no wave is closed yet");
  const holds = `${state.attempts} were begun in time-stamped lists; ${state.again} failed or were begun more than once`;
  const words = unshown.length ? [`${ATTEMPTS}: ${unshown.join(", ")}`] : [];
  words.forEach((each) => findings.doubt(each));
  return promiseOf("no attempt was thrown away", holds, words, state.problems);
}

async function addWave(findings, state, record, doubt) {
  if (record.elsewhere.length) return doubt("run elsewhere");
  if (!record.heads.length || !record.objects_root) return doubt("no list of those begun");
  const manifest = findings.manifests.get(record.manifest);
  if (!manifest) return state.problems.push(`wave ${record.wave}: '${record.manifest}'`);
  try {
    const found = await readAttempts(findings, record, manifest.run_recipient);
    state.attempts += found.attempts;
    state.again += found.again;
    state.problems.push(...found.problems.map((text) => `wave ${record.wave}: ${text}`));
    found.doubts(record.owed / 2 / manifest.models.length).forEach(doubt);
  } catch (error) {
    if (!(error instanceof Broken)) throw error;
    const given = ["begun/", "inventory/"].every(findings.store.covers);
    if (!(error instanceof Missing)) state.problems.push(`wave ${record.wave}: ${error.message}`);
    else doubt(given ? "a page of its lists is missing" : "its lists were not given"); // or lie on a lost machine
  }
}

function problemsAt(findings, ...kinds) {
  const places = new Set(
    findings.records.filter(([entry]) => kinds.includes(entry.kind)).map(([entry]) => placeOf(entry)),
  );
  return findings.problems
    .filter(([place]) => places.has(place))
    .map(([place, problem]) => `${place}: ${problem}`);
}
