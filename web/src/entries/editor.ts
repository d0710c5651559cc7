import "../editor/editor.css";
import { enableBeginning } from "../editor/begin";
import { island } from "../islands";

enableBeginning();
island("editor", async () => (await import("../editor/editor")).mountEditor);
