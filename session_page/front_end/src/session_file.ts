// The session inside a page that was written as one file: compressed JSON in a script element.

import type { Found, PageFile, SearchAnswer } from "./page_types";
import type { Session } from "./session";
import type { Content, SessionDocument, Text } from "./session_json";

const ELEMENT = "session-data";

export function isFile(): boolean {
  return document.getElementById(ELEMENT) !== null;
}

export async function readFile(): Promise<PageFile> {
  const encoded = atob(document.getElementById(ELEMENT)!.textContent!.trim());
  const bytes = new Uint8Array(encoded.length);
  for (let index = 0; index < encoded.length; index++) bytes[index] = encoded.charCodeAt(index);
  const stream = new Blob([bytes]).stream().pipeThrough(new DecompressionStream("gzip"));
  return (await new Response(stream).json()) as PageFile;
}

const MOST = 200;
const AROUND = 80;

/** Search the whole texts of a session, as the server does for a served one. */
export function searchIn(session: Session, contents: SessionDocument["contents"], query: string): SearchAnswer {
  const needle = query.toLowerCase();
  const found: Found[] = [];
  const look = (table: string, key: number | string, texts: (string | Text | undefined)[]): void => {
    for (const text of texts) {
      const whole = wholeOf(text, contents);
      const at = whole.toLowerCase().indexOf(needle);
      if (at < 0) continue;
      const start = Math.max(0, at - AROUND);
      found.push({ table, key, excerpt: whole.slice(start, at + needle.length + AROUND), at: at - start });
      return;
    }
  };
  const { statements, executions, files, conversation } = session.tables;
  for (const entry of statements) look("statements", entry.key, [entry.source, ...(entry.tags ?? [])]);
  for (const entry of executions) {
    const { stdout, stderr, error } = entry;
    look("executions", entry.key, [entry.value, stdout?.text, stderr?.text, error?.type, error?.message, error?.traceback]);
  }
  for (const file of files) {
    look("files", file.key, [file.name]);
    for (const change of file.changes ?? []) {
      look("files", file.key, (change.regions ?? []).flatMap((region) => [region.new, region.old]));
    }
  }
  for (const item of conversation) {
    if (["user", "reply", "reasoning", "summary"].includes(item.type)) look("conversation", item.key, [item.text]);
  }
  return { found: found.slice(0, MOST), is_cut: found.length > MOST };
}

function wholeOf(text: string | Text | undefined, contents: { [digest: string]: Content }): string {
  if (text === undefined) return "";
  if (typeof text === "string") return text;
  return (text.digest && contents[text.digest]?.text) || text.text;
}
