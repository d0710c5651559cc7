import { island } from "../islands";

island("changes", async () => (await import("../changes/changes")).mountChanges);
