/** drand's quicknet: a round's signature, of scheme bls-unchained-g1-rfc9380, and its time. */

import { bls12_381 } from "@noble/curves/bls12-381.js";
import { bigEndian, Broken, fromHex, sha256 } from "./bytes.js";

const QUICKNET = {
  hash: "52db9ba70e0cc0f6eaf7803dd07447a1f5477735fd3f661792ba94600c84e971",
  public:
    "83cf0f2896adee7eb8b5f01fcad3912212c437e0073e911fb90022d3e760183c8c4b450b6a0a6c3ac6a5776a2d" +
    "1064510d1fec758c921cc22b0e17e63aaf4bcb5ed66304de9cf809bd274ca73bab4af5a6e9c76a4bc09e76eae8991ef5ece45a",
  genesis: 1692803367,
  period: 3,
};
const DOMAIN = "BLS_SIG_BLS12381G1_XMD:SHA-256_SSWU_RO_NUL_";

/** @param {{chain: string, round: number}} beacon @returns {number} milliseconds of Unix time. Throws Broken. */
export function roundTime(beacon) {
  if (beacon.chain !== QUICKNET.hash || beacon.round < 1)
    throw new Broken(`beacon ${beacon.chain.slice(0, 16)}…, round ${beacon.round}: not of quicknet`);
  return 1000 * (QUICKNET.genesis + (beacon.round - 1) * QUICKNET.period);
}

/** @param {{chain: string, round: number}} beacon @param {string} signature hex @returns {boolean} Throws Broken. */
export function isSignedRound(beacon, signature) {
  roundTime(beacon);
  if (!/^[0-9a-f]{96}$/.test(signature)) return false;
  const scheme = bls12_381.shortSignatures;
  try {
    const message = scheme.hash(sha256(bigEndian(beacon.round, 8)), DOMAIN);
    return scheme.verify(fromHex(signature), message, fromHex(QUICKNET.public));
  } catch {
    return false; // no point of the curve
  }
}
