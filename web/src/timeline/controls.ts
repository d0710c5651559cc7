/** What stands around the picture: buttons, search, legend, the lines of text, the selected instruction. */

import { apiUrl } from "../api";
import { button, element } from "../dom";
import { pictureButtons } from "../picture";
import { opensViewer } from "../perfetto";
import { count, cycles, percent, time } from "../format";
import { categoryClass } from "./colours";
import { heightOf } from "./layout";
import type { View } from "./view";
import type { Tracks } from "./window";

export interface Actions {
  zoom(factor: number): void;
  whole(): void;
  mark(which: 0 | 1): void;
  unmark(): void;
  search(text: string): void;
  /** The picture as the text of an SVG. */
  picture(): string;
}

export interface Controls {
  canvas: HTMLCanvasElement;
  search: HTMLInputElement;
  status: HTMLElement;
  measure: HTMLElement;
  details: HTMLElement;
  /** Says which cycles are shown. */
  shown(view: View): void;
}

/** The most events that the API puts into a Perfetto document. */
const MOST_EVENTS = 500_000;

const KEYS =
  "+ and - or up and down zoom; left and right pan, Page Up and Page Down by a whole view; Home shows everything, " +
  "End the end; [ and ] select the instruction before and after on the unit, f fits it; m and n put markers; / searches; " +
  "Escape takes selection and markers away.";

export function makeControls(home: HTMLElement, job: string, tracks: Tracks, actions: Actions): Controls {
  const search = element("input", { type: "search", maxlength: 200, placeholder: "operation, layer, node or number", "aria-label": "Search an instruction by operation, layer, node or number" });
  const form = element("form", { role: "search", class: "timeline-search" }, search, element("button", { type: "submit" }, "Next"));
  form.addEventListener("submit", (event) => {
    event.preventDefault();
    if (search.value.trim() !== "") {
      actions.search(search.value.trim());
    }
  });
  const keys = element("details", { class: "timeline-keys" }, element("summary", {}, "Keys"), element("p", { id: "timeline-keys" }, KEYS));
  const canvas = element("canvas", {
    role: "application",
    tabindex: 0,
    class: "timeline-canvas",
    "aria-label": `Timeline of ${[...tracks.tracks.map(({ unit }) => unit), ...tracks.memories.map(({ name }) => `memory ${name}`)].join(", ")}: ${cycles(tracks.cycles)}`,
    "aria-describedby": "timeline-keys",
  });
  canvas.style.height = `${heightOf(tracks)}px`;
  const status = element("p", { role: "status", class: "timeline-status" });
  const measure = element("p", { class: "timeline-measure" });
  const window = element("span");
  const details = element("section", { class: "timeline-details", "aria-label": "Selected instruction", hidden: true });
  const viewer = home.dataset["viewer"] !== undefined;
  const perfetto = element("a", { download: `${job.slice(0, 12)}.perfetto.json` }, `this view ${viewer ? "in" : "for"} Perfetto`);
  if (viewer) {
    for (const link of [perfetto, ...document.querySelectorAll<HTMLAnchorElement>("a[data-perfetto]")]) {
      opensViewer(link, (text) => (status.textContent = text));
    }
  }
  const bar = element(
    "div",
    { class: "timeline-bar" },
    element(
      "div",
      { role: "group", "aria-label": "Zoom and measure", class: "timeline-buttons" },
      button("+", () => actions.zoom(0.5), "Zoom in"),
      button("−", () => actions.zoom(2), "Zoom out"),
      button("All", actions.whole, "Show everything"),
      button("Mark m", () => actions.mark(0), "Mark m: put the first marker"),
      button("Mark n", () => actions.mark(1), "Mark n: put the second marker"),
      button("No marks", actions.unmark, "No marks: take both away"),
    ),
    pictureButtons(actions.picture, `${job.slice(0, 12)}-timeline`),
    form,
  );
  const line = element("p", { class: "timeline-window quiet" }, window, "; ", perfetto);
  home.replaceChildren(bar, line, canvas, status, measure, legend(tracks), details, keys);
  const shown = (view: View): void => {
    const length = view.end - view.begin;
    window.textContent = `Cycles ${count(view.begin)} to ${count(view.end)} of ${count(tracks.cycles)}: ${time(length, tracks.clock_mhz)}, ${percent(length / Math.max(tracks.cycles, 1))}`;
    const part = { begin: Math.floor(view.begin), end: Math.max(Math.ceil(view.end), 1) };
    perfetto.href = apiUrl(`/v1/jobs/${job}/trace`, { format: "perfetto", events: MOST_EVENTS, ...part });
  };
  return { canvas, search, status, measure, details, shown };
}

/** What kinds of cycles are called, here as on the page of the job. */
const SAID: Record<string, string> = {
  busy: "busy",
  memory: "waits for memory",
  token: "waits for another unit",
  fetch: "waits for an instruction",
};

/** Each kind of category in its colour; those that no unit has a cycle of are left out. */
function legend(tracks: Tracks): HTMLElement {
  const occurs = (name: string): boolean => tracks.tracks.some((track) => (track.cycles[name] ?? 0) > 0);
  const found = tracks.categories.filter(({ name }) => occurs(name));
  const entries = Object.entries(Object.groupBy(found, ({ kind }) => kind)).map(([kind, members]) =>
    entry(categoryClass(kind), SAID[kind] ?? `waits for another cause: ${(members ?? []).map(({ name }) => name).join(", ")}`),
  );
  entries.push(entry("idle", "idle"));
  if (tracks.hosts.length > 0) {
    entries.push(entry("host", "host step"));
  }
  if (tracks.memories.length > 0) {
    entries.push(entry("accel", "memory in use"));
  }
  return element("ul", { class: "legend", "aria-label": "Colours" }, ...entries);
}

function entry(colour: string, text: string): HTMLElement {
  return element("li", {}, element("span", { class: `key ${colour}` }), text);
}
