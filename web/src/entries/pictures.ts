import { island } from "../islands";

island("pictures", async () => (await import("../picture")).mountPictures);
