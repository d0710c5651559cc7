/** Languages by their grammars alone: nobody writes here, so that what helps to write is left out. */

import { pythonLanguage as python } from "@codemirror/lang-python";
import { yamlLanguage } from "@codemirror/lang-yaml";
import { LanguageSupport } from "@codemirror/language";

/** Of TVMScript, which is Python. */
export const pythonLanguage = new LanguageSupport(python);
/** YAML's grammar reads JSON, and is loaded for the editor of documents already. */
export const json = new LanguageSupport(yamlLanguage);
