// What the page exchanges with its server and finds in its file, beside the session's own JSON (session_json.ts).

import type {
  Comparison,
  RegionEntry,
  RestoredFile,
  SessionDocument,
  SessionHead,
} from "./session_json";

export interface SessionRow {
  session_id: string;
  cwd: string;
  title: string;
  created_at: number;
  updated_at: number;
  events: number;
  size: number;
  archived: boolean;
  is_held: boolean;
}

export interface State {
  acts: boolean;
  why_not: string;
  is_here: boolean;
  /** The program that opened the session asks its questions, too. */
  is_shared: boolean;
  is_busy: boolean;
  progress: string;
  questions: Question[];
}

export interface Question {
  id: string;
  call: string;
  type: "statement" | "file" | "tree" | "command" | "server-call" | "site" | "rebuild" | "form";
  title: string;
  source: string;
  note: string;
  protected: string;
  paths: string[];
  regions: RegionEntry[];
  cwd: string;
  outside: boolean;
  always: string;
  rest: boolean;
  fields: Field[];
}

export interface Field {
  name: string;
  type: "string" | "number" | "integer" | "boolean" | "array";
  title: string;
  description: string;
  is_required: boolean;
  is_open: boolean;
  choices: { value: string; title: string }[];
  default: unknown;
  least: number | null;
  most: number | null;
  format: string;
}

export interface Found {
  table: string;
  key: number | string;
  excerpt: string;
  at: number;
}

export interface SearchAnswer {
  found: Found[];
  is_cut: boolean;
}

export interface PageFile {
  schema: "session-file/1";
  document: SessionDocument;
  file: {
    made_at: number;
    version: string;
    contains: string[];
    left_out: { digest: string; size: number; what: string }[];
    comparisons: Comparison[];
  };
}

export type Tables = Omit<SessionDocument, "schema" | "session" | "contents">;

export type Changes = { session: SessionHead } & Partial<Tables>;

export type Message =
  | { type: "changes"; position: number; changes: Changes }
  | { type: "state"; state: State }
  | { type: "output"; call: string; stream: "stdout" | "stderr"; text: string }
  | { type: "text"; message: string; text: string; is_reasoning: boolean }
  | { type: "retry"; text: string }
  | { type: "skipped" }
  | { type: "notice"; text: string }
  | { type: "alive" }
  | { type: "end"; text: string; again: boolean };

export interface RewindAnswer {
  restored: RestoredFile[];
  left: RestoredFile[];
  branch: string;
}

export interface Preview {
  files: RestoredFile[];
  left: RestoredFile[];
}

export interface ReplayAnswer {
  report: string;
  outcome: string;
  branch: string;
}

export type Action =
  | { action: "open" }
  | { action: "preview"; branch: string; statement: number }
  | { action: "rewind"; branch: string; statement: number; files: boolean; conversation: boolean }
  | { action: "switch"; branch: string; to: string; files: boolean }
  | { action: "edit"; branch: string; statement: number; source: string; mode: "recorded" | "live" }
  | { action: "replay"; branch: string; first: number; last: number | null; mode: "recorded" | "live" | "dry" }
  | { action: "prompt"; branch: string; text: string }
  | { action: "cancel" }
  | {
      action: "answer";
      question: string;
      outcome: "allowed" | "rejected" | "cancelled";
      reason: string;
      remember: boolean;
      rest: boolean;
    }
  | {
      action: "fill";
      question: string;
      outcome: "accepted" | "declined" | "cancelled";
      values: Record<string, unknown>;
    };

export type { Comparison };
