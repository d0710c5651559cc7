/** What frames draw of a window, made once: the pixels of its lanes and the lines of its memories. It needs no page. */

import { LANE, MEMORY } from "./layout";
import type { Window } from "./window";

/** The rows of one lane of a window: `height` times `bins` pixels. */
export type Strips = Uint32Array<ArrayBuffer>[];

/** How lanes look: their height in pixels of the canvas, and the colours of the categories, of idle cycles last. */
export interface Look {
  height: number;
  pixels: Uint32Array;
}

export function lookAt(scale: number, pixels: Uint32Array): Look {
  return { height: Math.round(LANE * scale), pixels };
}

/** Each track's lane: a column is a bin, whose height is cut by the shares of the categories. */
export function stripsOf(window: Window, { height, pixels }: Look): Strips {
  const idle = pixels[window.categories] ?? 0;
  return Array.from({ length: window.tracks }, (_, track) => {
    const lane = new Uint32Array(height * window.bins).fill(idle);
    for (let bin = 0; bin < window.bins; bin++) {
      const cell = window.cell(track, bin);
      const scale = height / (window.edge(bin + 1) - window.edge(bin));
      let sum = 0;
      let row = height;
      for (let category = 0; category < window.categories; category++) {
        const cycles = window.cycles[cell + category] ?? 0;
        if (cycles > 0) {
          sum += cycles;
          const top = height - Math.round(sum * scale);
          for (; row > top; row--) {
            lane[(row - 1) * window.bins + bin] = pixels[category] ?? 0;
          }
        }
      }
    }
    return lane;
  });
}

/** How full a memory of so many elements is, as an SVG's path: right from the window's begin in cycles, up in pixels. */
export function memoryLine(window: Window, memory: number, elements: number): string {
  let line = "M0 0";
  for (let bin = 0; bin < window.bins; ) {
    const full = window.held(memory, bin);
    const begin = bin;
    while (bin < window.bins && window.held(memory, bin) === full) {
      bin++; // bins that are alike are one step
    }
    // what is in use at all can be seen
    const high = full === 0 ? 0 : Math.max((full / elements) * MEMORY, 1);
    line += `L${window.edge(begin)} ${-high}H${window.edge(bin)}`;
  }
  return `${line}L${window.span} 0z`;
}
