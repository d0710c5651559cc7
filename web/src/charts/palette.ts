/** The page's colours for what draws them itself, in the scheme that is on. */

const NAMES = { text: "--text", quiet: "--quiet", line: "--line", card: "--card", accent: "--accent", accel: "--accel" };
const GROUPS = 8;

export interface Palette extends Record<keyof typeof NAMES, string> {
  /** Of accelerators, by number. */
  groups: string[];
  font: string;
}

export function readPalette(home: HTMLElement): Palette {
  const probe = home.appendChild(document.createElement("span"));
  // a property of our own is text until something is painted with it
  const colour = (name: string): string => {
    probe.style.color = `var(${name})`;
    return getComputedStyle(probe).color;
  };
  const found = {
    text: colour(NAMES.text),
    quiet: colour(NAMES.quiet),
    line: colour(NAMES.line),
    card: colour(NAMES.card),
    accent: colour(NAMES.accent),
    accel: colour(NAMES.accel),
    groups: Array.from({ length: GROUPS }, (_, place) => colour(`--group-${place}`)),
    font: getComputedStyle(probe).fontFamily,
  };
  probe.remove();
  return found;
}
