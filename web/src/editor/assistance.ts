/** Completion and hover text, from the schema of documents and the names that the document itself defines. */

import { type Completion, type CompletionContext, type CompletionResult, startCompletion } from "@codemirror/autocomplete";
import { ensureSyntaxTree, syntaxTree } from "@codemirror/language";
import type { EditorState } from "@codemirror/state";
import { type EditorView, hoverTooltip, type Tooltip } from "@codemirror/view";
import { element } from "../dom";
import { keyNames, valueNames } from "./names";
import type { DocumentSchema, Key, Schema, Value } from "./schema";
import { find, type Found, parse, type Part, type Path, read } from "./tree";

/** Stands where the cursor is while a text is read; a document does not have it. */
const MARK = "\ue000";
const WORD = /("?)([\w.+-]*)$/;
const REST = /^[\w.+-]*"?/;
const FIRST_IN_ITS_LINE = /^\s*(?:-\s+)*$/;
const AFTER_A_KEY = /:\s*$/;
const IN_A_FLOW = /[{[,]\s*$/;
const READ_MILLISECONDS = 200;

export function isJson(state: EditorState): boolean {
  return /^\s*[{[]/.test(state.sliceDoc(0, 1000));
}

/** Completes keys and values at the cursor, by what the schema says of that place and the names that may stand there. */
export function completions(schema: DocumentSchema): (context: CompletionContext) => CompletionResult | null {
  return (context) => {
    const { state, pos } = context;
    const line = state.doc.lineAt(pos);
    const [, quote = "", word = ""] = WORD.exec(line.text.slice(0, pos - line.from)) ?? [];
    const from = pos - word.length;
    const head = line.text.slice(0, from - quote.length - line.from);
    const afterKey = AFTER_A_KEY.test(head);
    if (syntaxTree(state).resolveInner(pos, -1).name === "Comment" || !(FIRST_IN_ITS_LINE.test(head) || IN_A_FLOW.test(head) || afterKey)) {
      return null;
    }
    if (word === "" && !context.explicit && !afterKey) {
      return null;
    }
    const place = placeOf(state, from - quote.length, pos, FIRST_IN_ITS_LINE.test(head));
    const options = place === null ? [] : optionsAt(schema, place, isJson(state));
    return options.length === 0 ? null : { from, options, validFor: /^[\w.+-]*$/ };
  };
}

interface Place {
  document: Part | null;
  /** Leads to the object whose key is typed, or to the value. */
  path: Path;
  on: "key" | "value";
  /** The keys that the object has already. */
  present: string[];
  /** Whether what is typed may yet become a key or a value: it is the first of an item. */
  open: boolean;
}

/** Returns which key or value would stand at `[from, to)`, whatever stands there. */
function placeOf(state: EditorState, from: number, to: number, isFirst: boolean): Place | null {
  const after = state.sliceDoc(to, state.doc.lineAt(to).to);
  const rest = REST.exec(after)?.[0].length ?? 0;
  const isKey = isFirst && !isJson(state) && !/^\s*:/.test(after.slice(rest));
  const typed = isJson(state) ? `"${MARK}"` : isKey ? `${MARK}: 0` : MARK;
  const document = parse(state.sliceDoc(0, from) + typed + state.sliceDoc(to + rest));
  const found = find(document, from);
  if (found === null) {
    return null;
  }
  if (found.on === "value") {
    const pair = found.around?.kind === "object" ? found.around.pairs.find(({ key }) => key === found.path.at(-1)) : undefined;
    if (pair !== undefined) {
      pair.value = null; // a kind that is being typed is none yet
    }
    return { document, path: found.path, on: "value", present: [], open: false };
  }
  const path = found.path.slice(0, -1);
  const present = found.around?.kind === "object" ? found.around.pairs.map(({ key }) => key).filter((key) => !key.includes(MARK)) : [];
  return { document, path, on: "key", present, open: isFirst && present.length === 0 && typeof path.at(-1) === "number" };
}

function optionsAt(schema: DocumentSchema, { document, path, on, present, open }: Place, quoted: boolean): Completion[] {
  const values = on === "value" || open ? valuesAt(schema, document, path).map((value) => valueOption(value, quoted)) : [];
  if (on === "value") {
    return values;
  }
  const named = keyNames(document, path).map((name): Key => ({ name, required: false, schemas: schema.at(document, [...path, name]) }));
  const keys = [...schema.keys(document, path), ...named].filter(({ name }) => !present.includes(name));
  const goesOn = ({ name }: Key): boolean => valuesAt(schema, document, [...path, name]).length > 0;
  return [...keys.map((key, index) => keyOption(schema, key, quoted, index, goesOn)), ...values];
}

function valuesAt(schema: DocumentSchema, document: Part | null, path: Path): Value[] {
  const names = valueNames(document, path).filter((name) => !name.includes(MARK));
  return [...schema.values(document, path), ...names.map((value) => ({ value, description: "" }))];
}

function keyOption(schema: DocumentSchema, key: Key, quoted: boolean, index: number, goesOn: (key: Key) => boolean): Completion {
  const type = schema.typeOf(key.schemas);
  return {
    label: key.name,
    type: "property",
    detail: key.required ? "required" : "",
    boost: (key.required ? 50 : 0) - index,
    info: () => described(key.name, type, schema.descriptionOf(key.schemas), key.schemas),
    apply: (view, _option, from, to) => {
      const hasColon = /^\s*:/.test(view.state.sliceDoc(to, to + 100).replace(REST, ""));
      replace(view, from, to, quoted ? JSON.stringify(key.name) : key.name, hasColon ? "" : ": ");
      if (!hasColon && goesOn(key)) {
        startCompletion(view);
      }
    },
  };
}

function valueOption({ value, description }: Value, quoted: boolean): Completion {
  const text = typeof value === "string" ? value : JSON.stringify(value);
  return {
    label: text,
    type: "enum",
    ...(description === "" ? {} : { info: description }),
    apply: (view, _option, from, to) => replace(view, from, to, quoted ? JSON.stringify(value) : text, ""),
  };
}

/** Puts `text` in the place of the word at `[from, to)`, with its quotes and what is left of it behind the cursor. */
function replace(view: EditorView, from: number, to: number, text: string, after: string): void {
  const { doc } = view.state;
  const begin = doc.sliceString(from - 1, from) === '"' ? from - 1 : from;
  const rest = REST.exec(doc.sliceString(to, doc.lineAt(to).to))?.[0] ?? "";
  const end = to + (begin < from ? rest.length : rest.replace('"', "").length);
  const insert = text + after;
  view.dispatch({ changes: { from: begin, to: end, insert }, selection: { anchor: begin + insert.length }, userEvent: "input.complete" });
}

/** Says what a key is, where the pointer rests on it or on its value. */
export function hoverText(schema: DocumentSchema): ReturnType<typeof hoverTooltip> {
  return hoverTooltip((view, pos): Tooltip | null => {
    const tree = ensureSyntaxTree(view.state, view.state.doc.length, READ_MILLISECONDS);
    const document = tree === null ? null : read(tree, view.state.doc.toString());
    const found = find(document, pos);
    const shown = found === null ? null : textOf(schema, document, found);
    if (found === null || shown === null) {
      return null;
    }
    return { pos: found.from, end: found.to, create: () => ({ dom: shown }) };
  });
}

function textOf(schema: DocumentSchema, document: Part | null, { path, on }: Found): HTMLElement | null {
  const schemas = schema.at(document, path);
  const name = path.findLast((step) => typeof step === "string");
  if (schemas.length === 0 || name === undefined) {
    return null;
  }
  const shown = described(name, schema.typeOf(schemas), schema.descriptionOf(schemas), schemas);
  if (on === "value" && name === "kind") {
    const [value] = schema.values(document, path);
    shown.append(element("p", {}, value?.description ?? ""));
  }
  return shown;
}

function described(name: string, type: string, description: string, schemas: Schema[]): HTMLElement {
  const given = schemas.find((schema) => schema.default !== undefined && schema.default !== null)?.default;
  const example = given === undefined ? schemas.find(({ examples }) => examples !== undefined)?.examples?.[0] : undefined;
  return element(
    "div",
    { class: "cm-described" },
    element("p", {}, element("code", {}, name), type === "" ? null : ` ${type}`),
    description === "" ? null : element("p", {}, description),
    given === undefined ? null : element("p", { class: "cm-quiet" }, `by default ${short(given)}`),
    example === undefined ? null : element("p", { class: "cm-quiet" }, `for example ${short(example)}`),
  );
}

function short(value: unknown): string {
  const text = JSON.stringify(value);
  return text.length > 120 ? `${text.slice(0, 119)}…` : text;
}
