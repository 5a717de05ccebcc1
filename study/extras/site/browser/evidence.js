/** The files that are checked: a copy of a store, of a release, of reports, and what was kept elsewhere. */

import { Broken, text } from "./bytes.js";

const FOLDERS =
  "attempts begun calibrations checkpoints checks drawn epochs files foreign grades inventory judgements " +
  "ledger probes regrades responses results revealed runs sealed stamps tables";
const STORED = new RegExp(`^(${FOLDERS.replaceAll(" ", "|")})/`);
const RECORD = /^(.*?)ledger\/\d{8}\.json$/;
const REPORT = /^(.*\/)?(reports\/wave-\d+\/.*)$/;
const MOST_BYTES = 1 << 30;
const AHEAD = 64; // files that are read at a time
const SMALL = 1 << 20; // bytes of those that are read as one

/** Nothing was given under this name. */
export class Missing extends Broken {}

/** Bytes of blobs, read as one. */
async function readTogether(blobs) {
  const bytes = new Uint8Array(await new Blob(blobs).arrayBuffer());
  let end = 0;
  return blobs.map(({ size }) => bytes.subarray(end, (end += size)));
}

/** Some files by name. @typedef {{size: number, blob?: Blob, read: () => Promise<Uint8Array>}} Readable */
export class Folder {
  /** @param {Map<string, Readable>} files @param {string} place name of the folder in messages, "" or with a slash */
  constructor(files, place = "") {
    this.files = files;
    this.place = place;
    this.names = [...files.keys()].sort();
    this.tops = new Set(this.names.map((name) => name.split("/")[0]));
  }

  /** @param {string} prefix @returns {string[]} names in order */
  list = (prefix) => this.names.filter((name) => name.startsWith(prefix));

  /** @param {string} name @returns {boolean} */
  has = (name) => this.files.has(name);

  /** @param {string} name @returns {boolean} whether anything was given of its first folder */
  covers = (name) => this.tops.has(name.split("/")[0]);

  /** @param {string} name @returns {Promise<Uint8Array>} Throws Missing. */
  async read(name) {
    const file = this.files.get(name);
    if (!file) throw new Missing(`${name}: no such object`);
    if (file.size > MOST_BYTES) throw new Broken(`${name}: larger than a gigabyte`);
    return file.read();
  }

  /**
   * Reads many files at a time: a browser takes milliseconds for each single one.
   *
   * @param {string[]} names
   * @returns {AsyncGenerator<[string, Uint8Array | Promise<Uint8Array>]>} each with its bytes
   */
  async *readEach(names) {
    for (let start = 0; start < names.length; start += AHEAD) {
      const some = names.slice(start, start + AHEAD);
      const small = some.filter((name) => this.files.get(name).blob?.size <= SMALL);
      const read = await readTogether(small.map((name) => this.files.get(name).blob));
      const known = new Map(small.map((name, n) => [name, read[n]]));
      const reading = some.map((name) => known.get(name) ?? this.start(name));
      for (const [n, name] of some.entries()) yield [name, reading[n]];
    }
  }

  start(name) {
    const read = this.read(name);
    read.catch(() => null); // whoever awaits it hears of it
    return read;
  }
}

/**
 * Sorts files by what they are.
 *
 * @param {Map<string, Readable>} files by their paths
 * @returns {Promise<{store: Folder, left: string[], release: Folder | null, reports: Folder, notes: Map<string, Uint8Array>, pem: string}>}
 */
export async function sortFiles(files) {
  const paths = [...files.keys()].filter((path) => !/(^|\/)\./.test(path)).sort();
  const roots = paths.map((path) => RECORD.exec(path)?.[1]).filter((root) => root !== undefined);
  const root = shortest(roots);
  const stored =
    root === undefined
      ? []
      : paths.filter((path) => path.startsWith(root) && STORED.test(path.slice(root.length)));
  const left = [...new Set(roots.filter((each) => each !== root))];
  const store = new Folder(new Map(stored.map((path) => [path.slice(root.length), files.get(path)])));
  const others = paths.filter((path) => !stored.includes(path));
  const released = shortest(
    others
      .filter((path) => /(^|\/)checksums\.json$/.test(path))
      .map((path) => path.slice(0, -"checksums.json".length)),
  );
  const release = released === undefined ? null : subfolder(files, others, released);
  const reports = new Folder(
    new Map(
      others.filter((path) => REPORT.test(path)).map((path) => [REPORT.exec(path)[2], files.get(path)]),
    ),
  );
  return {
    store,
    left,
    release,
    reports,
    notes: await readNotes(files, others, release, reports),
    pem: await readPem(files, others),
  };
}

const shortest = (texts) => texts.toSorted((one, other) => one.length - other.length)[0];

function subfolder(files, paths, root) {
  const inside = paths.filter(
    (path) => path.startsWith(root) && !path.slice(root.length).startsWith("reports/"),
  );
  const name = root.split("/").at(-2) ?? "release";
  return new Folder(new Map(inside.map((path) => [path.slice(root.length), files.get(path)])), `${name}/`);
}

/** Reads the checkpoints beside a release and reports, and those that were given alone. */
async function readNotes(files, paths, release, reports) {
  const notes = new Map();
  if (release?.has("checkpoint.txt"))
    notes.set(`${release.place}checkpoint.txt`, await release.read("checkpoint.txt"));
  for (const name of reports.names.filter((each) => each.endsWith("/checkpoint.txt")))
    notes.set(name, await reports.read(name));
  for (const path of paths.filter((each) => /^[^/]+\.txt$/.test(each) && !release?.has(each))) {
    const data = await files.get(path).read();
    if (beginsWith(data, "dosimeter/")) notes.set(path, data);
  }
  return notes;
}

async function readPem(files, paths) {
  const found = paths.filter((path) => /\.(pem|crt|cer)$/.test(path));
  const read = await Promise.all(found.map((path) => files.get(path).read()));
  return read
    .filter((data) => beginsWith(data, "-----BEGIN"))
    .map(text)
    .join("\n");
}

const beginsWith = (data, words) => String.fromCharCode(...data.subarray(0, words.length)) === words;
