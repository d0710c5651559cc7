/** Fetches windows of the timeline, and makes of them what frames draw, beside the page's own thread. */

import { answered, ApiError } from "../api";
import { type Look, memoryLine, type Strips, stripsOf } from "./prepare";
import { Window } from "./window";

/** A window that is asked for; `address` is all of it, `memories` their sizes in elements. */
export interface Wanted {
  address: string;
  tracks: number;
  categories: number;
  memories: number[];
  look: Look;
}

/** A window's data, the sums of its bins, and what is drawn of it. */
export interface Made {
  data: ArrayBuffer;
  sums: Uint32Array<ArrayBuffer>;
  strips: Strips;
  lines: string[];
}

/** Why there is none; `status` is the answer's, 0 where there was no answer. */
export interface Failed {
  error: string;
  status: number;
  retryAfter: number | null;
}

async function make({ address, tracks, categories, memories, look }: Wanted): Promise<Made> {
  const data = await (await answered(fetch(address))).arrayBuffer();
  const window = new Window(data, tracks, categories);
  const lines = memories.map((elements, memory) => memoryLine(window, memory, elements));
  return { data, sums: window.cycles, strips: stripsOf(window, look), lines };
}

addEventListener("message", (event: MessageEvent<Wanted>) => {
  make(event.data).then(
    (made) => postMessage(made, { transfer: [made.data, made.sums.buffer, ...made.strips.map(({ buffer }) => buffer)] }),
    (error: unknown) => {
      const { status, retryAfter } = error instanceof ApiError ? error : { status: 0, retryAfter: null };
      postMessage({ error: error instanceof Error ? error.message : String(error), status, retryAfter } satisfies Failed);
    },
  );
});
