/** Apache ECharts with no more than charts over two axes need. Its tooltips are rich text: those of HTML have style attributes, which the policy of pages refuses. */

import { LineChart, ScatterChart } from "echarts/charts";
import { DataZoomInsideComponent, GridComponent, TooltipComponent } from "echarts/components";
import { type EChartsType, init, use } from "echarts/core";
import { LabelLayout } from "echarts/features";
import { SVGRenderer } from "echarts/renderers";
import { onGround } from "../picture";
import type { Palette } from "./palette";

use([LineChart, ScatterChart, DataZoomInsideComponent, GridComponent, TooltipComponent, LabelLayout, SVGRenderer]);

/** Starts a chart in an element, which keeps the size of that. */
export function startChart(host: HTMLElement): EChartsType {
  const chart = init(host, null, { renderer: "svg" });
  new ResizeObserver(() => {
    if (host.clientWidth > 0) {
      chart.resize();
    }
  }).observe(host);
  return chart;
}

/** Draws again when the scheme of colours changes. */
export function onScheme(draw: () => void): void {
  matchMedia("(prefers-color-scheme: dark)").addEventListener("change", draw);
}

const STYLED = /\{(?=[A-Za-z0-9_]+\|)/g;

/** A text as rich text shows it: what looks like a style in it is none. Long ones lose their middle. */
export function plain(text: string, most = 56): string {
  const short = text.length > most ? `${text.slice(0, most / 2)}…${text.slice(1 - most / 2)}` : text;
  return short.replace(/\s+/g, " ").replace(STYLED, "{\u2060");
}

export function tooltipStyle(palette: Palette): Record<string, unknown> {
  return {
    renderMode: "richText",
    confine: true,
    transitionDuration: 0,
    backgroundColor: palette.card,
    borderColor: palette.quiet,
    borderWidth: 1,
    padding: [6, 10],
    textStyle: { color: palette.text, fontFamily: palette.font, fontSize: 12, lineHeight: 18, rich: { b: { fontWeight: 600, color: palette.text, lineHeight: 18 }, q: { color: palette.quiet, lineHeight: 18 } } },
  };
}

/** The chart as a file of its own. */
export function chartPicture(host: HTMLElement, palette: Palette): string | null {
  const svg = host.querySelector("svg");
  if (svg === null) {
    return null;
  }
  const [copy, width, height] = [svg.cloneNode(true) as SVGSVGElement, svg.clientWidth, svg.clientHeight];
  copy.removeAttribute("style");
  copy.setAttribute("viewBox", `0 0 ${width} ${height}`);
  return onGround(copy, width, height, palette.card);
}
