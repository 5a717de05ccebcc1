/** The ledger's chain and signatures, as `registry/ledger/chain.py` reads them. */

import { Broken, digest } from "./bytes.js";
import { canonicalBytes, parseCanonical } from "./canonical.js";
import { recordOf } from "./findings.js";
import { isKind, readForm } from "./forms.js";
import { isSigned } from "./signing.js";

export const LEDGER = "ledger/";
export const GENESIS = `sha256:${"0".repeat(64)}`;
const FIELDS = "body,kind,previous,sequence,signature,signer,time";
const OPERATOR_KINDS = new Set(
  "run-manifest exported attempts-begun wave-closed graded regraded judge-checked probed".split(" "),
);

/** @param {number} sequence @returns {string} name of a record's file */
export const recordKey = (sequence) => `${LEDGER}${String(sequence).padStart(8, "0")}.json`;

/** @param {any[]} entries @returns {string} digest of the newest */
export const headDigest = (entries) => entries.at(-1)?.digest ?? GENESIS;

/**
 * Reads the records.
 *
 * @param {import("./evidence.js").Folder} store
 * @param {(line: string, place: string, problem: string) => void} report
 * @param {(done: number, of: number) => Promise<void>} progress
 * @returns {Promise<any[]>} those that can be read
 */
export async function readChain(store, report, progress) {
  const keys = store.list(LEDGER);
  const entries = [];
  let done = 0;
  for await (const [key, data] of store.readEach(keys)) {
    await progress((done += 1), keys.length);
    try {
      extend(entries, readEntry(await data), key, report);
    } catch (error) {
      if (!(error instanceof Broken)) throw error;
      report("chain", key, error.message);
    }
  }
  return entries;
}

function readEntry(data) {
  const value = parseCanonical(data);
  const entry = readForm("entry", value);
  if (Object.keys(value).sort().join() !== FIELDS) throw new Broken("not an Entry: it has other fields");
  return { ...entry, data, digest: digest(data) };
}

function extend(entries, entry, key, report) {
  const broken = findBreak(entries, entry, key);
  if (broken) report("chain", ...broken);
  entries.push(entry);
  const problem = foreign(entries[0], entry) || unsigned(entry);
  if (problem) report("signature", key, problem);
}

/** Finds what is wrong between the records so far and the next one. */
function findBreak(entries, entry, key) {
  if (key !== recordKey(entry.sequence)) return [key, `holds record ${entry.sequence}: it was moved here`];
  const expected = entries.length ? entries.at(-1).sequence + 1 : 0;
  if (entry.sequence !== expected) return [recordKey(expected), "missing, or unreadable"];
  const head = headDigest(entries);
  if (entry.previous === head) return null;
  const place = recordKey(Math.max(expected - 1, 0));
  return [place, `was altered: digest ${entry.previous} expected by ${key}, ${head} found`];
}

/** @param {any} first entry @returns {Map<string, (kind: string) => boolean>} who may sign which kinds. Throws Broken. */
function signersOf(first) {
  const signers = new Map([[first.signer, isKind]]);
  const operator = first.kind === "announcement" ? recordOf(first).operator_signer : "";
  if (operator && !signers.has(operator)) signers.set(operator, (kind) => OPERATOR_KINDS.has(kind));
  return signers;
}

function foreign(first, entry) {
  try {
    const signers = signersOf(first);
    if (signers.get(entry.signer)?.(entry.kind)) return "";
    if (signers.has(entry.signer))
      return `the operator's key does not sign records of the kind '${entry.kind}'`;
    return `signed by ${entry.signer.slice(0, 16)}…, which is not the study's key ${first.signer.slice(0, 16)}…`;
  } catch (error) {
    if (!(error instanceof Broken)) throw error;
    return error.message;
  }
}

function unsigned(entry) {
  const { body, kind, previous, sequence, signer, time } = entry;
  const signed = canonicalBytes({ body, kind, previous, sequence, signer, time });
  if (isSigned(signer, entry.signature, "dosimeter/ledger/1", signed)) return "";
  return `was altered: its signature is not by ${signer.slice(0, 16)}…, the signer that it names`;
}
