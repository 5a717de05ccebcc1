/** Merkle trees as RFC 6962, section 2.1, has them, over SHA-256. */

import { concat, sha256 } from "./bytes.js";

const LEAF = Uint8Array.of(0);
const NODE = Uint8Array.of(1);

/** @param {Uint8Array} data @returns {Uint8Array} hash of a leaf */
export const leafHash = (data) => sha256(concat(LEAF, data));

/** A tree that grows leaf by leaf and keeps a hash for each level. */
export class MerkleTree {
  size = 0;
  #full = []; // perfect subtrees from the left: height, hash

  /** @param {Uint8Array} node hash of the next leaf */
  addHash(node) {
    let height = 0;
    while (this.#full.at(-1)?.[0] === height) {
      node = join(this.#full.pop()[1], node);
      height += 1;
    }
    this.#full.push([height, node]);
    this.size += 1;
  }

  /** @returns {Uint8Array} the root over the leaves so far */
  root() {
    if (!this.#full.length) return sha256(new Uint8Array());
    return this.#full.map(([, node]) => node).reduceRight((right, left) => join(left, right));
  }
}

const join = (left, right) => sha256(concat(NODE, left, right));

/** @param {Uint8Array[]} hashes of leaves @returns {Uint8Array} */
export function rootOf(hashes) {
  const tree = new MerkleTree();
  for (const hash of hashes) tree.addHash(hash);
  return tree.root();
}
