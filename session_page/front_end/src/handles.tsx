// Views and groups: what each shows, its budget and level, and whether it is stale.

import type { JSX } from "preact";

import { usePage } from "./page_state";
import { TextBlock } from "./blocks";
import { count, Line } from "./visible";
import type { HandleEntry, RenderEntry } from "./session_json";
import { focusDetail, Split } from "./split";
import { BranchName, Empty, Fact, Section, StatementLink, Time } from "./words";
import { VirtualList } from "./virtual_list";

export const LIST = "views-list";

export function HandlesView(): JSX.Element {
  const page = usePage();
  const session = page.session!;
  const handles = session.derived(`handles ${page.branch}`, () => session.tables.handles.filter((entry) => !page.branch || session.isOn(page.branch, entry)));
  const found = handles.findIndex((entry) => String(entry.key) === page.route.entry);
  const chosen = found < 0 && !page.route.entry ? Math.min(0, handles.length - 1) : found;
  const handle = handles[chosen];
  return (
    <Split
      name="views"
      isOpen={page.route.entry !== ""}
      list={
        handles.length ? (
          <VirtualList
            id={LIST}
            label="Views and groups"
            rows={handles.length}
            height={46}
            chosen={chosen}
            onChoose={(row) => page.go({ entry: String(handles[row]!.key) }, found >= 0)}
            onEnter={focusDetail}
            keyOf={(row) => String(handles[row]!.key)}
            render={(row) => <HandleRow handle={handles[row]!} />}
          />
        ) : (
          <Empty title="No views or groups" />
        )
      }
      detail={handle ? <HandleDetail key={handle.key} handle={handle} /> : <Empty title="Choose a view or a group"><p>A view is a window on a file, and a group is several with one budget.</p></Empty>}
    />
  );
}

export function freshness(handle: HandleEntry): string {
  if (handle.shown_at === undefined) return "not shown yet";
  return handle.unread ? `stale: ${count(handle.unread, "change")} since it was shown` : "up to date";
}

function HandleRow({ handle }: { handle: HandleEntry }): JSX.Element {
  return (
    <div class="two-lines">
      <span class="words">
        <strong><Line text={handle.name || handle.handle} most={40} /></strong> <Line text={handle.title ?? ""} />
      </span>
      <span class="second">
        <span>{handle.type}</span>
        <Budget handle={handle} />
        {handle.unread ? <span class="badge stale">stale</span> : null}
      </span>
    </div>
  );
}

function Budget({ handle }: { handle: HandleEntry }): JSX.Element {
  const used = handle.tokens ?? 0;
  const budget = handle.budget ?? 0;
  return (
    <span class="budget">
      {budget > 0 && (
        <svg viewBox="0 0 60 6" width="60" height="6" aria-hidden="true" preserveAspectRatio="none">
          <rect class="bar-back" width="60" height="6" rx="1" />
          <rect class="bar-used" width={Math.min(60, (60 * used) / budget)} height="6" rx="1" />
        </svg>
      )}
      {used.toLocaleString("en-US")}
      {budget ? ` of ${budget.toLocaleString("en-US")}` : ""} tokens
    </span>
  );
}

const LEVELS = ["text", "outline", "summary", "changes since a model last read it"];
const UPDATES: Record<string, string> = { Sync: "before each model call", Async: "when a new text is prepared", Periodic: "every 10 seconds", paused: "paused" };

function HandleDetail({ handle }: { handle: HandleEntry }): JSX.Element {
  const page = usePage();
  const session = page.session!;
  const statement = session.statementsOn(handle.branch).find((entry) => entry.index === handle.statement);
  let render: RenderEntry | undefined;
  for (const execution of session.tables.executions) {
    if (!session.isOn(handle.branch, execution)) continue;
    render = execution.renders?.findLast((entry) => entry.handle === handle.handle) ?? render;
  }
  return (
    <article>
      <header class="detail-head">
        <h2><Line text={handle.name || handle.handle} /></h2>
        <p class="facts">
          <span>{handle.type}</span>
          <BranchName name={handle.branch} />
          <span>{freshness(handle)}</span>
        </p>
      </header>
      <dl class="fact-list">
        {handle.title && <Fact name="Shows"><Line text={handle.title} /></Fact>}
        <Fact name="Tokens"><Budget handle={handle} /></Fact>
        <Fact name="Level">{handle.level ?? 0}{LEVELS[handle.level ?? 0] && `: ${LEVELS[handle.level ?? 0]}`}</Fact>
        {handle.follows && <Fact name="Updates">{UPDATES[handle.follows] ?? <Line text={handle.follows} />}</Fact>}
        {handle.state && <Fact name="State"><Line text={handle.state} /></Fact>}
        {handle.line !== undefined && <Fact name="Line">{handle.line}</Fact>}
        <Fact name="Made"><StatementLink statement={statement} /> <Time at={handle.at} /></Fact>
        <Fact name="Handle"><code><Line text={handle.handle} /></code></Fact>
        {handle.revision && <Fact name="Revision"><code><Line text={handle.revision} /></code></Fact>}
      </dl>
      {render && (
        <Section title="As a statement last showed it" extra={count(render.tokens, "token")}>
          <TextBlock text={render.text} label="Text of the view" />
        </Section>
      )}
      {(handle.changes?.length ?? 0) > 0 && (
        <Section title="Changes" extra={String(handle.changes!.length)}>
          <ol class="calls">
            {handle.changes!.map((change) => (
              <li>
                <span class="badge">{change.type}</span> <Line text={change.text.text} /> <span class="quiet"><Time at={change.at} /></span>
              </li>
            ))}
          </ol>
        </Section>
      )}
    </article>
  );
}
