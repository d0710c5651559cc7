/** Pictures to take along: an SVG of the page as a file of its own, or as pixels. */

import { button, element } from "./dom";
import type { Mount } from "./islands";

const DRAWN = ["fill", "fill-opacity", "stroke", "stroke-width", "stroke-dasharray", "opacity", "font-family", "font-size", "font-weight", "text-anchor", "paint-order", "stroke-linejoin"];
const SCALE = 2; // pixels for each of the picture's units

/** Buttons beside a picture that the service has drawn: `data-picture` is its id, `data-name` what a file is called. */
export const mountPictures: Mount = (home) => {
  const picture = document.getElementById(home.dataset["picture"] ?? "");
  home.replaceChildren(pictureButtons(() => (picture instanceof SVGSVGElement ? picture : null), home.dataset["name"] ?? "picture"));
};

/** Buttons that save the picture. */
export function pictureButtons(picture: () => SVGSVGElement | null, name: string): HTMLElement {
  const save = (kind: "svg" | "png"): void => {
    const svg = picture();
    if (svg !== null) {
      void (kind === "svg" ? Promise.resolve(new Blob([standalone(svg)], { type: "image/svg+xml" })) : pixels(svg)).then((blob) => download(blob, `${name}.${kind}`));
    }
  };
  return element("span", { role: "group", "aria-label": "Save the picture", class: "picture-buttons" }, button("SVG", () => save("svg"), "Save the picture as SVG"), button("PNG", () => save("png"), "Save the picture as PNG"));
}

/** The picture as text that needs no style sheet: each element has the style that the page gives it. */
export function standalone(svg: SVGSVGElement): string {
  const copy = svg.cloneNode(true) as SVGSVGElement;
  const [, , width, height] = (svg.getAttribute("viewBox") ?? "").split(" ");
  copy.setAttribute("xmlns", "http://www.w3.org/2000/svg");
  copy.setAttribute("width", width ?? "0");
  copy.setAttribute("height", height ?? "0");
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
  const ground = document.createElementNS("http://www.w3.org/2000/svg", "rect");
  ground.setAttribute("width", "100%");
  ground.setAttribute("height", "100%");
  ground.setAttribute("fill", groundOf(svg));
  copy.prepend(ground);
  return new XMLSerializer().serializeToString(copy);
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

async function pixels(svg: SVGSVGElement): Promise<Blob> {
  const image = new Image();
  image.src = `data:image/svg+xml;charset=utf-8,${encodeURIComponent(standalone(svg))}`;
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
