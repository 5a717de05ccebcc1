/** What a check has found so far: the same words as `registry/verify/findings.py` has. */

import { Broken } from "./bytes.js";
import { Missing } from "./evidence.js";
import { isKind, readForm } from "./forms.js";

export const HOLDS = "holds";
export const UNSHOWN = "could not be shown";
export const BROKEN = "broken";
const LISTED = 1000; // problems that are listed one by one

// What is recomputed, and what is counted of it.
const UNITS = {
  "Chain of the ledger's records": "records, each named by the digest of the next",
  "Signatures of the records": "Ed25519 signatures",
  "Forms of the records": "records",
  "What the records say of each other": "records",
  Checkpoints: "signed roots over the records",
  "Time-stamps": "RFC 3161 time-stamps",
  "Commitments under the draw's root": "commitments",
  "Allotment of the seeds to the arms": "seeds",
  "Revealed seeds that open their commitments": "seeds and files of units",
  "Stored objects": "digests in inventories and names",
  "Lists of begun attempts": "attempts",
  "Released files": "files",
  "Report files": "files",
};

/** @param {any} entry @returns {any} its body as a record. Throws Broken. */
export function recordOf(entry) {
  try {
    if (!isKind(entry.kind)) throw new Broken(`unknown kind '${entry.kind}'`);
    return readForm(entry.kind, entry.body);
  } catch (error) {
    if (!(error instanceof Broken)) throw error;
    throw new Broken(`${placeOf(entry)}: ${error.message}`);
  }
}

/** @param {any} entry @returns {string} its name in messages */
export const placeOf = (entry) => `ledger record ${entry.sequence}`;

export class Findings {
  /** @param {import("./evidence.js").Folder} store @param {any[]} entries of the ledger */
  constructor(store, entries) {
    Object.assign(this, {
      store,
      entries,
      records: [],
      problems: [],
      unchecked: [],
      stamps: [],
      unlisted: 0,
    });
    this.absent = new Map(); // number of objects that were not given, by folder
    const lines = Object.entries(UNITS).map(([name, unit]) => [
      name,
      { count: 0, unit, problems: 0, doubts: [] },
    ]);
    this.lines = new Map(lines); // what was recomputed
    this.line = "";
  }

  /** Reads the body of each entry; one of another form is a problem. */
  readRecords() {
    this.under("Forms of the records");
    for (const entry of this.entries)
      this.attempt(placeOf(entry), () => {
        this.records.push([entry, recordOf(entry)]);
        this.count();
      });
  }

  /** @param {string} line what is recomputed from here on, a key of UNITS */
  under(line) {
    this.line = line;
  }

  count(number = 1) {
    this.lines.get(this.line).count += number;
  }

  /** @param {string} words why what is recomputed could not be shown */
  doubt(words) {
    this.lines.get(this.line).doubts.push(words);
  }

  /** @param {string} place @param {string} problem */
  add(place, problem) {
    this.lines.get(this.line).problems += 1;
    const words = problem.startsWith(`${place}: `) ? problem.slice(place.length + 2) : problem;
    if (this.problems.length < LISTED) this.problems.push([place, words]);
    else this.unlisted += 1;
  }

  /** Notes that an object could not be compared: nothing was given of its folder. @param {string} key */
  leave(key) {
    const folder = `${key.split("/")[0]}/`;
    this.absent.set(folder, (this.absent.get(folder) ?? 0) + 1);
    this.doubt(`nothing of ${folder} was given`);
  }

  /** Takes a step; what it throws of the files is a problem. */
  attempt(place, step) {
    try {
      return step();
    } catch (error) {
      this.caught(place, error);
    }
  }

  /** Takes a step that reads files: those of a folder that was not given are left out. */
  async check(place, step) {
    try {
      await step();
    } catch (error) {
      if (error instanceof Missing && !this.store.covers(place)) this.leave(place);
      else this.caught(place, error);
    }
  }

  caught(place, error) {
    if (!(error instanceof Broken)) throw error;
    this.add(place, error.message);
  }

  /** @param {string} kind @returns {[any, any][]} entries of the kind with their records */
  of(kind) {
    return this.records.filter(([entry]) => entry.kind === kind);
  }
}

/** @returns {{promise: string, standing: string, reason: string}} broken by any problem, not shown by anything left */
export function promiseOf(promise, holds, unshown, problems) {
  const more = problems.length > 1 ? `, and ${problems.length - 1} more` : "";
  if (problems.length) return { promise, standing: BROKEN, reason: `${problems[0]}${more}` };
  if (unshown.length) return { promise, standing: UNSHOWN, reason: [...new Set(unshown)].join("; ") };
  return { promise, standing: HOLDS, reason: holds };
}

/** @param {unknown} value @returns {string} as Python writes it in a message */
export function spell(value) {
  if (Array.isArray(value)) return `(${value.map(quote).join(", ")}${value.length === 1 ? "," : ""})`;
  return value === null ? "None" : String(value);
}

/** @param {unknown} value @returns {string} as Python writes it within others */
export function quote(value) {
  if (typeof value === "string") return value.includes("'") ? JSON.stringify(value) : `'${value}'`;
  if (value === null || typeof value !== "object" || Array.isArray(value)) return spell(value);
  const fields = Object.entries(value).map(([name, each]) => `${name}=${quote(each)}`);
  return `Unit(${fields.join(", ")})`;
}
