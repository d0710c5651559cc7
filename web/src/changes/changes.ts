/** The table of changes to compile with: while jobs of it are under way, it comes anew as they end. */

import { json } from "../api";
import type { Mount } from "../islands";
import { addTableButtons } from "../tables";

const EVERY = 1500; // ms
const PARTS = ["limit", "changes"]; // elements of the page that say what the jobs have found

/** What of `GET /v1/jobs/ID/changes` is looked at. */
interface Changes {
  changes: { name: string; job: { id: string; state: string } | null }[];
}

export const mountChanges: Mount = (home) => {
  void follow(home.dataset["job"] ?? "");
};

async function follow(job: string): Promise<void> {
  let before = "";
  for (;;) {
    await new Promise((resolve) => setTimeout(resolve, EVERY));
    try {
      const { changes } = document.hidden ? { changes: null } : await json<Changes>(`/v1/jobs/${job}/changes`);
      const now = JSON.stringify(changes?.map(({ name, job: made }) => [name, made?.id, made?.state]));
      if (changes === null || now === before) {
        continue;
      }
      before = now;
      await renew();
      if (!changes.some(({ job: made }) => made?.state === "queued" || made?.state === "running")) {
        return;
      }
    } catch {
      // the service may be back a little later
    }
  }
}

/** Puts the parts of the page as it is now in place of those that are shown. */
async function renew(): Promise<void> {
  const answer = await fetch(location.pathname + location.search, { headers: { Accept: "text/html" } });
  if (!answer.ok) {
    return;
  }
  const page = new DOMParser().parseFromString(await answer.text(), "text/html");
  for (const part of PARTS) {
    const [shown, made] = [document.getElementById(part), page.getElementById(part)];
    if (shown !== null && made !== null && shown.outerHTML !== made.outerHTML) {
      const inside = shown.contains(document.activeElement);
      for (const details of [shown, ...shown.querySelectorAll("details")]) {
        const place = details.closest("[id]")?.id ?? "";
        if (details instanceof HTMLDetailsElement && details.open) {
          const same = details === shown ? made : made.querySelector(`#${CSS.escape(place)} details`);
          same?.setAttribute("open", "");
        }
      }
      shown.replaceWith(document.adoptNode(made));
      addTableButtons(made);
      if (inside) {
        made.querySelector("summary")?.focus();
      }
    }
  }
}
