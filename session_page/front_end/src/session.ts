// A session as the page has it: its tables, which changes are merged into, and what views look up in them.
// It knows nothing of servers, files or the DOM.

import type { Changes, Tables } from "./page_types";
import type {
  BranchEntry,
  CallEntry,
  ExecutionEntry,
  FileChangeEntry,
  FileEntry,
  HandleEntry,
  ItemEntry,
  MessageEntry,
  MoveEntry,
  RequestEntry,
  SessionDocument,
  SessionHead,
  StatementEntry,
} from "./session_json";

/** Where a branch's path ends on each of its branches: an entry is on the path if its key is below that of its branch. */
export type Path = Map<string, number>;

export const TABLES: (keyof Tables)[] = [
  "branches",
  "statements",
  "executions",
  "files",
  "conversation",
  "requests",
  "calls",
  "messages",
  "handles",
  "questions",
  "moves",
  "notes",
];

interface Keyed {
  key: number | string;
}

/** A change of a file together with the file. */
export interface FileChange {
  file: FileEntry;
  change: FileChangeEntry;
}

/** The position of an entry, whose key is a number, or text such as "48.0". */
export function positionOf(key: number | string): number {
  return typeof key === "number" ? key : Number.parseFloat(key);
}

export class Session {
  readonly tables: Tables;
  head: SessionHead;
  private cache = new Map<string, unknown>();

  constructor(document: SessionDocument) {
    this.head = document.session;
    this.tables = Object.fromEntries(TABLES.map((table) => [table, document[table] ?? []])) as unknown as Tables;
  }

  /** Replace or add the entries of `changes` by their keys. */
  merge(changes: Changes): void {
    this.head = changes.session;
    for (const table of TABLES) {
      const entries = changes[table] as Keyed[] | undefined;
      if (entries?.length) this.tables[table] = merged(this.tables[table] as Keyed[], entries) as never;
    }
    this.cache.clear();
  }

  /** What `make` returns, which is computed once until something is merged. */
  derived<T>(name: string, make: () => T): T {
    if (!this.cache.has(name)) this.cache.set(name, make());
    return this.cache.get(name) as T;
  }

  private byKey<T extends Keyed>(table: keyof Tables): Map<T["key"], T> {
    return this.derived(`key ${table}`, () => new Map((this.tables[table] as unknown as T[]).map((entry) => [entry.key, entry])));
  }

  get branch(): string {
    return this.head.branch ?? "main";
  }

  branchEntry(name: string): BranchEntry | undefined {
    return this.byKey<BranchEntry>("branches").get(name);
  }

  statement(key: number): StatementEntry | undefined {
    return this.byKey<StatementEntry>("statements").get(key);
  }

  execution(key: number): ExecutionEntry | undefined {
    return this.byKey<ExecutionEntry>("executions").get(key);
  }

  executionById(id: string): ExecutionEntry | undefined {
    return this.derived("executions", () => new Map(this.tables.executions.map((entry) => [entry.execution_id, entry]))).get(id);
  }

  item(key: number): ItemEntry | undefined {
    return this.byKey<ItemEntry>("conversation").get(key);
  }

  message(key: number): MessageEntry | undefined {
    return this.byKey<MessageEntry>("messages").get(key);
  }

  call(key: number): CallEntry | undefined {
    return this.byKey<CallEntry>("calls").get(key);
  }

  file(key: string): FileEntry | undefined {
    return this.byKey<FileEntry>("files").get(key);
  }

  request(key: string): RequestEntry | undefined {
    return this.byKey<RequestEntry>("requests").get(key);
  }

  handle(key: number): HandleEntry | undefined {
    return this.byKey<HandleEntry>("handles").get(key);
  }

  fileChange(key: string): FileChange | undefined {
    return this.derived("file changes", () => {
      const changes = new Map<string, FileChange>();
      for (const file of this.tables.files) {
        for (const change of file.changes ?? []) changes.set(change.key, { file, change });
      }
      return changes;
    }).get(key);
  }

  /** The calls and the results of tools, by the id of the call. */
  get toolCalls(): Map<string, { call?: ItemEntry; result?: ItemEntry }> {
    return this.derived("tool calls", () => {
      const calls = new Map<string, { call?: ItemEntry; result?: ItemEntry }>();
      for (const item of this.tables.conversation) {
        if (!item.call || (item.type !== "call" && item.type !== "result")) continue;
        const entry = calls.get(item.call) ?? {};
        entry[item.type] = item;
        calls.set(item.call, entry);
      }
      return calls;
    });
  }

  statementOfCall(call: string): StatementEntry | undefined {
    return this.derived(
      "statement calls",
      () => new Map(this.tables.statements.flatMap((entry) => (entry.call ? [[entry.call, entry] as const] : []))),
    ).get(call);
  }

  path(branch: string): Path {
    return this.derived(`path ${branch}`, () => {
      const path: Path = new Map();
      let limit = Number.POSITIVE_INFINITY;
      for (let name: string | undefined = branch; name !== undefined && !path.has(name); ) {
        path.set(name, limit);
        const entry = this.branchEntry(name);
        limit = Math.min(limit, entry?.before ?? Number.POSITIVE_INFINITY);
        name = entry?.parent;
      }
      return path;
    });
  }

  isOn(branch: string, entry: { branch: string; key: number | string }): boolean {
    const limit = this.path(branch).get(entry.branch);
    return limit !== undefined && positionOf(entry.key) < limit;
  }

  /** The statements on the path of a branch, in order; of two with one id the later. */
  statementsOn(branch: string): StatementEntry[] {
    return this.derived(`statements ${branch}`, () => {
      const last = new Map<string, StatementEntry>();
      for (const statement of this.tables.statements) {
        if (this.isOn(branch, statement)) last.set(statement.statement_id, statement);
      }
      return [...last.values()].sort((one, other) => one.key - other.key);
    });
  }

  /** The executions of a statement, oldest first. */
  executionsOf(statement: StatementEntry): ExecutionEntry[] {
    return (statement.executions ?? []).flatMap((key) => this.execution(key) ?? []);
  }

  /** The execution whose result the namespace has, else the last one. */
  current(statement: StatementEntry): ExecutionEntry | undefined {
    const executions = this.executionsOf(statement);
    return executions.findLast((entry) => entry.counts) ?? executions.at(-1);
  }

  /** The statements that are running, on the active branch. */
  get running(): StatementEntry[] {
    return this.derived("running", () =>
      this.tables.executions
        .filter((entry) => entry.status === "running" && !entry.mode)
        .flatMap((entry) => this.statement(entry.statement) ?? [])
        .filter((entry) => this.isOn(this.branch, entry)),
    );
  }

  /** Moves that a reader of the timeline wants to know: a switch or a new branch is part of the move that made it. */
  get shownMoves(): MoveEntry[] {
    return this.derived("moves", () => {
      const parts = new Set<number>();
      const { moves } = this.tables;
      moves.forEach((move, index) => {
        if (move.type !== "switch") return;
        const before = moves.slice(Math.max(0, index - 3), index).reverse();
        const whole = before.find((other) => other.type === "rewind" && other.to === move.to);
        const after = moves[index + 1];
        if (whole || (after?.type === "edit" && after.branch === move.to)) parts.add(move.key);
      });
      return moves.filter((move) => move.type !== "branch" && !parts.has(move.key));
    });
  }

  requestAt(position: number, branch: string): RequestEntry | undefined {
    return this.tables.requests.findLast((entry) => entry.root <= position && this.isOn(branch, { branch: entry.branch, key: entry.root }));
  }
}

function merged(old: Keyed[], entries: Keyed[]): Keyed[] {
  const places = new Map(old.map((entry, index) => [entry.key, index]));
  const next = old.slice();
  for (const entry of entries) {
    const place = places.get(entry.key);
    if (place === undefined) places.set(entry.key, next.push(entry) - 1);
    else next[place] = entry;
  }
  return next;
}
