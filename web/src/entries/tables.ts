import { addTableButtons } from "../tables";

addTableButtons(document);
