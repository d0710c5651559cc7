/** What brings a document into a form's text field: the button for a preset's, and the file that somebody chooses. */

import { request } from "../api";
import { element } from "../dom";

const MOST_BYTES = 256 * 1024;

/** Lets every `<button data-begin="FIELD" data-from="SELECT">` bring the chosen accelerator's document into the field. */
export function enableBeginning(): void {
  for (const button of document.querySelectorAll<HTMLButtonElement>("button[data-begin]")) {
    const field = fieldOf(button.dataset["begin"]);
    const choice = document.getElementById(button.dataset["from"] ?? "");
    if (field === null || !(choice instanceof HTMLSelectElement)) {
      continue;
    }
    const said = element("span", { role: "status", class: "small" });
    button.after(said);
    (button.closest<HTMLElement>("[data-scripted]") ?? button).hidden = false;
    button.addEventListener("click", () => {
      said.textContent = "";
      bring(choice.value, field).catch((error: unknown) => {
        said.textContent = error instanceof Error ? error.message : String(error);
      });
    });
  }
  for (const input of document.querySelectorAll<HTMLInputElement>("input[data-into]")) {
    const field = fieldOf(input.dataset["into"]);
    if (field !== null) {
      input.addEventListener("change", () => void readFile(input, field));
    }
  }
}

function fieldOf(id: string | undefined): HTMLTextAreaElement | null {
  const field = document.getElementById(id ?? "");
  return field instanceof HTMLTextAreaElement ? field : null;
}

async function bring(accelerator: string, field: HTMLTextAreaElement): Promise<void> {
  const answer = await request(`/v1/accelerators/${encodeURIComponent(accelerator)}`, { format: "yaml" });
  fill(field, await answer.text());
}

/** Shows a file's text where it can be checked and mended; one that is too large is left to the service. */
async function readFile(input: HTMLInputElement, field: HTMLTextAreaElement): Promise<void> {
  const [file] = input.files ?? [];
  if (file !== undefined && file.size <= MOST_BYTES) {
    fill(field, await file.text());
    input.value = "";
  }
}

/** Writes a text into the field as if it had been typed, and shows it. */
export function fill(field: HTMLTextAreaElement, text: string): void {
  field.value = text;
  const details = field.closest("details");
  if (details !== null) {
    details.open = true;
  }
  field.dispatchEvent(new Event("input", { bubbles: true }));
}
