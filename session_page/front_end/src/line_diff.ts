// Differences between texts by lines: the shortest edit script of Myers, and lines with their numbers on both sides.

export interface DiffLine {
  type: "same" | "added" | "removed";
  text: string;
  /** Numbers from 1; 0 if the line is not on that side. */
  old: number;
  new: number;
  /** The part of the line that differs from its partner. */
  from?: number;
  to?: number;
}

const MOST_EDITS = 1_500; // a longer script is not searched for: the texts then differ in all lines between

export function linesOf(text: string): string[] {
  if (!text) return [];
  const lines = text.split("\n");
  if (lines.at(-1) === "") lines.pop();
  return lines;
}

/** The lines of both texts in order; `oldFirst` and `newFirst` are the numbers of their first lines. */
export function diffLines(old: string[], next: string[], oldFirst = 1, newFirst = 1): DiffLine[] {
  let start = 0;
  while (start < old.length && start < next.length && old[start] === next[start]) start++;
  let end = 0;
  while (end < old.length - start && end < next.length - start && old[old.length - 1 - end] === next[next.length - 1 - end]) end++;
  const lines: DiffLine[] = [];
  let a = oldFirst;
  let b = newFirst;
  const same = (text: string): unknown => lines.push({ type: "same", text, old: a++, new: b++ });
  const removed = (text: string): unknown => lines.push({ type: "removed", text, old: a++, new: 0 });
  const added = (text: string): unknown => lines.push({ type: "added", text, old: 0, new: b++ });
  for (const text of old.slice(0, start)) same(text);
  const left = old.slice(start, old.length - end);
  const right = next.slice(start, next.length - end);
  const script = edits(left, right);
  if (script === null) {
    left.forEach(removed);
    right.forEach(added);
  } else {
    let x = 0;
    let y = 0;
    for (const edit of script) {
      if (edit === "removed") removed(left[x++]!);
      else if (edit === "added") added(right[y++]!);
      else {
        same(left[x++]!);
        y++;
      }
    }
  }
  for (const text of end ? old.slice(old.length - end) : []) same(text);
  return withParts(grouped(lines));
}

/** Myers' greedy algorithm: one word for each step through both lists; null if they differ too much. */
function edits(left: string[], right: string[]): ("same" | "removed" | "added")[] | null {
  const n = left.length;
  const m = right.length;
  const most = Math.min(n + m, MOST_EDITS);
  const offset = most + 1;
  let reach = new Int32Array(2 * most + 3);
  const trace: Int32Array[] = [];
  for (let d = 0; d <= most; d++) {
    trace.push(reach.slice());
    for (let k = -d; k <= d; k += 2) {
      const down = k === -d || (k !== d && reach[offset + k - 1]! < reach[offset + k + 1]!);
      let x = down ? reach[offset + k + 1]! : reach[offset + k - 1]! + 1;
      let y = x - k;
      while (x < n && y < m && left[x] === right[y]) {
        x++;
        y++;
      }
      reach[offset + k] = x;
      if (x >= n && y >= m) return backtrack(trace, offset, n, m);
    }
  }
  return null;
}

function backtrack(trace: Int32Array[], offset: number, n: number, m: number): ("same" | "removed" | "added")[] {
  const script: ("same" | "removed" | "added")[] = [];
  let x = n;
  let y = m;
  for (let d = trace.length - 1; d >= 0; d--) {
    const reach = trace[d]!;
    const k = x - y;
    const down = k === -d || (k !== d && reach[offset + k - 1]! < reach[offset + k + 1]!);
    const before = down ? k + 1 : k - 1;
    const fromX = d === 0 ? 0 : reach[offset + before]!;
    const fromY = d === 0 ? 0 : fromX - before;
    while (x > fromX && y > fromY) {
      script.push("same");
      x--;
      y--;
    }
    if (d > 0) script.push(down ? "added" : "removed");
    x = fromX;
    y = fromY;
  }
  return script.reverse();
}

/** In each run of changed lines, removed lines before added ones. */
function grouped(lines: DiffLine[]): DiffLine[] {
  const result: DiffLine[] = [];
  let run: DiffLine[] = [];
  const flush = (): void => {
    result.push(...run.filter((line) => line.type === "removed"), ...run.filter((line) => line.type === "added"));
    run = [];
  };
  for (const line of lines) {
    if (line.type === "same") {
      flush();
      result.push(line);
    } else run.push(line);
  }
  flush();
  return result;
}

/** Mark what differs within lines that replace each other one by one. */
function withParts(lines: DiffLine[]): DiffLine[] {
  for (let index = 0; index < lines.length; ) {
    if (lines[index]!.type !== "removed") {
      index++;
      continue;
    }
    let middle = index;
    while (lines[middle]?.type === "removed") middle++;
    let end = middle;
    while (lines[end]?.type === "added") end++;
    if (middle - index === end - middle) {
      for (let pair = 0; pair < middle - index; pair++) mark(lines[index + pair]!, lines[middle + pair]!);
    }
    index = Math.max(end, index + 1);
  }
  return lines;
}

function mark(old: DiffLine, next: DiffLine): void {
  const most = Math.min(old.text.length, next.text.length);
  let start = 0;
  while (start < most && old.text[start] === next.text[start]) start++;
  let end = 0;
  while (end < most - start && old.text.at(-1 - end) === next.text.at(-1 - end)) end++;
  if (start + end < 3) return;
  Object.assign(old, { from: start, to: old.text.length - end });
  Object.assign(next, { from: start, to: next.text.length - end });
}

/** Runs of lines around changes, with `context` lines on each side. */
export function hunks(lines: DiffLine[], context = 3): DiffLine[][] {
  const result: DiffLine[][] = [];
  let until = -1;
  lines.forEach((line, index) => {
    if (line.type === "same") return;
    const from = Math.max(index - context, until + 1);
    if (until >= 0 && from <= until + 1 && result.length) result.at(-1)!.push(...lines.slice(until + 1, index + 1));
    else result.push(lines.slice(from, index + 1));
    until = index;
    let next = index + 1;
    while (next < lines.length && next <= index + context && lines[next]!.type === "same") next++;
    result.at(-1)!.push(...lines.slice(index + 1, next));
    until = next - 1;
  });
  return result;
}
