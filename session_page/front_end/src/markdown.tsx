// The part of Markdown that models write, as elements: fences, headings, lists, quotes, tables, code and emphasis.
// Links stay text, because a session must not lead a reader elsewhere.

import type { ComponentChildren, JSX } from "preact";

import { Python } from "./python";
import { cutLines, visible } from "./visible";

const MOST_LINES = 600;

export function Markdown({ text }: { text: string }): JSX.Element {
  const cut = cutLines(text, MOST_LINES);
  return (
    <div class="markdown">
      {blocksOf(cut.text.split("\n"))}
      {cut.isCut && <p class="quiet">{cut.lines - MOST_LINES} more lines</p>}
    </div>
  );
}

function blocksOf(lines: string[]): ComponentChildren[] {
  const blocks: ComponentChildren[] = [];
  let index = 0;
  while (index < lines.length) {
    const line = lines[index]!;
    const fence = /^\s*(`{3,}|~{3,})\s*(\w*)/.exec(line);
    const heading = /^(#{1,6})\s+(.*)$/.exec(line);
    if (!line.trim()) index++;
    else if (fence) {
      const end = lines.findIndex((other, at) => at > index && other.trim().startsWith(fence[1]!) && !other.trim().slice(fence[1]!.length).trim());
      const until = end < 0 ? lines.length : end;
      const source = lines.slice(index + 1, until).join("\n");
      blocks.push(<pre tabIndex={0}>{["python", "py"].includes(fence[2]!) ? <Python source={source} /> : <code>{visible(source)}</code>}</pre>);
      index = until + 1;
    } else if (heading) {
      blocks.push(<p class="heading">{inline(heading[2]!)}</p>);
      index++;
    } else if (/^\s*([-*+]|\d+[.)])\s+/.test(line)) {
      const end = runEnd(lines, index, (other) => /^\s*([-*+]|\d+[.)])\s+/.test(other) || /^\s{2,}\S/.test(other));
      blocks.push(listOf(lines.slice(index, end)));
      index = end;
    } else if (/^\s*>/.test(line)) {
      const end = runEnd(lines, index, (other) => /^\s*>/.test(other));
      blocks.push(<blockquote>{blocksOf(lines.slice(index, end).map((other) => other.replace(/^\s*>\s?/, "")))}</blockquote>);
      index = end;
    } else if (line.includes("|") && /^\s*\|?[\s:|-]+\|[\s:|-]*$/.test(lines[index + 1] ?? "")) {
      const end = runEnd(lines, index, (other) => other.includes("|"));
      blocks.push(tableOf(lines.slice(index, end)));
      index = end;
    } else {
      const end = runEnd(lines, index, (other, at) => at === index || (other.trim() !== "" && !/^\s*(`{3,}|~{3,}|#{1,6}\s|>|[-*+]\s|\d+[.)]\s)/.test(other)));
      const paragraph = lines.slice(index, end);
      blocks.push(<p>{paragraph.flatMap((other, at) => [...(at ? [<br />] : []), ...inline(other)])}</p>);
      index = end;
    }
  }
  return blocks;
}

function runEnd(lines: string[], from: number, belongs: (line: string, at: number) => boolean): number {
  let end = from;
  while (end < lines.length && belongs(lines[end]!, end)) end++;
  return Math.max(end, from + 1);
}

function listOf(lines: string[]): JSX.Element {
  const items: string[] = [];
  for (const line of lines) {
    const item = /^\s*(?:[-*+]|\d+[.)])\s+(.*)$/.exec(line);
    if (item || !items.length) items.push(item?.[1] ?? line);
    else items[items.length - 1] += ` ${line.trim()}`;
  }
  const content = items.map((item) => <li>{inline(item)}</li>);
  return /^\s*\d/.test(lines[0]!) ? <ol>{content}</ol> : <ul>{content}</ul>;
}

function tableOf(lines: string[]): JSX.Element {
  const cells = (line: string): string[] => line.trim().replace(/^\||\|$/g, "").split("|").map((cell) => cell.trim());
  const [head, , ...rest] = lines;
  return (
    <div class="table-scroll" tabIndex={0}>
      <table>
        <thead>
          <tr>{cells(head!).map((cell) => <th scope="col">{inline(cell)}</th>)}</tr>
        </thead>
        <tbody>{rest.map((line) => <tr>{cells(line).map((cell) => <td>{inline(cell)}</td>)}</tr>)}</tbody>
      </table>
    </div>
  );
}

const INLINE = /(`+)(.+?)\1|\*\*(.+?)\*\*|(?<![\w*])\*([^*\s][^*]*)\*(?![\w*])/g;

function inline(text: string): ComponentChildren[] {
  const parts: ComponentChildren[] = [];
  let end = 0;
  for (const match of text.matchAll(INLINE)) {
    parts.push(visible(text.slice(end, match.index)));
    if (match[2] !== undefined) parts.push(<code>{visible(match[2])}</code>);
    else if (match[3] !== undefined) parts.push(<strong>{visible(match[3])}</strong>);
    else parts.push(<em>{visible(match[4]!)}</em>);
    end = match.index + match[0].length;
  }
  parts.push(visible(text.slice(end)));
  return parts;
}
