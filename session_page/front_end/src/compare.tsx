// Two branches beside each other: their own statements, and the names and files in which they differ.

import type { JSX } from "preact";
import { useEffect, useState } from "preact/hooks";

import { usePage, sentence } from "./page_state";
import type { Comparison } from "./page_types";
import { Python } from "./python";
import { count, escaped, Line } from "./visible";
import { addressOf } from "./route";
import type { Session } from "./session";
import { BranchName, Empty, firstLine, Section, StatementLink, StatusIcon, duration } from "./words";

export function CompareView(): JSX.Element {
  const page = usePage();
  const session = page.session!;
  const names = session.tables.branches.map((branch) => branch.key);
  const [left, right] = chosenBranches(session, page.route.entry);
  const [comparison, setComparison] = useState<Comparison | null>(null);
  const [problem, setProblem] = useState("");
  const events = session.head.events;
  useEffect(() => {
    if (left === right) return;
    let wanted = true;
    setProblem("");
    page.compare(left, right).then(
      (found) => {
        if (!wanted) return;
        setComparison(found);
        if (!found) setProblem("This file does not contain a comparison of these branches.");
      },
      (error: unknown) => wanted && setProblem(sentence(error)),
    );
    return () => {
      wanted = false;
    };
  }, [left, right, page.connection === "live" ? events : 0]);
  if (names.length < 2) {
    return (
      <div class="single">
        <Empty title="There is one branch">
          <p>A rewind or an edit makes another. Then this view compares two.</p>
        </Empty>
      </div>
    );
  }
  const choose = (one: string, other: string): void => page.go({ view: "compare", entry: JSON.stringify([one, other]) }, true);
  const shown = comparison?.left === left && comparison.right === right ? comparison : null;
  return (
    <div class="single">
      <div class="compare">
      <header class="detail-head">
        <h2>Compare branches</h2>
        <div class="acts">
          <BranchChoice label="Left branch" names={names} value={left} onChange={(name) => choose(name, right)} />
          <BranchChoice label="Right branch" names={names} value={right} onChange={(name) => choose(left, name)} />
          <button type="button" onClick={() => choose(right, left)}>Swap</button>
        </div>
        {shown && <p class="quiet">{shown.shared ? shown.shared === 1 ? "They share statement 1." : `They share statements 1 to ${shown.shared}.` : "They have no statement in common."}</p>}
      </header>
      {problem && <p class="refusal">{problem}</p>}
      {left === right && <p class="quiet">Choose two different branches.</p>}
      {shown && (
        <>
          <div class="columns">
            <Own name={left} keys={shown.left_statements} />
            <Own name={right} keys={shown.right_statements} />
          </div>
          <Section title="Names" extra={String(shown.names.length)}>
            {shown.names.length === 0 ? <p class="quiet">No name differs.</p> : (
              <Sides label="Names that differ" head="Name" left={left} right={right} rows={shown.names.map((entry) => [entry.name, entry.left, entry.right] as const)} none="not there" />
            )}
          </Section>
          <Section title="Files" extra={String(shown.files.length)}>
            {shown.files.length === 0 ? <p class="quiet">No file differs.</p> : (
              <DifferentFiles left={left} right={right} files={shown.files} />
            )}
          </Section>
        </>
      )}
      </div>
    </div>
  );
}

function chosenBranches(session: Session, entry: string): [string, string] {
  try {
    const [left, right] = JSON.parse(entry) as unknown[];
    if (typeof left === "string" && typeof right === "string" && session.branchEntry(left) && session.branchEntry(right)) return [left, right];
  } catch {
    // Not an entry of ours: the active branch is compared with the first, or that with the newest.
  }
  const names = session.tables.branches.map((branch) => branch.key);
  const left = session.branch;
  const first = names[0]!;
  return [left, first !== left ? first : (names.findLast((name) => name !== left) ?? left)];
}

function BranchChoice({ label, names, value, onChange }: { label: string; names: string[]; value: string; onChange: (name: string) => void }): JSX.Element {
  return (
    <label class="choice">
      <span>{label}</span>
      <select value={value} onChange={(event) => onChange(event.currentTarget.value)}>
        {names.map((name) => (
          <option value={name}>{escaped(name)}</option>
        ))}
      </select>
    </label>
  );
}

function Own({ name, keys }: { name: string; keys: number[] }): JSX.Element {
  const session = usePage().session!;
  return (
    <section class="own" aria-label={`Statements of ${escaped(name)}`}>
      <h3><BranchName name={name} /> <span class="quiet">{count(keys.length, "statement")} of its own</span></h3>
      <ol>
        {keys.flatMap((key) => session.statement(key) ?? []).map((statement) => {
          const execution = session.current(statement);
          return (
            <li>
              <StatusIcon status={execution?.status ?? "none"} />
              <StatementLink statement={statement}>{statement.index}</StatementLink>
              <span class="source"><Python source={firstLine(statement.source)} /></span>
              <span class="time">{duration(execution?.time_ms)}</span>
            </li>
          );
        })}
      </ol>
    </section>
  );
}

/** The files that differ, each with a link to its changes. */
function DifferentFiles({ left, right, files }: { left: string; right: string; files: Comparison["files"] }): JSX.Element {
  const page = usePage();
  const side = (name: string, state: string | null, other: string | null): string => (state === null ? `not on ${escaped(name)}` : other === null ? `only on ${escaped(name)}` : "");
  return (
    <ul class="plain">
      {files.map((file) => (
        <li>
          {page.session!.file(file.path) ? (
            <a href={addressOf({ session: page.sessionId, view: "files", entry: file.path })}><Line text={file.name} /></a>
          ) : (
            <Line text={file.name} />
          )}{" "}
          <span class="quiet">{side(left, file.left, file.right) || side(right, file.right, file.left) || "other content"}</span>
        </li>
      ))}
    </ul>
  );
}

function Sides({ label, head, left, right, rows, none }: { label: string; head: string; left: string; right: string; rows: (readonly [string, string | null, string | null])[]; none: string }): JSX.Element {
  const cell = (value: string | null): JSX.Element => (value === null ? <span class="quiet">{none}</span> : <code><Line text={value} /></code>);
  return (
    <div class="table-scroll" tabIndex={0} role="group" aria-label={label}>
      <table class="sides">
        <thead>
          <tr><th scope="col">{head}</th><th scope="col"><Line text={left} /></th><th scope="col"><Line text={right} /></th></tr>
        </thead>
        <tbody>
          {rows.map(([name, one, other]) => (
            <tr><th scope="row"><code><Line text={name} /></code></th><td>{cell(one)}</td><td>{cell(other)}</td></tr>
          ))}
        </tbody>
      </table>
    </div>
  );
}
