/** Follows a job that has not ended: its state, its place in the queue, its stages; at its end the page comes anew. */
const live = document.getElementById("live");
const doing = document.getElementById("doing");
const badge = live.querySelector(".badge");
const bar = document.getElementById("progress");
const events = new EventSource(live.dataset.events);

events.addEventListener("state", (event) => {
  const { state } = JSON.parse(event.data);
  badge.textContent = state;
  doing.textContent = state === "queued" ? "Waits in the queue." : "A worker has taken it.";
});
events.addEventListener("position", (event) => {
  const { position } = JSON.parse(event.data);
  doing.textContent =
    position === 0 ? "Next in the queue." : `${position} ${position === 1 ? "job waits" : "jobs wait"} before it.`;
});
events.addEventListener("stage", (event) => {
  const { name, step, total } = JSON.parse(event.data);
  doing.textContent = `Stage ${step} of ${total}: ${name}`;
  bar.max = total;
  bar.value = step - 1;
});
events.addEventListener("end", () => {
  events.close();
  location.reload();
});
