/** The windows that the server has sent: the last few, the whole timeline always, and the one that a view needs next. */

import { ApiError } from "../api";
import type { Loader } from "./loader";
import type { Look } from "./prepare";
import type { View } from "./view";
import type { Tracks, Window } from "./window";

const KEPT = 12;
/** The most bins that the server cuts a window into. */
const MOST_BINS = 8192;
/** The most cycles of a window. */
const MOST_CYCLES = 2 ** 32 - 1;
/** How much wider than the view a window is, so that a little panning needs no other one. */
const WIDER = 2;
const OVERVIEW_BINS = 2048;
/** Time from one request to the next, and after one that failed for now: ms. */
const APART = 40;
const RETRY = 2000;

export class Windows {
  private kept: Window[] = [];
  private overview: Window | null = null;
  private loading = false;

  constructor(
    private readonly loader: Loader,
    private readonly tracks: Tracks,
    private readonly look: () => Look,
    private readonly arrived: (error: Error | null) => void,
  ) {}

  /** The window to draw a view with, and one to draw where that one has nothing. */
  best(view: View, width: number): { fine: Window | null; coarse: Window | null; enough: boolean } {
    const wanted = view.span / width;
    let fine: Window | null = null;
    for (const one of this.kept) {
      // more bins than pixels would show every other one
      const fits = one.covers(view.begin, view.end) && one.step >= Math.min(wanted / 2, 1);
      if (fits && (fine === null || one.step < fine.step)) {
        fine = one;
      }
    }
    fine ??= this.overview;
    const enough = fine?.covers(view.begin, view.end) === true && fine.step <= Math.max(wanted * 1.01, 1);
    return { fine, coarse: this.overview, enough };
  }

  /** Asks for the window of a view, unless another one is still on its way. */
  ask(view: View, width: number): void {
    if (this.loading || this.tracks.cycles === 0) {
      return;
    }
    if (this.overview === null) {
      void this.load(0, this.tracks.cycles, Math.max(OVERVIEW_BINS, width));
      return;
    }
    const margin = (view.span * (WIDER - 1)) / 2;
    const begin = Math.max(Math.floor(view.begin - margin), 0);
    const end = Math.min(Math.ceil(view.end + margin), this.tracks.cycles);
    void this.load(begin, end, Math.ceil((width * (end - begin)) / view.span));
  }

  private async load(begin: number, end: number, bins: number): Promise<void> {
    this.loading = true;
    const began = performance.now();
    let pause = APART;
    try {
      const query = { begin, end: Math.min(end, begin + MOST_CYCLES), bins: Math.min(bins, MOST_BINS) };
      const found = await this.loader.load(query, this.tracks, this.look());
      this.overview ??= found;
      this.kept = [found, ...this.kept].slice(0, KEPT);
      this.arrived(null);
    } catch (error) {
      this.arrived(error instanceof Error ? error : new Error(String(error)));
      if (error instanceof ApiError && !error.passes) {
        return; // asking again would not help
      }
      pause = RETRY;
    }
    setTimeout(
      () => {
        this.loading = false;
        this.arrived(null);
      },
      Math.max(began + pause - performance.now(), 0),
    );
  }
}
