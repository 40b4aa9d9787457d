// The timeline as rows with lanes: statements of all branches in the order in which they ran, with prompts and moves
// between them, and for each row the lines of the branches that pass it.

import { positionOf, type Session } from "./session";
import type { ExecutionEntry, ItemEntry, MoveEntry, StatementEntry } from "./session_json";

export type Row =
  | { type: "statement"; key: number; branch: string; statement: StatementEntry }
  | { type: "prompt"; key: number; branch: string; item: ItemEntry }
  | { type: "move"; key: number; branch: string; move: MoveEntry };

/** One branch's line from row to row. */
export interface Lane {
  branch: string;
  column: number;
  /** The first and the last row with its entries; -1 if it has none. */
  first: number;
  last: number;
  /** The row of the statement that it began after, and the column of that branch; -1 if it began at the beginning. */
  fork: number;
  forkColumn: number;
}

export interface Timeline {
  rows: Row[];
  lanes: Lane[];
  columns: number;
  rowOf: Map<number, number>;
}

export const MOST_COLUMNS = 10;

/** Rows of the whole tree, or with `only` of that branch's path. */
export function timelineOf(session: Session, only: string): Timeline {
  return session.derived(`timeline ${only}`, () => makeTimeline(session, only));
}

function makeTimeline(session: Session, only: string): Timeline {
  const rows = rowsOf(session, only);
  const rowOf = new Map(rows.map((row, index) => [row.key, index]));
  const lanes = only ? [] : lanesOf(session, rows, rowOf);
  return { rows, lanes, rowOf, columns: lanes.reduce((most, lane) => Math.max(most, lane.column + 1), 1) };
}

function rowsOf(session: Session, only: string): Row[] {
  const rows: Row[] = [];
  const { statements, conversation } = session.tables;
  const own = new Map<string, StatementEntry>();
  for (const statement of statements) own.set(`${statement.branch}\n${statement.statement_id}`, statement);
  const shown = only ? session.statementsOn(only) : [...own.values()];
  for (const statement of shown) rows.push({ type: "statement", key: statement.key, branch: statement.branch, statement });
  const isShown = (entry: { key: number; branch: string }): boolean => !only || session.isOn(only, entry);
  for (const item of conversation) {
    if (item.type === "user" && !item.is_aside && isShown(item)) rows.push({ type: "prompt", key: item.key, branch: item.branch, item });
  }
  for (const move of session.shownMoves) {
    if (only && !isShown(move)) continue;
    rows.push({ type: "move", key: move.key, branch: move.branch, move });
  }
  rows.sort((one, other) => one.key - other.key);
  // A command that moves is shown as its move.
  return rows.filter((row, index) => !(row.type === "prompt" && isCommand(row.item) && rows[index + 1]?.type === "move"));
}

/** Whether a prompt is a slash command. */
export function isCommand(item: ItemEntry): boolean {
  return /^\/[a-z]/.test(item.text?.text ?? "");
}

function lanesOf(session: Session, rows: Row[], rowOf: Map<number, number>): Lane[] {
  const first = new Map<string, number>();
  const last = new Map<string, number>();
  rows.forEach((row, index) => {
    if (row.type === "move") return;
    if (!first.has(row.branch)) first.set(row.branch, index);
    last.set(row.branch, index);
  });
  const lanes: Lane[] = [];
  const byBranch = new Map<string, Lane>();
  const ends: number[] = []; // by column, the last row in use
  for (const [branch, from] of first) {
    lanes.push({ branch, column: 0, first: from, last: last.get(branch)!, fork: forkOf(session, branch, rowOf), forkColumn: -1 });
  }
  // In the order of their lines' beginnings, so that a column is free once the line before has ended.
  const start = (lane: Lane): number => (lane.fork >= 0 ? lane.fork : lane.first);
  lanes.sort((one, other) => start(one) - start(other) || one.first - other.first);
  for (const lane of lanes) {
    const free = ends.findIndex((end) => end < start(lane));
    lane.column = free >= 0 ? free : Math.min(ends.length, MOST_COLUMNS - 1);
    ends[lane.column] = lane.fork < 0 ? rows.length : Math.max(ends[lane.column] ?? 0, lane.last);
    byBranch.set(lane.branch, lane);
  }
  for (const lane of lanes) {
    if (lane.fork >= 0) lane.forkColumn = byBranch.get(rows[lane.fork]!.branch)?.column ?? 0;
  }
  return lanes;
}

/** The row of the last statement that a branch has from its parent. */
function forkOf(session: Session, branch: string, rowOf: Map<number, number>): number {
  const entry = session.branchEntry(branch);
  if (entry?.parent === undefined || entry.before === undefined) return -1;
  const before = entry.before;
  const shared = session.statementsOn(entry.parent).findLast((statement) => statement.key < before);
  return shared ? (rowOf.get(shared.key) ?? -1) : -1;
}

/** The statements that begin a branch after them, by their keys. */
export function forksOf(session: Session): Map<number, string[]> {
  return session.derived("forks", () => makeForks(session));
}

function makeForks(session: Session): Map<number, string[]> {
  const forks = new Map<number, string[]>();
  for (const branch of session.tables.branches) {
    if (branch.parent === undefined || branch.before === undefined) continue;
    const shared = session.statementsOn(branch.parent).findLast((statement) => statement.key < branch.before!);
    if (shared) forks.set(shared.key, [...(forks.get(shared.key) ?? []), branch.key]);
  }
  return forks;
}

/** The executions to show beside each other: those of the statement on the branch, and what they are compared with. */
export function sideBySide(session: Session, statement: StatementEntry, branch: string): ExecutionEntry[] {
  const onBranch = (entry: ExecutionEntry): boolean => session.isOn(branch, { branch: entry.branch, key: positionOf(entry.key) });
  const own = session.executionsOf(statement).filter(onBranch);
  const shown = own.length ? own : session.executionsOf(statement);
  const others = shown.flatMap((entry) => {
    const against = entry.against ? session.executionById(entry.against) : undefined;
    return against && against.statement !== statement.key ? [against] : [];
  });
  return [...new Set([...others, ...shown])].sort((one, other) => one.key - other.key);
}
