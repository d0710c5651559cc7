/** Errors of a document as the service finds them, at their place in the text. */

import type { Diagnostic } from "@codemirror/lint";
import type { Text } from "@codemirror/state";
import { ApiError, type FieldError, json } from "../api";

/** What a document is that can be used. */
export interface Summary {
  title: string;
  family: string;
}

export type Verdict = { summary: Summary; errors: [] } | { summary: null; errors: FieldError[] };

const REFUSED = [413, 422];

/** Asks the service to check a text, which it does not keep. */
export async function check(text: string, signal: AbortSignal): Promise<Verdict> {
  const init = { method: "POST", body: text, headers: { "Content-Type": "application/yaml" }, signal };
  try {
    return { summary: await json<Summary>("/v1/accelerators", { dry_run: "true" }, init), errors: [] };
  } catch (error) {
    if (!(error instanceof ApiError) || !REFUSED.includes(error.status)) {
      throw error;
    }
    return { summary: null, errors: error.errors.length > 0 ? error.errors : [{ field: "", message: error.message }] };
  }
}

/** Returns the characters of an error; those of the first line where the text has no place for it. */
export function rangeOf(error: FieldError, doc: Text): { from: number; to: number } {
  const from = offset(doc, error.line ?? 1, error.column ?? 1);
  const to = error.line === undefined ? doc.line(1).to : offset(doc, error.end_line ?? error.line, error.end_column ?? 1);
  return { from, to: Math.max(from, to) };
}

/** The service counts characters, a script the halves of those beyond the first plane. */
function offset(doc: Text, line: number, column: number): number {
  const found = doc.line(Math.min(Math.max(line, 1), doc.lines));
  const before = [...found.text].slice(0, column - 1).join("");
  return Math.min(found.from + before.length, found.to);
}

export function diagnostics(errors: readonly FieldError[], doc: Text): Diagnostic[] {
  return errors.map((error) => ({ ...rangeOf(error, doc), severity: "error", message: error.message }));
}
