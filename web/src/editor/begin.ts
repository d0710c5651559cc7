/**
 * What brings a document into a form's text field, and takes it away: the button for a preset's, the file that somebody
 * chooses, and the notice that it is used in the place of the choice above.
 */

import { request } from "../api";
import { element } from "../dom";

const SHORT = 24; // characters of a name; that of an upload is a digest
const MOST_BYTES = 256 * 1024;
/** The event by which a field is told that somebody begins with another document. */
export const BEGUN = "begun";

/** A document that somebody begins with, and what it is called. */
export interface Beginning {
  name: string;
  text: string;
}

const begun = new WeakMap<HTMLTextAreaElement, Beginning>();

/** Returns what somebody began with in a field; null where it was typed, or was there when the page came. */
export function beginningOf(field: HTMLTextAreaElement): Beginning | null {
  return begun.get(field) ?? null;
}

/** Lets every `<button data-begin="FIELD" data-from="SELECT">` bring the chosen accelerator's document into the field. */
export function enableBeginning(): void {
  for (const notice of document.querySelectorAll<HTMLElement>("[data-in-use]")) {
    const field = fieldOf(notice.dataset["inUse"]);
    if (field !== null) {
      showUse(notice, field);
    }
  }
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

/** Shows the notice while there is a document, which its button takes away. */
function showUse(notice: HTMLElement, field: HTMLTextAreaElement): void {
  const look = (): void => {
    notice.hidden = field.value.trim() === "";
  };
  for (const name of ["input", "change"]) {
    field.addEventListener(name, look);
  }
  notice.querySelector("button")?.addEventListener("click", () => {
    fill(field, "", false);
    field.closest("details")?.querySelector("summary")?.focus();
  });
  window.addEventListener("pageshow", () => {
    look(); // a browser that comes back to the page has what was typed
    if (!notice.hidden) {
      fill(field, field.value);
    }
  });
}

function fieldOf(id: string | undefined): HTMLTextAreaElement | null {
  const field = document.getElementById(id ?? "");
  return field instanceof HTMLTextAreaElement ? field : null;
}

async function bring(accelerator: string, field: HTMLTextAreaElement): Promise<void> {
  const answer = await request(`/v1/accelerators/${encodeURIComponent(accelerator)}`, { format: "yaml" });
  begin(field, { name: accelerator.slice(0, SHORT), text: await answer.text() });
  (field.closest("details") ?? field.parentElement)?.scrollIntoView();
}

/** Shows a file's text where it can be checked and mended; one that is too large is left to the service. */
async function readFile(input: HTMLInputElement, field: HTMLTextAreaElement): Promise<void> {
  const [file] = input.files ?? [];
  if (file !== undefined && file.size <= MOST_BYTES) {
    begin(field, { name: file.name, text: await file.text() });
    input.value = "";
  }
}

function begin(field: HTMLTextAreaElement, beginning: Beginning): void {
  begun.set(field, beginning);
  fill(field, beginning.text);
  field.dispatchEvent(new Event(BEGUN));
}

/** Writes a text into the field as if it had been typed, and shows the field, or folds it. */
function fill(field: HTMLTextAreaElement, text: string, isShown = true): void {
  field.value = text;
  const details = field.closest("details");
  if (details !== null) {
    details.open = isShown;
  }
  field.dispatchEvent(new Event("input", { bubbles: true }));
}
