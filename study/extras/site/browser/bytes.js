/** Bytes, digests and how parts are joined before they are hashed (docs/formats.md, Conventions). */

import { hmac } from "@noble/hashes/hmac.js";
import { sha256 as hash } from "@noble/hashes/sha2.js";
import { bytesToHex, concatBytes, hexToBytes } from "@noble/hashes/utils.js";

export { bytesToHex as toHex, concatBytes as concat, hexToBytes as fromHex, hash as sha256 };

/** What a file holds is not what was promised. */
export class Broken extends Error {}

const encoder = new TextEncoder();
const decoder = new TextDecoder("utf-8", { ignoreBOM: true });
const strict = new TextDecoder("utf-8", { ignoreBOM: true, fatal: true });

/** @param {string} text @returns {Uint8Array} its UTF-8 */
export const utf8 = (text) => encoder.encode(text);

/** @param {Uint8Array} bytes @returns {string} with a mark for each byte that is not UTF-8 */
export const text = (bytes) => decoder.decode(bytes);

/** @param {Uint8Array} bytes @returns {string} Throws TypeError for what is not UTF-8. */
export const strictText = (bytes) => strict.decode(bytes);

/** @param {Uint8Array} bytes @returns {string} 64 hexadecimal digits */
export const hexDigest = (bytes) => bytesToHex(hash(bytes));

/** @param {Uint8Array} bytes @returns {string} `sha256:` and 64 hexadecimal digits */
export const digest = (bytes) => `sha256:${hexDigest(bytes)}`;

/** @param {string} key 64 hexadecimal digits @param {Uint8Array} message @returns {string} HMAC-SHA256 in hex */
export const keyedDigest = (key, message) => bytesToHex(hmac(hash, hexToBytes(key), message));

/** @param {unknown} value @returns {boolean} whether it is the hex of 32 bytes */
export const isHex32 = (value) => typeof value === "string" && /^[0-9a-f]{64}$/.test(value);

/** @param {Uint8Array} one @param {Uint8Array} other @returns {boolean} */
export const same = (one, other) => one.length === other.length && one.every((byte, n) => byte === other[n]);

/** @param {string} code base64 @returns {Uint8Array} Throws for any other text. */
export const fromBase64 = (code) => Uint8Array.from(atob(code), (one) => one.charCodeAt(0));

/** @param {Uint8Array} bytes @returns {string} */
export const toBase64 = (bytes) => btoa(String.fromCharCode(...bytes));

/** @param {number} number @param {number} size in bytes @returns {Uint8Array} big-endian */
export function bigEndian(number, size) {
  const bytes = new Uint8Array(size);
  for (let rest = number, place = size - 1; place >= 0; place -= 1, rest = Math.floor(rest / 256))
    bytes[place] = rest % 256;
  return bytes;
}

/**
 * @param {number} size of each length, in bytes
 * @param {(string | Uint8Array)[]} parts
 * @returns {Uint8Array} each part after its length
 */
export function joined(size, ...parts) {
  const bytes = parts.map((part) => (typeof part === "string" ? utf8(part) : part));
  return concatBytes(...bytes.flatMap((part) => [bigEndian(part.length, size), part]));
}

/** `joined` with lengths of 4 bytes. @param {(string | Uint8Array)[]} parts */
export const join4 = (...parts) => joined(4, ...parts);
