/** Finds the islands of a page, and loads what one is made of when it comes near the view. */

export type Mount = (element: HTMLElement) => void | Promise<void>;

/** How far outside of the view an island is already loaded. */
const AHEAD = "300px";

/** Mounts every `<div data-island="NAME">` with what `load` brings, once it is nearly seen. */
export function island(name: string, load: () => Promise<Mount>): void {
  const seen = new IntersectionObserver(
    (entries) => {
      for (const { isIntersecting, target } of entries) {
        if (isIntersecting && target instanceof HTMLElement) {
          seen.unobserve(target);
          void mounted(target, load);
        }
      }
    },
    { rootMargin: AHEAD },
  );
  for (const element of document.querySelectorAll(`[data-island="${name}"]`)) {
    seen.observe(element);
  }
}

async function mounted(element: HTMLElement, load: () => Promise<Mount>): Promise<void> {
  try {
    await (await load())(element);
    element.dataset["mounted"] = "";
  } catch (error) {
    const notice = document.createElement("p");
    notice.className = "notice bad";
    notice.setAttribute("role", "alert");
    notice.textContent = `This part of the page did not load: ${error instanceof Error ? error.message : String(error)}`;
    element.replaceChildren(notice);
  }
}
