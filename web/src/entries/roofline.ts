import "../charts/charts.css";
import { island } from "../islands";

island("roofline", async () => (await import("../roofline/roofline")).mountRoofline);
