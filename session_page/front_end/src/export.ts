// Parts of a session as text for the clipboard: statements as Markdown, and model calls as `rewindow show` prints them.

import { linesOf } from "./line_diff";
import type { Page } from "./page_state";
import type { CallEntry, ExecutionEntry, MessageEntry, StatementEntry, Text } from "./session_json";
import { duration, STATUS } from "./words";

/** A fenced block whose fence no line of the text can end. */
function fenced(text: string, language = ""): string {
  let fence = "```";
  while (text.includes(fence)) fence += "`";
  return `${fence}${language}\n${text.replace(/\n$/, "")}\n${fence}`;
}

export async function statementMarkdown(page: Page, statement: StatementEntry, execution: ExecutionEntry | undefined): Promise<string> {
  const whole = async (text: Text | undefined): Promise<string> => (text ? page.whole(text) : "");
  const status = execution ? `${STATUS[execution.status]}, ${duration(execution.time_ms)}` : STATUS["none"]!;
  const parts = [`## Statement ${statement.index} on ${statement.branch} (${status})`, fenced(await whole(statement.source), "python")];
  const add = async (title: string, text: Text | undefined): Promise<void> => {
    const content = await whole(text);
    if (content) parts.push(`${title}:`, fenced(content));
  };
  await add("Output", execution?.stdout?.text);
  await add("Error output", execution?.stderr?.text);
  await add("Value", execution?.markdown ?? execution?.value);
  await add("Error", execution?.error?.traceback ?? execution?.error?.message);
  for (const key of execution?.files ?? []) {
    const found = page.session!.fileChange(key);
    if (!found) continue;
    const lines: string[] = [];
    for (const region of found.change.regions ?? []) {
      lines.push(`@@ line ${region.line} @@`);
      for (const line of linesOf(await whole(region.old))) lines.push(`-${line}`);
      for (const line of linesOf(await whole(region.new))) lines.push(`+${line}`);
    }
    parts.push(`\`${found.file.name}\` (${found.change.change}):`, fenced(lines.join("\n"), "diff"));
  }
  return `${parts.join("\n\n")}\n`;
}

export async function sessionMarkdown(page: Page, branch: string): Promise<string> {
  const session = page.session!;
  const parts = [`# ${session.head.title || session.head.session_id}\n`];
  for (const statement of session.statementsOn(branch)) {
    for (const key of statement.before ?? []) {
      const item = session.item(key);
      if (item && ["user", "reply"].includes(item.type) && item.text) {
        const text = await page.whole(item.text);
        const line = item.type === "user" ? text.replace(/^/gm, "> ") : text;
        if (!parts.includes(`${line}\n`)) parts.push(`${line}\n`);
      }
    }
    parts.push(await statementMarkdown(page, statement, session.current(statement)));
  }
  return parts.join("\n");
}

/** The messages that a call was sent, in order: a call keeps the first of the call before, and adds its own. */
export function messagesOf(page: Page, call: CallEntry): MessageEntry[] {
  const session = page.session!;
  const parts: number[][] = [call.messages ?? []];
  let wanted = call.kept ?? 0;
  for (let number = call.key - 1; wanted > 0; number--) {
    const before = session.call(number);
    if (!before) break;
    const kept = before.kept ?? 0;
    if (wanted > kept) {
      parts.push((before.messages ?? []).slice(0, wanted - kept));
      wanted = kept;
    }
  }
  return parts.reverse().flat().flatMap((key) => session.message(key) ?? []);
}

/** What a call was sent, text by text, as `rewindow show SESSION --projection N` prints it. */
export async function projectionText(page: Page, call: CallEntry): Promise<string> {
  const content = async (digest: string | undefined): Promise<string> => {
    if (!digest) return "";
    const { text, left_out } = await page.content(digest);
    if (text === undefined) throw new Error(left_out ?? "This content is not text.");
    return text;
  };
  const blocks = [block("instructions", await content(call.instructions))];
  for (const message of messagesOf(page, call)) {
    const cut = message.is_shortened ? ", shortened" : "";
    blocks.push(block(`${message.role} (${message.event}${cut})`, await page.whole(message.text)));
  }
  blocks.push(block("end of the newest message", await content(call.tail)));
  return `${blocks.join("\n\n")}\n`;
}

function block(title: string, text: string): string {
  const line = "\u2500".repeat(4);
  return text ? `${line} ${title} ${line}\n${text.replace(/\n+$/, "")}` : `${line} ${title}: nothing ${line}`;
}
