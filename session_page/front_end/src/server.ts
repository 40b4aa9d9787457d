// Requests to the server of the page: each with the token, none with a cookie, all to the page's own origin.

import type { Message } from "./page_types";

/** The server refused a request; the message is its sentence. */
export class Refused extends Error {
  constructor(
    readonly status: number,
    message: string,
  ) {
    super(message);
  }
}

export const NOT_REACHED = "The server of this page does not answer. Is `rewindow page` still running?";
const SILENCE_MS = 30_000;
const KEY = "token";

export class Server {
  onUnauthorized: () => void = () => undefined;

  get token(): string {
    return sessionStorage.getItem(KEY) ?? "";
  }

  set token(value: string) {
    if (value) sessionStorage.setItem(KEY, value);
    else sessionStorage.removeItem(KEY);
  }

  async redeem(ticket: string): Promise<void> {
    const answer = (await this.send("/api/token", { ticket })) as { token: string };
    this.token = answer.token;
  }

  async get<T>(path: string): Promise<T> {
    return (await this.send(path)) as T;
  }

  async post<T>(path: string, body: unknown): Promise<T> {
    return (await this.send(path, body)) as T;
  }

  private async send(path: string, body?: unknown): Promise<unknown> {
    const response = await this.fetch(path, body === undefined ? {} : { method: "POST", body: JSON.stringify(body) });
    return response.json();
  }

  private async fetch(path: string, options: RequestInit): Promise<Response> {
    const headers: Record<string, string> = {};
    if (this.token) headers["Authorization"] = `Bearer ${this.token}`;
    if (options.body !== undefined) headers["Content-Type"] = "application/json";
    let response: Response;
    try {
      response = await fetch(path, {
        ...options,
        headers,
        credentials: "omit",
        cache: "no-store",
        referrerPolicy: "no-referrer",
        redirect: "error",
      });
    } catch (error) {
      if (error instanceof DOMException && error.name === "AbortError") throw error;
      throw new Refused(0, NOT_REACHED);
    }
    if (response.ok) return response;
    if (response.status === 401) {
      this.token = "";
      this.onUnauthorized();
    }
    throw new Refused(response.status, await sentenceOf(response));
  }

  /** Read the live stream of a session until it ends, or is silent for too long. */
  async live(
    session: string,
    after: number,
    client: string,
    signal: AbortSignal,
    take: (message: Message) => void,
  ): Promise<void> {
    const silent = new AbortController();
    const path = `/api/sessions/${encodeURIComponent(session)}/live?after=${after}&client=${client}`;
    const response = await this.fetch(path, { signal: AbortSignal.any([signal, silent.signal]) });
    const reader = response.body!.getReader();
    const decoder = new TextDecoder();
    let rest: string[] = [];
    let timer = setTimeout(() => silent.abort(), SILENCE_MS);
    try {
      for (;;) {
        const { done, value } = await reader.read();
        if (done) return;
        clearTimeout(timer);
        timer = setTimeout(() => silent.abort(), SILENCE_MS);
        const pieces = decoder.decode(value, { stream: true }).split("\n");
        for (const piece of pieces.slice(0, -1)) {
          const line = [...rest, piece].join("");
          rest = [];
          if (line) take(JSON.parse(line) as Message);
        }
        rest.push(pieces.at(-1)!);
      }
    } finally {
      clearTimeout(timer);
    }
  }
}

async function sentenceOf(response: Response): Promise<string> {
  try {
    const { error } = (await response.json()) as { error?: unknown };
    if (typeof error === "string" && error) return error;
  } catch {
    // The body is not JSON, so the status has to do.
  }
  return `The server answered with status ${response.status}.`;
}
