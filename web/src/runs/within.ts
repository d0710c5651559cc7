/** What runs are to be within: ranges of columns, which the address keeps. */

import { acceleratorOf, type Run, valueOf } from "./document";

export type Range = [number, number];
/** The ranges of each column, of which a run is to be in one. */
export type Within = Map<string, Range[]>;

export const ACCELERATOR = "accelerator";
const PARAMETER = "within";

/** Names of accelerators in their order on the axis, on which a range has numbers. */
export function acceleratorNames(runs: readonly Run[]): string[] {
  return [...new Set(runs.map(acceleratorOf))].sort();
}

export function isWithin(run: Run, within: Within, names: readonly string[]): boolean {
  return [...within].every(([column, ranges]) => {
    const value = column === ACCELERATOR ? names.indexOf(acceleratorOf(run)) : valueOf(run, column);
    return ranges.length === 0 || (value !== null && ranges.some(([from, to]) => from <= value && value <= to));
  });
}

export function readWithin(query: URLSearchParams, columns: ReadonlySet<string>): Within {
  const found: Within = new Map();
  for (const text of query.getAll(PARAMETER)) {
    const [column = "", from, to] = text.split("~");
    const range: Range = [Number(from), Number(to)];
    if (columns.has(column) && range.every(Number.isFinite)) {
      found.set(column, [...(found.get(column) ?? []), range]);
    }
  }
  return found;
}

export function writeWithin(query: URLSearchParams, within: Within): void {
  query.delete(PARAMETER);
  for (const [column, ranges] of within) {
    for (const range of ranges) {
      query.append(PARAMETER, [column, ...range.map((each) => Number(each.toPrecision(9)))].join("~"));
    }
  }
}
