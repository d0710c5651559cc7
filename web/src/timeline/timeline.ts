/** The timeline of a job: an area of lanes that zooms from the whole program to one instruction. */

import { json } from "../api";
import { count } from "../format";
import type { Mount } from "../islands";
import { type Colours, readColours } from "./colours";
import { type Controls, makeControls } from "./controls";
import { type Details, showDetails } from "./details";
import { follow } from "./gestures";
import { Lanes } from "./lanes";
import { Loader } from "./loader";
import { heightOf, LANE, laneAt, laneTop, MEMORY, memoryTop } from "./layout";
import { drawMemories, fillOn } from "./memories";
import { arrowsOf, drawGround, drawOverlay, type Scene } from "./overlay";
import { timelineSvg } from "./svg";
import { describe, measured } from "./texts";
import { type Look, lookAt } from "./prepare";
import { View } from "./view";
import type { Slice, Tracks, Window } from "./window";
import { Windows } from "./windows";

const TEXTS_AFTER = 80; // ms: text moves the page's layout, which a frame has no time for
const FAILED = "The timeline cannot be loaded: ";
const URL_AFTER = 250; // ms of rest: browsers refuse an address that changes too often, and load the icon anew for each

export const mountTimeline: Mount = async (home) => {
  const job = home.dataset["job"] ?? "";
  const path = `/v1/jobs/${job}/timeline`;
  const loader = new Loader(path); // its script comes while the tracks do
  const tracks = await json<Tracks>(`${path}/tracks`);
  new Timeline(home, job, path, tracks, loader).start();
};

const MOVED = "timeline-moved";

/** What a timeline tells the others of a page: the part that it shows, in cycles from where it is compared. */
interface Moved {
  from: Timeline;
  begin: number;
  end: number;
}

class Timeline {
  private readonly view: View;
  private readonly windows: Windows;
  private readonly lanes = new Lanes();
  private readonly controls: Controls;
  private readonly pen: CanvasRenderingContext2D;
  private colours: Colours;
  private details: Details | null = null;
  private pointer: number | null = null;
  private width = 0;
  private scheduled = false;
  private written = 0;
  private said = 0;
  /** The cycle from which it is compared with another timeline of the page; null: it is the only one, and in the address. */
  private readonly origin: number | null;

  constructor(
    private readonly home: HTMLElement,
    private readonly job: string,
    private readonly path: string,
    private readonly tracks: Tracks,
    loader: Loader,
  ) {
    this.view = new View(tracks.cycles);
    this.origin = home.dataset["begin"] === undefined ? null : Number(home.dataset["begin"]);
    this.windows = new Windows(loader, tracks, () => this.look(), (error) => this.onWindow(error));
    this.controls = makeControls(home, job, tracks, {
      zoom: (factor) => this.move(() => this.view.zoom(factor)),
      whole: () => this.move(() => this.view.show(0, tracks.cycles)),
      mark: (which) => this.mark(which),
      unmark: () => this.move(() => this.view.markers.fill(null)),
      search: (text) => void this.search(text),
      picture: () => this.picture(),
    });
    const pen = this.controls.canvas.getContext("2d", { alpha: false });
    if (pen === null) {
      throw new Error("this browser draws no canvas");
    }
    this.pen = pen;
    this.colours = this.readColours();
  }

  start(): void {
    const { canvas } = this.controls;
    this.restore();
    follow(canvas, {
      zoom: (factor, x) => this.move(() => this.view.zoom(factor, this.cycleAt(x))),
      pan: (pixels) => this.move(() => this.view.pan((pixels / this.width) * this.view.span)),
      hover: (x, y) => this.hover(x, y),
      click: (x, y, shift) => this.click(x, y, shift),
      key: (key) => this.onKey(key),
      atEnd: () => this.view.span >= this.tracks.cycles,
    });
    new ResizeObserver(() => this.resize()).observe(canvas);
    matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => {
      this.colours = this.readColours();
      this.draw();
    });
    if (this.origin === null) {
      addEventListener("popstate", () => {
        this.view.read(location.search);
        void this.select(this.view.selected, false);
      });
    } else {
      document.addEventListener(MOVED, (event) => this.followOther((event as CustomEvent<Moved>).detail));
    }
    this.resize();
    if (this.view.selected !== null) {
      void this.select(this.view.selected, !new URLSearchParams(location.search).has("begin"));
    }
  }

  /** Shows what the page's address says; or, one of several on a page, the cycles that its element names. */
  private restore(): void {
    const end = this.home.dataset["end"];
    if (this.origin === null || end === undefined) {
      this.view.read(location.search);
    } else {
      this.view.show(this.origin, Number(end));
    }
  }

  /** Shows the same part as another timeline of the page, each from where it begins. */
  private followOther({ from, begin, end }: Moved): void {
    if (from !== this && this.origin !== null) {
      this.view.show(this.origin + begin, this.origin + end);
      this.draw();
    }
  }

  private readColours(): Colours {
    return readColours(this.controls.canvas.parentElement ?? document.body, this.tracks.categories.map(({ kind }) => kind));
  }

  private look(): Look {
    return lookAt(this.controls.canvas.width / this.width, this.colours.pixels);
  }

  private cycleAt(x: number): number {
    return this.view.begin + (x / this.width) * this.view.span;
  }

  private resize(): void {
    const { canvas } = this.controls;
    const scale = devicePixelRatio || 1;
    this.width = Math.max(canvas.clientWidth, 1);
    canvas.width = Math.round(this.width * scale);
    canvas.dataset["lanes"] = this.tracks.tracks.map(({ unit }, track) => `${unit}:${laneTop(track)}:${LANE}`).join(" ");
    canvas.height = Math.round(heightOf(this.tracks) * scale);
    this.draw();
  }

  /** Changes what is shown, and draws it in the next frame. */
  private move(change: () => void): void {
    change();
    this.draw();
    if (this.origin !== null) {
      const detail: Moved = { from: this, begin: this.view.begin - this.origin, end: this.view.end - this.origin };
      document.dispatchEvent(new CustomEvent(MOVED, { detail }));
    } else {
      window.clearTimeout(this.written);
      this.written = window.setTimeout(() => {
        const query = this.view.write(location.search);
        history.replaceState(history.state, "", query === "" ? location.pathname : `?${query}`);
      }, URL_AFTER);
    }
  }

  private draw(): void {
    if (!this.scheduled) {
      this.scheduled = true;
      requestAnimationFrame(() => {
        this.scheduled = false;
        this.paint();
      });
    }
  }

  private paint(): void {
    const { canvas } = this.controls;
    const { pen, view, tracks, colours } = this;
    const scale = canvas.width / this.width;
    const shown = this.windows.best(view, canvas.width);
    pen.setTransform(1, 0, 0, 1, 0, 0);
    pen.fillStyle = colours.card;
    pen.fillRect(0, 0, canvas.width, canvas.height);
    const scene = this.scene(shown.fine);
    pen.setTransform(scale, 0, 0, scale, 0, 0);
    drawGround(pen, scene);
    const tops = tracks.tracks.map((_, track) => Math.round(laneTop(track) * scale));
    this.lanes.draw(pen, view, shown, tops, this.look());
    const full = drawMemories(pen, scene, shown, fillOn(pen));
    drawOverlay(pen, scene);
    if (!shown.enough) {
      this.windows.ask(view, canvas.width);
    }
    // what is drawn, for whoever reads the page and not its pixels
    canvas.dataset["window"] = `${view.begin} ${view.end}`;
    canvas.dataset["drawn"] = String(shown.fine?.records ?? 0);
    canvas.dataset["detail"] = shown.enough ? "fine" : "coarse";
    canvas.dataset["memories"] = tracks.memories.map(({ name }, memory) => `${name}:${memoryTop(tracks, memory)}:${MEMORY}:${full[memory]}`).join(" ");
    canvas.dataset["selected"] = this.details === null ? "" : String(this.details.record.index);
    canvas.dataset["arrows"] = arrowsOf(this.details, tracks).map(({ from, begin, to, end }) => `${from}:${begin}:${to}:${end}`).join(" ");
    if (this.said === 0) {
      this.said = window.setTimeout(() => {
        this.said = 0;
        this.controls.shown(view);
        this.controls.measure.textContent = measured(view, tracks);
      }, TEXTS_AFTER);
    }
  }

  private scene(window: Window | null): Scene {
    const { view, tracks, details, pointer, colours, width } = this;
    return { view, tracks, window, details, pointer, colours, width };
  }

  /** What is shown, as an SVG. */
  private picture(): string {
    const shown = this.windows.best(this.view, this.controls.canvas.width);
    return timelineSvg(this.scene(shown.fine), shown);
  }

  private onWindow(error: Error | null): void {
    const { status } = this.controls;
    if (error !== null) {
      status.textContent = `${FAILED}${error.message}`;
    } else if (status.textContent?.startsWith(FAILED) === true) {
      status.textContent = ""; // it is asked for again
    }
    this.draw();
  }

  /** The window that shows a cycle. */
  private windowAt(cycle: number): Window | null {
    const { fine } = this.windows.best(this.view, this.controls.canvas.width);
    return fine?.covers(cycle, cycle + 1) === true ? fine : null;
  }

  private hover(x: number | null, y: number): void {
    this.pointer = x === null ? null : this.cycleAt(x);
    if (x !== null) {
      const cycle = this.cycleAt(x);
      this.controls.status.textContent = describe(this.tracks, cycle, laneAt(y, this.tracks), this.windowAt(cycle));
    }
    this.draw();
  }

  private click(x: number, y: number, shift: boolean): void {
    if (shift) {
      const [m, n] = this.view.markers;
      this.move(() => {
        this.view.mark(m === null || n !== null ? 0 : 1, this.cycleAt(x));
        if (m !== null && n !== null) {
          this.view.mark(1, null);
        }
      });
      return;
    }
    const lane = laneAt(y, this.tracks);
    const cycle = this.cycleAt(x);
    if (lane === null) {
      return;
    }
    if (!("track" in lane)) {
      const layer = this.tracks.launches.find(({ begin, end }) => begin <= cycle && cycle < end);
      if (layer !== undefined) {
        this.move(() => this.view.show(layer.begin, layer.end));
      }
    } else {
      const slices: Slice[] = this.windowAt(cycle)?.at(lane.track, cycle) ?? [];
      const busiest = slices.toSorted((a, b) => Number(a.merged) - Number(b.merged) || b.cycles - a.cycles)[0];
      void this.select(busiest?.instruction ?? null, false);
    }
  }

  private onKey(key: string): boolean {
    const { view } = this;
    const moves: Record<string, () => void> = {
      "+": () => view.zoom(0.5),
      "=": () => view.zoom(0.5),
      "-": () => view.zoom(2),
      ArrowUp: () => view.zoom(0.5),
      ArrowDown: () => view.zoom(2),
      ArrowLeft: () => view.pan(-view.span / 8),
      ArrowRight: () => view.pan(view.span / 8),
      PageUp: () => view.pan(-view.span),
      PageDown: () => view.pan(view.span),
      Home: () => view.show(0, this.tracks.cycles),
      End: () => view.pan(this.tracks.cycles),
      Escape: () => view.markers.fill(null),
    };
    const acts: Record<string, () => void> = {
      m: () => this.mark(0),
      n: () => this.mark(1),
      f: () => this.details !== null && this.move(() => this.fit()),
      "[": () => void this.select(this.details?.previous ?? this.details?.record.index ?? 0, true),
      "]": () => void this.select(this.details?.next ?? this.details?.record.index ?? 0, true),
      "/": () => this.controls.search.focus(),
    };
    const move = moves[key];
    if (move !== undefined) {
      this.move(move);
      if (key === "Escape") {
        void this.select(null, false);
      }
    } else if (acts[key] !== undefined) {
      acts[key]();
    }
    return move !== undefined || acts[key] !== undefined;
  }

  private fit(): void {
    if (this.details !== null) {
      const { start, end } = this.details.record;
      const margin = (end - start) / 4;
      this.view.show(start - margin, end + margin);
    }
  }

  /** Puts a marker under the pointer, or else where the selection starts or ends, or in the middle. */
  private mark(which: 0 | 1): void {
    const record = this.details?.record;
    const chosen = which === 0 ? record?.start : record?.end;
    this.move(() => this.view.mark(which, this.pointer ?? chosen ?? this.view.begin + this.view.span / 2));
  }

  private async search(text: string): Promise<void> {
    const { status } = this.controls;
    try {
      const begin = this.details === null ? 0 : this.details.record.index + 1;
      const plain = /^\d+$/.test(text) ? Number(text) : null;
      const found = plain ?? (await json<{ instruction: number | null }>(`${this.path}/search`, { text, begin })).instruction;
      if (found === null) {
        status.textContent = `No operation, layer or node has “${text}” in its name.`;
      } else {
        await this.select(found, true);
      }
    } catch (error) {
      status.textContent = error instanceof Error ? error.message : String(error);
    }
  }

  /** Selects an instruction, and brings it into view where that is asked for. */
  private async select(instruction: number | null, reveal: boolean): Promise<void> {
    const { details: panel, status } = this.controls;
    if (instruction === null) {
      this.details = null;
      panel.hidden = true;
      this.move(() => (this.view.selected = null));
      return;
    }
    try {
      const found = await json<Details>(`${this.path}/instructions/${instruction}`);
      this.details = found;
      const { record } = found;
      showDetails(panel, found, this.tracks, this.job, (other) => void this.select(other, true));
      status.textContent = `Selected: ${record.op} on ${record.unit}, instruction ${count(record.index)}, cycles ${count(record.start)} to ${count(record.end)}.`;
      this.move(() => {
        this.view.selected = instruction;
        if (reveal) {
          this.view.reveal(record.start, record.end);
        }
      });
    } catch (error) {
      status.textContent = error instanceof Error ? error.message : String(error);
    }
  }
}
