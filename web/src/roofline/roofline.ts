/** The roofline of a job in place of the picture that the service has drawn: it zooms, and says each layer's figures. */

import { json } from "../api";
import type { Palette } from "../charts/palette";
import { scaleOf } from "../charts/scale";
import { type Picture, ScatterView } from "../charts/scatter";
import { cycles, percent, size } from "../format";
import type { Mount } from "../islands";

/** What of `GET /v1/jobs/ID/report` is drawn. */
interface Report {
  layers?: Layer[];
  launches?: Layer[];
}

interface Layer {
  name: string;
  cycles: number;
  macs: number;
  bytes_read: number;
  bytes_written: number;
  limited_by: string;
}

const SMALLEST = 8;
const LARGEST = 28;
/** Layers of which each has its name beside it; of more the names would cover the points. */
const MOST_NAMED = 24;

export const mountRoofline: Mount = async (home) => {
  const report = await json<Report>(`/v1/jobs/${home.dataset["job"] ?? ""}/report`);
  const label = "Roofline: multiply-accumulates a cycle over multiply-accumulates a byte of each layer, of reads or writes, whichever are more; the same is in the table below";
  document.getElementById(home.dataset["replaces"] ?? "")?.setAttribute("hidden", "");
  new ScatterView(home, label, home.dataset["name"] ?? "roofline", (palette) => pictureOf(report, Number(home.dataset["peak"]), Number(home.dataset["bus"]), palette));
};

/** `peak` is multiply-accumulates a cycle at best, `bus` bytes a cycle, of reads and as many of writes. */
function pictureOf(report: Report, peak: number, bus: number, palette: Palette): Picture {
  const layers = report.layers ?? report.launches ?? [];
  const total = layers.reduce((sum, layer) => sum + layer.cycles, 0);
  const points = layers.flatMap((layer, place) => {
    const bytes = Math.max(layer.bytes_read, layer.bytes_written); // reads and writes go apart
    if (layer.macs === 0 || layer.cycles === 0 || bytes === 0) {
      return [];
    }
    const [x, y] = [layer.macs / bytes, layer.macs / layer.cycles];
    const roof = Math.min(peak, x * bus);
    return {
      x,
      y,
      size: SMALLEST + (LARGEST - SMALLEST) * Math.sqrt(layer.cycles / total),
      colour: palette.accel,
      shape: "circle" as const,
      title: layer.name,
      lines: [`${digits(y)} MAC/cycle, ${percent(y / roof)} of the roof there`, `${digits(x)} MAC/B, ${size(layer.bytes_read)} read, ${size(layer.bytes_written)} written`, `${cycles(layer.cycles)}, ${percent(layer.cycles / total)} of all`],
      label: layers.length > MOST_NAMED ? "" : layer.name,
      href: `#layer-${place + 1}`,
      marked: false,
      faint: false,
    };
  });
  const ridge = peak / bus;
  const x = scaleOf([...points.map((point) => point.x), ridge], false, true);
  const y = scaleOf([...points.map((point) => point.y), peak], false, true);
  const first = Math.max(x.value(x.from), y.value(y.from) / bus);
  return {
    x: { title: "multiply-accumulates a byte", scale: x, format: digits },
    y: { title: "multiply-accumulates a cycle", scale: y, format: digits },
    // large ones first, so that small ones lie above them
    points: points.sort((one, other) => other.size - one.size),
    line: { corners: [[first, first * bus], [ridge, peak], [x.value(x.to), peak]], step: false, dashed: false, note: `${peak.toLocaleString("en-US")} MAC/cycle, ${bus} B/cycle` },
  };
}

function digits(value: number): string {
  return Number(value.toPrecision(3)).toLocaleString("en-US", { maximumSignificantDigits: 3 });
}
