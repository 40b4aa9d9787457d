// Words and numbers that several views show.

import type { ComponentChildren, JSX } from "preact";

import { Icon, type IconName } from "./icons";
import { addressOf, type ViewName } from "./route";
import { type Page, usePage } from "./page_state";
import { count, escaped, Line, visible } from "./visible";
import type { ExecutionEntry, MoveEntry, StatementEntry, Text } from "./session_json";

export const STATUS: Record<string, string> = {
  ok: "completed",
  error: "failed",
  timeout: "timed out",
  cancelled: "cancelled",
  running: "running",
  none: "did not run",
};

export const MODES: Record<string, string> = {
  recorded: "replay from the record",
  live: "live replay",
  dry: "dry replay",
};

export function StatusIcon({ status }: { status: string }): JSX.Element {
  const name = (status in STATUS ? status : "none") as IconName;
  return <Icon name={name} title={STATUS[status] ?? status} className={`status status-${name}`} />;
}

export function duration(ms: number | undefined): string {
  if (ms === undefined) return "";
  if (ms < 1) return "<1 ms";
  if (ms < 1000) return `${Math.round(ms)} ms`;
  if (ms < 60_000) return `${(ms / 1000).toFixed(1)} s`;
  return `${Math.floor(ms / 60_000)} min ${Math.round((ms % 60_000) / 1000)} s`;
}

export function number(value: number | undefined): string {
  return (value ?? 0).toLocaleString("en-US");
}

export function dollars(value: number | undefined): string {
  if (!value) return "";
  return `$${value < 0.01 ? value.toPrecision(2) : value.toFixed(2)}`;
}

export function bytes(size: number): string {
  if (size < 1000) return count(size, "byte");
  if (size < 1e6) return `${(size / 1e3).toFixed(1)} kB`;
  return `${(size / 1e6).toFixed(1)} MB`;
}

export function Time({ at }: { at: number | undefined }): JSX.Element | null {
  if (!at) return null;
  const date = new Date(at * 1000);
  const text = date.toLocaleString(undefined, { dateStyle: "medium", timeStyle: "short" });
  return (
    <time dateTime={date.toISOString()} title={date.toISOString()}>
      {text}
    </time>
  );
}

/** The first line with code of a source, for one row. */
export function firstLine(source: Text): string {
  const lines = source.text.split("\n").map((line) => line.trimEnd());
  const first = lines.find((line) => line.trim() && !line.trimStart().startsWith("#")) ?? lines.find((line) => line.trim()) ?? "";
  const more = lines.filter((line) => line.trim()).length > 1 ? " \u2026" : "";
  return `${first.slice(0, 300)}${more}`;
}

export function plain(text: Text | undefined): string {
  return text?.text ?? "";
}

export function statementName(statement: StatementEntry): string {
  return `Statement ${statement.index}`;
}

/** A link inside the page. */
export function StatementLink({ statement, children }: { statement: StatementEntry | undefined; children?: ComponentChildren }): JSX.Element | null {
  const page = usePage();
  if (!statement) return null;
  const name = statement.branch === page.session?.branch ? "" : ` on ${escaped(statement.branch)}`;
  return (
    <a href={addressOf({ session: page.sessionId, view: "timeline", entry: String(statement.key) })}>
      {children ?? `statement ${statement.index}${name}`}
    </a>
  );
}

export function moveText(move: MoveEntry): string {
  const span = move.first === undefined ? "" : move.last === undefined || move.first === move.last ? `statement ${move.first}` : `statements ${move.first} to ${move.last}`;
  switch (move.type) {
    case "rewind": {
      if (move.is_undo) return `Undid the file changes of statement ${move.statement ?? 0}`;
      if (move.is_redo) return `Restored the file changes of statement ${move.statement ?? 0}`;
      const to = move.statement ? `statement ${move.statement}` : "the beginning";
      const onto = move.to && move.to !== move.branch ? `, on branch ${move.to}` : "";
      return `Went back to ${to}${onto}${move.is_cancelled ? ", cancelled" : ""}`;
    }
    case "switch":
      return `Switched to branch ${move.to}`;
    case "replay":
      return `Ran ${span} again (${move.mode ?? "recorded"})`;
    case "edit":
      return `Edited statement ${move.first} and ran on, on branch ${move.branch}`;
    case "branch":
      return `Created branch ${move.to}`;
  }
}

/** What an execution did, for its row: errors, files, differences. */
export function summaryOf(execution: ExecutionEntry | undefined): string {
  if (!execution) return "did not run";
  const parts = [STATUS[execution.status] ?? execution.status];
  if (execution.files?.length) parts.push(`changed ${count(execution.files.length, "file")}`);
  if (execution.divergences?.length) parts.push(`differs in ${execution.divergences.map((entry) => entry.aspect).join(", ")}`);
  return parts.join(", ");
}

export function Section({ title, children, extra, open = true }: { title: string; children: ComponentChildren; extra?: ComponentChildren; open?: boolean }): JSX.Element {
  return (
    <details class="section" open={open}>
      <summary>
        <h3>{title}</h3>
        {extra && <span class="extra">{extra}</span>}
      </summary>
      <div class="section-body">{children}</div>
    </details>
  );
}

export function Fact({ name, children }: { name: string; children: ComponentChildren }): JSX.Element {
  return (
    <div class="fact">
      <dt>{name}</dt>
      <dd>{children}</dd>
    </div>
  );
}

export function Empty({ title, children }: { title: string; children?: ComponentChildren }): JSX.Element {
  return (
    <div class="empty">
      <p class="empty-title">{title}</p>
      {children}
    </div>
  );
}

export function CopyButton({ text, label }: { text: () => string | Promise<string>; label: string }): JSX.Element {
  const page = usePage();
  const copy = async (): Promise<void> => {
    const whole = await text();
    try {
      await navigator.clipboard.writeText(whole);
      page.notice("Copied.");
      setTimeout(() => page.dismiss("Copied."), 2_000);
    } catch {
      page.show({ type: "report", title: label, text: whole });
    }
  };
  return (
    <button type="button" onClick={() => void copy()}>
      <Icon name="copy" /> {label}
    </button>
  );
}

/** Copies the address of what is shown; a file has none that others could open. */
export function CopyLink({ view, entry }: { view: ViewName; entry: string }): JSX.Element | null {
  const page = usePage();
  if (page.file) return null;
  return <CopyButton label="Copy link" text={() => `${location.origin}/${addressOf({ session: page.sessionId, view, entry })}`} />;
}

export function BranchName({ name }: { name: string }): JSX.Element {
  return (
    <span class="branch-name">
      <Icon name="branch" />
      <Line text={name} most={40} />
    </span>
  );
}

/** A sentence of the session with names that it chose, as text. */
export function Said({ text }: { text: string }): JSX.Element {
  return <bdi>{visible(text)}</bdi>;
}

export function onBranches(page: Page, branch: string): boolean {
  return !page.branch || page.session!.path(page.branch).has(branch);
}
