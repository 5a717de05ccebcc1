/** The whole check: what `dosimeter verify` checks without a key, in the same words. */

import { checkCheckpoints } from "./checkpoints.js";
import { checkDraws } from "./draw.js";
import { sortFiles } from "./evidence.js";
import { BROKEN, Findings, HOLDS, placeOf, promiseOf, UNSHOWN } from "./findings.js";
import { GENESIS, headDigest, LEDGER, readChain } from "./ledger.js";
import { checkObjects } from "./objects.js";
import { selectionPromises } from "./promises.js";
import { checkRecords, recordDigest } from "./records.js";
import { checkRelease, checkReports } from "./released.js";
import { checkStamps } from "./stamps.js";
import { readPem } from "./x509.js";

const CHAIN = "Chain of the ledger's records";
const SHOWN = "Time-stamps show others that";
const SIGNATURES = "Signatures of the records";

/**
 * Checks some files.
 *
 * @param {Map<string, import("./evidence.js").Readable>} files by their paths
 * @param {string} head digest of a late record that was noted elsewhere, "" without one
 * @param {(step: string, done: number, of: number) => Promise<void>} progress
 * @returns {Promise<any>} promises, lines, problems, unchecked, stamps, head and signer
 */
export async function verify(files, head, progress) {
  const { store, left, release, reports, notes, pem } = await sortFiles(files);
  const findings = new Findings(store, []);
  await checkLedger(findings, head, progress);
  findings.readRecords();
  findings.manifests = new Map(
    findings.of("run-manifest").map(([, record]) => [recordDigest("run-manifest", record), record]),
  );
  noteUnchecked(findings, head);
  findings.unchecked.push(
    ...left.map((root) => `another ledger among these files, ${root}ledger/: give it alone`),
  );
  await checkCheckpoints(findings, notes);
  if (findings.entries.length) await checkStamps(findings, readPem(pem), head !== "");
  checkRecords(findings);
  await checkDraws(findings);
  await checkObjects(findings, (done, of) => progress("stored objects", done, of));
  const promises = await selectionPromises(findings);
  promises.push(...recordPromises(findings, absentWords(findings)));
  const claims = await overclaims(findings, promises);
  promises.push(...(await filePromises(findings, release, reports, claims)));
  return {
    promises,
    lines: [...findings.lines].map(([name, line]) => ({ name, ...line, standing: standingOf(line) })),
    problems: findings.unlisted
      ? [...findings.problems, ["and more", `${findings.unlisted} other problems`]]
      : findings.problems,
    unchecked: [...new Set([...findings.unchecked, ...absentWords(findings)])],
    stamps: findings.stamps,
    head: headDigest(findings.entries),
    signer: findings.entries[0]?.signer ?? "",
  };
}

async function checkLedger(findings, head, progress) {
  findings.under(CHAIN);
  findings.under(SIGNATURES);
  const report = (line, place, problem) => {
    findings.under(line === "chain" ? CHAIN : SIGNATURES);
    findings.add(place, problem);
  };
  findings.entries = await readChain(findings.store, report, (done, of) =>
    progress("ledger records", done, of),
  );
  findings.under(SIGNATURES);
  findings.count(findings.entries.length);
  findings.under(CHAIN);
  findings.count(findings.entries.length);
  if (!head || head === GENESIS || findings.entries.some((entry) => entry.digest === head)) return;
  findings.add(
    LEDGER,
    `head ${head} expected in the chain, which ends with ${headDigest(findings.entries)}: cut or replaced`,
  );
}

function noteUnchecked(findings, head) {
  const { unchecked } = findings;
  if (!head)
    unchecked.push(
      "whether records were dropped from the ledger's end, or all were written anew: no head noted elsewhere was given",
    );
  unchecked.push(
    "what is sealed (commitments, ciphertexts, the signatures in them) and whose key signed the ledger: no key was given; " +
      "compare the signer with one that you know from elsewhere",
  );
  const plans = findings.of("preregistration");
  if (plans.length) unchecked.push("whether study.yaml is the registered plan (`dosimeter verify`)");
  const records = plans.length ? plans : findings.of("sealed-set");
  for (const [, { unproved }] of records)
    if (unproved)
      unchecked.push(
        `whether ${unproved.tasks.join(", ")} can be solved and not be guessed: --unproved was given, since ${unproved.reason}`,
      );
  for (const [, record] of findings.of("wave-closed")) {
    if (!record.objects_root) unchecked.push(`objects of wave ${record.wave}: closed without an inventory`);
    for (const ran of record.elsewhere)
      unchecked.push(`what was run in wave ${record.wave}: ${spellElsewhere(ran)}`);
  }
}

function spellElsewhere({ model, named, harness, answers, regraded }) {
  const taken = `not regraded: ${answers - regraded} scores are those of the logs, for every outcome`;
  const name = named === model ? "" : ` (as ${named})`;
  return `${model}${name} was run elsewhere by ${harness}, not blind to what it ran, ${regraded < answers ? taken : "regraded"}`;
}

const absentWords = ({ absent }) =>
  [...absent].map(
    ([folder, count]) =>
      `${count} ${count === 1 ? "object" : "objects"} of ${folder}: nothing of this folder was given`,
  );

/** The promises that rest on the store alone. */
function recordPromises({ problems, unchecked }, absent) {
  const texts = problems.map(([place, words]) => `${place}: ${words}`);
  const ledger = texts.filter((words) =>
    [LEDGER, "checkpoints/", "ledger record"].some((start) => words.startsWith(start)),
  );
  const ends = ["rewritten by the study's own key", "dropped from the ledger's end", "as it says"];
  const rewritten = unchecked.filter((words) => ends.some((end) => words.includes(end)));
  const unopened = unchecked.filter((words) => words.startsWith("what is sealed"));
  const others = texts.filter((words) => !ledger.includes(words));
  return [
    promiseOf(
      "the records are as they were made",
      "they hold the head that was noted elsewhere",
      rewritten,
      ledger,
    ),
    promiseOf("each stored object is as recorded", "each was opened", [...unopened, ...absent], others),
  ];
}

/** Yields the reports that say of an owner's choices what cannot be shown here. */
async function overclaims(findings, promises) {
  const holds = ({ standing }) => standing === HOLDS;
  const claims = [];
  if (promises.slice(0, 3).every(holds)) return claims;
  for (const [entry, record] of findings.of("report")) {
    if (!record.selection.startsWith(SHOWN)) continue;
    const before = new Findings(findings.store, findings.entries.slice(0, entry.sequence));
    before.readRecords();
    before.manifests = findings.manifests;
    before.stamps = findings.stamps.filter((stamp) => stamp.sequence < entry.sequence);
    if (!(await selectionPromises(before)).slice(0, 3).every(holds))
      claims.push(["", `what the report of ${placeOf(entry)} says of the arms, plan and attempts`]);
  }
  return claims;
}

/** The promises that rest on files beside the store, and those that take more than files. */
async function filePromises(findings, release, reports, claims) {
  const groups = [
    ["release", "what was published is what was recorded", await checkRelease(findings, release), []],
    [
      "report",
      "the reports are those recorded",
      [...(await checkReports(findings, reports)), ...claims],
      ["that their numbers follow: `dosimeter report` with the key makes them again"],
    ],
    [
      "preregistration",
      "the code is what the records name",
      [["", "the code that the records name: that takes its repository (`dosimeter verify`)"]],
      ["that this code ran, and asked all models alike, is the owner's word"],
    ],
    [
      "wave-closed",
      "each grade follows from its attempt",
      [
        [
          "",
          "whether each grade follows from its attempt: that takes the study's key (`dosimeter verify --regrade`)",
        ],
      ],
      [],
    ],
  ];
  const lines = { release: "Released files", report: "Report files" };
  return groups.map(([kind, promise, group, never]) => {
    const none = findings.of(kind).length ? [] : [`no ${kind} is recorded`];
    const left = group.filter(([place]) => !place).map(([, words]) => words);
    const problems = group.filter(([place]) => place);
    if (lines[kind]) findings.under(lines[kind]);
    problems.forEach((problem) => findings.add(...problem));
    findings.unchecked.push(...left);
    if (lines[kind]) left.forEach((words) => findings.doubt(words));
    return promiseOf(
      promise,
      "each was compared",
      [...none, ...left, ...never],
      problems.map(([place, words]) => `${place}: ${words}`),
    );
  });
}

const standingOf = ({ count, problems, doubts }) =>
  problems ? BROKEN : doubts.length || !count ? UNSHOWN : HOLDS;
