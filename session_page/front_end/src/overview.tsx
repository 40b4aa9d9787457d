// The session as a whole: what it is, what it took, and in a file what the file contains.

import type { JSX } from "preact";

import { sessionMarkdown } from "./export";
import { usePage } from "./page_state";
import { count, Line } from "./visible";
import { Legend } from "./legend";
import { bytes, CopyButton, dollars, Fact, number, Section, Time } from "./words";

export function Overview(): JSX.Element {
  const page = usePage();
  const session = page.session!;
  const { head } = session;
  const spent = head.spent ?? {};
  const { statements, branches, calls, files } = session.tables;
  return (
    <article>
      <header class="detail-head">
        <h2>
          <Line text={head.title || "Session without a title"} />
        </h2>
        <p class="facts">
          <span>{count(statements.length, "statement")}</span>
          <span>{count(branches.length, "branch").replace("branchs", "branches")}</span>
          <span>{count(calls.length, "model call")}</span>
          <span>{count(files.length, "file")}</span>
        </p>
        <div class="acts">
          <CopyButton label="Copy branch as Markdown" text={() => sessionMarkdown(page, page.shownBranch)} />
          {!page.file && <CopyButton label="Copy command for a terminal" text={() => `rewindow run ${page.sessionId}`} />}
        </div>
      </header>
      {page.about && <div class="file-note"><FileNote /></div>}
      <Legend />
      {(head.plan?.length ?? 0) > 0 && (
        <Section title="Plan">
          <ul class="plan">
            {head.plan!.map((entry) => (
              <li class={`plan-${entry.status}`}>
                <span class="badge">{(entry.status ?? "pending").replace("_", " ")}</span> <Line text={entry.content} />
              </li>
            ))}
          </ul>
        </Section>
      )}
      <Section title="Session">
        <dl class="fact-list">
          <Fact name="Id"><code><Line text={head.session_id} /></code></Fact>
          {head.cwd && <Fact name="Directory"><Line text={head.cwd} /></Fact>}
          {(head.directories ?? []).map((directory) => <Fact name="Also"><Line text={directory} /></Fact>)}
          {head.client && <Fact name="Client"><Line text={head.client} /></Fact>}
          {head.python && <Fact name="Python"><Line text={head.python} /></Fact>}
          {head.mode && <Fact name="Mode"><Line text={head.mode} /></Fact>}
          <Fact name="Sandbox">{head.confined ? "on" : "off"}</Fact>
          <Fact name="Opened"><Time at={head.opened_at} /></Fact>
          <Fact name="Last event"><Time at={head.changed_at} /></Fact>
          {Object.entries(head.options ?? {}).map(([name, value]) => <Fact name={name}><Line text={value} /></Fact>)}
        </dl>
      </Section>
      {(spent.calls ?? 0) > 0 && (
        <Section title="Tokens and cost">
          <div class="table-scroll" tabIndex={0} role="group" aria-label="Spent by model">
            <table>
              <thead>
                <tr>
                  <th scope="col">Model</th>
                  <th scope="col" class="n">Calls</th>
                  <th scope="col" class="n">Input</th>
                  <th scope="col" class="n">Cached</th>
                  <th scope="col" class="n">Output</th>
                  <th scope="col" class="n">Cost</th>
                </tr>
              </thead>
              <tbody>
                {[...Object.entries(head.models ?? {}), ...(Object.keys(head.models ?? {}).length > 1 ? [["All", spent] as const] : [])].map(([name, one]) => (
                  <tr>
                    <th scope="row"><Line text={name || "unnamed"} /></th>
                    <td class="n">{number(one.calls)}</td>
                    <td class="n">{number(one.input_tokens)}</td>
                    <td class="n">{number(one.cached_tokens)}</td>
                    <td class="n">{number(one.output_tokens)}</td>
                    <td class="n">{dollars(one.dollars) || (one.unpriced ? "no price" : "")}</td>
                  </tr>
                ))}
              </tbody>
            </table>
          </div>
        </Section>
      )}
    </article>
  );
}

function FileNote(): JSX.Element {
  const page = usePage();
  const about = page.about!;
  return (
    <Section title="What this file contains">
      <ul>
        {about.contains.map((text) => (
          <li><Line text={text} most={2000} /></li>
        ))}
      </ul>
      {about.left_out.length > 0 && (
        <details>
          <summary>Left out: {count(about.left_out.length, "content")}</summary>
          <ul>
            {about.left_out.map((entry) => (
              <li><Line text={entry.what} /> <span class="quiet">{bytes(entry.size)}</span></li>
            ))}
          </ul>
        </details>
      )}
      <p class="quiet">
        Written by Rewindow {about.version}, <Time at={about.made_at} />. It works without a network, and cannot change the session.
      </p>
    </Section>
  );
}
