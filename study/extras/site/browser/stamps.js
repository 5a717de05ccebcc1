/** Time-stamps of the ledger's records (RFC 3161), as `registry/checkpoints/timestamp.py` has it. */

import { Broken, fromHex, same, sha256, text } from "./bytes.js";
import {
  childrenOf,
  expect,
  integerOf,
  OCTETS,
  oidOf,
  parseDer,
  SEQUENCE,
  SET,
  timeOf,
  withTag,
} from "./der.js";
import { spellRecords } from "./checkpoints.js";
import { placeOf } from "./findings.js";
import { DIGESTS, findRoot, fingerprint, isSignedBy, mayStamp, readCertificate, spellName } from "./x509.js";

const DATED = ["announcement", "preregistration", "run-manifest", "release"];
const STAMP = /^stamps\/(\d{8})\/[0-9a-f]{64}\.tsr$/;
const SHA256 = "2.16.840.1.101.3.4.2.1";
const SIGNED_DATA = "1.2.840.113549.1.7.2";
const TST_INFO = "1.2.840.113549.1.9.16.1.4";
const CONTENT_TYPE = "1.2.840.113549.1.9.3";
const MESSAGE_DIGEST = "1.2.840.113549.1.9.4";
const UNKNOWN = "not signed by an authority known here: give its root certificate in PEM form";

/**
 * Reads the stamps that hold. What is wrong with another is noted: anybody may have put it there.
 *
 * @param {import("./findings.js").Findings} findings
 * @param {any[]} roots certificates of authorities
 * @param {boolean} noted whether the head is compared with one that was noted elsewhere
 */
export async function checkStamps(findings, roots, noted) {
  findings.under("Time-stamps");
  const { store, entries } = findings;
  for (const key of store.list("stamps/"))
    try {
      const number = Number(STAMP.exec(key)?.[1] ?? Infinity);
      if (!(number < entries.length)) throw new Broken("a time-stamp of no record of this ledger");
      findings.stamps.push({
        sequence: number,
        ...checkStamp(await store.read(key), entries[number].data, roots),
      });
      findings.count();
    } catch (error) {
      const words = error instanceof Broken ? error.message : `cannot be read (${error.message})`; // whatever it holds
      findings.unchecked.push(`${key}: ${words}`);
      findings.doubt(`${key}: ${words}`);
    }
  findings.stamps.sort((one, other) => one.sequence - other.sequence || (one.time < other.time ? -1 : 1));
  if (findings.stamps.length)
    findings.unchecked.push(
      "whether a certificate of these authorities was revoked (`dosimeter verify --tsa-ca`)",
    );
  const stamped = Math.max(0, ...findings.stamps.map((stamp) => stamp.sequence + 1));
  if (stamped < entries.length && !noted) {
    const records = spellRecords(stamped, entries.length);
    const words = `whether ${records} rewritten by the study's own key: no time-stamp that was checked covers them`;
    findings.unchecked.push(words);
    findings.doubt(words);
  }
  for (const entry of entries.filter(({ kind }) => DATED.includes(kind))) {
    const stamp = firstStamp(findings.stamps, entry.sequence);
    if (stamp && entry.time.slice(0, 10) < dayBefore(stamp.time)) {
      const words = `whether ${placeOf(entry)}, the ${entry.kind}, is of ${entry.time.slice(0, 10)} as it says: its first time-stamp is of ${stamp.time.slice(0, 10)}`;
      findings.unchecked.push(words);
      findings.doubt(words);
    }
  }
}

const dayBefore = (time) => new Date(Date.parse(time) - 86_400_000).toISOString().slice(0, 10);

/** @returns {any} the earliest stamp that covers a record, and not the one `before` */
export function firstStamp(stamps, sequence, before = Infinity) {
  const covering = stamps.filter((stamp) => sequence <= stamp.sequence && stamp.sequence < before);
  return covering.reduce((first, stamp) => (first && first.time <= stamp.time ? first : stamp), null);
}

/**
 * @param {Uint8Array} response
 * @param {Uint8Array} data that it is of
 * @param {any[]} roots
 * @returns {{time: string, serial: string, authority: string, root: string}} Throws Broken.
 */
export function checkStamp(response, data, roots) {
  const token = inDer(() => readResponse(response));
  const { info } = token;
  if (info.algorithm !== SHA256 || !same(info.imprint, sha256(data)))
    throw new Broken("a time-stamp of other bytes");
  const root = rootOf(token, roots);
  return {
    time: `${new Date(info.time).toISOString().slice(0, 19)}Z`,
    serial: info.serial.toString(16),
    authority: spellName(token.signer.issuer),
    root: `${spellName(root.subject)}, SHA-256 ${fingerprint(root)}`,
  };
}

function inDer(read) {
  try {
    return read();
  } catch (error) {
    if (!(error instanceof Broken || error instanceof TypeError)) throw error; // a part that is missing
    throw error.refused ? error : new Broken(`not an RFC 3161 response in DER (${error.message})`);
  }
}

function readResponse(response) {
  const [status, content] = childrenOf(expect(parseDer(response), SEQUENCE));
  const [code, words] = childrenOf(expect(status, SEQUENCE));
  if (integerOf(code) !== 0n || !content) {
    const reason =
      words?.tag === SEQUENCE
        ? childrenOf(words)
            .map((each) => text(each.body))
            .join("; ")
        : "";
    throw Object.assign(new Broken(`the time-stamp was refused (${reason || `status ${integerOf(code)}`})`), {
      refused: true,
    });
  }
  const [type, wrapped] = childrenOf(content);
  if (oidOf(type) !== SIGNED_DATA) throw new Broken("no signed data");
  const parts = childrenOf(expect(childrenOf(wrapped)[0], SEQUENCE));
  const [contentType, octets] = childrenOf(parts[2]);
  if (oidOf(contentType) !== TST_INFO) throw new Broken("not of a time-stamp");
  const signed = expect(childrenOf(octets)[0], OCTETS).body;
  const sent = parts.find((part) => part.tag === 0xa0);
  const signers = childrenOf(expect(parts.at(-1), SET));
  if (signers.length !== 1) throw new Broken(`one signer expected, ${signers.length} found`);
  return {
    signed,
    info: readInfo(signed),
    certificates: sent
      ? childrenOf(sent)
          .filter((each) => each.tag === SEQUENCE)
          .map((each) => readCertificate(each.whole))
      : [],
    signer: readSigner(signers[0]),
  };
}

function readInfo(signed) {
  const [, , imprint, serial, time] = childrenOf(expect(parseDer(signed), SEQUENCE));
  const [algorithm, hashed] = childrenOf(imprint);
  return {
    algorithm: oidOf(childrenOf(algorithm)[0]),
    imprint: expect(hashed, OCTETS).body,
    serial: integerOf(serial),
    time: timeOf(time),
  };
}

function readSigner(node) {
  const [, name, digest, attributes, algorithm, signature] = childrenOf(node);
  const [issuer, serial] = childrenOf(expect(name, SEQUENCE));
  return {
    issuer: issuer.whole,
    serial: integerOf(serial),
    digest: DIGESTS[oidOf(childrenOf(digest)[0])],
    attributes: new Map(
      childrenOf(expect(attributes, 0xa0))
        .map(childrenOf)
        .map(([type, values]) => [oidOf(type), childrenOf(values)[0]]),
    ),
    signed: withTag(attributes, SET),
    algorithm: oidOf(childrenOf(algorithm)[0]),
    signature: expect(signature, OCTETS).body,
  };
}

/** Returns the root above the authority that signed a token. Throws Broken. */
function rootOf({ signed, info, certificates, signer }, roots) {
  const unknown = (why) => new Broken(`${UNKNOWN} (${why})`);
  const leaf = certificates.find((each) => same(each.issuer, signer.issuer) && each.serial === signer.serial);
  if (!leaf) throw unknown("its certificate is not sent with it");
  if (!mayStamp(leaf)) throw unknown("its certificate is of no time-stamping authority");
  if (!signer.digest) throw unknown("a digest that is not checked here");
  const digest = signer.attributes.get(MESSAGE_DIGEST)?.body ?? fromHex("");
  const type = signer.attributes.get(CONTENT_TYPE);
  if (!type || oidOf(type) !== TST_INFO || !same(digest, signer.digest.hash(signed)))
    throw unknown("its digest is of another content");
  if (!isSignedBy(leaf, signer.algorithm, signer.signature, signer.signed, signer.digest))
    throw unknown("its signature does not hold");
  const root = findRoot(leaf, certificates, roots, info.time);
  if (!root)
    throw unknown(roots.length ? "no chain of certificates to a root that was given" : "no root was given");
  return root;
}
