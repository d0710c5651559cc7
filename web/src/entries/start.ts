import "../start/start.css";
import { island } from "../islands";
import { ModelChoice } from "../start/model";

const card = document.getElementById("model-card");
const input = document.getElementById("file");
const choice = document.getElementById("uploaded");
const status = document.getElementById("file-status");
if (card !== null && status !== null && input instanceof HTMLInputElement && choice instanceof HTMLSelectElement) {
  new ModelChoice(card, input, choice, status);
}
island("plan", async () => (await import("../start/plan")).mountPlan);
