/** X.509 certificates and their signatures: RSA (PKCS #1 v1.5) and ECDSA. */

import { p256, p384, p521 } from "@noble/curves/nist.js";
import { sha384, sha512 } from "@noble/hashes/sha2.js";
import { Broken, fromBase64, same, sha256, text, toHex } from "./bytes.js";
import { bitsOf, childrenOf, expect, integerOf, OCTETS, oidOf, parseDer, SEQUENCE, timeOf } from "./der.js";

// Of a digest: the function, and what PKCS #1 puts before it.
const SHA256 = { hash: sha256, info: "3031300d060960864801650304020105000420" };
const SHA384 = { hash: sha384, info: "3041300d060960864801650304020205000430" };
const SHA512 = { hash: sha512, info: "3051300d060960864801650304020305000440" };
/** Digests by their object identifiers. */
export const DIGESTS = {
  "2.16.840.1.101.3.4.2.1": SHA256,
  "2.16.840.1.101.3.4.2.2": SHA384,
  "2.16.840.1.101.3.4.2.3": SHA512,
};
const RSA = "1.2.840.113549.1.1.1";
const SIGNATURES = {
  "1.2.840.113549.1.1.11": SHA256,
  "1.2.840.113549.1.1.12": SHA384,
  "1.2.840.113549.1.1.13": SHA512,
  "1.2.840.10045.4.3.2": SHA256,
  "1.2.840.10045.4.3.3": SHA384,
  "1.2.840.10045.4.3.4": SHA512,
};
const CURVES = { "1.2.840.10045.3.1.7": p256, "1.3.132.0.34": p384, "1.3.132.0.35": p521 };
const NAMES = {
  "2.5.4.3": "CN",
  "2.5.4.7": "L",
  "2.5.4.8": "ST",
  "2.5.4.10": "O",
  "2.5.4.11": "OU",
  "2.5.4.6": "C",
  "2.5.4.9": "STREET",
  "0.9.2342.19200300.100.1.25": "DC",
  "0.9.2342.19200300.100.1.1": "UID",
};
const BASIC = "2.5.29.19";
const USAGE = "2.5.29.15";
const EXTENDED = "2.5.29.37";
const STAMPING = "1.3.6.1.5.5.7.3.8";

/** @param {Uint8Array} data DER @returns {any} the certificate. Throws Broken. */
export function readCertificate(data) {
  const [signed, algorithm, signature] = childrenOf(expect(parseDer(data), SEQUENCE));
  const fields = childrenOf(expect(signed, SEQUENCE));
  const [serial, , issuer, validity, subject, key] = fields.slice(fields[0].tag === 0xa0 ? 1 : 0);
  const extensions = fields.find((field) => field.tag === 0xa3);
  const [from, to] = childrenOf(expect(validity, SEQUENCE)).map(timeOf);
  return {
    data,
    signed: signed.whole,
    algorithm: oidOf(childrenOf(algorithm)[0]),
    signature: bitsOf(signature),
    serial: integerOf(serial),
    issuer: issuer.whole,
    subject: subject.whole,
    from,
    to,
    key: key.whole,
    extensions: new Map(extensions ? childrenOf(childrenOf(extensions)[0]).map(readExtension) : []),
  };
}

function readExtension(node) {
  const parts = childrenOf(node);
  const critical = parts.length === 3 && parts[1].body[0] === 0xff;
  return [oidOf(parts[0]), { critical, value: parseDer(expect(parts.at(-1), OCTETS).body) }];
}

/** @param {string} pem @returns {any[]} certificates of a text in PEM form. Throws Broken. */
export function readPem(pem) {
  const blocks = pem.matchAll(/-----BEGIN CERTIFICATE-----([A-Za-z0-9+/=\s]+)-----END CERTIFICATE-----/g);
  try {
    return [...blocks].map(([, code]) => readCertificate(fromBase64(code.replace(/\s/g, ""))));
  } catch (error) {
    throw new Broken(`the certificates that were given: not in PEM form (${error.message})`);
  }
}

/** @param {Uint8Array} name DER @returns {string} as RFC 4514 writes it */
export function spellName(name) {
  const sets = childrenOf(parseDer(name)).map((set) => childrenOf(set).map(spellAttribute).join("+"));
  return sets.reverse().join(",");
}

function spellAttribute(node) {
  const [type, value] = childrenOf(node);
  const escaped = text(value.body)
    .replace(/[\\"+,;<>]/g, "\\$&")
    .replace(/^[# ]/, "\\$&")
    .replace(/ $/, "\\ ");
  return `${NAMES[oidOf(type)] ?? oidOf(type)}=${escaped}`;
}

/**
 * Checks a signature by the key of a certificate.
 *
 * @param {any} certificate
 * @param {string} algorithm object identifier
 * @param {Uint8Array} signature
 * @param {Uint8Array} data
 * @param {any} [named] digest of CMS, which names it apart from the algorithm
 * @returns {boolean} Throws Broken for an algorithm that is not read here.
 */
export function isSignedBy(certificate, algorithm, signature, data, named) {
  const digest = SIGNATURES[algorithm] ?? (algorithm === RSA ? named : undefined);
  if (!digest) throw new Broken(`a signature by ${algorithm}, which is not checked here`);
  const [kind, bits] = childrenOf(parseDer(certificate.key));
  const [type, curve] = childrenOf(kind);
  const isRsa = oidOf(type) === RSA;
  if (isRsa !== algorithm.startsWith("1.2.840.113549.1.1.")) return false;
  return isRsa
    ? isRsaSigned(bitsOf(bits), signature, digest, data)
    : isEcdsaSigned(curve, bitsOf(bits), signature, digest, data);
}

function isRsaSigned(key, signature, { hash, info }, data) {
  const [modulus, exponent] = childrenOf(parseDer(key)).map(integerOf);
  const size = Math.ceil(modulus.toString(16).length / 2);
  if (signature.length !== size || exponent.toString(2).length > 64) return false;
  const opened = power(BigInt(`0x${toHex(signature)}`), exponent, modulus)
    .toString(16)
    .padStart(2 * size, "0");
  const digest = `00${info}${toHex(hash(data))}`;
  return size >= 256 && opened === `0001${"ff".repeat(size - 2 - digest.length / 2)}${digest}`;
}

function power(base, exponent, modulus) {
  let result = 1n;
  for (const bit of exponent.toString(2))
    result = (((result * result) % modulus) * (bit === "1" ? base : 1n)) % modulus;
  return result;
}

function isEcdsaSigned(curve, key, signature, { hash }, data) {
  const scheme = CURVES[oidOf(curve)];
  if (!scheme) throw new Broken("a signature by a curve that is not checked here");
  try {
    return scheme.verify(signature, hash(data), key, { prehash: false, format: "der", lowS: false });
  } catch {
    return false; // no signature or key of the curve
  }
}

/**
 * Finds the chain from a certificate up to a root.
 *
 * @param {any} leaf
 * @param {any[]} sent certificates that may stand between
 * @param {any[]} roots of which those count that name themselves as their issuer
 * @param {number} time at which all must be valid
 * @returns {any} the root, or null
 */
export function findRoot(leaf, sent, roots, time, below = 0) {
  if (time < leaf.from || time > leaf.to) return null;
  const isRoot = same(leaf.subject, leaf.issuer) && roots.some((root) => same(root.data, leaf.data));
  if (isRoot || below > 8) return isRoot ? leaf : null;
  const issuers = [...roots, ...sent].filter(
    (each) => same(each.subject, leaf.issuer) && mayIssue(each, below),
  );
  for (const issuer of issuers) {
    if (same(issuer.data, leaf.data) || !isSignedBy(issuer, leaf.algorithm, leaf.signature, leaf.signed))
      continue;
    const root = findRoot(issuer, sent, roots, time, below + 1);
    if (root) return root;
  }
  return null;
}

/** Whether a certificate is of an authority that may sign others, with so many authorities below it. */
function mayIssue({ extensions }, below) {
  const [authority, most] = extensions.has(BASIC) ? childrenOf(extensions.get(BASIC).value) : [];
  if (authority?.tag !== 0x01 || !authority.body[0]) return false;
  if (most && integerOf(most) < below) return false;
  return !extensions.has(USAGE) || (extensions.get(USAGE).value.body[1] & 0x04) !== 0; // keyCertSign
}

/** @param {any} certificate @returns {boolean} whether it may stamp times, and says so critically (RFC 3161, 2.3) */
export function mayStamp({ extensions }) {
  const usage = extensions.get(EXTENDED);
  return (
    usage !== undefined && usage.critical && childrenOf(usage.value).some((each) => oidOf(each) === STAMPING)
  );
}

/** @param {any} certificate @returns {string} SHA-256 of it, 64 hexadecimal digits */
export const fingerprint = ({ data }) => toHex(sha256(data));
