/** The memory plan on the page of its job: what its own page shows, as soon as somebody comes near. */

import { request } from "./api";
import type { Mount } from "./islands";
import { mountPictures } from "./picture";

/** `data-page` is the address of the page. The service has made it, and every text in it is escaped. */
export const mountMemory: Mount = async (home) => {
  const answer = await request(home.dataset["page"] ?? "");
  const plan = new DOMParser().parseFromString(await answer.text(), "text/html").getElementById("memory-plan");
  if (plan === null) {
    throw new Error("the service's memory plan is of another version than this page: load it again");
  }
  home.replaceChildren(plan);
  for (const tools of plan.querySelectorAll<HTMLElement>('[data-island="pictures"]')) {
    await mountPictures(tools);
  }
};
