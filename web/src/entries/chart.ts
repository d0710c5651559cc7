import "../charts/charts.css";
import { island } from "../islands";

island("chart", async () => (await import("../runs/runs")).mountRuns);
