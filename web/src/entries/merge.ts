import "../merge/merge.css";
import { island } from "../islands";

island("merge", async () => (await import("../merge/merge")).mountMerge);
