/** Follows a job that has not ended: its state, its place in the queue, its stages with their times, its log; then the page comes anew. */
const MOST_LINES = 500;
const live = document.getElementById("live");
const badge = live.querySelector(".badge");
const doing = document.getElementById("doing");
const bar = document.getElementById("progress");
const steps = document.getElementById("steps");
const log = document.getElementById("log");
const lines = [];
let running = null; // the stage under way: its item of the list, and when it began
const events = new EventSource(live.dataset.events);

/** Seconds as text: tenths while they are few, whole minutes before the seconds of many. */
function lasted(milliseconds) {
  const seconds = Math.max(milliseconds, 0) / 1000;
  if (seconds < 60) {
    return `${seconds.toFixed(1)} s`;
  }
  return `${Math.floor(seconds / 60)} min ${Math.floor(seconds % 60)} s`;
}

/** Writes beside the stage under way how long it has taken until `now`, milliseconds; nothing where its time is not known. */
function clock(now) {
  if (running !== null && !Number.isNaN(running.began)) {
    running.said.textContent = ` ${lasted(now - running.began)}`;
  }
}

/** Begins to count the time of what `item` is about. */
function begin(item, time) {
  const said = item.appendChild(document.createElement("span"));
  running = { said, began: Date.parse(time) };
  clock(Date.now());
}

setInterval(() => clock(Date.now()), 500);

function on(name, show) {
  events.addEventListener(name, (event) => show(JSON.parse(event.data)));
}

on("state", ({ state, time }) => {
  badge.textContent = state;
  doing.textContent = state === "queued" ? "Waits in the queue." : "A worker has taken it, and makes ready.";
  steps.replaceChildren();
  running = null;
  if (state !== "queued") {
    const item = document.createElement("li");
    item.textContent = "start";
    steps.append(item);
    steps.hidden = false;
    begin(item, time);
  }
});
on("position", ({ position }) => {
  doing.textContent =
    position === 0 ? "Next in the queue." : `${position} ${position === 1 ? "job waits" : "jobs wait"} before it.`;
});
on("stage", ({ name, step, total, time }) => {
  clock(Date.parse(time)); // the one before has ended
  doing.textContent = `Stage ${step} of ${total}: ${name}`;
  bar.max = total;
  bar.value = step - 1;
  const item = document.createElement("li");
  item.textContent = name;
  steps.append(item);
  steps.hidden = false;
  begin(item, time);
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
