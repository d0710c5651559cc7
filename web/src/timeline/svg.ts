/** The timeline as a picture of lines and texts: what is drawn on the canvas is written down instead. */

import { onGround, svgElement } from "../picture";
import type { Colours } from "./colours";
import { heightOf, LANE, laneTop } from "./layout";
import { drawMemories } from "./memories";
import { drawGround, drawOverlay, type Pen, type Scene } from "./overlay";
import type { Window } from "./window";

/** Returns the view as an SVG file's text. */
export function timelineSvg(scene: Scene, shown: { fine: Window | null; coarse: Window | null }): string {
  const height = heightOf(scene.tracks);
  const pen = new SvgPen(scene.width, height);
  drawGround(pen, scene);
  drawLanes(pen, scene, shown);
  drawMemories(pen, scene, shown, ({ line }, x, y, scale) => pen.shape(line, x, y, scale));
  drawOverlay(pen, scene);
  return onGround(pen.picture, scene.width, height, scene.colours.card);
}

/** Each lane as on the canvas: a bin is cut by the shares of its categories; one path a category, so that files are small. */
function drawLanes(pen: SvgPen, { view, tracks, colours, width }: Scene, shown: { fine: Window | null; coarse: Window | null }): void {
  const windows = shown.fine?.covers(view.begin, view.end) === true ? [shown.fine] : [shown.coarse, shown.fine];
  const scale = width / view.span;
  const at = (cycle: number): number => Math.min(Math.max((cycle - view.begin) * scale, 0), width);
  const texts = kindColours(colours);
  tracks.tracks.forEach((_, track) => {
    const [top, idle] = [laneTop(track), texts.at(-1) ?? ""];
    pen.fillStyle = idle;
    pen.fillRect(0, top, width, LANE);
    for (const window of windows.filter((window) => window !== null)) {
      pen.fillStyle = idle;
      pen.fillRect(at(window.begin), top, at(window.end) - at(window.begin), LANE);
      lanePaths(window, track, at, top).forEach((path, category) => pen.path(path, texts[category] ?? idle));
    }
  });
}

function lanePaths(window: Window, track: number, at: (cycle: number) => number, top: number): string[] {
  const paths = Array.from({ length: window.categories }, () => "");
  for (let bin = 0; bin < window.bins; bin++) {
    const [left, right] = [at(window.begin + window.edge(bin)), at(window.begin + window.edge(bin + 1))];
    const unit = LANE / (window.edge(bin + 1) - window.edge(bin));
    let below = top + LANE;
    for (let category = 0; category < window.categories && right > left; category++) {
      const high = (window.cycles[window.cell(track, bin) + category] ?? 0) * unit;
      if (high > 0) {
        below -= high;
        paths[category] += `M${short(left)} ${short(below)}H${short(right)}v${short(high)}H${short(left)}z`;
      }
    }
  }
  return paths;
}

function short(value: number): string {
  return String(Math.round(value * 100) / 100);
}

/** The colours of the categories as texts; of idle cycles last. */
function kindColours({ pixels }: Colours): string[] {
  return Array.from(pixels, (pixel) => {
    const [red, green, blue] = new Uint8Array(Uint32Array.of(pixel).buffer);
    return `rgb(${red}, ${green}, ${blue})`;
  });
}

/** Does what a canvas' pen does, as elements of an SVG. */
class SvgPen implements Pen {
  readonly picture: SVGSVGElement;
  fillStyle: string | CanvasGradient | CanvasPattern = "";
  strokeStyle: string | CanvasGradient | CanvasPattern = "";
  lineWidth = 1;
  globalAlpha = 1;
  font = "";
  textBaseline: CanvasTextBaseline = "middle";
  private line = "";
  private readonly measure = document.createElement("canvas").getContext("2d");

  constructor(width: number, height: number) {
    this.picture = svgElement("svg", { viewBox: `0 0 ${width} ${height}`, "font-family": "system-ui, sans-serif", "font-size": 12 });
  }

  fillRect(x: number, y: number, width: number, height: number): void {
    this.add("rect", { x: short(x), y: short(y), width: short(Math.max(width, 0)), height: short(height), fill: String(this.fillStyle) });
  }

  strokeRect(x: number, y: number, width: number, height: number): void {
    this.add("rect", { x: short(x), y: short(y), width: short(width), height: short(height), fill: "none", ...this.stroked() });
  }

  fillText(text: string, x: number, y: number): void {
    if (text !== "") {
      this.picture.append(svgElement("text", { x: short(x), y: short(y), "dominant-baseline": "central", fill: String(this.fillStyle) }, text));
    }
  }

  measureText(text: string): TextMetrics {
    const { measure } = this;
    if (measure === null) {
      throw new Error("this browser draws no canvas");
    }
    measure.font = this.font;
    return measure.measureText(text);
  }

  beginPath(): void {
    this.line = "";
  }

  moveTo(x: number, y: number): void {
    this.line += `M${short(x)} ${short(y)}`;
  }

  lineTo(x: number, y: number): void {
    this.line += `L${short(x)} ${short(y)}`;
  }

  bezierCurveTo(...points: [number, number, number, number, number, number]): void {
    this.line += `C${points.map(short).join(" ")}`;
  }

  closePath(): void {
    this.line += "z";
  }

  stroke(): void {
    this.add("path", { d: this.line, fill: "none", ...this.stroked() });
  }

  fill(): void {
    this.path(this.line, String(this.fillStyle));
  }

  path(line: string, fill: string): void {
    if (line !== "") {
      this.add("path", { d: line, fill });
    }
  }

  shape(line: string, x: number, y: number, scale: number): void {
    this.add("path", { d: line, fill: String(this.fillStyle), transform: `translate(${x} ${y}) scale(${scale} 1)` });
  }

  private stroked(): Record<string, string | number> {
    return { stroke: String(this.strokeStyle), "stroke-width": this.lineWidth };
  }

  private add(tag: "rect" | "path", attributes: Record<string, string | number>): void {
    const faint = this.globalAlpha === 1 ? {} : { opacity: this.globalAlpha };
    this.picture.append(svgElement(tag, { ...attributes, ...faint }));
  }
}
