/** Hands traces over to the copy of Perfetto's viewer on this host, in a window of its own. */

import { request } from "./api";

// another route asks hosts that are not there
const VIEWER = "/perfetto/#!/viewer?mode=embedded";
/** Time from one question to the next whether the viewer is there, and how long it may take to be: ms. */
const APART = 100;
const PATIENCE = 60_000;

/** Lets a link to a trace open the viewer with it instead; `say` tells the reader how far it is. */
export function opensViewer(link: HTMLAnchorElement, say: (text: string) => void): void {
  link.addEventListener("click", (event) => {
    // a window must be opened while the click is handled; where the browser opens none, the link is followed
    const viewer = event.ctrlKey || event.metaKey || event.shiftKey ? null : window.open(VIEWER, "_blank");
    if (viewer !== null) {
      event.preventDefault();
      say("The trace is on its way to Perfetto's viewer.");
      void handOver(viewer, link.href, link.download).then(
        () => say("Perfetto's viewer has the trace."),
        (error: unknown) => {
          viewer.close();
          say(`Perfetto's viewer has not got the trace: ${error instanceof Error ? error.message : String(error)}`);
        },
      );
    }
  });
}

async function handOver(viewer: Window, address: string, title: string): Promise<void> {
  const [buffer] = await Promise.all([request(address).then((answer) => answer.arrayBuffer()), ready(viewer)]);
  viewer.postMessage({ perfetto: { buffer, title } }, location.origin, [buffer]);
}

/** Resolves as soon as the viewer answers. */
function ready(viewer: Window): Promise<void> {
  return new Promise((done, failed) => {
    const began = performance.now();
    const asking = setInterval(() => {
      if (viewer.closed || performance.now() - began > PATIENCE) {
        ended(() => failed(new Error(viewer.closed ? "its window was closed" : "it does not answer")));
      } else {
        viewer.postMessage("PING", location.origin);
      }
    }, APART);
    const answered = (event: MessageEvent): void => {
      if (event.source === viewer && event.origin === location.origin && event.data === "PONG") {
        ended(done);
      }
    };
    const ended = (then: () => void): void => {
      clearInterval(asking);
      removeEventListener("message", answered);
      then();
    };
    addEventListener("message", answered);
  });
}
