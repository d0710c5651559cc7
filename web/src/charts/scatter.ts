/** Points over two axes: zoom, a box of figures at the pointer or at the arrow keys, and each point a link. */

import type { EChartsType } from "echarts/core";
import { button, element } from "../dom";
import { pictureButtons } from "../picture";
import { chartPicture, onScheme, plain, startChart, tooltipStyle } from "./echarts";
import { type Palette, readPalette } from "./palette";
import type { Scale } from "./scale";

export interface Point {
  x: number;
  y: number;
  /** Diameter, pixels. */
  size: number;
  colour: string;
  shape: "circle" | "rect" | "diamond" | "triangle";
  /** What it is called, and its figures, a line each. */
  title: string;
  lines: string[];
  /** Stands beside it, or above it if it is marked, where there is room; none where empty. */
  label: string;
  href: string;
  /** Whether it stands out, as on a front; or back, as what a filter leaves out. */
  marked: boolean;
  faint: boolean;
}

export interface Axis {
  title: string;
  scale: Scale;
  format: (value: number) => string;
}

export interface Picture {
  x: Axis;
  y: Axis;
  points: Point[];
  line: { corners: [number, number][]; step: false | "start" | "end"; dashed: boolean; note: string };
}

const ZOOM = 1.6;
const LABEL = 24;
const NARROW = 500; // pixels of a chart that has no room for names
const RIGHT = 0.75; // of an axis; what is beyond has its name on the other side

export class ScatterView {
  private readonly chart: EChartsType;
  private readonly host: HTMLElement;
  private readonly status = element("p", { role: "status", class: "chart-status small quiet" });
  private picture: Picture;
  private window = { x: [0, 100], y: [0, 100] };
  private order: number[] = [];
  private at = -1;

  constructor(
    private readonly home: HTMLElement,
    label: string,
    file: string,
    private readonly draw: (palette: Palette) => Picture,
  ) {
    const keys = "Arrow keys go from point to point, Enter opens one, plus and minus zoom, 0 shows all.";
    this.host = element("div", { class: "chart-host", tabindex: 0, role: "application", "aria-label": `${label}. ${keys}` });
    const zoom = element("span", { role: "group", "aria-label": "Zoom", class: "chart-buttons" }, button("+", () => this.zoom(1 / ZOOM), "Zoom in"), button("−", () => this.zoom(ZOOM), "Zoom out"), button("All", () => this.zoom(Number.POSITIVE_INFINITY), "Show all"));
    const bar = element("div", { class: "chart-bar" }, zoom, element("span", { class: "small quiet chart-hint" }, "Dragging moves; Control and the wheel zoom."), pictureButtons(() => chartPicture(this.host, readPalette(home)), file));
    home.replaceChildren(bar, this.host, this.status);
    this.picture = draw(readPalette(home));
    this.chart = startChart(this.host);
    this.chart.on("click", (event) => this.open(event.dataIndex));
    this.chart.on("mouseover", (event) => this.say(event.seriesType === "scatter" ? event.dataIndex : -1));
    this.chart.on("datazoom", () => this.moved());
    this.host.addEventListener("keydown", (event) => this.pressed(event));
    this.host.addEventListener("blur", () => this.chart.dispatchAction({ type: "hideTip" }));
    onScheme(() => this.redraw());
    this.redraw();
  }

  redraw(): void {
    const palette = readPalette(this.home);
    this.picture = this.draw(palette);
    const { points, x, y } = this.picture;
    this.order = points.map((_, place) => place).sort((one, other) => (points[one]?.x ?? 0) - (points[other]?.x ?? 0));
    this.at = -1;
    const dataZoom = (["x", "y"] as const).map((axis) => ({
      type: "inside",
      [`${axis}AxisIndex`]: 0,
      filterMode: "none",
      zoomOnMouseWheel: "ctrl",
      moveOnMouseWheel: false,
      start: this.window[axis][0],
      end: this.window[axis][1],
    }));
    this.chart.setOption(
      {
        animation: false,
        textStyle: { fontFamily: palette.font },
        grid: { left: 68, right: 20, top: 32, bottom: 48, outerBoundsMode: "none" },
        tooltip: { ...tooltipStyle(palette), trigger: "item", formatter: (at: { seriesType: string; dataIndex: number }) => (at.seriesType === "scatter" ? this.told(at.dataIndex) : "") },
        xAxis: axisOption(x, palette, { nameLocation: "middle", nameGap: 30 }, this.ticks("x")),
        yAxis: axisOption(y, palette, { nameLocation: "end", nameGap: 14, nameTextStyle: { align: "left" } }, this.ticks("y")),
        dataZoom,
        series: [this.lineSeries(palette), this.pointSeries(palette)],
      },
      { notMerge: true },
    );
    this.home.dataset["points"] = String(points.filter(({ faint }) => !faint).length);
  }

  private lineSeries(palette: Palette): Record<string, unknown> {
    const { line, x, y } = this.picture;
    const data = line.corners.map(([across, up]) => [x.scale.drawn(across), y.scale.drawn(up)]);
    return {
      type: "line",
      silent: true,
      symbol: "none",
      step: line.step,
      data,
      lineStyle: { color: palette.text, width: 1.5, type: line.dashed ? "dashed" : "solid" },
      endLabel: { show: line.note !== "", formatter: line.note, color: palette.text, align: "right", verticalAlign: "bottom", offset: [-8, -6], fontFamily: palette.font },
      z: 2,
    };
  }

  private pointSeries(palette: Palette): Record<string, unknown> {
    const { points, x, y } = this.picture;
    const roomy = this.host.clientWidth > NARROW;
    const isRight = (point: Point): boolean => x.scale.drawn(point.x) > x.scale.from + RIGHT * (x.scale.to - x.scale.from);
    const data = points.map((point) => ({
      name: point.title,
      value: [x.scale.drawn(point.x), y.scale.drawn(point.y)],
      symbol: point.shape,
      symbolSize: point.size,
      itemStyle: { color: point.colour, opacity: point.faint ? 0.12 : 0.88, borderColor: point.marked ? palette.text : palette.card, borderWidth: point.marked ? 2 : 1.5 },
      label: { show: roomy && point.label !== "" && !point.faint, position: point.marked ? "top" : isRight(point) ? "left" : "right", formatter: plain(point.label, LABEL) },
    }));
    return {
      type: "scatter",
      data,
      cursor: "pointer",
      label: { color: palette.text, fontSize: 11, fontFamily: palette.font, textBorderColor: palette.card, textBorderWidth: 3 },
      labelLayout: { hideOverlap: true },
      emphasis: { scale: 1.25, label: { show: true } },
      z: 3,
    };
  }

  private told(place: number): string {
    const point = this.picture.points[place];
    return point === undefined ? "" : [`{b|${plain(point.title).replaceAll("}", "❵")}}`, ...point.lines.map((line) => plain(line, 80))].join("\n");
  }

  private say(place: number): void {
    const point = this.picture.points[place];
    this.status.textContent = point === undefined ? "" : [point.title, ...point.lines].join(" · ");
  }

  private open(place: number | undefined): void {
    const point = this.picture.points[place ?? -1];
    if (point?.href.startsWith("#")) {
      location.hash = point.href;
    } else if (point !== undefined) {
      location.assign(point.href);
    }
  }

  private pressed(event: KeyboardEvent): void {
    const step = { ArrowRight: 1, ArrowDown: 1, ArrowLeft: -1, ArrowUp: -1 }[event.key];
    if (event.ctrlKey || event.metaKey || event.altKey) {
      return;
    }
    if (step !== undefined) {
      const all = this.order.filter((place) => this.picture.points[place]?.faint === false);
      this.at = (this.at + step + all.length) % Math.max(all.length, 1);
      const place = all[this.at] ?? -1;
      this.chart.dispatchAction({ type: "showTip", seriesIndex: 1, dataIndex: place });
      this.say(place);
      this.host.dataset["selected"] = String(place);
    } else if (event.key === "Enter") {
      this.open(Number(this.host.dataset["selected"] ?? -1));
    } else if (event.key === "+" || event.key === "=") {
      this.zoom(1 / ZOOM);
    } else if (event.key === "-") {
      this.zoom(ZOOM);
    } else if (event.key === "0") {
      this.zoom(Number.POSITIVE_INFINITY);
    } else if (event.key === "Escape") {
      this.chart.dispatchAction({ type: "hideTip" });
    } else {
      return;
    }
    event.preventDefault();
  }

  /** Zooms about the middle, or about the point that is selected. */
  private zoom(factor: number): void {
    const batch = (["x", "y"] as const).map((axis, dataZoomIndex) => {
      const [from = 0, to = 100] = this.window[axis];
      const half = Math.min(((to - from) / 2) * factor, 50);
      const middle = Math.min(Math.max((from + to) / 2, half), 100 - half);
      return { dataZoomIndex, start: middle - half, end: middle + half };
    });
    this.chart.dispatchAction({ type: "dataZoom", batch });
  }

  /** The lines of the grid are those of what is seen. */
  private moved(): void {
    const { dataZoom } = this.chart.getOption() as { dataZoom: { start: number; end: number }[] };
    const [x, y] = dataZoom;
    if (x === undefined || y === undefined) {
      return;
    }
    this.window = { x: [x.start, x.end], y: [y.start, y.end] };
    const lines = (axis: "x" | "y") => ({ axisTick: { customValues: this.ticks(axis) }, axisLabel: { customValues: this.ticks(axis) } });
    this.chart.setOption({ xAxis: lines("x"), yAxis: lines("y") });
  }

  private ticks(axis: "x" | "y"): number[] {
    const { scale } = this.picture[axis];
    const [start = 0, end = 100] = this.window[axis];
    const at = (share: number): number => scale.from + (share / 100) * (scale.to - scale.from);
    return scale.ticks(at(start), at(end)).map(scale.drawn);
  }
}

function axisOption(axis: Axis, palette: Palette, name: Record<string, unknown>, ticks: number[]): Record<string, unknown> {
  return {
    type: "value",
    min: axis.scale.from,
    max: axis.scale.to,
    name: axis.title,
    ...name,
    nameTextStyle: { color: palette.quiet, fontSize: 12, fontFamily: palette.font, ...(name["nameTextStyle"] as object) },
    axisLine: { show: true, onZero: false, lineStyle: { color: palette.quiet } },
    axisTick: { show: true, customValues: ticks, lineStyle: { color: palette.quiet } },
    axisLabel: { customValues: ticks, color: palette.quiet, fontSize: 11, fontFamily: palette.font, hideOverlap: true, showMinLabel: null, showMaxLabel: null, formatter: (drawn: number) => axis.format(axis.scale.value(drawn)) },
    splitLine: { show: true, lineStyle: { color: palette.line } },
  };
}
