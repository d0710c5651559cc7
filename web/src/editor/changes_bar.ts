/** The buttons above an editor that show what was changed of the document that it began with. */

import { Compartment, type Extension } from "@codemirror/state";
import { EditorView } from "@codemirror/view";
import { request } from "../api";
import { button, element } from "../dom";
import { count } from "../format";
import { BEGUN, beginningOf, type Beginning } from "./begin";

type Changes = typeof import("./changes");

export class ChangesBar {
  readonly element = element("div", { class: "editor-bar", hidden: true });
  private readonly shown = new Compartment();
  private readonly toggle = button("Changes", () => void this.switch());
  private readonly tools = element("span", { class: "editor-tools", hidden: true });
  private readonly status = element("span", { role: "status", class: "small quiet" });
  private view: EditorView | null = null;
  private changes: Changes | null = null;
  private begun: Beginning | null = null;

  /** Of a `field` with which nothing was begun here the changes are from what is chosen above. */
  constructor(private readonly field: HTMLTextAreaElement) {
    this.toggle.setAttribute("aria-pressed", "false");
    this.tools.append(
      button("Previous", () => this.run((changes, view) => changes.previous(view)), "Previous change"),
      button("Next", () => this.run((changes, view) => changes.next(view)), "Next change"),
      button("Revert", () => this.run((changes, view) => changes.revert(view)), "Revert the change at the cursor"),
    );
    this.element.append(this.toggle, this.tools, this.status);
    this.begun = beginningOf(field);
    field.addEventListener(BEGUN, () => {
      this.begun = beginningOf(field);
      if (this.isOn) {
        void this.show();
      }
    });
  }

  attach(view: EditorView): void {
    this.view = view;
    this.look();
  }

  extension(): Extension {
    return [
      this.shown.of([]),
      EditorView.updateListener.of(({ docChanged, transactions }) => {
        if (docChanged || transactions.some(({ effects }) => effects.length > 0)) {
          this.look();
        }
      }),
    ];
  }

  private get isOn(): boolean {
    return this.toggle.getAttribute("aria-pressed") === "true";
  }

  /** The choice beside the field; a page without one has nothing to compare with before something is begun. */
  private get chosen(): string | null {
    const begin = document.querySelector<HTMLElement>(`[data-begin="${this.field.id}"]`);
    const choice = document.getElementById(begin?.dataset["from"] ?? "");
    return choice instanceof HTMLSelectElement ? choice.value : null;
  }

  private async switch(): Promise<void> {
    if (this.isOn) {
      this.toggle.setAttribute("aria-pressed", "false");
      this.view?.dispatch({ effects: this.shown.reconfigure([]) });
    } else {
      this.toggle.setAttribute("aria-pressed", "true");
      await this.show();
    }
    this.look();
  }

  private async show(): Promise<void> {
    try {
      const [changes, begun] = await Promise.all([import("./changes"), this.begun ?? this.fetched()]);
      [this.changes, this.begun] = [changes, begun];
      const isSame = this.view?.state.doc.toString() === begun.text;
      this.view?.dispatch({ effects: this.shown.reconfigure(changes.changesFrom(begun.text, isSame)) });
    } catch (error) {
      this.toggle.setAttribute("aria-pressed", "false");
      this.status.textContent = `What it began with could not be fetched: ${error instanceof Error ? error.message : String(error)}`;
    }
  }

  private async fetched(): Promise<Beginning> {
    const name = this.chosen ?? "";
    const answer = await request(`/v1/accelerators/${encodeURIComponent(name)}`, { format: "yaml" });
    return { name, text: await answer.text() };
  }

  private run(act: (changes: Changes, view: EditorView) => boolean): void {
    if (this.changes !== null && this.view !== null) {
      act(this.changes, this.view);
      this.view.focus();
    }
  }

  private look(): void {
    if (this.view === null) {
      return;
    }
    this.element.hidden = this.view.state.doc.length === 0 || (this.begun === null && this.chosen === null);
    this.tools.hidden = !this.isOn;
    if (this.isOn && this.changes !== null) {
      const found = this.changes.changeCount(this.view.state);
      const name = this.begun?.name ?? "";
      this.status.textContent = found === 0 ? `Nothing differs from ${name}.` : `${count(found)} ${found === 1 ? "change" : "changes"} from ${name}`;
    } else if (!this.isOn && this.changes !== null) {
      this.status.textContent = "";
    }
  }
}
