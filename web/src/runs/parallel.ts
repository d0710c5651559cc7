/** Parallel coordinates: an axis for each parameter and figure, a line a run; what is brushed on an axis filters. */

import { ParallelChart } from "echarts/charts";
import { ParallelComponent } from "echarts/components";
import { type EChartsType, use } from "echarts/core";
import { element } from "../dom";
import { pictureButtons } from "../picture";
import { chartPicture, onScheme, plain, startChart, tooltipStyle } from "../charts/echarts";
import { type Palette, readPalette } from "../charts/palette";
import { scaleOf, type Scale } from "../charts/scale";
import { acceleratorOf, type Column, nameOf, type Run, textOf, toldOf, valueOf } from "./document";
import { ACCELERATOR, type Range, type Within } from "./within";

use([ParallelChart, ParallelComponent]);

const APART = 112; // pixels from axis to axis at least
const UNSTYLED = "rgba(234,237,245,0.5)"; // the border of a range that an action has set
const LETTERS = 20;

interface Selected {
  parallelAxisId: string;
  intervals: Range[];
}

export class ParallelView {
  private readonly chart: EChartsType;
  private readonly host: HTMLElement;
  private readonly axes: { column: Column; scale: Scale }[];

  constructor(
    private readonly home: HTMLElement,
    private readonly runs: readonly Run[],
    columns: readonly Column[],
    private readonly names: readonly string[],
    private readonly colourOf: (run: Run, palette: Palette) => string,
    brushed: (column: string, ranges: Range[]) => void,
    private readonly within: () => Within,
  ) {
    this.axes = columns.map((column) => ({ column, scale: scaleOf(runs.flatMap((run) => valueOf(run, column.name) ?? []), column.unit === "B") }));
    this.host = element("div", { class: "chart-host chart-wide", role: "img", "aria-label": "Parallel coordinates: a line a run; the numbers are in the table below, and the form below filters by a range" });
    const frame = element("div", { class: "scroll", tabindex: 0, role: "group", "aria-label": "Parallel coordinates" }, this.host);
    this.host.style.minWidth = `${APART * (this.axes.length + 1) + 90}px`;
    home.replaceChildren(element("div", { class: "chart-bar" }, element("span", { class: "small quiet" }, "Drag along an axis to filter, click beside to undo."), pictureButtons(() => chartPicture(this.host, readPalette(home)), "runs")), frame);
    this.chart = startChart(this.host);
    this.chart.on("axisareaselected", (event) => {
      const { parallelAxisId, intervals } = event as unknown as Selected;
      brushed(parallelAxisId, intervals.map((range) => this.valuesOf(parallelAxisId, range)));
    });
    this.chart.on("click", (event) => {
      const run = event.componentType === "series" ? runs[event.dataIndex] : undefined;
      if (run !== undefined) {
        location.assign(`/jobs/${run.job}`);
      }
    });
    onScheme(() => this.redraw());
    this.redraw();
  }

  redraw(): void {
    const palette = readPalette(this.home);
    // numbers lie above the lines; names of accelerators stand before theirs, where no lines are
    const shared = { z: 5, nameTextStyle: { color: palette.text, fontSize: 11, fontFamily: palette.font }, axisLine: { lineStyle: { color: palette.quiet } }, areaSelectStyle: { width: 18, color: palette.accent, opacity: 0.3, borderColor: palette.accent } };
    const label = { color: palette.quiet, fontSize: 11, fontFamily: palette.font, textBorderColor: palette.card, textBorderWidth: 3 };
    const places = [...this.names.keys()];
    const parallelAxis = [
      { dim: 0, id: ACCELERATOR, name: "accelerator", type: "value", min: -0.5, max: this.names.length - 0.5, ...shared, axisTick: { customValues: places }, axisLabel: { ...label, margin: -10, align: "right", customValues: places, formatter: (place: number) => plain(this.names[place] ?? "", LETTERS) } },
      ...this.axes.map(({ column, scale }, place) => {
        const ticks = scale.ticks(scale.from, scale.to).map(scale.drawn);
        return { dim: place + 1, id: column.name, name: column.title, type: "value", min: scale.from, max: scale.to, ...shared, axisTick: { customValues: ticks }, axisLabel: { ...label, customValues: ticks, formatter: (drawn: number) => textOf(scale.value(drawn), column.unit, false) } };
      }),
    ];
    const data = this.runs.map((run) => {
      const values = this.axes.map(({ column, scale }) => {
        const value = valueOf(run, column.name);
        return value === null ? "-" : scale.drawn(value);
      });
      return { name: nameOf(run), value: [this.names.indexOf(acceleratorOf(run)), ...values], lineStyle: { color: this.colourOf(run, palette) } };
    });
    this.chart.setOption(
      {
        animation: false,
        textStyle: { fontFamily: palette.font },
        tooltip: { ...tooltipStyle(palette), trigger: "item", formatter: ({ dataIndex }: { dataIndex: number }) => this.told(dataIndex) },
        parallel: { left: 150, right: 70, top: 40, bottom: 16, parallelAxisDefault: { nameLocation: "end", nameGap: 14 } },
        parallelAxis,
        series: [{ type: "parallel", data, lineStyle: { width: 1.75, opacity: 0.8 }, inactiveOpacity: 0.07, activeOpacity: 0.95, emphasis: { lineStyle: { width: 3.5, opacity: 1 } } }],
      },
      { notMerge: true },
    );
    for (const [column, ranges] of this.within()) {
      this.chart.dispatchAction({ type: "axisAreaSelect", parallelAxisId: column, intervals: ranges.map((range) => this.drawnOf(column, range)) }, { silent: true });
    }
    this.paintRanges(palette);
  }

  /** Ranges that nobody has dragged are in a colour of the package's own, and hide the lines below them. */
  private paintRanges(palette: Palette): void {
    for (const drawn of this.chart.getZr().storage.getDisplayList(true)) {
      const painted = drawn as { style?: { stroke?: unknown }; attr?: (change: object) => void };
      if (painted.style?.stroke === UNSTYLED) {
        painted.attr?.({ style: { fill: palette.accent, stroke: palette.accent, opacity: 0.3 } });
      }
    }
  }

  private told(place: number): string {
    const run = this.runs[place];
    if (run === undefined) {
      return "";
    }
    const lines = this.axes.flatMap(({ column }) => {
      const value = valueOf(run, column.name);
      return value === null ? [] : [`{q|${column.title}}  ${toldOf(value, column)}`];
    });
    return [`{b|${plain(nameOf(run)).replaceAll("}", "❵")}}`, plain(acceleratorOf(run)), ...lines].join("\n");
  }

  private scale(column: string): Scale | undefined {
    return this.axes.find((axis) => axis.column.name === column)?.scale;
  }

  private valuesOf(column: string, range: Range): Range {
    const scale = this.scale(column);
    const [one, other] = scale === undefined ? range : [scale.value(range[0]), scale.value(range[1])];
    return one <= other ? [one, other] : [other, one];
  }

  private drawnOf(column: string, range: Range): Range {
    const scale = this.scale(column);
    return scale === undefined ? range : [scale.drawn(scale.log ? Math.max(range[0], Number.MIN_VALUE) : range[0]), scale.drawn(range[1])];
  }
}
