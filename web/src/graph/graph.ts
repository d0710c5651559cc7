/** The graph of a job's model: boxes by what they cost, one of which is selected. */

import { json } from "../api";
import { button, element } from "../dom";
import type { Mount } from "../islands";
import { pictureButtons, standalone } from "../picture";
import { detailsOf } from "./details";
import type { Graph } from "./document";
import { draw, shortName } from "./drawing";
import { colours, lineOf, MEASURES, STEPS, WHERE } from "./measures";
import { place } from "./placing";

const ZOOMS = [0.25, 0.35, 0.5, 0.7, 1, 1.4, 2];
const PLAIN = ZOOMS.indexOf(1);

export const mountGraph: Mount = async (home) => {
  const job = home.dataset["job"] ?? "";
  new GraphView(home, job, await json<Graph>(`/v1/jobs/${job}/graph`)).start();
};

class GraphView {
  private readonly details = element("section", { class: "graph-details", "aria-label": "Selected box", "aria-live": "polite" });
  private readonly frame = element("div", { class: "graph-frame scroll", tabindex: 0, role: "region", "aria-label": "Graph" });
  private readonly legend = element("ul", { class: "legend" });
  private readonly by = element("select", { id: "graph-by" });
  private boxes: SVGGElement[] = [];
  private svg: SVGSVGElement | null = null;
  private zoom = PLAIN;
  private selected: number | null = null;

  constructor(
    private readonly home: HTMLElement,
    private readonly job: string,
    private readonly graph: Graph,
  ) {}

  start(): void {
    const timed = this.graph.boxes.some(({ cost }) => cost !== null && cost.cycles !== null);
    for (const [key, { name }] of Object.entries(MEASURES)) {
      if (timed || (key !== "cycles" && key !== "distance")) {
        this.by.append(element("option", { value: key }, name));
      }
    }
    this.by.append(element("option", { value: WHERE }, "where it runs"));
    const query = new URLSearchParams(location.search);
    const wanted = query.get("by");
    if ([...this.by.options].some(({ value }) => value === wanted)) {
      this.by.value = wanted ?? "";
    }
    this.by.addEventListener("change", () => {
      this.paint();
      this.write();
    });
    const bar = element(
      "div",
      { class: "graph-bar" },
      element("span", {}, element("label", { for: "graph-by" }, "Colour by "), this.by),
      element("span", { role: "group", "aria-label": "Zoom", class: "graph-buttons" }, button("+", () => this.scale(1), "Zoom in"), button("−", () => this.scale(-1), "Zoom out"), button("All", () => this.fit(), "Show everything"), button("1:1", () => this.scaleTo(PLAIN), "As large as text")),
      pictureButtons(() => (this.svg === null ? null : standalone(this.svg)), `${this.job.slice(0, 12)}-graph`),
    );
    this.home.replaceChildren(bar, this.legend, element("div", { class: "graph-panes" }, this.frame, this.details), element("p", { class: "hint" }, "Arrow keys go from box to box along the edges; Enter selects one."));
    this.frame.addEventListener("click", (event) => this.pick(event.target));
    this.frame.addEventListener("keydown", (event) => this.onKey(event));
    this.paint();
    const box = Number(query.get("box") ?? "x");
    if (Number.isInteger(box) && box >= 0 && box < this.graph.boxes.length) {
      this.select(box);
    } else {
      this.tell();
    }
  }

  /** Lays out and draws: the lines of text, and so the widths, are those of what it is coloured by. */
  private paint(): void {
    const by = this.by.value;
    const lines = this.graph.boxes.map((box): [string, string] => [shortName(box.name), lineOf(box, by)]);
    const { svg, boxes } = draw(this.graph, place(this.graph, lines, this.measuring()));
    this.svg = svg;
    this.boxes = boxes;
    colours(this.graph.boxes, by).forEach((colour, number) => boxes[number]?.classList.add(colour));
    this.frame.replaceChildren(svg);
    this.scaleTo(this.zoom);
    this.showLegend(by);
    this.mark();
  }

  /** Returns what measures the lines of a box, whose sizes are those of graph.css. */
  private measuring(): (lines: [string, string]) => number {
    const pen = document.createElement("canvas").getContext("2d");
    const family = getComputedStyle(this.home).fontFamily;
    const widthOf = (text: string, font: string): number => {
      if (pen === null) {
        return 7 * text.length;
      }
      pen.font = `${font} ${family}`;
      return pen.measureText(text).width;
    };
    return ([first, second]) => Math.max(widthOf(first, "600 12px"), widthOf(second, "11px"));
  }

  private showLegend(by: string): void {
    const measure = MEASURES[by];
    const entries: [string, string][] = measure === undefined ? [["graph-launch", "on the accelerator"]] : [["graph-heat-0", "none"], [`graph-heat-${STEPS / 2}`, "half as much"], [`graph-heat-${STEPS}`, measure.most]];
    entries.push(["graph-host", "on the host"]);
    if (this.graph.boxes.some(({ kind }) => kind === "folded")) {
      entries.push(["graph-folded", "nowhere by itself"]);
    }
    this.legend.replaceChildren(...entries.map(([colour, text]) => element("li", {}, element("span", { class: `key ${colour}` }), text)), element("li", {}, "thicker edges carry more bytes"));
  }

  private scale(step: number): void {
    this.scaleTo(Math.min(Math.max(this.zoom + step, 0), ZOOMS.length - 1));
  }

  private scaleTo(zoom: number): void {
    const { svg } = this;
    if (svg === null) {
      return;
    }
    this.zoom = zoom;
    const [, , width, height] = (svg.getAttribute("viewBox") ?? "").split(" ").map(Number);
    const factor = ZOOMS[zoom] ?? 1;
    svg.setAttribute("width", String((width ?? 0) * factor));
    svg.setAttribute("height", String((height ?? 0) * factor));
    this.reveal();
  }

  /** The largest scale at which everything is in sight. */
  private fit(): void {
    const [, , width, height] = (this.svg?.getAttribute("viewBox") ?? "").split(" ").map(Number);
    const room = Math.min(this.frame.clientWidth / (width ?? 1), this.frame.clientHeight / (height ?? 1));
    this.scaleTo(Math.max(ZOOMS.findLastIndex((factor) => factor <= room), 0));
  }

  private pick(target: EventTarget | null): void {
    const found = target instanceof Element ? target.closest<SVGGElement>("[data-box]") : null;
    if (found !== null) {
      this.select(Number(found.dataset["box"]));
    }
  }

  private onKey(event: KeyboardEvent): void {
    if (event.key === "Enter" || event.key === " ") {
      if (event.target instanceof SVGGElement) {
        event.preventDefault();
        this.pick(event.target);
      }
      return;
    }
    const from = event.target instanceof SVGGElement ? Number(event.target.dataset["box"]) : null;
    const next = from === null ? null : this.neighbour(from, event.key);
    if (next !== null) {
      event.preventDefault();
      this.boxes[from ?? 0]?.setAttribute("tabindex", "-1");
      this.boxes[next]?.setAttribute("tabindex", "0");
      this.boxes[next]?.focus();
    }
  }

  /** The box that an arrow leads to: along an edge up and down, to the one beside it otherwise. */
  private neighbour(from: number, key: string): number | null {
    const { edges } = this.graph;
    if (key === "ArrowDown") {
      return edges.find(({ source }) => source === from)?.target ?? null;
    }
    if (key === "ArrowUp") {
      return edges.find(({ target }) => target === from)?.source ?? null;
    }
    const step = { ArrowLeft: -1, ArrowRight: 1 }[key];
    return step === undefined || this.boxes[from + step] === undefined ? null : from + step;
  }

  private select(number: number): void {
    this.selected = number;
    this.mark();
    this.tell();
    this.write();
    this.reveal();
  }

  private mark(): void {
    this.boxes.forEach((box, number) => {
      box.setAttribute("aria-pressed", String(number === this.selected));
      box.setAttribute("tabindex", number === (this.selected ?? 0) ? "0" : "-1");
    });
  }

  private tell(): void {
    const told = this.selected === null ? [element("p", { class: "quiet" }, "Select a box to see what it costs, reads and gives.")] : detailsOf(this.graph, this.selected, this.job, this.home.dataset["document"] !== undefined, (number) => this.select(number));
    this.details.replaceChildren(...told);
  }

  /** Brings the selected box into the middle of the frame; the page stays where it is. */
  private reveal(): void {
    const box = this.selected === null ? undefined : this.boxes[this.selected];
    if (box !== undefined) {
      const inner = box.getBoundingClientRect();
      const outer = this.frame.getBoundingClientRect();
      this.frame.scrollBy(inner.left + inner.width / 2 - outer.left - outer.width / 2, inner.top + inner.height / 2 - outer.top - outer.height / 2);
    }
  }

  private write(): void {
    const query = new URLSearchParams(location.search);
    query.set("by", this.by.value);
    if (this.selected !== null) {
      query.set("box", String(this.selected));
    }
    history.replaceState(null, "", `${location.pathname}?${query.toString()}${location.hash}`);
  }
}
