// Requests: each with its steps, and with the rounds of its model.

import type { JSX } from "preact";

import { usePage } from "./page_state";
import { count, Line } from "./visible";
import type { Session } from "./session";
import type { RequestEntry, StepCall, StepEntry } from "./session_json";
import { focusDetail, Split } from "./split";
import { Item } from "./statement";
import { BranchName, Empty, firstLine, Section, StatementLink, StatusIcon, Time } from "./words";
import { VirtualList } from "./virtual_list";

export const LIST = "requests-list";

export function RequestsView(): JSX.Element {
  const page = usePage();
  const session = page.session!;
  const requests = session.derived(`requests ${page.branch}`, () =>
    session.tables.requests.filter((entry) => !page.branch || session.isOn(page.branch, { branch: entry.branch, key: entry.root })),
  );
  const chosen = requests.findIndex((entry) => entry.key === page.route.entry);
  const request = requests[chosen];
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
            onChoose={(row) => page.go({ entry: requests[row]!.key }, chosen >= 0)}
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
  const statements = (request.steps ?? []).reduce((sum, step) => sum + (step.statements?.length ?? 0), 0);
  return (
    <div class="two-lines">
      <span class="words">
        <span class="index">{request.number}</span> <Line text={root?.text?.text || "(no text)"} />
      </span>
      <span class="second">
        <BranchName name={request.branch} />
        <span>{count(request.steps?.length ?? 0, "step")}</span>
        <span>{count(statements, "statement")}</span>
        <span>{endOf(session, request)}</span>
      </span>
    </div>
  );
}

function RequestDetail({ request }: { request: RequestEntry }): JSX.Element {
  const page = usePage();
  const session = page.session!;
  const root = session.item(request.root);
  const stop = request.stop === undefined ? undefined : session.item(request.stop);
  return (
    <article>
      <header class="detail-head">
        <h2>Request {request.number}</h2>
        <p class="facts">
          <BranchName name={request.branch} />
          <span>{request.kind}</span>
          <span>{endOf(session, request)}</span>
          <Time at={root?.at} />
        </p>
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
  return (
    <>
      {message && <Item item={message} />}
      {text && <Item item={text} />}
      {(step.statements ?? []).map((call) => (
        <StatementStep call={call} />
      ))}
      {(step.groups ?? []).map((group) => (
        <details class="group">
          <summary>
            <Line text={group.type.replace("-group", "")} /> <span class="quiet">{count(group.calls?.length ?? 0, "call")}</span>
          </summary>
          <ul class="plain">
            {(group.calls ?? []).map((call) => {
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
