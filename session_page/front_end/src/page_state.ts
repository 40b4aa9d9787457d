// The one mutable root of the page: where it is, the session that it has, and what is on its way.
// Components read it through `usePage`, and are drawn again after `changed()`.

import { createContext } from "preact";
import { useContext, useLayoutEffect, useState } from "preact/hooks";

import type { Action, Comparison, Message, PageFile, SearchAnswer, SessionRow, State } from "./page_types";
import { addressOf, type Route, routeOf, secretOf, type ViewName } from "./route";
import { Refused, Server } from "./server";
import { Session } from "./session";
import { isFile, readFile, searchIn } from "./session_file";
import type { Content, SessionDocument, Text } from "./session_json";

export const FOREIGN_ENDED = "This page was shown again, so it has caught up.";
export const LOST = "The connection to the server is lost. The page reconnects by itself.";
const MOST_OUTPUT = 200_000; // characters of a draft; the record has all

/** Text that has been streamed, before its entry is in the session. */
export interface Draft {
  stdout: string;
  stderr: string;
}

export type Theme = "system" | "light" | "dark";

export class Page {
  readonly file = isFile();
  readonly server = new Server();
  route: Route = { session: "", view: "timeline", entry: "" };
  /** The branch that views are limited to; "" for all. */
  branch = "";
  theme: Theme = "system";
  session: Session | null = null;
  about: PageFile["file"] | null = null;
  rows: SessionRow[] | null = null;
  state: State | null = null;
  /** Why there is nothing to show. */
  problem = "";
  needsToken = false;
  connection: "none" | "live" | "lost" | "ended" = "none";
  connectionText = "";
  retry = "";
  notices: string[] = [];
  outputs = new Map<string, Draft>();
  replies = new Map<string, { text: string; is_reasoning: boolean }>();
  dialog: Dialog | null = null;
  help = false;
  query = "";
  version = 0;
  /** The entry that each view had open last, so that a change of views comes back to it. */
  private readonly opened = new Map<ViewName, string>();
  private readonly contents = new Map<string, Content | Promise<Content>>();
  private readonly listeners = new Set<() => void>();
  private readonly client = crypto.randomUUID();
  private stopLive: AbortController | null = null;
  private isDue = false;

  subscribe(listener: () => void): () => void {
    this.listeners.add(listener);
    return () => this.listeners.delete(listener);
  }

  /** Draw again what shows the page, once for all changes of now. */
  changed(): void {
    if (this.isDue) return;
    this.isDue = true;
    queueMicrotask(() => {
      this.isDue = false;
      this.version += 1;
      for (const listener of [...this.listeners]) listener();
    });
  }

  // Where the page is.

  async start(): Promise<void> {
    this.theme = themeOf(localStorageItem("theme"));
    this.applyTheme();
    window.addEventListener("hashchange", () => void this.arrive());
    document.addEventListener("visibilitychange", () => this.follow());
    if (this.file) {
      await this.openFile();
      return;
    }
    this.server.onUnauthorized = () => {
      this.needsToken = true;
      this.changed();
    };
    await this.useAddress(location.hash);
  }

  /** Take the secret from an address that the server printed, or from a bare token, and go where it leads. */
  async useAddress(text: string): Promise<void> {
    const fragment = text.includes("#") ? text.slice(text.indexOf("#")) : text;
    const secret = secretOf(fragment.includes("=") ? fragment : fragment.startsWith("#") ? "" : `token=${fragment}`);
    if (secret.name) {
      history.replaceState(null, "", `/${addressOf({ session: secret.session, view: "timeline", entry: "" })}`);
      this.needsToken = false;
      this.problem = "";
      if (secret.name === "token") this.server.token = secret.value;
      else {
        try {
          await this.server.redeem(secret.value);
        } catch (error) {
          this.needsToken = true;
          this.problem = sentence(error);
          this.changed();
          return;
        }
      }
    }
    if (!this.server.token) {
      this.needsToken = true;
      this.changed();
      return;
    }
    await this.arrive();
  }

  go(route: Partial<Route>, replace = false): void {
    const next = { ...this.route, session: this.sessionId, ...route };
    if (route.view !== undefined && route.entry === undefined && route.view !== this.route.view) {
      next.entry = this.opened.get(route.view) ?? "";
    }
    const address = addressOf(next);
    if (address === location.hash) return;
    if (replace) history.replaceState(null, "", address);
    else history.pushState(null, "", address);
    void this.arrive();
  }

  private async arrive(): Promise<void> {
    if (location.hash.includes("token=") || location.hash.includes("ticket=")) {
      await this.useAddress(location.hash);
      return;
    }
    const route = routeOf(location.hash);
    const other = route.session !== this.route.session;
    this.route = route;
    this.opened.set(route.view, route.entry);
    this.changed();
    if (this.file || (!other && (this.session || this.rows))) return;
    await this.load();
  }

  async load(): Promise<void> {
    const { session } = this.route;
    this.leave();
    this.changed();
    try {
      if (!session) {
        this.rows = (await this.server.get<{ sessions: SessionRow[] }>("/api/sessions")).sessions;
      } else {
        const answer = await this.server.get<{ document: SessionDocument; state: State }>(pathOf(session));
        if (this.route.session !== session) return;
        this.session = new Session(answer.document);
        this.state = answer.state;
        this.follow();
      }
    } catch (error) {
      this.problem = sentence(error);
    }
    this.changed();
  }

  private leave(): void {
    this.stopLive?.abort();
    this.stopLive = null;
    this.session = null;
    this.rows = null;
    this.state = null;
    this.problem = "";
    this.branch = "";
    this.connection = "none";
    this.contents.clear();
    this.outputs.clear();
    this.replies.clear();
    this.dialog = null;
  }

  private async openFile(): Promise<void> {
    try {
      const { document: session, file } = await readFile();
      this.session = new Session(session);
      this.about = file;
      for (const [digest, content] of Object.entries(session.contents)) this.contents.set(digest, content);
    } catch (error) {
      this.problem = `The session in this file cannot be read: ${sentence(error)}`;
    }
    this.route = routeOf(location.hash);
    this.changed();
  }

  /** The shown session; in a file the only one, whatever the address says. */
  get sessionId(): string {
    return this.session?.head.session_id ?? this.route.session;
  }

  /** The branch whose path views show: the chosen one, else the active one. */
  get shownBranch(): string {
    return this.branch || this.session?.branch || "main";
  }

  setBranch(branch: string): void {
    this.branch = branch;
    this.changed();
  }

  setTheme(theme: Theme): void {
    this.theme = theme;
    try {
      localStorage.setItem("theme", theme);
    } catch {
      // A file may have no storage; the choice then lasts as long as the page.
    }
    this.applyTheme();
    this.changed();
  }

  private applyTheme(): void {
    if (this.theme === "system") delete document.documentElement.dataset["theme"];
    else document.documentElement.dataset["theme"] = this.theme;
  }

  // Contents.

  /** The content of a digest if it is here already. */
  loaded(digest: string): Content | undefined {
    const content = this.contents.get(digest);
    return content instanceof Promise ? undefined : content;
  }

  content(digest: string): Promise<Content> {
    const known = this.contents.get(digest);
    if (known) return Promise.resolve(known);
    if (this.file) return Promise.resolve({ left_out: "This file does not contain it." });
    const wanted = this.server
      .get<Content>(`${pathOf(this.sessionId)}/contents/${encodeURIComponent(digest)}`)
      .then((content) => {
        this.contents.set(digest, content);
        return content;
      })
      .catch((error: unknown) => {
        this.contents.delete(digest);
        throw error;
      });
    this.contents.set(digest, wanted);
    return wanted;
  }

  async whole(text: Text): Promise<string> {
    if (!text.digest) return text.text;
    const content = await this.content(text.digest);
    return content.text ?? text.text;
  }

  async search(query: string): Promise<SearchAnswer> {
    if (!this.file) {
      return this.server.get<SearchAnswer>(`${pathOf(this.sessionId)}/search?q=${encodeURIComponent(query)}`);
    }
    const contents: SessionDocument["contents"] = {};
    for (const [digest, content] of this.contents) if (!(content instanceof Promise)) contents[digest] = content;
    return searchIn(this.session!, contents, query);
  }

  async compare(left: string, right: string): Promise<Comparison | null> {
    if (!this.file) {
      const query = new URLSearchParams({ left, right });
      return this.server.get<Comparison>(`${pathOf(this.sessionId)}/compare?${query}`);
    }
    const comparisons = this.about?.comparisons ?? [];
    const found = comparisons.find((entry) => entry.left === left && entry.right === right);
    const turned = comparisons.find((entry) => entry.left === right && entry.right === left);
    return found ?? (turned ? mirrored(turned) : null);
  }

  // Live.

  /** Hold a stream while the page is visible, and only then. */
  private follow(): void {
    if (this.file || !this.session || this.connection === "ended") return;
    if (document.visibilityState === "hidden") {
      this.stopLive?.abort();
      this.stopLive = null;
      return;
    }
    if (this.stopLive) return;
    this.stopLive = new AbortController();
    void this.keepLive(this.session, this.stopLive.signal);
  }

  private async keepLive(session: Session, signal: AbortSignal): Promise<void> {
    const id = session.head.session_id;
    for (let wait = 250; !signal.aborted && this.connection !== "ended"; wait = Math.min(wait * 2, 10_000)) {
      try {
        await this.server.live(id, session.head.events ?? 0, this.client, signal, (message) => {
          wait = 250;
          this.connection = "live";
          this.take(session, message);
        });
      } catch (error) {
        if (signal.aborted) return;
        if (error instanceof Refused && [401, 404].includes(error.status)) {
          this.connection = "ended";
          this.connectionText = error.message;
          this.changed();
          return;
        }
      }
      if (signal.aborted || (this.connection as string) === "ended") return;
      this.connection = "lost";
      this.connectionText = LOST;
      this.changed();
      await new Promise((resolve) => setTimeout(resolve, wait));
    }
  }

  private take(session: Session, message: Message): void {
    switch (message.type) {
      case "changes":
        session.merge(message.changes);
        this.dropDrafts(session);
        break;
      case "state":
        this.state = message.state;
        if (!message.state.is_busy) this.replies.clear();
        break;
      case "output": {
        const draft = this.outputs.get(message.call) ?? { stdout: "", stderr: "" };
        draft[message.stream] = (draft[message.stream] + message.text).slice(-MOST_OUTPUT);
        this.outputs.set(message.call, draft);
        break;
      }
      case "text": {
        if (!this.state?.is_busy) break; // of a request that has ended: its reply is in the session
        const draft = this.replies.get(message.message);
        this.replies.set(message.message, {
          text: (draft?.text ?? "") + message.text,
          is_reasoning: message.is_reasoning,
        });
        break;
      }
      case "retry":
        this.retry = message.text;
        break;
      case "notice":
        this.notice(message.text);
        break;
      case "end":
        if (!message.again) {
          this.connection = "ended";
          this.connectionText = message.text;
        }
        break;
      case "skipped":
        this.notice("Some output was left out here. The finished statement will have all of it.");
        break;
      case "alive":
        return;
    }
    this.changed();
  }

  private dropDrafts(session: Session): void {
    for (const call of this.outputs.keys()) {
      const statement = session.statementOfCall(call);
      const execution = statement && session.executionsOf(statement).at(-1);
      if (execution && execution.status !== "running") this.outputs.delete(call);
    }
    if (this.replies.size) {
      for (const item of session.tables.conversation) if (item.message) this.replies.delete(item.message);
      if (!session.head.is_running) this.replies.clear();
    }
  }

  notice(text: string): void {
    if (!text || this.notices.includes(text)) return;
    this.notices.push(text);
    this.changed();
  }

  dismiss(text: string): void {
    this.notices = this.notices.filter((other) => other !== text);
    this.changed();
  }

  // Acts.

  get acts(): boolean {
    return !this.file && (this.state?.acts ?? false);
  }

  /** Do it with the session's own operation.
   *
   * Throws `Refused`, whose message says why not.
   */
  act<T>(action: Action): Promise<T> {
    return this.server.post<T>(`${pathOf(this.sessionId)}/actions`, action);
  }

  show(dialog: Dialog | null): void {
    this.dialog = dialog;
    this.changed();
  }
}

/** What the user is about to do, or reads. */
export type Dialog =
  | { type: "rewind"; statement: number }
  | { type: "switch"; to: string }
  | { type: "edit"; statement: number }
  | { type: "replay"; statement: number }
  | { type: "report"; title: string; text: string };

export function sentence(error: unknown): string {
  return error instanceof Error ? error.message : String(error);
}

function pathOf(session: string): string {
  return `/api/sessions/${encodeURIComponent(session)}`;
}

function mirrored(comparison: Comparison): Comparison {
  return {
    left: comparison.right,
    right: comparison.left,
    shared: comparison.shared,
    left_statements: comparison.right_statements,
    right_statements: comparison.left_statements,
    names: comparison.names.map((name) => ({ name: name.name, left: name.right, right: name.left })),
    files: comparison.files.map((file) => ({ ...file, left: file.right, right: file.left })),
  };
}

function themeOf(value: string | null): Theme {
  return value === "light" || value === "dark" ? value : "system";
}

function localStorageItem(key: string): string | null {
  try {
    return localStorage.getItem(key);
  } catch {
    return null;
  }
}

export const PageContext = createContext<Page>(null as unknown as Page);

/** The page; the component is drawn again whenever it changes. */
export function usePage(): Page {
  const page = useContext(PageContext);
  const [, draw] = useState(0);
  // Before anything else can run, so that no change is missed between the drawing and the subscription.
  useLayoutEffect(() => page.subscribe(() => draw(page.version)), [page]);
  return page;
}
