/** Two texts side by side in editors that nobody writes in: what changed, in colours; equal lines collapsed; a search. */

import { defaultKeymap } from "@codemirror/commands";
import { json as jsonLanguage, pythonLanguage } from "./languages";
import { goToNextChunk, goToPreviousChunk, getChunks, MergeView } from "@codemirror/merge";
import { highlightSelectionMatches, openSearchPanel, search, searchKeymap } from "@codemirror/search";
import { EditorState, type Extension } from "@codemirror/state";
import { drawSelection, EditorView, highlightActiveLine, keymap, lineNumbers } from "@codemirror/view";
import { answered } from "../api";
import { button, element } from "../dom";
import { appearance } from "../editor/theme";
import { count } from "../format";
import type { Mount } from "../islands";
import { indented } from "./indented";
import { differenceColours, revealing } from "./reveal";

const COLLAPSE = { margin: 3, minSize: 4 };
/** Both sides scroll as one. */
const whole = EditorView.theme({ ".cm-scroller": { maxHeight: "none !important", minHeight: "0 !important" } });
const HIGHEST = "min(48rem, 80vh)";
/** Time after which differences within lines may become coarse, ms: whole programs are compared too. */
const PATIENCE = 2000;

/**
 * `data-before` and `data-after` are addresses of the texts, with all that opens them; `data-before-name` and
 * `data-after-name` what they are called; `data-language` is `python` or `json`.
 */
export const mountMerge: Mount = async (home) => {
  const [before = "", after = ""] = await Promise.all([home.dataset["before"], home.dataset["after"]].map((address) => text(address ?? "")));
  const isJson = home.dataset["language"] === "json";
  new Difference(home, isJson ? [indented(before), indented(after)] : [before, after], isJson ? jsonLanguage : pythonLanguage);
};

async function text(address: string): Promise<string> {
  return (await answered(fetch(address))).text();
}

class Difference {
  private readonly view: MergeView;
  private readonly status = element("span", { role: "status", class: "small quiet" });
  private readonly collapse = element("input", { type: "checkbox", checked: true });
  private last: EditorView;

  constructor(home: HTMLElement, [before, after]: [string, string], language: Extension) {
    const host = element("div", { class: "merge-host" });
    const names = [home.dataset["beforeName"] ?? "before", home.dataset["afterName"] ?? "after"] as const;
    const bar = element(
      "div",
      { class: "merge-bar" },
      element("span", { class: "merge-buttons" }, button("Previous change", () => this.go(goToPreviousChunk)), button("Next change", () => this.go(goToNextChunk)), button("Search", () => this.search())),
      element("label", { class: "choice" }, this.collapse, element("span", {}, "Collapse equal lines")),
      this.status,
    );
    const heads = element("div", { class: "merge-heads small" }, element("span", {}, names[0]), element("span", {}, names[1]));
    const hint = element("p", { class: "hint" }, "Control and F searches all lines of the side that has the focus; F7 and Shift with F7 go from change to change. Escape, then Tab, leaves an editor.");
    home.replaceChildren(bar, element("div", { class: "merge-frame" }, heads, host), hint);
    const root = host.attachShadow({ mode: "open" });
    this.view = new MergeView({
      a: { doc: before, extensions: this.extensions(language, names[0]) },
      b: { doc: after, extensions: this.extensions(language, names[1]) },
      parent: root,
      root,
      collapseUnchanged: COLLAPSE,
      diffConfig: { scanLimit: 1000, timeout: PATIENCE },
    });
    this.view.dom.style.maxHeight = HIGHEST;
    this.last = this.view.b;
    this.collapse.addEventListener("change", () => this.view.reconfigure(this.collapse.checked ? { collapseUnchanged: COLLAPSE } : ({ collapseUnchanged: undefined } as object)));
    this.say();
  }

  private extensions(language: Extension, name: string): Extension {
    return [
      lineNumbers(),
      drawSelection(),
      highlightActiveLine(),
      highlightSelectionMatches(),
      search({ top: true }),
      language,
      EditorState.readOnly.of(true),
      EditorState.tabSize.of(4),
      EditorView.lineWrapping,
      whole,
      appearance,
      differenceColours,
      revealing(),
      keymap.of([{ key: "F7", run: () => this.go(goToNextChunk), shift: () => this.go(goToPreviousChunk) }, ...searchKeymap, ...defaultKeymap]),
      EditorView.contentAttributes.of({ "aria-label": name, "aria-readonly": "true", tabindex: "0" }),
      EditorView.updateListener.of(({ view, focusChanged, selectionSet }) => {
        if (focusChanged && view.hasFocus) {
          this.last = view;
        }
        if (selectionSet) {
          this.say(view);
        }
      }),
    ];
  }

  private go(command: typeof goToNextChunk): boolean {
    const done = command(this.last);
    this.last.focus();
    return done;
  }

  private search(): void {
    openSearchPanel(this.last);
  }

  /** Says how many changes there are, and which one the cursor is in. */
  private say(view: EditorView = this.last): void {
    const { chunks, side } = getChunks(view.state) ?? { chunks: [], side: "b" };
    const place = view.state.selection.main.head;
    const at = chunks.findIndex((chunk) => (side === "a" ? chunk.fromA <= place && place <= chunk.endA : chunk.fromB <= place && place <= chunk.endB));
    const coarse = chunks.some(({ precise }) => !precise) ? "; some are told by lines alone" : "";
    this.status.textContent = chunks.length === 0 ? "The texts are the same." : `${at < 0 ? "" : `${count(at + 1)} of `}${count(chunks.length)} ${chunks.length === 1 ? "change" : "changes"}${coarse}`;
  }
}
