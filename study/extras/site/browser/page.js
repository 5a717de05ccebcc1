/** The page: takes files, runs the check and shows its lines. All that files hold is shown as text. */

import { Broken } from "./bytes.js";
import { parseJson } from "./canonical.js";
import { BROKEN, HOLDS, UNSHOWN } from "./findings.js";
import { verify } from "./verify.js";

const MARKS = { [HOLDS]: "✓", [UNSHOWN]: "?", [BROKEN]: "✗" };
const SLICE = 50; // milliseconds of work between two looks at the page
const byId = (id) => document.getElementById(id);
const files = new Map();

// --- Files ---

/** @param {File[]} chosen by the user */
function addFiles(chosen) {
  for (const file of chosen) {
    const read = async () => new Uint8Array(await file.arrayBuffer());
    files.set(file.path ?? (file.webkitRelativePath || file.name), { size: file.size, blob: file, read });
  }
  return run();
}

/** Reads a folder that was dropped, with all that lies in it. */
async function filesOf(entry) {
  if (entry.isFile) {
    const file = await new Promise((resolve, reject) => entry.file(resolve, reject));
    return [Object.assign(file, { path: entry.fullPath.slice(1) })];
  }
  const reader = entry.createReader();
  const found = [];
  for (;;) {
    const entries = await new Promise((resolve, reject) => reader.readEntries(resolve, reject));
    if (!entries.length) return found;
    for (const each of entries) found.push(...(await filesOf(each)));
  }
}

/** @param {string} folder address of a study's evidence, relative to the page */
async function addEvidence(folder) {
  const base = new URL(folder, document.baseURI);
  files.clear();
  say("Fetching the list of files", 0);
  for (const name of parseJson(await fetchBytes(new URL("index.json", base)))) {
    const address = new URL(String(name).split("/").map(encodeURIComponent).join("/"), base);
    if (!address.href.startsWith(base.href)) throw new Broken(`index.json: ${name} lies outside its folder`);
    files.set(name, { size: 0, read: () => fetchBytes(address) });
  }
  return run();
}

async function fetchBytes(address) {
  const reply = await fetch(address, { cache: "no-cache" }); // a site that was built anew has other files
  if (!reply.ok) throw new Broken(`${address.pathname}: the site answers ${reply.status}`);
  return new Uint8Array(await reply.arrayBuffer());
}

// --- The check ---

let running = 0; // number of the check that counts

/** Another check was begun. */
class Stopped extends Error {}

async function run() {
  const number = (running += 1);
  const began = performance.now();
  let last = began;
  const progress = async (step, done, of) => {
    if (performance.now() - last < SLICE) return;
    say(`Checking ${step}: ${done} of ${of}`, done / of);
    await new Promise((resolve) => setTimeout(resolve));
    last = performance.now();
    if (number !== running) throw new Stopped();
  };
  const head = byId("head").value.trim();
  if (head && !/^sha256:[0-9a-f]{64}$/.test(head))
    return say("The head is not sha256: and 64 hexadecimal digits.");
  byId("result").hidden = true;
  say("Checking", 0);
  const found = await verify(new Map(files), head, progress);
  if (number !== running) return;
  if (!found.signer && !found.problems.length)
    return say("No ledger is in these files: give a store, the folder that has ledger/00000000.json in it.");
  show(found);
  const seconds = ((performance.now() - began) / 1000).toFixed(1);
  say(`Checked ${files.size} files in ${seconds} seconds: ${byId("verdict").textContent.toLowerCase()}.`);
}

function say(words, share) {
  byId("status").textContent = words;
  byId("progress").hidden = share === undefined;
  byId("progress").value = share ?? 0;
}

/** Runs what the user asked for, and says why if it fails. */
async function attempt(step) {
  try {
    await step();
  } catch (error) {
    if (error instanceof Stopped) return;
    say(error instanceof Broken ? error.message : `These files could not be read (${error.message}).`);
  }
}

// --- The lines ---

function element(name, words, className = "") {
  const made = document.createElement(name);
  made.textContent = words;
  made.className = className;
  return made;
}

function row(...cells) {
  const made = document.createElement("tr");
  made.append(...cells);
  return made;
}

const mark = (standing) => element("td", `${MARKS[standing]} ${standing}`, standing.replaceAll(" ", "-"));

function heading(name) {
  const made = element("th", name);
  made.scope = "row";
  return made;
}

function reasonOf({ count, unit, problems, doubts }) {
  const compared = count ? `${count.toLocaleString("en")} ${unit}` : `no ${unit}`;
  return [compared, ...(problems ? [`${problems} broken`] : []), ...new Set(doubts)].join("; ");
}

function fill(id, items) {
  byId(id).replaceChildren(...items);
  byId(id).closest("section").hidden = !items.length;
}

function show(found) {
  const shown = found.promises.every(({ standing }) => standing === "holds");
  const [words, name] = found.problems.length
    ? ["Broken", "broken"]
    : shown
      ? ["Everything holds", "holds"]
      : ["What could be checked holds; not all could be shown", "could-not-be-shown"];
  byId("verdict").textContent = words;
  byId("verdict").className = name;
  byId("tally").textContent = `Promises: ${Object.keys(MARKS)
    .map((standing) => tally(found.promises, standing))
    .join(", ")}.`;
  byId("signer").textContent = found.signer || "nobody";
  byId("newest").textContent = found.head;
  fill(
    "promises",
    found.promises.map(({ promise, standing, reason }) =>
      row(heading(promise), mark(standing), element("td", reason)),
    ),
  );
  fill(
    "lines",
    found.lines.map((line) => row(heading(line.name), mark(line.standing), element("td", reasonOf(line)))),
  );
  fill(
    "problems",
    found.problems.map(([place, words]) => element("li", `${place}: ${words}`)),
  );
  fill(
    "unchecked",
    found.unchecked.map((words) => element("li", words)),
  );
  fill("stamps", found.stamps.map(spellStamp));
  byId("result").hidden = false;
}

const tally = (promises, standing) =>
  `${promises.filter((each) => each.standing === standing).length} ${standing}`;

const spellStamp = ({ serial, authority, sequence, time, root }) =>
  element(
    "li",
    `time-stamp ${serial} of ${authority}, of ledger record ${sequence}, ${time}; by the root ${root}`,
  );

// --- What the user does ---

for (const id of ["some", "folder"])
  byId(id).addEventListener("change", (event) => attempt(() => addFiles([...event.target.files])));
for (const button of document.querySelectorAll("button[data-evidence]"))
  button.addEventListener("click", () => attempt(() => addEvidence(button.dataset.evidence)));
byId("head").addEventListener("change", () => files.size && attempt(run));
byId("clear").addEventListener("click", () => {
  files.clear();
  running += 1;
  byId("result").hidden = true;
  for (const id of ["some", "folder", "head"]) byId(id).value = "";
  say("No files are given.");
});
document.addEventListener("dragover", (event) => {
  event.preventDefault();
  byId("drop").classList.add("over");
});
document.addEventListener("dragleave", () => byId("drop").classList.remove("over"));
document.addEventListener("drop", (event) => {
  event.preventDefault();
  byId("drop").classList.remove("over");
  const entries = [...event.dataTransfer.items].map((item) => item.webkitGetAsEntry()).filter(Boolean);
  return attempt(async () => addFiles((await Promise.all(entries.map(filesOf))).flat()));
});
