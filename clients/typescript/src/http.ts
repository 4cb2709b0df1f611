// Requests, and the one form of an error. Every request has a deadline, so that none can hang for ever.

/** Where the server is. */
export interface KeysteadOptions {
  /** Its URL, for example `https://keystead.example.com`. */
  url: string | URL;
  /** Its token, its read-only token, or the token of an offline client. */
  token?: string;
  /** Milliseconds that a request may take. Default: 30 seconds. */
  timeoutMs?: number;
  /** Instead of the global `fetch`. */
  fetch?: typeof fetch;
}

/** An error of the server, or on the way to it. */
export class KeysteadError extends Error {
  override name = "KeysteadError";

  constructor(
    /** Stable, for programs: the server's code, or `unreachable`. */
    readonly code: string,
    message: string,
    /** The HTTP status; 0 if there was no response. */
    readonly status: number,
    /** The current version, if a condition did not hold; null: there is no document. */
    readonly current?: number | null,
    options?: ErrorOptions,
  ) {
    super(message, options);
  }
}

export interface Call {
  method?: string;
  headers?: Record<string, string>;
  body?: unknown;
  /** The media type of the body. */
  media?: string;
  signal?: AbortSignal;
  /** The response is a stream, which has no deadline once it has begun. */
  streams?: boolean;
}

/** Requests to one server. */
export class Http {
  readonly #base: string;
  readonly #timeoutMs: number;
  readonly #fetch: typeof fetch;
  #token: string | undefined;
  readonly #onToken = new Set<() => void>();

  constructor(options: KeysteadOptions) {
    this.#base = String(options.url).replace(/\/+$/, "");
    this.#timeoutMs = options.timeoutMs ?? 30_000;
    this.#fetch = options.fetch ?? ((...call) => globalThis.fetch(...call));
    this.#token = options.token;
  }

  setToken(token: string | undefined): void {
    this.#token = token;
    for (const listener of this.#onToken) listener();
  }

  onToken(listener: () => void): () => void {
    this.#onToken.add(listener);
    return () => this.#onToken.delete(listener);
  }

  /** A successful response, or one whose status is in `also`. */
  async call(path: string, call: Call = {}, also: readonly number[] = []): Promise<Response> {
    const headers: Record<string, string> = { ...call.headers };
    if (this.#token !== undefined) headers["authorization"] = `Bearer ${this.#token}`;
    if (call.body !== undefined) headers["content-type"] = call.media ?? "application/json";
    const deadline = new AbortController();
    const timer = setTimeout(() => deadline.abort(new Error("the server did not respond in time")), this.#timeoutMs);
    const signal = call.signal ? AbortSignal.any([call.signal, deadline.signal]) : deadline.signal;
    try {
      const response = await this.#fetch(this.#base + path, {
        method: call.method ?? "GET",
        headers,
        signal,
        ...(call.body === undefined ? {} : { body: JSON.stringify(call.body) }),
      });
      if (!response.ok && !also.includes(response.status)) throw await errorOf(response);
      if (call.streams) return response;
      // The deadline is also that of the body.
      const body = [204, 304].includes(response.status) ? null : await response.arrayBuffer();
      return new Response(body, response);
    } catch (error) {
      if (error instanceof KeysteadError) throw error;
      const reason = error instanceof Error ? error.message : String(error);
      throw new KeysteadError("unreachable", `the server cannot be reached: ${reason}`, 0, undefined, { cause: error });
    } finally {
      clearTimeout(timer);
    }
  }

  async json<T>(path: string, call: Call = {}): Promise<T> {
    return (await (await this.call(path, call)).json()) as T;
  }
}

async function errorOf(response: Response): Promise<KeysteadError> {
  let code = "unexpected_response";
  let message = `the server returned the status ${response.status}`;
  let current: number | null | undefined;
  try {
    const { error } = (await response.json()) as { error: { code: string; message: string; current?: number | null } };
    ({ code, message, current } = { current: undefined, ...error });
  } catch {
    // A proxy's page, for example.
  }
  return new KeysteadError(code, message, response.status, current);
}

/** The data and ids of server-sent events, until the stream ends. */
export async function* events(response: Response): AsyncGenerator<{ id: string; event: string; data: string }> {
  const reader = response.body?.getReader();
  if (reader === undefined) return;
  const decoder = new TextDecoder();
  let text = "";
  let id = "";
  try {
    for (;;) {
      const { done, value } = await reader.read();
      if (done) return;
      text += decoder.decode(value, { stream: true });
      for (let end = text.indexOf("\n\n"); end >= 0; end = text.indexOf("\n\n")) {
        const block = text.slice(0, end);
        text = text.slice(end + 2);
        let event = "";
        const data: string[] = [];
        for (const line of block.split("\n")) {
          if (line.startsWith("id: ")) id = line.slice(4);
          else if (line.startsWith("event: ")) event = line.slice(7);
          else if (line.startsWith("data: ")) data.push(line.slice(6));
        }
        if (data.length > 0) yield { id, event, data: data.join("\n") };
      }
    }
  } finally {
    await reader.cancel().catch(() => undefined);
  }
}
