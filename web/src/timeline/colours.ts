/** The page's colours as pixels and as text: those of the style sheet, in the scheme that is on. */

export interface Colours {
  /** Of each category, and of idle cycles last: pixels of an image, in the order of this machine's bytes. */
  pixels: Uint32Array;
  text: string;
  quiet: string;
  line: string;
  raised: string;
  card: string;
  accent: string;
  host: string;
  accel: string;
}

const KINDS: Record<string, string> = {
  busy: "--busy",
  memory: "--wait-memory",
  token: "--wait-token",
  fetch: "--wait-fetch",
  other: "--wait-other",
};

/** The class that gives an element a kind's colour, in every view. */
export function categoryClass(kind: string): string {
  return (KINDS[kind] ?? "--wait-other").slice(2);
}

export function readColours(element: HTMLElement, kinds: string[]): Colours {
  const pen = document.createElement("canvas").getContext("2d", { willReadFrequently: true });
  const probe = element.appendChild(document.createElement("span"));
  // a property of our own is text until something is painted with it
  const text = (name: string): string => {
    probe.style.color = `var(${name})`;
    return getComputedStyle(probe).color;
  };
  const pixel = (name: string): number => {
    if (pen === null) {
      return 0;
    }
    pen.fillStyle = text(name);
    pen.fillRect(0, 0, 1, 1);
    return new Uint32Array(pen.getImageData(0, 0, 1, 1).data.buffer)[0] ?? 0;
  };
  const names = [...kinds.map((kind) => KINDS[kind] ?? "--wait-other"), "--idle"];
  const found = {
    pixels: Uint32Array.from(names, pixel),
    text: text("--text"),
    quiet: text("--quiet"),
    line: text("--line"),
    raised: text("--raised"),
    card: text("--card"),
    accent: text("--accent"),
    host: text("--host"),
    accel: text("--accel"),
  };
  probe.remove();
  return found;
}
