/** Tables to take along: a button below each that saves it as CSV, but for those that the service has as CSV itself. */

import { button, element } from "./dom";
import { download } from "./picture";

/** A table of data in its frame; the service's own CSV is linked to below a frame that says so. */
const FRAMES = ".scroll:not([data-csv])";
/** What of a cell is no data. */
const NO_DATA = "details.menu, form, button, svg, noscript, .only-narrow";
const NUMBER = /^[+-]?\d{1,3}(,\d{3})*(\.\d+)?$/;
const WITH_UNIT = /^[+-]?[\d.,]+ ?[\p{L}%×]{0,4}$/u;
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
  const held = new Map<number, { text: string; rows: number }>();
  const line = (row: HTMLTableRowElement): string => {
    const cells = [...row.cells];
    const texts: string[] = [];
    while (cells.length > 0 || (held.get(texts.length)?.rows ?? 0) > 0) {
      const above = held.get(texts.length);
      if (above !== undefined && above.rows > 0) {
        above.rows--; // a cell that spans rows stands in each of them
        texts.push(above.text);
      } else {
        const cell = cells.shift();
        const text = cell === undefined ? "" : field(textOf(cell));
        held.set(texts.length, { text, rows: (cell?.rowSpan ?? 1) - 1 });
        texts.push(text, ...Array.from({ length: (cell?.colSpan ?? 1) - 1 }, () => ""));
      }
    }
    return `${texts.join(",")}\r\n`;
  };
  return [...table.rows].map(line).join("");
}

function textOf(cell: HTMLTableCellElement): string {
  const copy = cell.cloneNode(true) as HTMLElement;
  // beside a number stands the same as a share
  for (const other of copy.querySelectorAll(cell.classList.contains("n") ? `${NO_DATA}, .quiet` : NO_DATA)) {
    other.remove();
  }
  for (const end of copy.querySelectorAll("br, div, li, .tags, .tag, .remark")) {
    end.append(" "); // what is below each other is apart
    end.before(" ");
  }
  return (copy.textContent ?? "").replace(/\s+/g, " ").trim();
}

function field(text: string): string {
  const value = NUMBER.test(text) ? text.replaceAll(",", "").replace("+", "") : FORMULA.test(text) && !WITH_UNIT.test(text) ? `'${text}` : text;
  return /[",\r\n]/.test(value) ? `"${value.replaceAll('"', '""')}"` : value;
}
