/** Follows a job that has not ended: its state, its place in the queue, its stages, its log; then the page comes anew. */
const MOST_LINES = 500;
const live = document.getElementById("live");
const badge = live.querySelector(".badge");
const doing = document.getElementById("doing");
const bar = document.getElementById("progress");
const steps = document.getElementById("steps");
const log = document.getElementById("log");
const lines = [];
const events = new EventSource(live.dataset.events);

function on(name, show) {
  events.addEventListener(name, (event) => show(JSON.parse(event.data)));
}

on("state", ({ state }) => {
  badge.textContent = state;
  doing.textContent = state === "queued" ? "Waits in the queue." : "A worker has taken it.";
  steps.replaceChildren();
});
on("position", ({ position }) => {
  doing.textContent =
    position === 0 ? "Next in the queue." : `${position} ${position === 1 ? "job waits" : "jobs wait"} before it.`;
});
on("stage", ({ name, step, total }) => {
  doing.textContent = `Stage ${step} of ${total}: ${name}`;
  bar.max = total;
  bar.value = step - 1;
  const item = document.createElement("li");
  item.textContent = name;
  steps.append(item);
  steps.hidden = false;
});
on("log", ({ line }) => {
  lines.push(line);
  log.textContent = lines.slice(-MOST_LINES).join("\n");
  log.hidden = false;
  log.scrollTop = log.scrollHeight;
});
on("end", () => {
  events.close();
  location.reload();
});
