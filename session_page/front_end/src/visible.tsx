// Text of a session on the page. All of it is hostile: it becomes text nodes, characters that move or hide other text
// are shown as escapes, and very long lines and texts are cut.

import type { ComponentChildren, JSX } from "preact";

const HIDDEN =
  /[\u0000-\u0008\u000b-\u001f\u007f-\u009f\u00ad\u061c\u180e\u200b\u200e\u200f\u2028-\u202e\u2060-\u206f\ufeff\ufff9-\ufffb]|[\u{e0000}-\u{e007f}]/gu;
const MOST_OF_LINE = 2_000;

/** A character as Python would write it in a string. */
export function escapeOf(character: string): string {
  const code = character.codePointAt(0)!;
  if (character === "\r") return "\\r";
  if (code < 0x100) return `\\x${code.toString(16).padStart(2, "0")}`;
  return code < 0x10000 ? `\\u${code.toString(16).padStart(4, "0")}` : `\\U${code.toString(16).padStart(8, "0")}`;
}

/** Text with its control characters as visible escapes. */
export function visible(text: string): ComponentChildren {
  // Not `test`, after which the search below would begin behind the first match.
  if (text.search(HIDDEN) < 0) return text;
  const parts: ComponentChildren[] = [];
  let end = 0;
  for (const match of text.matchAll(HIDDEN)) {
    if (match.index > end) parts.push(text.slice(end, match.index));
    parts.push(<span class="escape">{escapeOf(match[0])}</span>);
    end = match.index + match[0].length;
  }
  parts.push(text.slice(end));
  return parts;
}

/** Text on one line, with its control characters as escapes. */
export function Line({ text, most = 300 }: { text: string; most?: number }): JSX.Element {
  const line = text.replaceAll("\n", " ");
  return <bdi>{visible(line.length > most ? `${line.slice(0, most)}\u2026` : line)}</bdi>;
}

/** Lines of a text, cut for display. */
export function cutLines(text: string, most: number): { text: string; lines: number; isCut: boolean } {
  const lines = text.split("\n");
  if (lines.at(-1) === "" && lines.length > 1) lines.pop();
  const shown = lines.slice(0, most).map((line) =>
    line.length > MOST_OF_LINE ? `${line.slice(0, MOST_OF_LINE)}\u2026 (${count(line.length - MOST_OF_LINE, "more character")})` : line,
  );
  return { text: shown.join("\n"), lines: lines.length, isCut: lines.length > most };
}

export function count(number: number, noun: string): string {
  return `${number.toLocaleString("en-US")} ${noun}${number === 1 ? "" : "s"}`;
}

/** A text for an attribute, with its control characters as escapes. */
export function escaped(text: string): string {
  return text.replace(HIDDEN, escapeOf).slice(0, 500);
}
