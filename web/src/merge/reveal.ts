/** Differences in the colours of the pages, and collapsed lines that open where somebody goes. */

import { getChunks, mergeViewSiblings, uncollapseUnchanged } from "@codemirror/merge";
import type { EditorState, Extension } from "@codemirror/state";
import { EditorView } from "@codemirror/view";

const GONE = "color-mix(in srgb, var(--bad) 13%, transparent)";
const GONE_WORD = "color-mix(in srgb, var(--bad) 30%, transparent)";
const NEW = "color-mix(in srgb, var(--good) 13%, transparent)";
const NEW_WORD = "color-mix(in srgb, var(--good) 30%, transparent)";

/** Selectors begin as those of the package do, whose colours they take the place of. */
export const differenceColours = EditorView.theme({
  "&.cm-merge-a .cm-changedLine, .cm-deletedChunk": { backgroundColor: GONE },
  "&.cm-merge-b .cm-changedLine, .cm-inlineChangedLine": { backgroundColor: NEW },
  "&.cm-merge-a .cm-changedText, .cm-deletedChunk .cm-deletedText": { background: `${GONE_WORD} !important`, borderRadius: "2px" },
  "&.cm-merge-b .cm-changedText": { background: `${NEW_WORD} !important`, borderRadius: "2px" },
  // the colours of syntax are made for the ground of the page
  ".cm-changedText, .cm-changedText *, .cm-deletedText, .cm-deletedText *": { color: "var(--text) !important" },
  "&.cm-merge-b .cm-deletedText": { background: GONE_WORD },
  "&.cm-merge-a .cm-changedLineGutter, .cm-deletedLineGutter": { background: "var(--bad) !important" },
  "&.cm-merge-b .cm-changedLineGutter": { background: "var(--good) !important" },
  ".cm-collapsedLines": { background: "var(--raised) !important", color: "var(--accent) !important", padding: "2px 8px", fontFamily: "system-ui, sans-serif", textAlign: "center" },
  ".cm-collapsedLines:before, .cm-collapsedLines:after": { content: "none !important" },
  ".cm-deletedChunk .cm-chunkButtons": { position: "absolute", insetInlineEnd: "0.375rem" },
  ".cm-deletedChunk button": { font: "0.75rem system-ui, sans-serif", padding: "0.0625rem 0.5rem", border: "1px solid var(--quiet) !important", borderRadius: "4px", backgroundColor: "var(--card)", color: "var(--text) !important", cursor: "pointer" },
});

/** Opens lines that are collapsed where the selection goes into them, as a search or a list of errors leads there. */
export function revealing(): Extension {
  return EditorView.updateListener.of(({ view, state, selectionSet }) => {
    const begin = selectionSet ? collapsedAt(state, state.selection.main.head) : null;
    if (begin !== null) {
      queueMicrotask(() => reveal(view, begin)); // an update ends before the next begins
    }
  });
}

function reveal(view: EditorView, begin: number): void {
  const pair = mergeViewSiblings(view);
  if (pair !== null) {
    const sibling = pair.a === view ? pair.b : pair.a;
    sibling.dispatch({ effects: uncollapseUnchanged.of(counterpart(view.state, begin)) });
  }
  view.dispatch({ effects: [uncollapseUnchanged.of(begin), EditorView.scrollIntoView(view.state.selection.main, { y: "center" })] });
}

/** Returns where the collapsed lines around a place begin; null if none are. */
function collapsedAt(state: EditorState, place: number): number | null {
  let found: number | null = null;
  for (const source of state.facet(EditorView.decorations)) {
    if (typeof source !== "function") {
      source.between(place, place, (from, _to, { spec }) => {
        found = spec.block === true && spec.widget?.type === "collapsed-unchanged-code" ? from : found;
      });
    }
  }
  return found;
}

/** Returns the place in the other text that stands beside an equal one in this. */
function counterpart(state: EditorState, place: number): number {
  const { chunks, side } = getChunks(state) ?? { chunks: [], side: null };
  const before = chunks.filter((chunk) => (side === "a" ? chunk.toA : chunk.toB) <= place).at(-1);
  return before === undefined ? place : side === "a" ? place - before.toA + before.toB : place - before.toB + before.toA;
}
