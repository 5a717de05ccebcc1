/** The files of a release and of reports against the ledger's records, as `study/steps/verify/verify.py` has it. */

import { Broken, digest, hexDigest } from "./bytes.js";
import { canonical, parseJson } from "./canonical.js";
import { commitmentOf, placesOf } from "./draw.js";

const COMMITMENTS = "commitments.json";

/**
 * Compares the files of the public arm with the newest release.
 *
 * @param {import("./findings.js").Findings} findings
 * @param {import("./evidence.js").Folder | null} release
 * @returns {Promise<[string, string][]>} what is wrong; a place "" is a check that was not possible
 */
export async function checkRelease(findings, release) {
  findings.under("Released files");
  const records = findings.of("release").map(([, record]) => record);
  if (!records.length)
    return release ? [[release.place.slice(0, -1), "the ledger has no record of a release"]] : [];
  if (!release) return [["", "the released files: they were not given"]];
  const drawn = findings.of("sealed-set").map(([, record]) => record);
  const files = await brokenFiles(findings, release, records.at(-1));
  return [...files, ...(await brokenPublic(release, drawn, records.at(-1).tranches))];
}

async function brokenFiles(findings, release, record) {
  const place = (name) => `${release.place}${name}`;
  if (!release.has("checksums.json"))
    return [[place("checksums.json"), "cannot be read: these are not the released files"]];
  const data = await release.read("checksums.json");
  if (digest(data) !== record.content)
    return [
      [place("checksums.json"), `was altered: digest ${record.content} expected, ${digest(data)} found`],
    ];
  const promised = parseJson(data);
  const problems = [];
  for (const [name, expected] of Object.entries(promised)) {
    findings.count();
    const found = release.has(name) ? hexDigest(await release.read(name)) : "";
    if (!found) problems.push([place(name), "missing from the release (No such file or directory)"]);
    else if (found !== expected)
      problems.push([place(name), `was altered: digest ${expected} expected, ${found} found`]);
  }
  const extra = release.names.filter((name) => !Object.hasOwn(promised, name) && name !== "checksums.json");
  return [...problems, ...extra.map((name) => [place(name), "not a file of the release"])];
}

/** Each opening is of a public seed of the draw, and none of the tranches is left out. */
async function brokenPublic(release, draws, tranches) {
  const problems = [];
  let place = COMMITMENTS;
  try {
    const listed = parseJson(await release.read(COMMITMENTS));
    const drawn = draws.find((each) => each.root === listed.root);
    if (canonical(listed.commitments) !== canonical(drawn.commitments))
      problems.push([`${release.place}${COMMITMENTS}`, "not the commitments that the ledger records"]);
    const places = placesOf(drawn);
    const shown = new Set();
    for (place of release.list("openings/").filter((name) => /^openings\/[^/]+\.json$/.test(name))) {
      const { tranche, public: rows } = parseJson(await release.read(place));
      for (const row of rows) {
        shown.add(row.leaf);
        const problem = brokenOpening(row, drawn, places, tranche);
        if (problem) problems.push([`${release.place}${place}`, problem]);
      }
    }
    const owed = [...places.keys()].filter(
      (leaf) => places[leaf].arm === "public" && tranches.includes(places[leaf].tranche),
    );
    const left = owed.filter((leaf) => !shown.has(leaf)).length;
    if (left) problems.push([`${release.place}openings`, `${left} public seeds are left out`]);
  } catch (error) {
    if (!(error instanceof Broken || error instanceof TypeError)) throw error; // of another form
    problems.push([`${release.place}${place}`, "not of the draw that the ledger has"]);
  }
  return problems;
}

function brokenOpening(row, drawn, places, tranche) {
  const { leaf } = row;
  const found = places[leaf];
  if (commitmentOf(row) !== drawn.commitments[leaf] || found.arm !== "public")
    return `leaf ${leaf} is no public instance of the draw`;
  return found.tranche === tranche ? "" : `leaf ${leaf} is of tranche ${found.tranche}`;
}

/**
 * Compares the files of the newest report through each wave with its record.
 *
 * @param {import("./findings.js").Findings} findings
 * @param {import("./evidence.js").Folder} reports
 * @returns {Promise<[string, string][]>} as `checkRelease`
 */
export async function checkReports(findings, reports) {
  findings.under("Report files");
  const newest = new Map(findings.of("report").map(([, record]) => [record.through_wave, record]));
  const problems = [];
  for (const [through, record] of newest) {
    const folder = `reports/wave-${through}/`;
    if (reports.list(folder).length)
      problems.push(...(await brokenReport(findings, reports, folder, record)));
    else problems.push(["", `the report through wave ${through}: its files were not given`]);
  }
  const recorded = new Set(
    [...newest].flatMap(([through, { files }]) =>
      [["checkpoint.txt"], ...files].map(([name]) => `reports/wave-${through}/${name}`),
    ),
  );
  const extra = reports.names.filter((name) => !recorded.has(name));
  problems.push(...extra.map((name) => [name, "not a file of a recorded report"]));
  for (const [, { wave }] of findings.of("wave-closed"))
    if (newest.size && wave > Math.max(...newest.keys()))
      problems.push(["", `wave ${wave} is closed, and no report has it`]);
  return problems;
}

async function brokenReport(findings, reports, folder, record) {
  const problems = [];
  for (const [name, expected] of record.files) {
    const path = folder + name;
    findings.count();
    const found = reports.has(path) ? digest(await reports.read(path)) : "";
    if (!found) problems.push([path, "missing from the report (No such file or directory)"]);
    else if (found !== expected)
      problems.push([path, `was altered: digest ${expected} expected, ${found} found`]);
  }
  const body = reports.has(`${folder}report.json`) ? await reports.read(`${folder}report.json`) : null;
  if (
    body &&
    digest(body) === record.report &&
    canonical(parseJson(body).deviations) !== canonical(record.deviations)
  )
    problems.push([folder.slice(0, -1), "its deviations are not those that the ledger records with it"]);
  return problems;
}
