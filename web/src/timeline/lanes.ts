/**
 * The lanes of the units as pixels. A column of a lane is a bin: its height is cut by the shares of the categories, so
 * that an area is cycles at every zoom, and a bin of one category has one colour.
 */

import type { View } from "./view";
import type { Window } from "./window";

/** The rows of one lane of a window: `height` times `bins` pixels, made once for each window and height. */
type Strips = Uint32Array[];

const made = new WeakMap<Window, { height: number; pixels: Uint32Array; strips: Strips }>();

function strips(window: Window, height: number, pixels: Uint32Array): Strips {
  const known = made.get(window);
  if (known?.height === height && known.pixels === pixels) {
    return known.strips;
  }
  const idle = pixels[window.categories] ?? 0;
  const found = Array.from({ length: window.tracks }, (_, track) => {
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
  made.set(window, { height, pixels, strips: found });
  return found;
}

/** The bin that each column from `from` to `to` shows. */
function binsOf(window: Window, view: View, width: number, from: number, to: number): Int32Array {
  const found = new Int32Array(width);
  for (let x = from; x < to; x++) {
    found[x] = window.bin(view.begin + ((x + 0.5) * view.span) / width);
  }
  return found;
}

export class Lanes {
  private image: ImageData | null = null;

  /** Draws every track's lane; `tops` are their first rows, all in pixels of the canvas. */
  draw(
    context: CanvasRenderingContext2D,
    view: View,
    shown: { fine: Window | null; coarse: Window | null },
    tops: number[],
    height: number,
    pixels: Uint32Array,
  ): void {
    const width = context.canvas.width;
    if (this.image?.width !== width || this.image.height !== height) {
      this.image = context.createImageData(width, height);
    }
    const image = this.image;
    const out = new Uint32Array(image.data.buffer);
    const idle = pixels[pixels.length - 1] ?? 0;
    const parts: { window: Window; from: number; to: number; strips: Strips; bins: Int32Array }[] = [];
    for (const window of [shown.coarse, shown.fine]) {
      if (window !== null) {
        const at = (cycle: number): number => ((cycle - view.begin) / view.span) * width;
        const from = Math.min(Math.max(Math.ceil(at(window.begin) - 0.5), 0), width);
        const to = Math.min(Math.max(Math.ceil(at(window.end) - 0.5), 0), width);
        parts.push({ window, from, to, strips: strips(window, height, pixels), bins: binsOf(window, view, width, from, to) });
      }
    }
    if (parts.length === 2 && parts[1]?.from === 0 && parts[1].to === width) {
      parts.shift(); // the fine one covers all
    }
    tops.forEach((top, track) => {
      out.fill(idle);
      for (const { window, from, to, strips, bins } of parts) {
        const lane = strips[track];
        if (lane === undefined || to <= from) {
          continue;
        }
        for (let row = 0; row < height; row++) {
          const target = row * width;
          const source = row * window.bins;
          for (let x = from; x < to; x++) {
            out[target + x] = lane[source + (bins[x] ?? 0)] ?? 0;
          }
        }
      }
      context.putImageData(image, 0, top);
    });
  }
}
