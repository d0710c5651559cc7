/** What was changed of the document that an editor began with: gone lines above new ones, each change to be undone. */

import { getChunks, goToNextChunk, goToPreviousChunk, rejectChunk, unifiedMergeView } from "@codemirror/merge";
import type { EditorState, Extension } from "@codemirror/state";
import type { EditorView } from "@codemirror/view";
import { differenceColours, revealing } from "../merge/reveal";

/** Returns what shows in an editor where its text differs from `original`; of a text that is `same` all lines stay open. */
export function changesFrom(original: string, same: boolean): Extension {
  return [
    unifiedMergeView({
      original,
      ...(same ? {} : { collapseUnchanged: { margin: 3, minSize: 6 } }),
      syntaxHighlightDeletions: false,
      mergeControls: (type, act) => {
        const made = document.createElement(type === "reject" ? "button" : "span");
        if (made instanceof HTMLButtonElement) {
          made.type = "button";
          made.textContent = "Revert";
          made.title = "Take the lines as they were";
          made.addEventListener("click", act);
        }
        return made;
      },
    }),
    differenceColours,
    revealing(),
  ];
}

export function changeCount(state: EditorState): number {
  return getChunks(state)?.chunks.length ?? 0;
}

export const next = goToNextChunk;
export const previous = goToPreviousChunk;

/** Takes the lines at the cursor as they were; returns whether they had been changed. */
export function revert(view: EditorView): boolean {
  return rejectChunk(view, view.state.selection.main.head);
}
