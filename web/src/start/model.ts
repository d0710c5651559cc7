/** A model of one's own on the start page: dropped or chosen, it is sent at once, so that its plan can be shown. */

import { ApiError, json, request } from "../api";
import { element } from "../dom";
import { count } from "../format";

interface Model {
  id: string;
  label: string | null;
  nodes: number;
}

const MOST_LABEL = 200;

export class ModelChoice {
  private sending = 0;

  constructor(
    private readonly card: HTMLElement,
    private readonly input: HTMLInputElement,
    private readonly choice: HTMLSelectElement,
    private readonly status: HTMLElement,
  ) {
    input.addEventListener("change", () => void this.send());
    input.after(element("p", { class: "hint" }, "or drop it here"));
    let depth = 0; // of the elements that the pointer has entered
    const shown = (change: number): void => {
      depth = change === 0 ? 0 : depth + change;
      card.classList.toggle("dropping", depth > 0);
    };
    card.addEventListener("dragenter", () => shown(1));
    card.addEventListener("dragleave", () => shown(-1));
    card.addEventListener("drop", (event) => {
      shown(0);
      this.take(event.dataTransfer?.files);
    });
    // a file that misses the card would take the place of the page, and of what was typed
    for (const name of ["dragover", "drop"]) {
      document.addEventListener(name, (event) => {
        if (event instanceof DragEvent && event.dataTransfer?.types.includes("Files")) {
          event.preventDefault();
        }
      });
    }
  }

  private take(files: FileList | undefined): void {
    if (files !== undefined && files.length > 0) {
      this.input.files = files;
      void this.send();
    }
  }

  /** Sends the files that are chosen. Where the service is busy they stay chosen, and go with the form. */
  private async send(): Promise<void> {
    const files = [...(this.input.files ?? [])];
    const number = ++this.sending;
    if (files.length === 0) {
      return;
    }
    const names = files.map(({ name }) => name).join(", ");
    this.say(`Sending ${names} …`);
    try {
      const model = await upload(files);
      if (number === this.sending) {
        this.choose(model);
        this.input.value = "";
        this.say(`${names}: ${count(model.nodes)} ${model.nodes === 1 ? "node" : "nodes"}.`);
      }
    } catch (error) {
      if (number === this.sending) {
        const why = `${names}: ${error instanceof Error ? error.message : String(error)}`;
        if (error instanceof ApiError && !error.passes) {
          this.input.value = ""; // Run would send it once more, in place of what is chosen above
          this.say(`${why}. It is not used.`, true);
        } else {
          this.say(why, true);
        }
      }
    }
  }

  private say(text: string, bad = false): void {
    this.status.textContent = text;
    this.status.classList.toggle("wrong", bad);
  }

  private choose(model: Model): void {
    const known = [...this.choice.options].find(({ value }) => value === model.id);
    const option = known ?? new Option(model.label ?? `model ${model.id.slice(0, 12)}`, model.id);
    if (known === undefined) {
      this.choice.prepend(option);
    }
    option.selected = true;
    for (const hidden of this.card.querySelectorAll<HTMLElement>("[data-sent]")) {
      hidden.hidden = false;
    }
    const example = [...this.card.querySelectorAll<HTMLInputElement>("input[type=radio]")].find(({ value }) => value === model.id);
    const sent = this.card.querySelector<HTMLInputElement>("input[type=radio][value=uploaded]");
    (example ?? sent)?.click();
    this.choice.dispatchEvent(new Event("change", { bubbles: true }));
  }
}

/** Sends a model's files; it is called as its first one, unless it has a name already. */
async function upload(files: File[]): Promise<Model> {
  const form = new FormData();
  for (const file of files) {
    form.append("file", file, file.name);
  }
  const model = await json<Model>("/v1/models", {}, { method: "POST", body: form });
  const label = (files.find(({ name }) => name.endsWith(".onnx")) ?? files[0])?.name.replace(/\.\w+$/, "").slice(0, MOST_LABEL).trim();
  if (model.label === null && label) {
    const headers = { "Content-Type": "application/json" };
    const renamed = await request(`/v1/models/${model.id}`, {}, { method: "PATCH", headers, body: JSON.stringify({ label }) }).catch(() => null);
    model.label = renamed === null ? null : label;
  }
  return model;
}
