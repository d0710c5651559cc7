/** The editor in the colours of the pages, light and dark, which are custom properties and reach into the shadow root. */

import { HighlightStyle, syntaxHighlighting } from "@codemirror/language";
import { EditorView } from "@codemirror/view";
import { tags } from "@lezer/highlight";

const theme = EditorView.theme({
  "&": { color: "var(--text)", backgroundColor: "var(--card)", border: "1px solid var(--quiet)", borderRadius: "6px", fontSize: "0.8125rem" },
  "&.cm-focused": { outline: "2px solid var(--accent)", outlineOffset: "2px" },
  ".cm-scroller": { fontFamily: "var(--mono)", lineHeight: "1.5", minHeight: "12rem", maxHeight: "min(34rem, 70vh)", overflow: "auto" },
  ".cm-content": { caretColor: "var(--text)" },
  ".cm-cursor": { borderLeftColor: "var(--text)" },
  ".cm-gutters": { backgroundColor: "var(--raised)", color: "var(--quiet)", border: "none", borderRadius: "6px 0 0 6px" },
  ".cm-activeLine": { backgroundColor: "color-mix(in srgb, var(--accent) 6%, transparent)" },
  ".cm-activeLineGutter": { backgroundColor: "color-mix(in srgb, var(--accent) 14%, transparent)" },
  "&.cm-focused > .cm-scroller > .cm-selectionLayer .cm-selectionBackground, .cm-selectionBackground": {
    backgroundColor: "color-mix(in srgb, var(--accent) 24%, transparent)",
  },
  ".cm-matchingBracket, &.cm-focused .cm-matchingBracket": { backgroundColor: "color-mix(in srgb, var(--good) 24%, transparent)" },
  ".cm-searchMatch": { backgroundColor: "color-mix(in srgb, var(--wait-memory) 40%, transparent)" },
  ".cm-searchMatch-selected": { backgroundColor: "color-mix(in srgb, var(--wait-memory) 75%, transparent)" },
  ".cm-foldPlaceholder": { backgroundColor: "var(--raised)", color: "var(--quiet)", border: "1px solid var(--line)" },
  ".cm-panels": { backgroundColor: "var(--raised)", color: "var(--text)", borderTop: "1px solid var(--line)" },
  ".cm-textfield, .cm-button": { backgroundColor: "var(--card)", backgroundImage: "none", color: "var(--text)", border: "1px solid var(--quiet)", borderRadius: "4px", fontSize: "inherit" },
  ".cm-tooltip": { backgroundColor: "var(--card)", color: "var(--text)", border: "1px solid var(--quiet)", borderRadius: "6px", boxShadow: "0 6px 24px rgb(0 0 0 / 18%)", maxWidth: "min(30rem, 92vw)" },
  ".cm-tooltip.cm-tooltip-autocomplete > ul": { fontFamily: "var(--mono)", maxHeight: "26rem" },
  ".cm-tooltip.cm-tooltip-autocomplete > ul > li[aria-selected]": { backgroundColor: "var(--accent)", color: "var(--on-accent)" },
  ".cm-completionDetail": { fontStyle: "normal", opacity: "0.8" },
  ".cm-completionInfo": { padding: "0.375rem 0.625rem", maxWidth: "min(24rem, 80vw)" },
  ".cm-described": { padding: "0.375rem 0.625rem", overflowWrap: "anywhere" },
  ".cm-completionInfo .cm-described": { padding: "0" },
  ".cm-described p": { margin: "0 0 0.125rem", whiteSpace: "pre-line" },
  ".cm-described code": { fontFamily: "var(--mono)", fontWeight: "650" },
  ".cm-quiet": { color: "var(--quiet)" },
  ".cm-diagnostic": { whiteSpace: "pre-wrap", overflowWrap: "anywhere" },
  ".cm-diagnostic-error": { borderLeftColor: "var(--bad)" },
  ".cm-lintRange-error": { backgroundImage: "none", textDecoration: "underline wavy var(--bad)", textDecorationSkipInk: "none" },
  ".cm-lintPoint-error::after": { borderBottomColor: "var(--bad)" },
  ".cm-lint-marker-error": { content: "none", backgroundColor: "var(--bad)", borderRadius: "50%", width: "0.625rem", height: "0.625rem", marginTop: "0.25rem" },
});

const colours = HighlightStyle.define([
  { tag: [tags.propertyName, tags.definition(tags.propertyName)], color: "var(--accent)" },
  { tag: [tags.string, tags.special(tags.string)], color: "var(--good)" },
  { tag: tags.comment, color: "var(--quiet)", fontStyle: "italic" },
  { tag: [tags.separator, tags.squareBracket, tags.brace, tags.punctuation], color: "var(--quiet)" },
]);

export const appearance = [theme, syntaxHighlighting(colours)];
