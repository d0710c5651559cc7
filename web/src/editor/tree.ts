/** A document's text, as far as it can be read while one types: what is where, and at which path. */

import { yamlLanguage } from "@codemirror/lang-yaml";
import type { SyntaxNode, Tree } from "@lezer/common";

export interface Pair {
  key: string;
  from: number;
  to: number;
  keyTo: number;
  value: Part | null;
}

interface Range {
  from: number;
  to: number;
}

export type Part =
  | ({ kind: "object"; pairs: Pair[] } & Range)
  | ({ kind: "list"; items: ({ value: Part | null } & Range)[] } & Range)
  | ({ kind: "scalar"; text: string } & Range);

export type Path = (string | number)[];

/** Reads a text, JSON or YAML: JSON is what YAML's grammar calls a flow. */
export function parse(text: string): Part | null {
  return read(yamlLanguage.parser.parse(text), text);
}

export function read(tree: Tree, text: string): Part | null {
  const root = tree.topNode.getChild("Document")?.firstChild;
  return root === null || root === undefined ? null : part(root, text);
}

function part(node: SyntaxNode, text: string): Part | null {
  const { from, to } = node;
  switch (node.name) {
    case "BlockMapping":
    case "FlowMapping":
      return { kind: "object", from, to, pairs: node.getChildren("Pair").flatMap((one) => pair(one, text)) };
    case "BlockSequence":
    case "FlowSequence": {
      const items = node.getChildren("Item").map((item) => ({ from: item.from, to: item.to, value: first(item, text) }));
      return { kind: "list", from, to, items };
    }
    case "Literal":
    case "BlockLiteral":
      return { kind: "scalar", from, to, text: text.slice(from, to) };
    case "QuotedLiteral":
      return { kind: "scalar", from, to, text: text.slice(from + 1, to - 1) };
    case "Comment":
      return node.nextSibling === null ? null : part(node.nextSibling, text);
    default:
      return null;
  }
}

function first(node: SyntaxNode, text: string): Part | null {
  return node.firstChild === null ? null : part(node.firstChild, text);
}

function pair(node: SyntaxNode, text: string): Pair[] {
  const key = node.getChild("Key");
  const name = key === null ? null : first(key, text);
  if (key === null || name?.kind !== "scalar") {
    return [];
  }
  let value: Part | null = null;
  for (let next = key.nextSibling; next !== null && value === null; next = next.nextSibling) {
    value = part(next, text);
  }
  return [{ key: name.text, from: node.from, to: node.to, keyTo: key.to, value }];
}

/** Returns the part under one step of a path. */
export function child(node: Part | null, step: string | number): Part | null {
  if (node?.kind === "object") {
    return node.pairs.find(({ key }) => key === step)?.value ?? null;
  }
  return node?.kind === "list" && typeof step === "number" ? (node.items[step]?.value ?? null) : null;
}

/** Returns the text of a key's value, if that is a scalar. */
export function textAt(node: Part | null, key: string): string | null {
  const found = child(node, key);
  return found?.kind === "scalar" ? found.text : null;
}

/** What stands at a character: the key or the value at this path. */
export interface Found extends Range {
  path: Path;
  on: "key" | "value";
  /** The object that has the key, or the list or object around the value. */
  around: Part | null;
}

export function find(root: Part | null, at: number): Found | null {
  return root === null ? null : findIn(root, null, [], at);
}

function findIn(node: Part, around: Part | null, path: Path, at: number): Found | null {
  if (node.kind === "scalar") {
    return node.from <= at && at <= node.to ? { path, on: "value", around, from: node.from, to: node.to } : null;
  }
  if (node.kind === "list") {
    const index = node.items.findIndex(({ from, to }) => from <= at && at <= to);
    const value = node.items[index]?.value ?? null;
    return value === null ? null : findIn(value, node, [...path, index], at);
  }
  const pair = node.pairs.find(({ from, to }) => from <= at && at <= to);
  if (pair === undefined) {
    return null;
  }
  if (at <= pair.keyTo) {
    return { path: [...path, pair.key], on: "key", around: node, from: pair.from, to: pair.keyTo };
  }
  return pair.value === null ? null : findIn(pair.value, node, [...path, pair.key], at);
}
