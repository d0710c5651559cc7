/** Requests to the public API, with the page's share link where it was opened by one. */

export class ApiError extends Error {
  constructor(
    message: string,
    readonly status: number,
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
export async function request(path: string, query: Record<string, string | number> = {}): Promise<Response> {
  const response = await fetch(apiUrl(path, query));
  if (!response.ok) {
    throw new ApiError(await problemOf(response), response.status);
  }
  return response;
}

export async function json<T>(path: string, query: Record<string, string | number> = {}): Promise<T> {
  return (await (await request(path, query)).json()) as T;
}

async function problemOf(response: Response): Promise<string> {
  try {
    const problem = (await response.json()) as { detail?: string; title?: string };
    return problem.detail ?? problem.title ?? response.statusText;
  } catch {
    return `${response.status} ${response.statusText}`;
  }
}
