/** The lanes of the memories: how full each one is, as a step a bin, up to its whole height. */

import { percent, size } from "../format";
import { LABEL, MEMORY, memoryTop } from "./layout";
import type { Scene } from "./overlay";
import type { Tracks, Window } from "./window";

/** Of each memory what a window shows: right from the window's begin in cycles, up in pixels. */
const made = new WeakMap<Window, Path2D[]>();

function steps(window: Window, tracks: Tracks): Path2D[] {
  const known = made.get(window);
  if (known !== undefined) {
    return known;
  }
  const found = tracks.memories.map(({ elements }, memory) => {
    const path = new Path2D();
    path.moveTo(0, 0);
    for (let bin = 0; bin < window.bins; ) {
      const full = window.held(memory, bin);
      const begin = bin;
      while (bin < window.bins && window.held(memory, bin) === full) {
        bin++; // bins that are alike are one step
      }
      // what is in use at all can be seen
      const high = full === 0 ? 0 : Math.max((full / elements) * MEMORY, 1);
      path.lineTo(window.edge(begin), -high);
      path.lineTo(window.edge(bin), -high);
    }
    path.lineTo(window.span, 0);
    return path;
  });
  made.set(window, found);
  return found;
}

/** Draws every memory's lane and label. Returns the most elements of each that are full in what is drawn. */
export function drawMemories(pen: CanvasRenderingContext2D, scene: Scene, shown: { fine: Window | null; coarse: Window | null }): number[] {
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
      pen.save();
      pen.translate(left, top + MEMORY);
      pen.scale(scale, 1);
      pen.fillStyle = colours.accel;
      pen.fill(steps(window, tracks)[number] ?? new Path2D());
      pen.restore();
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
