// Changes of files as diffs: the regions that the session recorded, or the whole of two contents.

import type { JSX } from "preact";
import { useState } from "preact/hooks";

import { type DiffLine, diffLines, hunks, linesOf } from "./line_diff";
import { type Page, sentence, usePage } from "./page_state";
import { count, visible } from "./visible";
import type { FileChangeEntry, RegionEntry, Text } from "./session_json";

const MOST_LINES = 400;
const MOST_OF_LINE = 1_000;
const MARKS = { same: " ", added: "+", removed: "\u2212" };

interface Region {
  lines: DiffLine[];
  more_added?: number;
  more_removed?: number;
}

/** The lines of recorded regions. A text that is cut in the document is loaded first if it is not here. */
function regionsOf(page: Page, regions: RegionEntry[]): Region[] {
  let shift = 0;
  return regions.map((region) => {
    const text = (part: Text | undefined): string[] =>
      linesOf(part?.digest ? (page.loaded(part.digest)?.text ?? part.text) : (part?.text ?? ""));
    const old = text(region.old);
    const next = text(region.new);
    const lines = diffLines(old, next, region.line, region.line + shift);
    shift += next.length - old.length + (region.more_added ?? 0) - (region.more_removed ?? 0);
    return { lines, more_added: region.more_added, more_removed: region.more_removed };
  });
}

export function sizeOf(page: Page, regions: RegionEntry[] | undefined): { added: number; removed: number } {
  let added = 0;
  let removed = 0;
  for (const region of regionsOf(page, regions ?? [])) {
    added += region.lines.filter((line) => line.type === "added").length + (region.more_added ?? 0);
    removed += region.lines.filter((line) => line.type === "removed").length + (region.more_removed ?? 0);
  }
  return { added, removed };
}

export function DiffSize({ added, removed }: { added: number; removed: number }): JSX.Element {
  return (
    <span class="diff-size">
      <span class="added">+{added}</span> <span class="removed">{"\u2212"}{removed}</span>
    </span>
  );
}

export function Regions({ regions, label }: { regions: RegionEntry[]; label: string }): JSX.Element {
  const page = usePage();
  const wanted = regions.flatMap((region) => [region.new, region.old]).flatMap((text) => (text?.digest && !page.loaded(text.digest) ? [text.digest] : []));
  const [problem, setProblem] = useState("");
  const load = (): void => {
    Promise.all(wanted.map((digest) => page.content(digest))).then(
      () => page.changed(),
      (error: unknown) => setProblem(sentence(error)),
    );
  };
  return (
    <>
      <DiffTable regions={regionsOf(page, regions)} label={label} />
      {wanted.length > 0 && (
        <button type="button" class="more" onClick={load}>
          Show all lines
        </button>
      )}
      {problem && <p class="refusal">{problem}</p>}
    </>
  );
}

/** The diff of one change, and on request that of the whole file. */
export function ChangeDiff({ change, name }: { change: FileChangeEntry; name: string }): JSX.Element {
  const page = usePage();
  const [whole, setWhole] = useState<DiffLine[] | null>(null);
  const [problem, setProblem] = useState("");
  const label = `Changes of ${name}`;
  const hasWhole = Boolean(change.before || change.after);
  const load = async (): Promise<void> => {
    try {
      const [old, next] = await Promise.all([contentText(page, change.before), contentText(page, change.after)]);
      setWhole(diffLines(linesOf(old), linesOf(next)));
    } catch (error) {
      setProblem(sentence(error));
    }
  };
  return (
    <div class="diff">
      {change.note && <p class="quiet">{visible(change.note)}</p>}
      {change.is_withheld && <p class="quiet">A content had a secret, so it is not shown.</p>}
      {whole ? (
        <DiffTable regions={[{ lines: whole }]} label={label} />
      ) : (
        change.regions?.length ? <Regions regions={change.regions} label={label} /> : null
      )}
      {hasWhole && (
        <button type="button" class="more" onClick={() => (whole ? setWhole(null) : void load())}>
          {whole ? "Show changed lines only" : "Show the whole file"}
        </button>
      )}
      {problem && <p class="refusal">{problem}</p>}
    </div>
  );
}

async function contentText(page: Page, digest: string | undefined): Promise<string> {
  if (!digest) return "";
  const content = await page.content(digest);
  if (content.text === undefined) throw new Error(content.left_out ?? "This content is not text.");
  return content.text;
}

/** Two texts as a diff with some lines of context. */
export function TextDiff({ old, next, label }: { old: string; next: string; label: string }): JSX.Element {
  const regions = hunks(diffLines(linesOf(old), linesOf(next))).map((lines) => ({ lines }));
  if (!regions.length) return <p class="quiet">No difference.</p>;
  return <DiffTable regions={regions} label={label} />;
}

function DiffTable({ regions, label }: { regions: Region[]; label: string }): JSX.Element {
  const [most, setMost] = useState(MOST_LINES);
  const total = regions.reduce((sum, region) => sum + region.lines.length, 0);
  let left = most;
  return (
    <>
      <div class="diff-scroll" tabIndex={0} role="group" aria-label={label}>
        <table class="diff-table">
          <thead class="visually-hidden">
            <tr>
              <th scope="col">Old line</th>
              <th scope="col">New line</th>
              <th scope="col">Change</th>
              <th scope="col">Text</th>
            </tr>
          </thead>
          {regions.map((region, index) => {
            const lines = region.lines.slice(0, Math.max(0, left));
            left -= lines.length;
            if (!lines.length && region.lines.length) return null;
            return (
              <tbody key={index}>
                {lines.map((line, row) => (
                  <tr key={row} class={line.type}>
                    <td class="number">{line.old || ""}</td>
                    <td class="number">{line.new || ""}</td>
                    <td class="mark">{MARKS[line.type]}</td>
                    <td class="text">{lineText(line)}</td>
                  </tr>
                ))}
                {(region.more_added || region.more_removed) && (
                  <tr class="rest">
                    <td colSpan={4}>
                      {count(region.more_added ?? 0, "more added line")}, {count(region.more_removed ?? 0, "more removed line")}
                    </td>
                  </tr>
                )}
              </tbody>
            );
          })}
        </table>
      </div>
      {total > most && (
        <button type="button" class="more" onClick={() => setMost(most * 10)}>
          Show more of {count(total, "line")}
        </button>
      )}
    </>
  );
}

function lineText(line: DiffLine): JSX.Element | ReturnType<typeof visible> {
  const text = line.text.length > MOST_OF_LINE ? `${line.text.slice(0, MOST_OF_LINE)}\u2026` : line.text;
  if (line.from === undefined || line.to === undefined || line.to > text.length || line.from >= line.to) return visible(text);
  return (
    <>
      {visible(text.slice(0, line.from))}
      <mark>{visible(text.slice(line.from, line.to))}</mark>
      {visible(text.slice(line.to))}
    </>
  );
}
