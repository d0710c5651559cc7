/** Windows from the server, which a worker fetches and prepares, so that frames do not wait for it. */

import { ApiError, apiUrl } from "../api";
import { keepStrips } from "./lanes";
import { keepLines } from "./memories";
import type { Look } from "./prepare";
import { type Tracks, Window } from "./window";
import type { Failed, Made, Wanted } from "./worker";

export class Loader {
  private readonly worker = new Worker(new URL("./worker.ts", import.meta.url), { type: "module" });

  constructor(private readonly path: string) {}

  /** Returns a window, of which the lanes are there as they look now; one at a time is asked for. */
  async load(query: { begin: number; end: number; bins: number }, tracks: Tracks, look: Look): Promise<Window> {
    const address = new URL(apiUrl(this.path, query), location.origin).href;
    const memories = tracks.memories.map(({ elements }) => elements);
    const made = await this.ask({ address, tracks: tracks.tracks.length, categories: tracks.categories.length, memories, look });
    const found = new Window(made.data, tracks.tracks.length, tracks.categories.length, made.sums);
    keepStrips(found, look, made.strips);
    keepLines(found, made.lines);
    return found;
  }

  private ask(wanted: Wanted): Promise<Made> {
    return new Promise((done, failed) => {
      this.worker.onmessage = ({ data }: MessageEvent<Made | Failed>): void => {
        if ("error" in data) {
          failed(data.status === 0 ? new Error(data.error) : new ApiError(data.error, data.status, [], data.retryAfter));
        } else {
          done(data);
        }
      };
      this.worker.onerror = (): void => failed(new Error("its script does not run"));
      this.worker.postMessage(wanted);
    });
  }
}
