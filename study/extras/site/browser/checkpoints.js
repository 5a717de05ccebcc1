/** The ledger against its checkpoints, as `registry/verify/checkpoints.py` has it. */

import { Broken, concat, fromBase64, fromHex, same, sha256, text, toBase64, toHex, utf8 } from "./bytes.js";
import { LEDGER, recordKey } from "./ledger.js";
import { leafHash, MerkleTree, rootOf } from "./merkle.js";
import { isSignedText } from "./signing.js";

const NOTE =
  /^dosimeter\/([0-9a-f]{64})\n(0|[1-9][0-9]{0,7})\n([A-Za-z0-9+/]{43}=)\nhead (sha256:[0-9a-f]{64})\n\n— dosimeter\/\1 ([A-Za-z0-9+/]+={0,2})\n$/;

/** @param {Uint8Array} data @returns {{study: string, size: number, root: Uint8Array, head: string, text: string}} Throws Broken. */
function readCheckpoint(data) {
  const found = NOTE.exec(text(data));
  if (!found) throw new Broken("not a checkpoint of a study's ledger");
  const [, study, size, root, head, code] = found;
  const body = `dosimeter/${study}\n${size}\n${root}\nhead ${head}\n`;
  const id = sha256(concat(utf8(`dosimeter/${study}\n`), Uint8Array.of(1), fromHex(study))).slice(0, 4);
  const signature = decode64(code).slice(4);
  const note = `${body}\n— dosimeter/${study} ${toBase64(concat(id, signature))}\n`;
  if (!same(data, utf8(note)) || !isSignedText(fromHex(study), signature, utf8(body)))
    throw new Broken(`not signed by ${study.slice(0, 16)}…, the study that it names`);
  return { study, size: Number(size), root: fromBase64(root), head, text: body };
}

function decode64(code) {
  try {
    return fromBase64(code);
  } catch {
    return new Uint8Array();
  }
}

/**
 * Checks the records that can be read against the checkpoints in the store and those kept elsewhere.
 *
 * @param {import("./findings.js").Findings} findings
 * @param {Map<string, Uint8Array>} given notes by place
 */
export async function checkCheckpoints(findings, given) {
  findings.under("Checkpoints");
  const { store, entries } = findings;
  if (!entries.length) return checkEmpty(findings, given);
  const signed = [...(await readStored(findings)), ...readGiven(findings, given)];
  const unique = [...new Map(signed.map((each) => [each.text, each])).values()];
  unique.sort((one, other) => one.size - other.size || (one.text < other.text ? -1 : 1));
  const leaves = entries.filter((entry, n) => entry.sequence === n).map((entry) => leafHash(entry.data));
  const roots = rootsOf(leaves, new Set(unique.map((each) => each.size)));
  for (const problem of splitViews(unique)) findings.add(...problem);
  for (const each of unique) {
    const problem = await contradiction(store, entries, each, leaves, roots);
    if (problem) findings.add(...problem);
  }
  findings.count(unique.length);
}

function checkEmpty(findings, given) {
  for (const key of findings.store.list("checkpoints/").slice(0, 1))
    findings.add(LEDGER, `rolled back: no records, and there is ${key}`);
  for (const place of given.keys()) findings.add(place, "a checkpoint, and the ledger has no records");
}

/** A note in the store that the study did not sign is none of its promises. */
async function readStored({ store, entries, unchecked }) {
  const signed = [];
  for (const key of store.list("checkpoints/").filter((each) => each.endsWith(".txt")))
    try {
      const checkpoint = readCheckpoint(await store.read(key));
      if (checkpoint.study !== entries[0].signer) throw new Broken("a checkpoint of another study's ledger");
      signed.push(checkpoint);
    } catch (error) {
      if (!(error instanceof Broken)) throw error;
      unchecked.push(`${key}: ${error.message}`);
    }
  return signed;
}

/** A given note that the study did not sign is a problem. */
function readGiven(findings, given) {
  const study = findings.entries[0].signer;
  const read = [...given].map(([place, data]) =>
    findings.attempt(place, () => {
      const checkpoint = readCheckpoint(data);
      const named = checkpoint.study;
      if (named === study) return checkpoint;
      throw new Broken(
        `the study's key is ${named.slice(0, 16)}… there, and the ledger's first record is signed by ` +
          `${study.slice(0, 16)}…: the ledger was replaced, or is another's`,
      );
    }),
  );
  return read.filter(Boolean);
}

function rootsOf(leaves, sizes) {
  const tree = new MerkleTree();
  const roots = new Map();
  for (let size = 0; size <= leaves.length; size += 1) {
    if (sizes.has(size)) roots.set(size, tree.root());
    if (size < leaves.length) tree.addHash(leaves[size]);
  }
  return roots;
}

function* splitViews(signed) {
  for (const [n, other] of signed.entries()) {
    const one = signed[n - 1];
    if (one?.size !== other.size) continue;
    const roots = [one, other].map((each) => `root ${toHex(each.root).slice(0, 16)}…`).join(" and ");
    yield [folderOf(one), `a split view: the study signed two checkpoints of ${one.size} records: ${roots}`];
  }
}

const folderOf = (checkpoint) => `checkpoints/${String(checkpoint.size).padStart(8, "0")}/`;

/** Finds how a ledger differs from a checkpoint; null if it extends it. */
async function contradiction(store, entries, checkpoint, leaves, roots) {
  const { size } = checkpoint;
  const promised = `the checkpoint of ${size} records, which the study's key signed`;
  if (roots.has(size) && same(roots.get(size), checkpoint.root)) {
    const head = size ? entries[size - 1].digest : checkpoint.head;
    return head === checkpoint.head
      ? null
      : [folderOf(checkpoint), `its head ${checkpoint.head} is not of its root: ${head}`];
  }
  const known = await storedLeaves(store, checkpoint);
  const number = known.slice(0, leaves.length).findIndex((leaf, n) => leaf !== toHex(leaves[n]));
  if (number >= 0) return [recordKey(number), `was rewritten: it is not the record in ${promised}`];
  if (leaves.length < size)
    return [
      LEDGER,
      `rolled back to ${leaves.length} records: ${spellRecords(leaves.length, size)} in ${promised}`,
    ];
  const range = `${recordKey(0)} to ${recordKey(size - 1).slice(LEDGER.length)}`;
  return [range, `one of these was rewritten: they are not those in ${promised}`];
}

async function storedLeaves(store, checkpoint) {
  for (const key of store.list(folderOf(checkpoint)).filter((each) => each.endsWith(".leaves"))) {
    const lines = text(await store.read(key))
      .trim()
      .split(/\s+/);
    if (
      lines.every((line) => /^[0-9a-f]{64}$/.test(line)) &&
      same(rootOf(lines.map(fromHex)), checkpoint.root)
    )
      return lines;
  }
  return [];
}

/** @param {number} start @param {number} end @returns {string} the records from one number up to before another */
export const spellRecords = (start, end) =>
  end === start + 1 ? `record ${start} was` : `records ${start} to ${end - 1} were`;
