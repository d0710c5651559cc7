import { island } from "../islands";

island("memory", async () => (await import("../memory")).mountMemory);
