/** Pictures to take along: an SVG of the page as a file of its own, or as pixels. */

import { button, element } from "./dom";
import type { Mount } from "./islands";

const DRAWN = ["fill", "fill-opacity", "stroke", "stroke-width", "stroke-dasharray", "opacity", "font-family", "font-size", "font-weight", "text-anchor", "paint-order", "stroke-linejoin"];
const SVG = "http://www.w3.org/2000/svg";
/** Rows that may have bars: of a table, or of a grid. */
const ROWS = ":scope > div, tbody > tr";
/** The most letters of a row's name. */
const LETTERS = 38;
const SCALE = 2; // pixels for each of the picture's units

/**
 * Buttons beside a picture that the service has drawn: `data-picture` is its id, or that of what has bars in its rows;
 * `data-name` is what a file is called.
 */
export const mountPictures: Mount = (home) => {
  const picture = (): string | null => {
    const found = document.getElementById(home.dataset["picture"] ?? "");
    return found === null ? null : found instanceof SVGSVGElement ? standalone(found) : barChart(found);
  };
  home.replaceChildren(pictureButtons(picture, home.dataset["name"] ?? "picture"));
};

/** Buttons that save the picture, whose text is an SVG that needs no style sheet. */
export function pictureButtons(picture: () => string | null, name: string): HTMLElement {
  const save = (kind: "svg" | "png"): void => {
    const svg = picture();
    if (svg !== null) {
      void (kind === "svg" ? Promise.resolve(new Blob([svg], { type: "image/svg+xml" })) : pixels(svg)).then((blob) => download(blob, `${name}.${kind}`));
    }
  };
  return element("span", { role: "group", "aria-label": "Save the picture", class: "picture-buttons" }, button("SVG", () => save("svg"), "Save the picture as SVG"), button("PNG", () => save("png"), "Save the picture as PNG"));
}

/** The picture as text that needs no style sheet: each element has the style that the page gives it. */
export function standalone(svg: SVGSVGElement): string {
  const copy = styled(svg);
  const [, , width, height] = (svg.getAttribute("viewBox") ?? "").split(" ");
  return onGround(copy, Number(width ?? 0), Number(height ?? 0), groundOf(svg));
}

/** Returns a picture as text, with a size and a colour under it. */
export function onGround(picture: SVGSVGElement, width: number, height: number, colour: string): string {
  picture.setAttribute("xmlns", SVG);
  picture.setAttribute("width", String(width));
  picture.setAttribute("height", String(height));
  picture.prepend(svgElement("rect", { width: "100%", height: "100%", fill: colour }));
  return new XMLSerializer().serializeToString(picture);
}

/** One picture of bars that stand in rows, each after what it is called; below it what the colours mean. */
function barChart(home: HTMLElement): string {
  const rows = [...home.querySelectorAll<HTMLElement>(ROWS)].filter((row) => row.querySelector("svg.bar") !== null);
  const text = getComputedStyle(home).color;
  const picture = svgElement("svg", { viewBox: "0 0 1000 0", "font-family": "system-ui, sans-serif", "font-size": "13", fill: text });
  let top = 12;
  const write = (x: number, y: number, words: string): void => {
    picture.append(svgElement("text", { x, y }, words));
  };
  for (const row of rows) {
    write(12, top + 13, clip(row.querySelector("th") ?? row.children[0]));
    for (const bar of row.querySelectorAll<SVGSVGElement>("svg.bar")) {
      const copy = styled(bar);
      for (const [key, value] of Object.entries({ x: 300, y: top, width: 540, height: 16 })) {
        copy.setAttribute(key, String(value));
      }
      picture.append(copy);
      top += 18;
    }
    write(850, top - 5, clip([...row.querySelectorAll(":scope > .n")].at(-1)));
    top += 6;
  }
  const keys = [...(home.closest("section")?.querySelectorAll<HTMLElement>(".legend li") ?? [])];
  keys.forEach((key, number) => {
    const colour = getComputedStyle(key.querySelector(".key") ?? key).backgroundColor;
    const [x, y] = [12 + (number % 4) * 230, top + 12 + Math.floor(number / 4) * 20];
    picture.append(svgElement("rect", { x, y: y - 10, width: 12, height: 12, fill: colour }));
    write(x + 18, y, clip(key));
  });
  const height = top + 16 + Math.ceil(keys.length / 4) * 20;
  picture.setAttribute("viewBox", `0 0 1000 ${height}`);
  return onGround(picture, 1000, height, groundOf(home));
}

function clip(from: Element | undefined): string {
  const text = (from?.textContent ?? "").replace(/\s+/g, " ").trim();
  return text.length > LETTERS ? `${text.slice(0, LETTERS - 1)}…` : text;
}

export function svgElement<K extends keyof SVGElementTagNameMap>(tag: K, attributes: Record<string, string | number>, text = ""): SVGElementTagNameMap[K] {
  const made = document.createElementNS(SVG, tag);
  for (const [name, value] of Object.entries(attributes)) {
    made.setAttribute(name, String(value));
  }
  made.textContent = text;
  return made;
}

/** Returns a copy of which each element has the style that the page gives it. */
function styled(svg: SVGSVGElement): SVGSVGElement {
  const copy = svg.cloneNode(true) as SVGSVGElement;
  const made = [copy, ...copy.querySelectorAll<SVGElement>("*")];
  [svg, ...svg.querySelectorAll<SVGElement>("*")].forEach((element, number) => {
    const style = getComputedStyle(element);
    const target = made[number];
    for (const property of DRAWN) {
      const value = style.getPropertyValue(property);
      if (target !== undefined && value !== "") {
        target.setAttribute(property, value);
      }
    }
    for (const unused of ["class", "tabindex", "role", "aria-pressed", "data-box"]) {
      target?.removeAttribute(unused);
    }
  });
  return copy;
}

/** The colour of what lies under a picture. */
function groundOf(picture: Element): string {
  for (let under = picture.parentElement; under !== null; under = under.parentElement) {
    const colour = getComputedStyle(under).backgroundColor;
    if (colour !== "" && colour !== "transparent" && colour !== "rgba(0, 0, 0, 0)") {
      return colour;
    }
  }
  return "white";
}

async function pixels(svg: string): Promise<Blob> {
  const image = new Image();
  image.src = `data:image/svg+xml;charset=utf-8,${encodeURIComponent(svg)}`;
  await image.decode();
  const canvas = element("canvas", { width: image.width * SCALE, height: image.height * SCALE });
  canvas.getContext("2d")?.drawImage(image, 0, 0, canvas.width, canvas.height);
  return await new Promise((done, failed) => canvas.toBlob((blob) => (blob === null ? failed(new Error("the picture is too large")) : done(blob))));
}

export function download(blob: Blob, name: string): void {
  const link = element("a", { href: URL.createObjectURL(blob), download: name });
  link.click();
  setTimeout(() => URL.revokeObjectURL(link.href), 10_000);
}
