/** Names that a document defines in one place and uses in another: units, memories, operands, fields, parts. */

import { child, type Part, type Path, textAt } from "./tree";

type Names = (document: Part | null, instruction: Part | null) => string[];

const units: Names = (document) => texts(child(document, "units"));
const memories: Names = (document) => named(child(document, "memories"));
const operands: Names = (_, instruction) => keys(child(instruction, "operands"));
const parts: Names = (document) => named(only(child(document, "instructions"), "part"));
const microFields: Names = (_, instruction) => named(child(child(instruction, "microops"), "fields"));
const otherUnits: Names = (document, instruction) => units(document, null).filter((name) => name !== textAt(instruction, "unit"));

/** The instruction's fields; in a sequence those of its parts, each after the part's name. */
const fields: Names = (document, instruction) => {
  const sequence = texts(child(instruction, "sequence"));
  const every = items(child(document, "instructions")).filter((one) => sequence.includes(textAt(one, "name") ?? ""));
  const ofParts = every.flatMap((part) => named(child(part, "fields")).map((name) => `${textAt(part, "name")}.${name}`));
  return sequence.length === 0 ? named(child(instruction, "fields")) : ofParts;
};

/** Which names may stand as a value below an instruction; a star is any step. */
const VALUES: [string, Names][] = [
  ["unit", units],
  ["memory", memories],
  ["operands/*/memory", memories],
  ["microops/memory", memories],
  ["microops/begin", fields],
  ["microops/end", fields],
  ["microops/operands/*", operands],
  ["operands/*/address", fields],
  ["copy_fields/*", fields],
  ["tokens/*/*", fields],
  ["loops/*/extent", fields],
  ["loops/*/repeated_in/*", fields],
  ["loops/*/factors/*", fields],
  ["sequence/*", parts],
];
/** Which may be keys of an object there. */
const KEYS: [string, Names][] = [
  ["tokens/*", otherUnits],
  ["loops/*/factors", operands],
  ["loops/*/steps", operands],
  ["microops/operands", microFields],
  ["operations/*/when", fields],
];

/** Returns the names that may stand as the value at a path. */
export function valueNames(document: Part | null, path: Path): string[] {
  return namesAt(VALUES, document, path);
}

/** Returns the names that may be keys of the object at a path. */
export function keyNames(document: Part | null, path: Path): string[] {
  return namesAt(KEYS, document, path);
}

function namesAt(rules: [string, Names][], document: Part | null, [first, index, ...below]: Path): string[] {
  if (first !== "instructions" || index === undefined) {
    return [];
  }
  const rule = rules.find(([pattern]) => {
    const steps = pattern.split("/");
    return steps.length === below.length && steps.every((step, at) => step === "*" || step === below[at]);
  });
  return rule === undefined ? [] : [...new Set(rule[1](document, child(child(document, first), index)))];
}

function items(list: Part | null): Part[] {
  return list?.kind === "list" ? list.items.flatMap(({ value }) => (value === null ? [] : [value])) : [];
}

function only(list: Part | null, kind: string): Part | null {
  return list?.kind === "list" ? { ...list, items: list.items.filter(({ value }) => textAt(value, "kind") === kind) } : null;
}

function texts(list: Part | null): string[] {
  return items(list).flatMap((one) => (one.kind === "scalar" ? [one.text] : []));
}

function named(list: Part | null): string[] {
  return items(list).flatMap((one) => textAt(one, "name") ?? []);
}

function keys(object: Part | null): string[] {
  return object?.kind === "object" ? object.pairs.map(({ key }) => key) : [];
}
