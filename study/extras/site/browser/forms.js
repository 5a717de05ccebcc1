/** The forms of records: JSON Schema of the registry's classes (forms.json), as far as they use it. */

import { Broken } from "./bytes.js";
import { canonical } from "./canonical.js";
import FORMS from "./forms.json";

const TYPES = {
  string: (value) => typeof value === "string",
  integer: Number.isInteger,
  number: Number.isFinite,
  boolean: (value) => typeof value === "boolean",
  null: (value) => value === null,
  array: Array.isArray,
  object: (value) => value !== null && typeof value === "object" && !Array.isArray(value),
};

/** @param {string} kind @returns {boolean} whether records have this kind */
export const isKind = (kind) => Object.hasOwn(FORMS, kind) && kind !== "entry" && kind !== "reveal";

/**
 * @param {string} name of a form
 * @param {unknown} value
 * @returns {any} the record, with its defaults. Throws Broken for a value of another form.
 */
export function readForm(name, value) {
  const form = FORMS[name];
  return read(form, form, value, [], (path) => {
    const place = path.join(".");
    throw new Broken(`not a ${form.title}: its field '${place}' does not hold what it must`);
  });
}

/** @param {string} name of a form @param {any} record @returns {any} its JSON value: fields at their defaults are left out */
export const bodyOf = (name, record) => plain(FORMS[name], FORMS[name], record);

function read(form, root, value, path, fail) {
  const schema = resolve(form, root);
  if (schema.anyOf) return readAny(schema, root, value, path, fail);
  if (!TYPES[schema.type](value) || (schema.enum && !schema.enum.includes(value))) fail(path);
  if (schema.type === "array") return readArray(schema, root, value, path, fail);
  return schema.type === "object" ? readObject(schema, root, value, path, fail) : value;
}

function readAny(schema, root, value, path, fail) {
  const kinds = schema.anyOf.map((each) => resolve(each, root));
  const found = kinds.find((each) => TYPES[each.type](value));
  if (!found) fail(kinds.some((each) => each.type === "null") ? path : [...path, "int"]);
  return read(found, root, value, path, fail);
}

function readArray(schema, root, value, path, fail) {
  const { prefixItems, items } = schema;
  if (prefixItems && value.length !== prefixItems.length)
    fail([...path, Math.min(value.length, prefixItems.length)]);
  return value.map((each, n) => read(prefixItems ? prefixItems[n] : items, root, each, [...path, n], fail));
}

function readObject(schema, root, value, path, fail) {
  if (!schema.properties) return value;
  return Object.fromEntries(
    Object.entries(schema.properties).map(([name, field]) => {
      if (Object.hasOwn(value, name)) return [name, read(field, root, value[name], [...path, name], fail)];
      if (schema.required?.includes(name)) fail([...path, name]);
      return [name, field.default];
    }),
  );
}

function plain(form, root, value) {
  const schema = form.anyOf
    ? form.anyOf.map((each) => resolve(each, root)).find((each) => TYPES[each.type](value))
    : resolve(form, root);
  if (schema.type === "array")
    return value.map((each, n) =>
      plain(schema.prefixItems ? schema.prefixItems[n] : schema.items, root, each),
    );
  if (schema.type !== "object" || !schema.properties) return value;
  return Object.fromEntries(
    Object.entries(schema.properties)
      .filter(([name, field]) => !("default" in field) || canonical(field.default) !== canonical(value[name]))
      .map(([name, field]) => [name, plain(field, root, value[name])]),
  );
}

const resolve = (form, root) =>
  form.$ref ? resolve(root.$defs[form.$ref.slice("#/$defs/".length)], root) : form;
