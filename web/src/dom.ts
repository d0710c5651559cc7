/** Elements, built without markup: text from anywhere stays text. */

type Child = Node | string | null;
type Attributes = Record<string, string | number | boolean>;

export function element<K extends keyof HTMLElementTagNameMap>(
  tag: K,
  attributes: Attributes = {},
  ...children: Child[]
): HTMLElementTagNameMap[K] {
  const made = document.createElement(tag);
  for (const [name, value] of Object.entries(attributes)) {
    if (value !== false) {
      made.setAttribute(name, value === true ? "" : String(value));
    }
  }
  made.append(...children.filter((child) => child !== null));
  return made;
}

/** A button that does something; `key` is the key that does the same. */
export function button(text: string, act: () => void, label?: string): HTMLButtonElement {
  const made = element("button", { type: "button", ...(label === undefined ? {} : { "aria-label": label, title: label }) }, text);
  made.addEventListener("click", act);
  return made;
}
