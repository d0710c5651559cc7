/** JSON over lines. Its numbers stay as they are written: those of a document may have more digits than a script keeps. */

const TOKEN = /"(?:[^"\\]|\\.)*"|[{}[\],:]|[^\s"{}[\],:]+/g;
/** A list or an object that is as short as this stays on its line. */
const LINE = 72;

/** Returns the same JSON with a line for each item. A text that is no JSON comes back as lines of its parts. */
export function indented(text: string): string {
  const tokens = text.match(TOKEN) ?? [];
  const ends = endsOf(tokens);
  let made = "";
  let depth = 0;
  const line = (): string => `\n${"  ".repeat(depth)}`;
  for (let place = 0; place < tokens.length; place++) {
    const token = tokens[place] ?? "";
    const end = ends.get(place);
    if (end !== undefined) {
      const flat = spaced(tokens.slice(place, end + 1));
      if (flat.length <= LINE) {
        made += flat;
        place = end;
        continue;
      }
      depth++;
      made += token + line();
    } else if (token === "}" || token === "]") {
      depth = Math.max(0, depth - 1);
      made += line() + token;
    } else {
      made += token === "," ? token + line() : token === ":" ? ": " : token;
    }
  }
  return `${made}\n`;
}

function spaced(tokens: string[]): string {
  return tokens.map((token) => (token === "," || token === ":" ? `${token} ` : token)).join("");
}

/** Returns where each bracket that opens is closed. */
function endsOf(tokens: string[]): Map<number, number> {
  const found = new Map<number, number>();
  const open: number[] = [];
  tokens.forEach((token, place) => {
    if (token === "{" || token === "[") {
      open.push(place);
    } else if (token === "}" || token === "]") {
      const begin = open.pop();
      if (begin !== undefined) {
        found.set(begin, place);
      }
    }
  });
  return found;
}
