/**
 * The lanes of the units as pixels. A column of a lane is a bin: its height is cut by the shares of the categories, so
 * that an area is cycles at every zoom, and a bin of one category has one colour.
 */

import { type Look, type Strips, stripsOf } from "./prepare";
import type { View } from "./view";
import type { Window } from "./window";

const made = new WeakMap<Window, { look: Look; strips: Strips }>();

/** Keeps the lanes of a window that are made already. */
export function keepStrips(window: Window, look: Look, strips: Strips): void {
  made.set(window, { look, strips });
}

function strips(window: Window, look: Look): Strips {
  const known = made.get(window);
  if (known?.look.height === look.height && known.look.pixels === look.pixels) {
    return known.strips;
  }
  const found = stripsOf(window, look);
  keepStrips(window, look, found);
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
    look: Look,
  ): void {
    const { height, pixels } = look;
    const width = context.canvas.width;
    if (this.image?.width !== width || this.image.height !== height) {
      this.image = context.createImageData(width, height);
    }
    const image = this.image;
    const out = new Uint32Array(image.data.buffer);
    const idle = pixels[pixels.length - 1] ?? 0;
    const parts: { window: Window; from: number; to: number; strips: Strips; bins: Int32Array }[] = [];
    const { coarse, fine } = shown;
    for (const window of fine?.covers(view.begin, view.end) === true ? [fine] : [coarse, fine]) {
      if (window !== null) {
        const at = (cycle: number): number => ((cycle - view.begin) / view.span) * width;
        const from = Math.min(Math.max(Math.ceil(at(window.begin) - 0.5), 0), width);
        const to = Math.min(Math.max(Math.ceil(at(window.end) - 0.5), 0), width);
        parts.push({ window, from, to, strips: strips(window, look), bins: binsOf(window, view, width, from, to) });
      }
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
