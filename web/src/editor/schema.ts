/** What the JSON Schema of documents says of a place in one. */

import { json } from "../api";
import { child, type Part, type Path, textAt } from "./tree";

export interface Schema {
  $ref?: string;
  $defs?: Record<string, Schema>;
  type?: string;
  const?: unknown;
  enum?: unknown[];
  default?: unknown;
  description?: string;
  examples?: unknown[];
  properties?: Record<string, Schema>;
  patternProperties?: Record<string, Schema>;
  additionalProperties?: boolean | Schema;
  items?: Schema;
  required?: string[];
  anyOf?: Schema[];
  oneOf?: Schema[];
  allOf?: { if: { properties: { family: Schema } }; then: Schema }[];
  [limit: string]: unknown;
}

/** The limits that are told, with their words. */
const LIMITS: [string, string][] = [
  ["minimum", "at least"],
  ["exclusiveMinimum", "above"],
  ["maximum", "at most"],
  ["exclusiveMaximum", "below"],
  ["multipleOf", "a multiple of"],
  ["minItems", "items at least:"],
  ["maxItems", "items at most:"],
  ["pattern", "of the form"],
];

/** A key that an object may have. */
export interface Key {
  name: string;
  schemas: Schema[];
  required: boolean;
}

/** A value that may stand at a place, as it is written in JSON, and what it means. */
export interface Value {
  value: unknown;
  description: string;
}

export class DocumentSchema {
  constructor(private readonly root: Schema) {}

  static async load(): Promise<DocumentSchema> {
    return new DocumentSchema(await json<Schema>("/v1/schemas/accelerator"));
  }

  /** Returns the schemas of what is at a path; several where the document does not say yet which one holds. */
  at(document: Part | null, path: Path): Schema[] {
    let schemas = [this.root];
    let node = document;
    for (const step of path) {
      const around = node;
      schemas = schemas.flatMap((schema) => this.inner(schema, step, around));
      node = child(node, step);
    }
    return schemas;
  }

  /** Returns the keys that the object at a path may have, in the schema's order. */
  keys(document: Part | null, path: Path): Key[] {
    const object = path.reduce(child, document);
    const keys = new Map<string, Key>();
    for (const schema of this.at(document, path)) {
      const forms = this.forms(schema).filter((form) => fits(form, object));
      for (const name of forms.flatMap((form) => Object.keys(form.properties ?? {}))) {
        if (!keys.has(name)) {
          const required = forms.some((form) => form.required?.includes(name) ?? false);
          keys.set(name, { name, required, schemas: this.at(document, [...path, name]) });
        }
      }
    }
    return [...keys.values()];
  }

  /** Returns the values from which one is to be chosen at a path. */
  values(document: Part | null, path: Path): Value[] {
    const values = new Map<string, Value>();
    for (const form of this.at(document, path).flatMap((schema) => this.forms(schema))) {
      const chosen = form.const === undefined ? (form.enum ?? (form.type === "boolean" ? [true, false] : [])) : [form.const];
      for (const value of chosen) {
        const description = this.variant(document, path, value) ?? form.description ?? "";
        values.set(JSON.stringify(value), { value, description });
      }
    }
    return [...values.values()];
  }

  /** Returns what the object is whose `kind` is this value, if the path leads to a `kind`. */
  private variant(document: Part | null, path: Path, value: unknown): string | null {
    if (path.at(-1) !== "kind") {
      return null;
    }
    const forms = this.at(document, path.slice(0, -1)).flatMap((schema) => this.forms(schema));
    const found = forms.find((form) => form.properties?.["kind"]?.const === value);
    return found?.description ?? null;
  }

  /** Returns the type and limits of what may stand somewhere, as a text. */
  typeOf(schemas: Schema[]): string {
    const forms = schemas.flatMap((schema) => this.forms(schema));
    const parts = forms.map((form) => {
      if (form.const !== undefined) {
        return JSON.stringify(form.const);
      }
      if (form.enum !== undefined) {
        return form.enum.map((value) => JSON.stringify(value)).join(" or ");
      }
      const limits = LIMITS.filter(([name]) => form[name] !== undefined).map(([name, words]) => `${words} ${String(form[name])}`);
      return form.type === undefined ? "" : [form.type === "array" ? "list" : form.type, ...limits].join(", ");
    });
    return [...new Set(parts.filter((text) => text !== ""))].join(" or ");
  }

  descriptionOf(schemas: Schema[]): string {
    return schemas.flatMap((schema) => this.forms(schema)).find(({ description }) => description !== undefined)?.description ?? "";
  }

  private inner(schema: Schema, step: string | number, node: Part | null): Schema[] {
    return this.forms(schema)
      .filter((form) => fits(form, node))
      .flatMap((form) => {
        const family = textAt(node, "family");
        const asked = (form.allOf ?? []).filter((one) => one.if.properties.family.const === family);
        const more = asked.map(({ then }) => then.properties?.[step]).filter((schema) => schema !== undefined);
        const known = typeof step === "number" ? form.items : form.properties?.[step];
        const patterns: Schema[] = Object.values(form.patternProperties ?? {});
        const other = typeof form.additionalProperties === "object" ? form.additionalProperties : undefined;
        const one = known ?? (typeof step === "number" ? undefined : (patterns[0] ?? other));
        return one === undefined ? more : [...more, one];
      });
  }

  /** Returns what a schema stands for: definitions in place of references, and each of several forms. */
  private forms(schema: Schema): Schema[] {
    const definition = schema.$ref === undefined ? undefined : this.root.$defs?.[schema.$ref.slice(schema.$ref.lastIndexOf("/") + 1)];
    const whole: Schema = { ...definition, ...schema };
    return [whole, ...[...(whole.anyOf ?? []), ...(whole.oneOf ?? [])].flatMap((one) => this.forms(one))];
  }
}

/** Whether a form may be that of an object, by its `kind`. */
function fits(form: Schema, node: Part | null): boolean {
  const kind = form.properties?.["kind"]?.const;
  const said = textAt(node, "kind");
  return kind === undefined || said === null || said === kind;
}
