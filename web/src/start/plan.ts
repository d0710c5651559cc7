/** The plan of what stands in the form of the start page, at once and again with each change. */

import { ApiError, request } from "../api";
import { element } from "../dom";
import { Latest } from "../latest";
import { addTableButtons } from "../tables";

const PLAN_AFTER = 300;
/** The fields on which a plan depends. */
const FIELDS = ["model", "uploaded", "accelerator", "document", "seed"];

export function mountPlan(island: HTMLElement): void {
  const form = document.querySelector<HTMLFormElement>("form#start");
  if (form !== null) {
    new LivePlan(island, form);
  }
}

class LivePlan {
  private readonly status = element("p", { role: "status", class: "quiet" }, "Planning …");
  private readonly body = element("div", { class: "plan" });
  private asked = "";
  private readonly plans = new Latest<FormData, string>({
    pause: PLAN_AFTER,
    abort: false,
    ask: plan,
    answered: (page) => this.show(page),
    failed: (error) => this.fail(error),
    waits: (seconds) => this.say(`The service is busy; it is asked again in ${seconds} s.`),
  });

  constructor(
    island: HTMLElement,
    private readonly form: HTMLFormElement,
  ) {
    island.replaceChildren(element("h2", { id: "plan-title" }, "Plan"), this.status, this.body);
    for (const name of ["input", "change"]) {
      form.addEventListener(name, () => this.changed());
    }
    this.changed();
  }

  private changed(): void {
    const fields = this.fields();
    const state = this.form.querySelector<HTMLTextAreaElement>("#document")?.dataset["state"];
    if (fields.has("document") && state === "checking") {
      return; // it is looked at again when that is known
    }
    const wanted = JSON.stringify([...fields.entries()]);
    if (fields.has("document") && state === "invalid") {
      this.asked = wanted;
      this.plans.drop();
      this.outdate("The document has errors. The plan is of before.");
    } else if (wanted !== this.asked) {
      this.asked = wanted;
      this.outdate("Planning …");
      this.plans.ask(fields);
    }
  }

  private fields(): FormData {
    const all = new FormData(this.form);
    const chosen = new FormData();
    for (const name of FIELDS) {
      const value = all.get(name);
      if (typeof value === "string" && value.trim() !== "") {
        chosen.set(name, value);
      }
    }
    return chosen;
  }

  private show(page: string): void {
    const parsed = new DOMParser().parseFromString(page, "text/html");
    const summary = parsed.querySelector("[data-summary]");
    summary?.remove();
    this.body.replaceChildren(...parsed.body.childNodes);
    addTableButtons(this.body);
    this.body.classList.remove("outdated");
    this.say(summary?.textContent ?? "");
  }

  private fail(error: unknown): void {
    const reason = error instanceof Error ? error.message : String(error);
    this.body.replaceChildren(element("p", { class: "notice bad" }, reason));
    this.body.classList.remove("outdated");
    this.say(error instanceof ApiError ? "There is no plan:" : "The plan could not be asked for:");
  }

  /** Says why what is shown is not of what is chosen now. */
  private outdate(reason: string): void {
    this.body.classList.add("outdated");
    this.say(this.body.childElementCount === 0 ? reason.replace(" The plan is of before.", "") : reason);
  }

  private say(text: string): void {
    this.status.textContent = text;
  }
}

async function plan(fields: FormData, signal: AbortSignal): Promise<string> {
  return (await request("/plan", {}, { method: "POST", body: fields, signal })).text();
}
