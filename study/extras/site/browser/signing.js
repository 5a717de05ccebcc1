/** Signatures by Ed25519 (RFC 8032). */

import { ed25519 } from "@noble/curves/ed25519.js";
import { fromHex, joined } from "./bytes.js";

/**
 * @param {Uint8Array} key 32 bytes
 * @param {Uint8Array} signature 64 bytes
 * @param {Uint8Array} text
 * @returns {boolean} whether the signature over the text is by the key
 */
export function isSignedText(key, signature, text) {
  try {
    return ed25519.verify(signature, text, key, { zip215: false });
  } catch {
    return false; // not of the length of a key or signature
  }
}

/** @param {string} key hex @param {string} signature hex @param {string} purpose @param {Uint8Array[]} parts */
export function isSigned(key, signature, purpose, ...parts) {
  try {
    return isSignedText(fromHex(key), fromHex(signature), joined(8, purpose, ...parts));
  } catch {
    return false; // not hexadecimal digits
  }
}
