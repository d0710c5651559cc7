/** Requests to the public API, with the page's share link where it was opened by one. */

/** A field of a request that is wrong, with its place in a document's text where there is one. */
export interface FieldError {
  field: string;
  message: string;
  line?: number;
  column?: number;
  end_line?: number;
  end_column?: number;
}

export class ApiError extends Error {
  constructor(
    message: string,
    readonly status: number,
    readonly errors: FieldError[] = [],
    /** Seconds after which the service wants to be asked again. */
    readonly retryAfter: number | null = null,
  ) {
    super(message);
  }

  /** Whether the same request may be answered a little later. */
  get passes(): boolean {
    return this.status === 429 || this.status >= 500;
  }
}

/** Returns the address of a part of the API for a page that a share link has opened, or a key. */
export function apiUrl(path: string, query: Record<string, string | number> = {}): string {
  const url = new URL(path, location.origin);
  for (const [name, value] of Object.entries(query)) {
    url.searchParams.set(name, String(value));
  }
  const share = new URLSearchParams(location.search).get("share");
  if (share !== null) {
    url.searchParams.set("share", share);
  }
  return url.pathname + url.search;
}

/** Returns the answer; throws what its problem document says. */
export async function request(path: string, query: Record<string, string | number> = {}, init?: RequestInit): Promise<Response> {
  return await answered(fetch(apiUrl(path, query), init));
}

/** Returns the answer of an address that has all that it needs. */
export async function answered(asked: Promise<Response>): Promise<Response> {
  const response = await asked;
  if (!response.ok) {
    throw await errorOf(response);
  }
  return response;
}

export async function json<T>(path: string, query: Record<string, string | number> = {}, init?: RequestInit): Promise<T> {
  return (await (await request(path, query, init)).json()) as T;
}

async function errorOf(response: Response): Promise<ApiError> {
  const after = Number(response.headers.get("Retry-After") ?? Number.NaN);
  const wait = Number.isFinite(after) ? after : null;
  try {
    const problem = (await response.json()) as { detail?: string; title?: string; errors?: FieldError[] };
    return new ApiError(problem.detail ?? problem.title ?? response.statusText, response.status, problem.errors, wait);
  } catch {
    return new ApiError(`${response.status} ${response.statusText}`, response.status, [], wait);
  }
}
