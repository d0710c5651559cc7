/** The editor of an accelerator's document: it takes the place of a form's text field, which sends what is typed. */

import { autocompletion, closeBrackets, closeBracketsKeymap, completionKeymap } from "@codemirror/autocomplete";
import { defaultKeymap, history, historyKeymap, indentWithTab } from "@codemirror/commands";
import { yaml } from "@codemirror/lang-yaml";
import { bracketMatching, codeFolding, foldGutter, foldKeymap, indentOnInput, indentUnit } from "@codemirror/language";
import { lintGutter, lintKeymap, setDiagnostics } from "@codemirror/lint";
import { highlightSelectionMatches, search, searchKeymap } from "@codemirror/search";
import { Compartment, EditorState, type Extension } from "@codemirror/state";
import {
  drawSelection,
  EditorView,
  highlightActiveLine,
  highlightActiveLineGutter,
  keymap,
  lineNumbers,
  tooltips,
} from "@codemirror/view";
import type { FieldError } from "../api";
import { button, element } from "../dom";
import { Latest } from "../latest";
import { completions, hoverText } from "./assistance";
import { check, diagnostics, rangeOf, type Verdict } from "./checking";
import { ChangesBar } from "./changes_bar";
import { DocumentSchema } from "./schema";
import { appearance } from "./theme";

const CHECK_AFTER = 350;
const SHOWN_ERRORS = 20;
const LABEL = "Document of an accelerator";

/**
 * Types over a selection. A browser that did it would give the new text the style of the old one, in a `style`
 * attribute, which the policy of pages refuses.
 */
const typeOver = EditorView.domEventHandlers({
  beforeinput(event, view) {
    const { from, to, empty } = view.state.selection.main;
    const text = event.data;
    if (event.inputType !== "insertText" || text === null || empty || view.composing) {
      return false;
    }
    const insert = () => view.state.update(view.state.replaceSelection(text), { userEvent: "input.type", scrollIntoView: true });
    if (!view.state.facet(EditorView.inputHandler).some((handle) => handle(view, from, to, text, insert))) {
      view.dispatch(insert());
    }
    event.preventDefault();
    return true;
  },
});

/** Mounts an editor for the text field that `data-for` names. */
export function mountEditor(island: HTMLElement): void {
  const field = document.getElementById(island.dataset["for"] ?? "");
  if (!(field instanceof HTMLTextAreaElement)) {
    throw new Error("its field is missing");
  }
  new DocumentEditor(island, field);
}

class DocumentEditor {
  private readonly view: EditorView;
  private readonly bar: ChangesBar;
  private readonly assistance = new Compartment();
  private readonly status = element("p", { role: "status", class: "editor-status small" });
  private readonly errors = element("ul", { class: "editor-errors plain small" });
  private readonly checks = new Latest<string, Verdict>({
    pause: CHECK_AFTER,
    abort: true,
    ask: check,
    answered: (verdict) => this.show(verdict),
    failed: (error) => this.report(`It could not be checked: ${error instanceof Error ? error.message : String(error)}`),
    waits: (seconds) => this.report(`The service is busy; it is checked again in ${seconds} s.`),
  });

  constructor(
    private readonly island: HTMLElement,
    private readonly field: HTMLTextAreaElement,
  ) {
    const host = element("div", { class: "editor-host" });
    const hint = element("p", { class: "hint" }, "Control and space completes. Escape, then Tab, leaves the editor.");
    this.bar = new ChangesBar(field);
    island.replaceChildren(this.bar.element, host, this.status, this.errors, hint);
    const root = host.attachShadow({ mode: "open" });
    const state = EditorState.create({ doc: field.value, extensions: this.extensions() });
    this.view = new EditorView({ state, root, parent: root });
    this.bar.attach(this.view);
    this.takePlace();
    void this.assist();
    this.changed();
  }

  private extensions(): Extension {
    return [
      lineNumbers(),
      lintGutter(),
      foldGutter(),
      codeFolding(),
      history(),
      drawSelection(),
      indentOnInput(),
      bracketMatching(),
      closeBrackets(),
      typeOver,
      highlightActiveLine(),
      highlightActiveLineGutter(),
      highlightSelectionMatches(),
      search({ top: true }),
      yaml(),
      indentUnit.of("  "),
      EditorState.tabSize.of(2),
      this.assistance.of([]),
      this.bar.extension(),
      appearance,
      tooltips({ position: "fixed" }),
      keymap.of([...closeBracketsKeymap, ...completionKeymap, ...lintKeymap, ...searchKeymap, ...historyKeymap, ...foldKeymap, ...defaultKeymap, indentWithTab]),
      EditorView.contentAttributes.of({ "aria-label": LABEL, tabindex: "0", spellcheck: "false", autocapitalize: "off", autocorrect: "off" }),
      EditorView.updateListener.of((update) => {
        if (update.docChanged) {
          this.changed();
        }
      }),
    ];
  }

  /** Hides the field, whose label leads to the editor then; what a script writes into it comes into the editor. */
  private takePlace(): void {
    this.field.hidden = true;
    for (const label of this.field.labels) {
      label.addEventListener("click", () => this.view.focus());
    }
    this.field.addEventListener("input", () => {
      const { doc } = this.view.state;
      if (this.field.value !== doc.toString()) {
        this.view.dispatch({ changes: { from: 0, to: doc.length, insert: this.field.value }, selection: { anchor: 0 }, scrollIntoView: true });
      }
    });
  }

  private async assist(): Promise<void> {
    try {
      const schema = await DocumentSchema.load();
      const sources = autocompletion({ override: [completions(schema)], icons: false, maxRenderedOptions: 60 });
      this.view.dispatch({ effects: this.assistance.reconfigure([sources, hoverText(schema)]) });
      this.island.dataset["assisted"] = "";
    } catch {
      // it is an editor without completion
    }
  }

  private changed(): void {
    const text = this.view.state.doc.toString();
    this.field.value = text;
    if (text.trim() === "") {
      this.checks.drop();
      this.show(null);
      return;
    }
    this.settle("checking");
    this.checks.ask(text);
  }

  private show(verdict: Verdict | null): void {
    const errors = verdict?.errors ?? [];
    this.view.dispatch(setDiagnostics(this.view.state, diagnostics(errors, this.view.state.doc)));
    this.errors.replaceChildren(...errors.slice(0, SHOWN_ERRORS).map((error) => this.listed(error)));
    const summary = verdict?.summary;
    if (summary) {
      this.report(`${summary.title}, of the family ${summary.family}: it can be used.`);
    } else {
      this.report(verdict === null ? "" : errors.length === 1 ? "One error:" : `${errors.length} errors:`);
    }
    this.settle(errors.length > 0 ? "invalid" : "valid");
  }

  private listed(error: FieldError): HTMLLIElement {
    const go = button(error.line === undefined ? error.message : `Line ${error.line}: ${error.message}`, () => {
      const { from } = rangeOf(error, this.view.state.doc);
      this.view.dispatch({ selection: { anchor: from }, effects: EditorView.scrollIntoView(from, { y: "center" }) });
      this.view.focus();
    });
    go.className = "plain";
    return element("li", {}, go);
  }

  private report(text: string): void {
    this.status.textContent = text;
  }

  /** Tells who looks at the form how far the document is. */
  private settle(state: "checking" | "valid" | "invalid"): void {
    this.field.dataset["state"] = state;
    this.field.dispatchEvent(new Event("change", { bubbles: true }));
  }
}
