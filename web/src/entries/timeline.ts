import "../timeline/timeline.css";
import { island } from "../islands";

island("timeline", async () => (await import("../timeline/timeline")).mountTimeline);
