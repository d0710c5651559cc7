/** What boxes are coloured by. */

import { count, percent } from "../format";
import type { Box, Cost } from "./document";

export interface Measure {
  name: string;
  /** What the deepest colour stands for. */
  most: string;
  /** The number of a box; null: it has none. */
  of(cost: Cost): number | null;
  text(value: number): string;
  /** Whether a small number is what one looks for. */
  inverse?: boolean;
}

const distance = ({ cycles, lower_bound }: Cost): number | null =>
  cycles === null || lower_bound === null || lower_bound === 0 ? null : cycles / lower_bound;

export const MEASURES: Record<string, Measure> = {
  cycles: { name: "cycles", most: "most cycles", of: (cost) => cost.cycles, text: (value) => `${count(value)} cycles` },
  bytes: { name: "bytes over the bus", most: "most bytes", of: (cost) => cost.bytes_read + cost.bytes_written, text: bytes },
  distance: { name: "distance to the bound", most: "farthest from its bound", of: distance, text: (value) => `${value.toFixed(2)} × bound` },
  utilisation: { name: "utilisation", most: "best utilised", of: (cost) => cost.utilisation, text: (value) => percent(value) },
};
export const WHERE = "where";
export const STEPS = 8;

/** Bytes with a binary unit. */
export function bytes(value: number): string {
  let scaled = value;
  for (const unit of ["B", "KiB", "MiB"]) {
    if (scaled < 1024) {
      return unit === "B" ? `${scaled} B` : `${scaled.toFixed(1)} ${unit}`;
    }
    scaled /= 1024;
  }
  return `${scaled.toFixed(1)} GiB`;
}

/** The class of each box's colour. */
export function colours(boxes: Box[], by: string): string[] {
  const measure = MEASURES[by];
  const values = boxes.map(({ cost }) => (cost === null || measure === undefined ? null : measure.of(cost)));
  const most = Math.max(0, ...values.filter((value) => value !== null));
  return boxes.map(({ kind }, number) => {
    const value = values[number] ?? null;
    if (kind !== "launch") {
      return `graph-${kind}`;
    }
    if (measure === undefined) {
      return "graph-launch";
    }
    return `graph-heat-${value === null || most === 0 ? 0 : Math.round((value / most) * STEPS)}`;
  });
}

/** A box's second line. */
export function lineOf(box: Box, by: string): string {
  const measure = MEASURES[by] ?? MEASURES["cycles"];
  const value = box.cost === null || measure === undefined ? null : measure.of(box.cost);
  const what = box.op ?? box.kind;
  return value === null || measure === undefined ? (box.kind === "host" ? `${what} · host` : what) : `${what} · ${measure.text(value)}`;
}
