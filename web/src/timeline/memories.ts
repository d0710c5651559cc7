/** The lanes of the memories: how full each one is, as a step a bin, up to its whole height. */

import { percent, size } from "../format";
import { LABEL, MEMORY, memoryTop } from "./layout";
import type { Pen, Scene } from "./overlay";
import type { Window } from "./window";

/** Of each memory what a window shows. */
const made = new WeakMap<Window, Shape[]>();

/** What is filled, as an SVG's path writes it and as a canvas has it. */
export interface Shape {
  line: string;
  path: Path2D;
}

/** Fills a shape from a place on, with so many pixels for each of its units to the right. */
export type Fill = (shape: Shape, x: number, y: number, scale: number) => void;

export function fillOn(pen: CanvasRenderingContext2D): Fill {
  return ({ path }, x, y, scale) => {
    pen.save();
    pen.translate(x, y);
    pen.scale(scale, 1);
    pen.fill(path);
    pen.restore();
  };
}

/** Keeps the lines of a window's memories that are made already. */
export function keepLines(window: Window, lines: string[]): void {
  const shapes = lines.map((line) => ({ line, path: new Path2D(line) }));
  made.set(window, shapes);
}

/** Draws every memory's lane and label. Returns the most elements of each that are full in what is drawn. */
export function drawMemories(pen: Pen, scene: Scene, shown: { fine: Window | null; coarse: Window | null }, fill: Fill): number[] {
  const { view, tracks, colours, width } = scene;
  const { fine, coarse } = shown;
  const windows = (fine?.covers(view.begin, view.end) === true ? [fine] : [coarse, fine]).filter((window) => window !== null);
  const scale = width / view.span;
  return tracks.memories.map((memory, number) => {
    const top = memoryTop(tracks, number);
    pen.fillStyle = colours.raised;
    pen.fillRect(0, top, width, MEMORY);
    let most = 0;
    for (const window of windows) {
      const left = (window.begin - view.begin) * scale;
      pen.fillStyle = colours.raised;
      pen.fillRect(left, top, window.span * scale, MEMORY);
      pen.fillStyle = colours.accel;
      const shape = made.get(window)?.[number];
      if (shape !== undefined) {
        fill(shape, left, top + MEMORY, scale);
      }
      most = Math.max(most, mostIn(window, number, view.begin, view.end));
    }
    const bytes = memory.elements * memory.element_bytes;
    pen.fillStyle = colours.quiet;
    pen.fillText(`${memory.name}, ${size(bytes)}: at most ${percent(most / memory.elements)} in use here`, 2, top - LABEL / 2);
    return most;
  });
}

/** The most elements that are full in the part of a window that is in view. */
function mostIn(window: Window, memory: number, begin: number, end: number): number {
  let most = 0;
  if (begin < window.end && window.begin < end) {
    const last = window.bin(Math.ceil(end) - 1);
    for (let bin = window.bin(begin); bin <= last; bin++) {
      most = Math.max(most, window.held(memory, bin));
    }
  }
  return most;
}
