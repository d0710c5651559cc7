/** The lanes of the memories: how full each one is, as a step a bin, up to its whole height. */

import { percent, size } from "../format";
import { LABEL, MEMORY, memoryTop } from "./layout";
import type { Scene } from "./overlay";
import type { Window } from "./window";

/** Draws every memory's lane and label. Returns the most elements of each that are full in what is drawn. */
export function drawMemories(pen: CanvasRenderingContext2D, scene: Scene, shown: { fine: Window | null; coarse: Window | null }): number[] {
  const { view, tracks, colours, width } = scene;
  const { fine, coarse } = shown;
  const parts = (fine?.covers(view.begin, view.end) === true ? [fine] : [coarse, fine]).filter((window) => window !== null);
  return tracks.memories.map((memory, number) => {
    const top = memoryTop(tracks, number);
    pen.fillStyle = colours.raised;
    pen.fillRect(0, top, width, MEMORY);
    let most = 0;
    for (const window of parts) {
      const from = Math.max(window.begin, view.begin);
      const to = Math.min(window.end, view.end);
      const x = (cycle: number): number => ((Math.min(Math.max(cycle, from), to) - view.begin) / view.span) * width;
      if (from < to) {
        pen.fillStyle = colours.raised;
        pen.fillRect(x(from), top, x(to) - x(from), MEMORY);
        pen.fillStyle = colours.accel;
        most = Math.max(most, drawSteps(pen, window, number, memory.elements, top + MEMORY, x, from, to));
      }
    }
    const bytes = memory.elements * memory.element_bytes;
    pen.fillStyle = colours.quiet;
    pen.fillText(`${memory.name}, ${size(bytes)}: at most ${percent(most / memory.elements)} in use here`, 2, top - LABEL / 2);
    return most;
  });
}

/** Fills what is in use from one cycle to another, in one path; bins that are alike are one step. */
function drawSteps(pen: CanvasRenderingContext2D, window: Window, memory: number, elements: number, bottom: number, x: (cycle: number) => number, from: number, to: number): number {
  const last = window.bin(Math.ceil(to) - 1);
  let bin = window.bin(from);
  let most = 0;
  pen.beginPath();
  pen.moveTo(x(from), bottom);
  while (bin <= last) {
    const full = window.held(memory, bin);
    const begin = bin;
    while (bin <= last && window.held(memory, bin) === full) {
      bin++;
    }
    // what is in use at all can be seen
    const high = full === 0 ? 0 : Math.max((full / elements) * MEMORY, 1);
    pen.lineTo(x(window.begin + window.edge(begin)), bottom - high);
    pen.lineTo(x(window.begin + window.edge(bin)), bottom - high);
    most = Math.max(most, full);
  }
  pen.lineTo(x(to), bottom);
  pen.fill();
  return most;
}
