import "../graph/graph.css";
import { island } from "../islands";

island("graph", async () => (await import("../graph/graph")).mountGraph);
