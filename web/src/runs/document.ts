/** What `GET /v1/figures` says, and its values as text. */

import { count, percent, size } from "../format";

export interface Column {
  name: string;
  title: string;
  unit: string;
  better?: "less" | "more";
}

export interface Run {
  job: string;
  label: string | null;
  accelerator: { name: string; title: string; label: string | null; id: string };
  figures: Record<string, number>;
  parameters: Record<string, number>;
}

export interface Runs {
  figures: Column[];
  parameters: Column[];
  runs: Run[];
}

export function valueOf(run: Run, column: string): number | null {
  return run.figures[column] ?? run.parameters[column] ?? null;
}

export function nameOf(run: Run): string {
  return run.label ?? `job ${run.job.slice(0, 12)}`;
}

export function acceleratorOf(run: Run): string {
  return run.accelerator.label ?? run.accelerator.title;
}

const TIMES: [number, string][] = [[1, "s"], [1e-3, "ms"], [1e-6, "µs"], [0, "ns"]];
const PREFIXES: [number, string][] = [[1e12, "T"], [1e9, "G"], [1e6, "M"], [1e3, "k"], [0, ""]];
const JOULES: [number, string][] = [[1e12, "J"], [1e9, "mJ"], [1e6, "µJ"], [1e3, "nJ"], [0, "pJ"]];

function scaled(value: number, units: [number, string][], smallest = 1): string {
  const [least, unit] = units.find(([from]) => Math.abs(value) >= from) ?? [0, ""];
  return `${digits(value / (least || smallest))} ${unit}`.trim();
}

function digits(value: number): string {
  return Number(value.toPrecision(3)).toLocaleString("en-US", { maximumSignificantDigits: 3 });
}

/** A value with its unit; in full where `whole`, else in three digits, as an axis has room for. */
export function textOf(value: number, unit: string, whole = true): string {
  switch (unit) {
    case "s":
      return value === 0 ? "0 s" : scaled(value, TIMES, 1e-9);
    case "B":
      return whole || value === 0 ? size(value) : size(value).replace(/\.0(?= )/, "");
    case "pJ":
      return value === 0 ? "0 J" : scaled(value, JOULES);
    case "1":
      return whole ? percent(value) : `${digits(100 * value)} %`;
    case "dB":
      return whole && value >= 200 ? "equal" : `${digits(value)} dB`;
    default:
      return whole ? `${Number.isInteger(value) ? count(value) : digits(value)} ${unit}`.trim() : value < 1e4 ? digits(value) : scaled(value, PREFIXES);
  }
}

/** A value as it stands after its title, which may say its unit. */
export function toldOf(value: number, { title, unit }: Column): string {
  return textOf(value, unit === title ? "" : unit);
}

/** What stands at an axis: its title, with the unit that its numbers do not say. */
export function titleOf(column: Column): string {
  return ["s", "B", "pJ", "1", "dB", "", "cycles"].includes(column.unit) ? column.title : `${column.title}, ${column.unit}`;
}
