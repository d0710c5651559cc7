/** Tables to take along: a button below each that saves it as CSV, but for those that the service has as CSV itself. */

import { button, element } from "./dom";
import { download } from "./picture";

/** A table of data in its frame; the service's own CSV is linked to below a frame that says so. */
const FRAMES = ".scroll:not([data-csv])";
/** What of a cell is no data. */
const NO_DATA = "details.menu, form, button, svg, noscript, .only-narrow";
const NUMBER = /^[+-]?\d{1,3}(,\d{3})*(\.\d+)?$/;
/** A spreadsheet takes text that begins so for a formula. */
const FORMULA = /^[=+\-@\t\r]/;

/** Puts a button below each table in `root` that has none. */
export function addTableButtons(root: ParentNode): void {
  for (const frame of root.querySelectorAll<HTMLElement>(FRAMES)) {
    const table = frame.querySelector("table");
    if (table !== null && !table.classList.contains("code")) {
      frame.dataset["csv"] = "";
      const name = nameOf(frame, table);
      const save = (): void => download(new Blob([csv(table)], { type: "text/csv" }), `${fileName(`${document.title.replace(/ · Cyclops$/, "")} ${name}`)}.csv`);
      frame.after(element("p", { class: "small table-csv" }, button("CSV", save, `Save the table as CSV: ${name}`)));
    }
  }
}

function nameOf(frame: HTMLElement, table: HTMLTableElement): string {
  const by = document.getElementById(frame.getAttribute("aria-labelledby") ?? "");
  return (frame.getAttribute("aria-label") ?? by?.textContent ?? table.caption?.textContent ?? "table").trim();
}

function fileName(text: string): string {
  return text.normalize("NFKD").replace(/[^A-Za-z0-9.-]+/g, "-").replace(/^-+|-+$/g, "").slice(0, 100).toLowerCase();
}

/** The table as RFC 4180 has it: a line a row, numbers without the commas of their thousands. */
export function csv(table: HTMLTableElement): string {
  const rows = [...table.rows].filter((row) => row.closest("table") === table);
  return rows.map((row) => `${[...row.cells].map((cell) => field(textOf(cell))).join(",")}\r\n`).join("");
}

function textOf(cell: HTMLTableCellElement): string {
  const copy = cell.cloneNode(true) as HTMLElement;
  for (const other of copy.querySelectorAll(NO_DATA)) {
    other.remove();
  }
  for (const end of copy.querySelectorAll("br, div, li, .tags, .tag, .remark")) {
    end.append(" "); // what is below each other is apart
    end.before(" ");
  }
  return (copy.textContent ?? "").replace(/\s+/g, " ").trim();
}

function field(text: string): string {
  const value = NUMBER.test(text) ? text.replaceAll(",", "").replace("+", "") : FORMULA.test(text) && !/^-?[\d.]/.test(text) ? `'${text}` : text;
  return /[",\r\n]/.test(value) ? `"${value.replaceAll('"', '""')}"` : value;
}
