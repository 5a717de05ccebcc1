/** A reader of ASN.1 in DER (X.690), as far as certificates and time-stamps have it. */

import { Broken, concat, text, toHex } from "./bytes.js";

/** One value. @typedef {{tag: number, body: Uint8Array, whole: Uint8Array}} Node */

/** @param {Uint8Array} bytes @returns {Node} the value that they are. Throws Broken. */
export function parseDer(bytes) {
  const node = readNode(bytes, 0);
  if (node.whole.length !== bytes.length) throw new Broken("bytes after the end");
  return node;
}

/** @param {Node} node @returns {Node[]} what a constructed value holds. Throws Broken. */
export function childrenOf(node) {
  const children = [];
  for (let at = 0; at < node.body.length; at += children.at(-1).whole.length)
    children.push(readNode(node.body, at));
  return children;
}

function readNode(bytes, start) {
  const [tag, first] = bytes.subarray(start, start + 2);
  if (first === undefined || (tag & 0x1f) === 0x1f) throw new Broken("not in DER");
  const extra = first < 0x80 ? 0 : first & 0x7f; // bytes of the length
  if (first === 0x80 || extra > 4) throw new Broken("not in DER");
  const begin = start + 2 + extra;
  const length = extra ? bytes.subarray(start + 2, begin).reduce((sum, byte) => 256 * sum + byte, 0) : first;
  if (begin + length > bytes.length) throw new Broken("not in DER: cut");
  return { tag, body: bytes.subarray(begin, begin + length), whole: bytes.subarray(start, begin + length) };
}

/** @param {Node} node @param {number} tag @returns {Node} the same. Throws Broken for another tag. */
export function expect(node, tag) {
  if (node?.tag !== tag) throw new Broken(`not in its form: tag ${tag} expected, ${node?.tag} found`);
  return node;
}

export const SEQUENCE = 0x30;
export const SET = 0x31;
export const INTEGER = 0x02;
export const BITS = 0x03;
export const OCTETS = 0x04;
export const OID = 0x06;

/** @param {Node} node @returns {string} dotted name of an object identifier. Throws Broken. */
export function oidOf(node) {
  const numbers = [];
  let number = 0;
  for (const byte of expect(node, OID).body) {
    number = 128 * number + (byte & 0x7f);
    if (byte >= 0x80) continue;
    numbers.push(number);
    number = 0;
  }
  const [head, ...rest] = numbers;
  const first = Math.min(Math.floor(head / 40), 2);
  return [first, head - 40 * first, ...rest].join(".");
}

/** @param {Node} node @returns {bigint} Throws Broken. */
export function integerOf(node) {
  const { body } = expect(node, INTEGER);
  const value = BigInt(`0x${toHex(body) || "0"}`);
  return body[0] >= 0x80 ? value - (1n << BigInt(8 * body.length)) : value;
}

/** @param {Node} node a UTCTime or GeneralizedTime @returns {number} milliseconds of Unix time. Throws Broken. */
export function timeOf(node) {
  const written = text(node.body);
  const found = /^(\d{2}|\d{4})(\d\d)(\d\d)(\d\d)(\d\d)(\d\d)(\.\d+)?Z$/.exec(written);
  if (![0x17, 0x18].includes(node.tag) || !found || (node.tag === 0x18) !== (found[1].length === 4))
    throw new Broken("not a time");
  const [, year, month, day, hour, minute, second, fraction = ""] = found;
  const century = year.length === 4 ? "" : Number(year) < 50 ? "20" : "19";
  return Date.parse(`${century}${year}-${month}-${day}T${hour}:${minute}:${second}${fraction.slice(0, 4)}Z`);
}

/** @param {Node} node a bit string of whole bytes @returns {Uint8Array} Throws Broken. */
export function bitsOf(node) {
  const { body } = expect(node, BITS);
  if (body[0]) throw new Broken("not whole bytes");
  return body.subarray(1);
}

/** @param {Node} node @param {number} tag @returns {Uint8Array} its bytes as they are with another tag */
export const withTag = (node, tag) => concat(Uint8Array.of(tag), node.whole.subarray(1));
