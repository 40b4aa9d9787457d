// Requests: each with its steps, and with the rounds of its model.

import type { JSX } from "preact";

import { usePage } from "./page_state";
import { count, Line } from "./visible";
import type { Session } from "./session";
import type { RequestEntry, StatementEntry, StepCall, StepEntry } from "./session_json";
import { focusDetail, Split } from "./split";
import { Item } from "./statement";
import { BranchName, Empty, firstLine, Section, StatementLink, StatusIcon, Time } from "./words";
import { VirtualList } from "./virtual_list";

export const LIST = "requests-list";

/** Each request once, although every branch on which it goes on has an entry of it: that of `branch`, or of where it began. */
export function requestsOn(session: Session, branch: string): RequestEntry[] {
  return session.derived(`requests ${branch}`, () => {
    const shown = new Map<number, RequestEntry>();
    for (const entry of session.tables.requests) {
      if (branch && !session.isOn(branch, { branch: entry.branch, key: entry.root })) continue;
      const wanted = branch || session.item(entry.root)?.branch;
      if (!shown.has(entry.root) || entry.branch === wanted) shown.set(entry.root, entry);
    }
    return [...shown.values()].sort((one, other) => one.root - other.root);
  });
}

/** The other branches that have a part of a request. */
function branchesOf(session: Session, request: RequestEntry): string[] {
  return session.tables.requests.filter((entry) => entry.root === request.root && entry.key !== request.key).map((entry) => entry.branch);
}

/** The statements that ran in a request, on its branch. */
function statementsIn(session: Session, request: RequestEntry): StatementEntry[] {
  const end = request.stop ?? Number.POSITIVE_INFINITY;
  return session.statementsOn(request.branch).filter((entry) => entry.key > request.root && entry.key < end);
}

export function RequestsView(): JSX.Element {
  const page = usePage();
  const session = page.session!;
  const requests = requestsOn(session, page.branch);
  const found = requests.findIndex((entry) => entry.key === page.route.entry);
  const chosen = found < 0 && !page.route.entry ? Math.min(0, requests.length - 1) : found;
  const request = requests[chosen] ?? session.request(page.route.entry);
  return (
    <Split
      name="requests"
      isOpen={page.route.entry !== ""}
      list={
        requests.length ? (
          <VirtualList
            id={LIST}
            label="Requests"
            rows={requests.length}
            height={46}
            chosen={chosen}
            onChoose={(row) => page.go({ entry: requests[row]!.key }, found >= 0)}
            onEnter={focusDetail}
            keyOf={(row) => requests[row]!.key}
            render={(row) => <RequestRow request={requests[row]!} />}
          />
        ) : (
          <Empty title="No requests" />
        )
      }
      detail={request ? <RequestDetail key={request.key} request={request} /> : <Empty title="Choose a request"><p>A request is a prompt and everything up to its end.</p></Empty>}
    />
  );
}

function endOf(session: Session, request: RequestEntry): string {
  if (request.stop === undefined) return "running";
  const stop = session.item(request.stop);
  return stop?.status ?? "ended";
}

function RequestRow({ request }: { request: RequestEntry }): JSX.Element {
  const page = usePage();
  const session = page.session!;
  const root = session.item(request.root);
  const others = branchesOf(session, request);
  return (
    <div class="two-lines">
      <span class="words">
        <span class="index">{request.number}</span> <Line text={root?.text?.text || "(no text)"} />
      </span>
      <span class="second">
        <BranchName name={request.branch} />
        <span>{endOf(session, request)}</span>
        <span>{count(statementsIn(session, request).length, "statement")}</span>
        {others.length > 0 && <span>continues on <Line text={others.join(", ")} most={60} /></span>}
      </span>
    </div>
  );
}

const KINDS: Record<string, string> = { steer: "while it worked", queued: "waited for its turn" };

function RequestDetail({ request }: { request: RequestEntry }): JSX.Element {
  const page = usePage();
  const session = page.session!;
  const root = session.item(request.root);
  const stop = request.stop === undefined ? undefined : session.item(request.stop);
  const others = branchesOf(session, request);
  return (
    <article>
      <header class="detail-head">
        <h2>Request {request.number}</h2>
        <p class="facts">
          <BranchName name={request.branch} />
          {request.kind !== "direct" && <span>{KINDS[request.kind] ?? request.kind}</span>}
          <span>{endOf(session, request)}</span>
          <span>{count(statementsIn(session, request).length, "statement")}</span>
          <Time at={root?.at} />
        </p>
        {others.length > 0 && (
          <p class="facts">
            Continues on {others.map((name) => <BranchName name={name} />)}
          </p>
        )}
      </header>
      <Section title="Steps" extra={String(request.steps?.length ?? 0)}>
        <ol class="steps">
          {(request.steps ?? []).map((step) => (
            <li class={`step step-${step.type}`}>
              <Step step={step} />
            </li>
          ))}
        </ol>
        {stop && stop.text?.text && <Item item={stop} />}
      </Section>
      {(request.rounds?.length ?? 0) > 0 && (
        <Section title="Rounds" extra={String(request.rounds!.length)} open={false}>
          <div class="table-scroll" tabIndex={0} role="group" aria-label="Rounds">
            <table>
              <thead>
                <tr><th scope="col">Round</th><th scope="col">Input</th><th scope="col">Output</th></tr>
              </thead>
              <tbody>
                {request.rounds!.map((round) => (
                  <tr>
                    <th scope="row">{round.round}</th>
                    <td><Short keys={round.input} /></td>
                    <td><Short keys={round.output} /></td>
                  </tr>
                ))}
              </tbody>
            </table>
          </div>
        </Section>
      )}
      {(request.unread?.length ?? 0) > 0 && <Section title="Not read by a model"><Short keys={request.unread} /></Section>}
      {(request.late?.length ?? 0) > 0 && <Section title="After the end"><Short keys={request.late} /></Section>}
    </article>
  );
}

function Short({ keys }: { keys: number[] | undefined }): JSX.Element {
  const session = usePage().session!;
  return (
    <ul class="plain">
      {(keys ?? []).flatMap((key) => session.item(key) ?? []).map((item) => (
        <li>
          <span class="badge">{item.type}</span> <Line text={item.title || item.text?.text || item.tool || ""} most={120} />
        </li>
      ))}
    </ul>
  );
}

function Step({ step }: { step: StepEntry }): JSX.Element {
  const session = usePage().session!;
  const message = step.message === undefined ? undefined : session.item(step.message);
  const text = step.text === undefined ? undefined : session.item(step.text);
  // A statement without calls is in a group, as any call of a tool.
  const isStatement = (call: StepCall): boolean => Boolean(session.statementOfCall(session.item(call.call)?.call ?? ""));
  const groups = (step.groups ?? []).map((group) => ({ ...group, calls: (group.calls ?? []).filter((call) => !isStatement(call)) }));
  const statements = [...(step.statements ?? []), ...(step.groups ?? []).flatMap((group) => (group.calls ?? []).filter(isStatement))].sort((one, other) => one.call - other.call);
  return (
    <>
      {message && <Item item={message} />}
      {text && <Item item={text} />}
      {statements.map((call) => (
        <StatementStep call={call} />
      ))}
      {groups.filter((group) => group.calls.length > 0).map((group) => (
        <details class="group">
          <summary>
            <Line text={group.type.replace("-group", "")} /> <span class="quiet">{count(group.calls.length, "call")}</span>
          </summary>
          <ul class="plain">
            {group.calls.map((call) => {
              const item = session.item(call.call);
              const result = call.result === undefined ? undefined : session.item(call.result);
              return (
                <li>
                  <code><Line text={item?.tool ?? ""} /></code> <Line text={item?.title ?? ""} />
                  <span class="quiet"> {call.result === undefined ? "open" : result?.status}</span>
                </li>
              );
            })}
          </ul>
        </details>
      ))}
    </>
  );
}

function StatementStep({ call }: { call: StepCall }): JSX.Element | null {
  const session = usePage().session!;
  const item = session.item(call.call);
  const statement = item?.call ? session.statementOfCall(item.call) : undefined;
  if (!statement) return item ? <Item item={item} /> : null;
  return (
    <p class="statement-step">
      <StatusIcon status={session.current(statement)?.status ?? "none"} /> <StatementLink statement={statement} />{" "}
      <code><Line text={firstLine(statement.source)} most={120} /></code>
    </p>
  );
}
