/** Many runs of a model: Pareto and parallel coordinates over the table that the service has made, which both filter. */

import { json } from "../api";
import type { Palette } from "../charts/palette";
import { scaleOf } from "../charts/scale";
import { type Picture, type Point, ScatterView } from "../charts/scatter";
import { button, element } from "../dom";
import type { Mount } from "../islands";
import { acceleratorOf, type Column, nameOf, type Run, type Runs, textOf, titleOf, toldOf, valueOf } from "./document";
import { frontOf } from "./front";
import { ParallelView } from "./parallel";
import { ACCELERATOR, acceleratorNames, isWithin, type Range, readWithin, type Within, writeWithin } from "./within";

const SHAPES = ["circle", "rect", "diamond", "triangle"] as const;
const POINT = 12;

export const mountRuns: Mount = async (home) => {
  const query = Object.fromEntries(new URLSearchParams(home.dataset["query"]));
  const groups = JSON.parse(home.dataset["groups"] ?? "{}") as Record<string, [number, number]>;
  new RunCharts(home, await json<Runs>("/v1/figures", query), groups);
};

class RunCharts {
  private readonly names: string[];
  private readonly columns: Column[];
  private readonly within: Within;
  private readonly x = select("x");
  private readonly y = select("y");
  private readonly list = element("ul", { class: "chart-within-list", "aria-label": "Ranges that filter" });
  private readonly status = element("p", { role: "status", class: "small", id: "runs-shown" });
  private readonly pareto: ScatterView;
  private readonly parallel: ParallelView;

  constructor(
    home: HTMLElement,
    private readonly runs: Runs,
    private readonly groups: Record<string, [number, number]>,
  ) {
    this.names = acceleratorNames(runs.runs);
    const differ = (column: Column): boolean => new Set(runs.runs.map((run) => valueOf(run, column.name))).size > 1;
    this.columns = [...runs.parameters, ...runs.figures].filter(differ);
    this.within = readWithin(new URLSearchParams(location.search), new Set([ACCELERATOR, ...this.columns.map(({ name }) => name)]));
    const [pareto, parallel] = [element("div", { id: "pareto" }), element("div", { id: "parallel" })];
    const card = (title: string, lead: string, ...parts: Node[]): HTMLElement => element("section", { class: "card", "aria-label": title }, element("h2", {}, title), element("p", { class: "lead" }, lead), ...parts);
    home.replaceChildren(
      card("Pareto", "A point a run, coloured by accelerator; the line leads along the front. A click opens the run.", this.legend(), pareto),
      card("Parameters and results", "A line a run, over the parameters in which accelerators differ, and what came of them.", parallel, this.form(), this.list, this.status),
    );
    this.pareto = new ScatterView(pareto, "Pareto: two figures of each run; the table below has the numbers", "pareto", (palette) => this.picture(palette));
    this.parallel = new ParallelView(parallel, runs.runs, this.columns, this.names, (run, palette) => this.colour(run, palette), (column, ranges) => this.limit(column, ranges), () => this.within);
    for (const axis of [this.x, this.y]) {
      axis.addEventListener("change", () => this.changed());
    }
    this.show();
  }

  private colour(run: Run, palette: Palette): string {
    return palette.groups[this.groups[run.accelerator.name]?.[0] ?? 0] ?? palette.accel;
  }

  private isShown(run: Run): boolean {
    return isWithin(run, this.within, this.names);
  }

  private column(name: string): Column {
    return this.runs.figures.find((column) => column.name === name) ?? this.runs.figures[0] ?? { name, title: name, unit: "" };
  }

  /** The accelerators with the marks that the table has for them. */
  private legend(): HTMLElement {
    const legend = element("ul", { class: "legend" });
    for (const name of Object.keys(this.groups)) {
      const run = this.runs.runs.find(({ accelerator }) => accelerator.name === name);
      const mark = document.querySelector(`#runs tr[data-job="${run?.job}"] .mark`)?.cloneNode(true) ?? null;
      legend.append(element("li", {}, mark, name));
    }
    return legend;
  }

  private picture(palette: Palette): Picture {
    const [across, up] = [this.column(this.x.value), this.column(this.y.value)];
    const runs = this.runs.runs.filter((run) => valueOf(run, across.name) !== null && valueOf(run, up.name) !== null);
    const at = (run: Run): { x: number; y: number } => ({ x: valueOf(run, across.name) ?? 0, y: valueOf(run, up.name) ?? 0 });
    const shown = runs.filter((run) => this.isShown(run));
    const better: ["less" | "more", "less" | "more"] = [across.better ?? "less", up.better ?? "less"];
    const front = frontOf(shown.map(at), better).flatMap((place) => shown[place] ?? []);
    const onFront = new Set(front.map(({ job }) => job));
    for (const row of document.querySelectorAll<HTMLElement>("#runs tr[data-job]")) {
      row.querySelector("[data-front]")?.replaceChildren(...(onFront.has(row.dataset["job"] ?? "") ? [element("span", { class: "badge plain" }, "front")] : []));
    }
    const points = runs.map((run): Point => {
      const said = this.runs.figures.flatMap((column) => {
        const value = valueOf(run, column.name);
        return value === null ? [] : [`${column.title}: ${toldOf(value, column)}`];
      });
      const isOnFront = onFront.has(run.job);
      return {
        ...at(run),
        size: POINT,
        colour: this.colour(run, palette),
        shape: SHAPES[this.groups[run.accelerator.name]?.[1] ?? 0] ?? "circle",
        title: nameOf(run),
        lines: [acceleratorOf(run) + (isOnFront ? ", on the front" : ""), ...said],
        label: isOnFront ? nameOf(run) : "",
        href: `/jobs/${run.job}`,
        marked: isOnFront,
        faint: !this.isShown(run),
      };
    });
    const axis = (column: Column) => ({
      title: titleOf(column),
      scale: scaleOf(runs.length === 0 ? [0, 1] : runs.map((run) => valueOf(run, column.name) ?? 0), column.unit === "B"),
      format: (value: number) => textOf(value, column.unit, false),
    });
    return {
      x: axis(across),
      y: axis(up),
      points,
      line: { corners: front.map((run) => [at(run).x, at(run).y]), step: better[0] === "less" ? "end" : "start", dashed: true, note: "" },
    };
  }

  /** Filters by a range of a column without a pointer. */
  private form(): HTMLElement {
    const axis = element("select", { id: "within-axis" }, ...this.columns.map((column) => element("option", { value: column.name }, titleOf(column) + (["s", "B", "pJ", "dB"].includes(column.unit) ? `, ${column.unit}` : column.unit === "1" ? ", share of 1" : ""))));
    const [from, to] = [element("input", { type: "number", step: "any", id: "within-from" }), element("input", { type: "number", step: "any", id: "within-to" })];
    const field = (label: string, input: HTMLElement): HTMLElement => element("div", { class: "field" }, element("label", { for: input.id }, label), input);
    const form = element("form", { class: "chart-within", "aria-label": "Filter by a range" }, field("Filter by", axis), field("from", from), field("to", to), element("button", { type: "submit" }, "Filter"));
    form.addEventListener("submit", (event) => {
      event.preventDefault();
      const values = this.runs.runs.flatMap((run) => valueOf(run, axis.value) ?? []);
      const range: Range = [from.value === "" ? Math.min(...values) : from.valueAsNumber, to.value === "" ? Math.max(...values) : to.valueAsNumber];
      this.limit(axis.value, [range]);
      this.parallel.redraw();
      from.value = to.value = "";
    });
    return form;
  }

  private limit(column: string, ranges: Range[]): void {
    if (ranges.length === 0) {
      this.within.delete(column);
    } else {
      this.within.set(column, ranges);
    }
    this.changed();
  }

  private changed(): void {
    this.pareto.redraw();
    this.show();
    const url = new URL(location.href);
    url.searchParams.set("x", this.x.value);
    url.searchParams.set("y", this.y.value);
    writeWithin(url.searchParams, this.within);
    history.replaceState(history.state, "", url);
  }

  /** Shows the rows of what is within, and says which ranges filter. */
  private show(): void {
    const shown = new Set(this.runs.runs.filter((run) => this.isShown(run)).map(({ job }) => job));
    for (const row of document.querySelectorAll<HTMLElement>("#runs tr[data-job]")) {
      row.hidden = !shown.has(row.dataset["job"] ?? "");
    }
    this.status.textContent = this.within.size === 0 ? "" : `${shown.size} of ${this.runs.runs.length} runs are within.`;
    this.list.replaceChildren(...[...this.within].map(([column, ranges]) => element("li", {}, button(`${this.told(column, ranges)} ×`, () => {
      this.limit(column, []);
      this.parallel.redraw();
    }, `Filter no more by ${this.told(column, ranges)}`))));
  }

  private told(name: string, ranges: Range[]): string {
    const column = this.columns.find((each) => each.name === name);
    if (column === undefined) {
      return this.names.filter((_, place) => ranges.some(([from, to]) => from <= place && place <= to)).join(", ") || "no accelerator";
    }
    return `${column.title} ${ranges.map((range) => range.map((value) => textOf(value, column.unit, false)).join(" to ")).join(", ")}`;
  }
}

function select(id: string): HTMLSelectElement {
  const found = document.getElementById(id);
  if (!(found instanceof HTMLSelectElement)) {
    throw new Error(`its choice ${id} is missing`);
  }
  return found;
}
