/** Canonical JSON (RFC 8785): one text for one value. */

import { Broken, strictText, utf8 } from "./bytes.js";

/** @param {unknown} value @returns {string} Numbers and texts are written as ECMAScript does, as the RFC asks. */
export function canonical(value) {
  if (Array.isArray(value)) return `[${value.map(canonical).join(",")}]`;
  if (value === null || typeof value !== "object") return JSON.stringify(value);
  const names = Object.keys(value).sort(); // by UTF-16 code units
  return `{${names.map((name) => `${JSON.stringify(name)}:${canonical(value[name])}`).join(",")}}`;
}

/** @param {unknown} value @returns {Uint8Array} */
export const canonicalBytes = (value) => utf8(canonical(value));

/** @param {Uint8Array} bytes @returns {any} their value. Throws Broken for bytes that are not canonical. */
export function parseCanonical(bytes) {
  const written = strict(bytes);
  const value = parse(written);
  if (canonical(value) !== written) throw new Broken("not in canonical form (RFC 8785); it was edited");
  return value;
}

/** @param {Uint8Array} bytes @returns {any} Throws Broken. */
export const parseJson = (bytes) => parse(strict(bytes));

function strict(bytes) {
  try {
    return strictText(bytes);
  } catch {
    throw new Broken("not JSON");
  }
}

function parse(written) {
  try {
    return JSON.parse(written);
  } catch {
    throw new Broken("not JSON");
  }
}
