// Pictures of tokens: a plot over all calls, the shared prefix of one, and its parts as a treemap.
// Each picture has its numbers as text too.

import { hierarchy, treemap, treemapSquarify } from "d3-hierarchy";
import type { JSX } from "preact";
import { useMemo } from "preact/hooks";

import { Line } from "./visible";
import type { CallEntry } from "./session_json";
import { dollars, number, Section } from "./words";

const MOST_BARS = 240;
const HEIGHT = 84;

interface Bar {
  first: number;
  last: number;
  parts: { className: string; value: number }[];
  cost: number;
}

/** What a call read and wrote; without counts of its provider, what was sent. */
function partsOf(call: CallEntry): Bar["parts"] {
  if (call.input_tokens === undefined) {
    const shared = Math.min(call.used, call.shared ?? 0);
    return [
      { className: "bar-shared", value: shared },
      { className: "bar-used", value: call.used - shared },
    ];
  }
  const cached = call.cached_tokens ?? 0;
  return [
    { className: "bar-cached", value: cached },
    { className: "bar-read", value: Math.max(0, call.input_tokens - cached) },
    { className: "bar-written", value: call.output_tokens ?? 0 },
  ];
}

function barsOf(calls: CallEntry[]): Bar[] {
  const size = Math.ceil(calls.length / MOST_BARS);
  const bars: Bar[] = [];
  for (let first = 0; first < calls.length; first += size) {
    const some = calls.slice(first, first + size);
    const sums = new Map<string, number>();
    for (const call of some) for (const part of partsOf(call)) sums.set(part.className, (sums.get(part.className) ?? 0) + part.value / some.length);
    bars.push({
      first,
      last: first + some.length - 1,
      parts: [...sums].map(([className, value]) => ({ className, value })),
      cost: some.reduce((sum, call) => sum + (call.dollars ?? 0), 0),
    });
  }
  return bars;
}

const NAMES: Record<string, string> = {
  "bar-cached": "read from cache",
  "bar-read": "read",
  "bar-written": "written",
  "bar-shared": "same as before",
  "bar-used": "new",
};

/** Tokens of each call over the session, and the cost so far where prices are known. */
export function CallPlot({ calls, chosen, onChoose }: { calls: CallEntry[]; chosen: number; onChoose: (row: number) => void }): JSX.Element {
  const bars = useMemo(() => barsOf(calls), [calls]);
  const most = bars.reduce((max, bar) => Math.max(max, bar.parts.reduce((sum, part) => sum + part.value, 0)), 1);
  const width = 100 / Math.max(bars.length, 8);
  const used = [...new Set(bars.flatMap((bar) => bar.parts.map((part) => part.className)))];
  const cost = bars.reduce((sum, bar) => sum + bar.cost, 0);
  let soFar = 0;
  const line = bars.map((bar, index) => {
    soFar += bar.cost;
    return `${index ? "L" : "M"}${(index + 0.5) * width} ${HEIGHT - (HEIGHT * soFar) / (cost || 1)}`;
  });
  const total = useMemo(() => calls.reduce((sum, call) => sum + call.used, 0), [calls]);
  return (
    <figure class="plot">
      <figcaption>
        <strong>Tokens over {number(calls.length)} {calls.length === 1 ? "call" : "calls"}</strong>
        <span class="quiet">{number(total)} sent in all, at most {number(Math.round(most))} in one{cost ? `, ${dollars(cost)}` : ""}</span>
        <span class="legend">
          {used.map((name) => (
            <span>
              <svg width="10" height="10" aria-hidden="true"><rect class={name} width="10" height="10" /></svg> {NAMES[name]}
            </span>
          ))}
          {cost > 0 && <span><svg width="14" height="10" aria-hidden="true"><path class="cost-line" d="M0 8L14 2" /></svg> cost so far</span>}
        </span>
      </figcaption>
      <div class="plot-area">
        <svg
          viewBox={`0 0 100 ${HEIGHT}`}
          preserveAspectRatio="none"
          role="img"
          aria-label={`Tokens of ${calls.length} model calls, at most ${number(Math.round(most))} in one`}
          onClick={(event) => {
            const box = event.currentTarget.getBoundingClientRect();
            const index = Math.floor(((event.clientX - box.left) / box.width) * (100 / width));
            const bar = bars[index];
            if (bar) onChoose(bar.first);
          }}
        >
          {bars.map((bar, index) => {
            let top = HEIGHT;
            const isChosen = chosen >= bar.first && chosen <= bar.last;
            return (
              <g>
                {isChosen && <rect class="bar-chosen" x={index * width} y="0" width={width} height={HEIGHT} />}
                {bar.parts.map((part) => {
                  const height = (HEIGHT * part.value) / most;
                  top -= height;
                  return <rect class={part.className} x={index * width + width * 0.12} y={top} width={width * 0.76} height={height} />;
                })}
              </g>
            );
          })}
          {cost > 0 && <path class="cost-line" d={line.join("")} vector-effect="non-scaling-stroke" />}
        </svg>
      </div>
    </figure>
  );
}

/** The first tokens of a call that equal the call before, as part of all. */
export function SharedBar({ call, before }: { call: CallEntry; before: CallEntry | undefined }): JSX.Element {
  const shared = call.shared ?? 0;
  const percent = Math.round((100 * shared) / Math.max(1, call.used));
  return (
    <figure class="shared">
      <figcaption>
        <strong>Shared prefix</strong>{" "}
        {before
          ? `The first ${number(shared)} tokens (${percent}%) equal call ${before.key}, so a provider can take them from its cache. ${number(call.used - shared)} are new.`
          : "This is the first call, so all tokens are new."}
      </figcaption>
      <svg viewBox="0 0 100 10" preserveAspectRatio="none" aria-hidden="true">
        <rect class="bar-shared" width={(100 * shared) / Math.max(1, call.used)} height="10" />
        <rect class="bar-used" x={(100 * shared) / Math.max(1, call.used)} width={100 - (100 * shared) / Math.max(1, call.used)} height="10" />
      </svg>
    </figure>
  );
}

interface Part {
  name: string;
  tokens: number;
  className: string;
  children?: Part[];
}

/** Tokens by section, and how many of them show handles, as areas of one scale. */
export function Treemap({ call }: { call: CallEntry }): JSX.Element | null {
  const sections = Object.entries(call.sections ?? {}).filter(([, tokens]) => tokens > 0);
  if (!sections.length) return null;
  const handles = (call.handles ?? []).filter((entry) => entry.tokens > 0);
  const shown = handles.reduce((sum, entry) => sum + entry.tokens, 0);
  const bySection = sections.map(([name, tokens], index) => ({ name, tokens, className: `part-${index % 8}` }));
  const byHandle = handles.map((entry, index) => ({ name: entry.name || entry.title || entry.handle, tokens: entry.tokens, className: `part-${(index + 3) % 8}` }));
  return (
    <Section title="Tokens" extra={number(call.used)}>
      <div class="treemaps">
        <figure>
          <figcaption>By section</figcaption>
          <Areas parts={bySection} label="Tokens by section" />
        </figure>
        {byHandle.length > 1 && (
          <figure>
            <figcaption>By view and group: {number(shown)} of {number(call.used)}</figcaption>
            <Areas parts={byHandle} label="Tokens by view and group" />
          </figure>
        )}
      </div>
      <div class="table-scroll" tabIndex={0} role="group" aria-label="Tokens as numbers">
        <table class="tokens">
          <thead>
            <tr><th scope="col">Part</th><th scope="col" class="n">Tokens</th><th scope="col" class="n">Share</th></tr>
          </thead>
          <tbody>
            {bySection.map((part) => <PartRow part={part} used={call.used} kind="section" />)}
            {byHandle.map((part) => <PartRow part={part} used={call.used} kind="view or group" />)}
          </tbody>
        </table>
      </div>
    </Section>
  );
}

function PartRow({ part, used, kind }: { part: Part; used: number; kind: string }): JSX.Element {
  return (
    <tr>
      <th scope="row">
        <svg width="10" height="10" aria-hidden="true"><rect class={part.className} width="10" height="10" /></svg> <Line text={part.name} /> <span class="quiet">{kind}</span>
      </th>
      <td class="n">{number(part.tokens)}</td>
      <td class="n">{((100 * part.tokens) / Math.max(1, used)).toFixed(1)}%</td>
    </tr>
  );
}

const WIDE = 480;
const HIGH = 200;

function Areas({ parts, label }: { parts: Part[]; label: string }): JSX.Element {
  const root = hierarchy<Part>({ name: "", tokens: 0, className: "", children: parts })
    .sum((part) => (part.children ? 0 : part.tokens))
    .sort((one, other) => (other.value ?? 0) - (one.value ?? 0));
  const placed = treemap<Part>().tile(treemapSquarify).size([WIDE, HIGH]).paddingInner(2)(root);
  return (
    <div class="treemap" role="img" aria-label={label}>
      {placed.leaves().map((leaf) => {
        const width = leaf.x1 - leaf.x0;
        const height = leaf.y1 - leaf.y0;
        return (
          <div
            class={`area ${leaf.data.className}`}
            title={`${leaf.data.name}: ${number(leaf.data.tokens)}`}
            style={{
              left: `${(100 * leaf.x0) / WIDE}%`,
              top: `${(100 * leaf.y0) / HIGH}%`,
              width: `${(100 * (leaf.x1 - leaf.x0)) / WIDE}%`,
              height: `${(100 * (leaf.y1 - leaf.y0)) / HIGH}%`,
            }}
          >
            {width > 44 && height > 24 && (
              <>
                <span><Line text={leaf.data.name} most={40} /></span>
                {height > 44 && <span>{number(leaf.data.tokens)}</span>}
              </>
            )}
          </div>
        );
      })}
    </div>
  );
}
