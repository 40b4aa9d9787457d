// One statement with everything around it: source, executions beside each other, output, diffs, names and words.

import type { ComponentChildren, JSX } from "preact";

import { statementMarkdown } from "./export";
import { Icon } from "./icons";
import { forksOf, sideBySide } from "./lanes";
import { Markdown } from "./markdown";
import { usePage } from "./page_state";
import { ChangeDiff, DiffSize, sizeOf } from "./diff";
import { Picture, TextBlock } from "./blocks";
import { count, escaped, Line, visible } from "./visible";
import { addressOf } from "./route";
import type { ExecutionEntry, ItemEntry, MoveEntry, OutputEntry, StatementEntry } from "./session_json";
import { BranchName, bytes, CopyButton, CopyLink, duration, Fact, firstLine, MODES, moveText, Said, Section, StatementLink, STATUS, StatusIcon, Time } from "./words";

const BY: Record<StatementEntry["by"], string> = {
  model: "the model",
  user: "you",
  outside: "a command or program",
  session: "the session",
};

export function StatementDetail({ statement }: { statement: StatementEntry }): JSX.Element {
  const page = usePage();
  const session = page.session!;
  const branch = session.isOn(page.shownBranch, statement) ? page.shownBranch : statement.branch;
  const executions = sideBySide(session, statement, branch);
  const main = executions.findLast((entry) => entry.counts && entry.statement === statement.key) ?? executions.findLast((entry) => entry.statement === statement.key);
  const forks = forksOf(session).get(statement.key) ?? [];
  const draft = statement.call ? page.outputs.get(statement.call) : undefined;
  return (
    <article class="statement">
      <header class="detail-head">
        <h2>
          <StatusIcon status={main?.status ?? "none"} /> Statement {statement.index}
        </h2>
        <p class="facts">
          <BranchName name={statement.branch} />
          <span>{STATUS[main?.status ?? "none"]}</span>
          {main?.time_ms !== undefined && <span>{duration(main.time_ms)}</span>}
          <span>by {BY[statement.by]}</span>
          <Time at={statement.at} />
        </p>
        {forks.length > 0 && (
          <p class="facts">
            Branches off here: {forks.map((name) => <BranchName name={name} />)}
          </p>
        )}
        <StatementActs statement={statement} />
      </header>
      {statement.is_withheld && <p class="note">The source contained a secret, so this statement cannot run again.</p>}
      {Object.entries(statement.omitted ?? {}).some(([name, isOmitted]) => name === branch && isOmitted) && (
        <p class="note">The namespace on this branch leaves this statement out.</p>
      )}
      <Section title="Source" extra={(statement.tags ?? []).map((tag) => <span class="badge"><Line text={tag} /></span>)}>
        <TextBlock text={statement.source} kind={statement.kind === "meta" ? "plain" : "python"} label="Source" />
      </Section>
      {draft && (
        <Section title="Output so far">
          <div aria-live="polite">
            {draft.stdout && <TextBlock text={draft.stdout} label="Standard output so far" first={5000} />}
            {draft.stderr && <TextBlock text={draft.stderr} label="Standard error so far" first={5000} />}
          </div>
        </Section>
      )}
      {executions.length > 1 && (
        <Section title="Executions" extra={String(executions.length)}>
          <SideBySide executions={executions} statement={statement} />
        </Section>
      )}
      {main ? <ExecutionSections execution={main} showResult={executions.length === 1} /> : <p class="note">This statement did not run.</p>}
      <Questions call={statement.call} />
      <Words title="Before it" keys={statement.before} />
      <Words title="After it" keys={statement.after} />
    </article>
  );
}

function StatementActs({ statement }: { statement: StatementEntry }): JSX.Element {
  const page = usePage();
  const session = page.session!;
  const isActive = session.isOn(session.branch, statement);
  const execution = session.current(statement);
  return (
    <div class="acts">
      {page.acts && isActive && (
        <>
          <button type="button" onClick={() => page.show({ type: "rewind", statement: statement.index })}>
            <Icon name="rewind" /> Rewind to here
          </button>
          {statement.kind !== "meta" && !statement.is_withheld && (
            <button type="button" onClick={() => page.show({ type: "edit", statement: statement.key })}>
              <Icon name="edit" /> Edit and run on
            </button>
          )}
          <button type="button" onClick={() => page.show({ type: "replay", statement: statement.index })}>
            <Icon name="replay" /> Replay
          </button>
        </>
      )}
      {page.acts && !isActive && (
        <button type="button" onClick={() => page.show({ type: "switch", to: statement.branch })}>
          <Icon name="branch" /> Switch to its branch
        </button>
      )}
      <CopyLink view="timeline" entry={String(statement.key)} />
      <CopyButton label="Copy as Markdown" text={() => statementMarkdown(page, statement, execution)} />
    </div>
  );
}

/** Executions in columns, so that their differences are on one line. */
function SideBySide({ executions, statement }: { executions: ExecutionEntry[]; statement: StatementEntry }): JSX.Element {
  const page = usePage();
  const session = page.session!;
  return (
    <div class="side-by-side" tabIndex={0} role="group" aria-label="Executions beside each other">
      {executions.map((execution) => {
        const number = executions.filter((entry) => entry.statement === statement.key).indexOf(execution) + 1;
        const other = execution.statement !== statement.key ? session.statement(execution.statement) : undefined;
        return (
          <section class="execution" key={execution.key} aria-label={other ? `Statement ${other.index} on ${escaped(other.branch)}` : `Execution ${number}`}>
            <header>
              <StatusIcon status={execution.status} />
              <strong>{other ? <StatementLink statement={other}>statement {other.index} on <Line text={other.branch} /></StatementLink> : `${statement.index}.${number}`}</strong>
              <span class="quiet">
                {[other ? "original" : execution.mode ? MODES[execution.mode] : "run", duration(execution.time_ms), !other && execution === session.current(statement) ? "current" : ""].filter(Boolean).join(" \u00b7 ")}
              </span>
            </header>
            <Divergences execution={execution} />
            <Result execution={execution} />
          </section>
        );
      })}
    </div>
  );
}

function Divergences({ execution }: { execution: ExecutionEntry }): JSX.Element | null {
  if (!execution.divergences?.length) return execution.against ? <p class="quiet">No differences.</p> : null;
  return (
    <dl class="divergences">
      {execution.divergences.map((entry) => (
        <div>
          <dt>
            {"\u2260 "}
            <Line text={entry.aspect === "diff" ? "names" : entry.aspect} />
          </dt>
          <dd>
            <del>
              <Line text={entry.before} />
            </del>
            <ins>
              <Line text={entry.after} />
            </ins>
          </dd>
        </div>
      ))}
    </dl>
  );
}

function Output({ output, label }: { output: OutputEntry | undefined; label: string }): JSX.Element | null {
  if (!output?.text.text) return null;
  return (
    <>
      <h4>{label}</h4>
      <TextBlock text={output.text} label={label} />
      {output.is_cut && <p class="quiet">The session kept the beginning of {bytes(output.bytes ?? 0)}.</p>}
    </>
  );
}

/** What an execution printed, returned or raised. */
function Result({ execution }: { execution: ExecutionEntry }): JSX.Element {
  const { error, value, markdown } = execution;
  const isEmpty = !error && !value && !markdown && !execution.pictures?.length && !execution.stdout?.text.text && !execution.stderr?.text.text;
  return (
    <>
      <Output output={execution.stdout} label="Output" />
      <Output output={execution.stderr} label="Error output" />
      {markdown ? (
        <>
          <h4>Value</h4>
          <Markdown text={markdown.text} />
        </>
      ) : (
        value && (
          <>
            <h4>Value</h4>
            <TextBlock text={value} label="Value" />
          </>
        )
      )}
      {(execution.pictures ?? []).map((picture) => (
        <Picture picture={picture} />
      ))}
      {error && (
        <div class="failure">
          <h4>
            <Icon name="error" /> <Line text={error.type} />
          </h4>
          {error.message.text && <p><Said text={error.message.text} /></p>}
          {error.traceback && <TextBlock text={error.traceback} label="Traceback" />}
        </div>
      )}
      {isEmpty && execution.status !== "running" && <p class="quiet">No output.</p>}
    </>
  );
}

function ExecutionSections({ execution, showResult }: { execution: ExecutionEntry; showResult: boolean }): JSX.Element {
  const page = usePage();
  const session = page.session!;
  const changes = (execution.files ?? []).flatMap((key) => session.fileChange(key) ?? []);
  const { names = [], commands = [], renders = [], effects = [] } = execution;
  return (
    <>
      {showResult && (
        <Section title="Result">
          <Divergences execution={execution} />
          <Result execution={execution} />
        </Section>
      )}
      {changes.length > 0 && (
        <Section title="Files" extra={String(changes.length)}>
          {changes.map(({ file, change }) => (
            <div class="file-change" key={change.key}>
              <p class="file-head">
                <Icon name="file" />
                <a href={addressOf({ session: page.sessionId, view: "files", entry: file.key })}>
                  <Line text={file.name} />
                </a>
                <span class="quiet">{change.change}</span>
                {change.moved_from && <span class="quiet">from <Line text={change.moved_from} /></span>}
                {change.is_noticed && <span class="quiet">by its own code</span>}
                <DiffSize {...sizeOf(page, change.regions)} />
              </p>
              {change.unsure && <p class="quiet"><Said text={change.unsure} /></p>}
              <ChangeDiff change={change} name={file.name} />
            </div>
          ))}
        </Section>
      )}
      {names.length > 0 && (
        <Section title="Names" extra={String(names.length)}>
          <div class="table-scroll" tabIndex={0} role="group" aria-label="Names">
            <table class="names">
              <thead>
                <tr>
                  <th scope="col">Name</th>
                  <th scope="col">Change</th>
                  <th scope="col">Type</th>
                  <th scope="col">Value</th>
                </tr>
              </thead>
              <tbody>
                {names.map((entry) => (
                  <tr>
                    <th scope="row"><code><Line text={entry.name} /></code></th>
                    <td>{entry.mutated ? "changed in place" : entry.change}</td>
                    <td><Line text={entry.type ?? entry.before_type ?? ""} /></td>
                    <td>
                      {entry.before !== undefined && <del><code><Line text={entry.before} /></code></del>}{" "}
                      {entry.value !== undefined && <code><Line text={entry.value} /></code>}
                      {entry.reason && <span class="quiet"><Line text={entry.reason} /></span>}
                    </td>
                  </tr>
                ))}
              </tbody>
            </table>
          </div>
        </Section>
      )}
      {commands.length > 0 && (
        <Section title="Commands" extra={String(commands.length)}>
          {commands.map((command) => (
            <div class="command">
              <TextBlock text={command.command} label="Command" first={8} />
              <p class="quiet">
                {command.code !== undefined ? `exit code ${command.code}` : command.signal ? `ended by signal ${command.signal}` : command.timed_out ? "timed out" : "no exit code"}
                {command.time_ms !== undefined && ` \u00b7 ${duration(command.time_ms)}`} {"\u00b7"} <Line text={command.cwd} />
                {command.reason && <> {"\u00b7"} <Line text={command.reason} /></>}
              </p>
              <Output output={command.output} label="Output" />
              <Output output={command.errors} label="Error output" />
            </div>
          ))}
        </Section>
      )}
      {renders.length > 0 && (
        <Section title="Views shown" extra={String(renders.length)}>
          {renders.map((render) => (
            <div class="render">
              <p class="file-head">
                <strong><Line text={render.title} /></strong>
                <span class="quiet">
                  {count(render.tokens, "token")}
                  {render.budget ? ` of ${render.budget.toLocaleString("en-US")}` : ""}
                  {render.lines ? ` \u00b7 lines ${render.first_line} to ${render.last_line} of ${render.lines}` : ""}
                  {render.level ? ` \u00b7 level ${render.level}` : ""}
                </span>
              </p>
              {render.reason && <p class="quiet"><Said text={render.reason} /></p>}
              <TextBlock text={render.text} label={`View ${render.handle}`} first={24} />
            </div>
          ))}
        </Section>
      )}
      {effects.length > 0 && (
        <Section title="Calls" extra={String(effects.length)} open={false}>
          <ol class="calls">
            {effects.map((effect) => {
              const call = effect.call ? session.toolCalls.get(effect.call) : undefined;
              const status = call?.result?.status;
              return (
                <li>
                  <code><Line text={effect.operation} /></code> {call?.call?.title && <Line text={call.call.title} />}
                  {status && status !== "ok" && <span class="quiet"> {status}</span>}
                  {effect.error && <p class="refusal"><Line text={effect.error.type} />: <Said text={effect.error.message.text} /></p>}
                  <Questions call={effect.call} />
                </li>
              );
            })}
          </ol>
        </Section>
      )}
    </>
  );
}

/** The questions about a call, with their answers. */
function Questions({ call }: { call: string | undefined }): JSX.Element | null {
  const page = usePage();
  if (!call) return null;
  const questions = page.session!.tables.questions.filter((entry) => entry.call === call);
  if (!questions.length) return null;
  return (
    <p class="quiet questions">
      {questions.map((entry) => (
        <span>
          Permission: {entry.outcome ?? "waits"}
          {entry.scope && <> for <Line text={entry.scope} /></>}
          {entry.is_remembered && ", by a remembered answer"}
        </span>
      ))}
    </p>
  );
}

function Words({ title, keys }: { title: string; keys: number[] | undefined }): JSX.Element | null {
  const page = usePage();
  const items = (keys ?? []).flatMap((key) => page.session!.item(key) ?? []);
  if (!items.length) return null;
  return (
    <Section title={title} extra={String(items.length)}>
      {items.map((item) => (
        <Item item={item} />
      ))}
    </Section>
  );
}

const WHO: Record<string, string> = {
  user: "You",
  reply: "Model",
  reasoning: "Model, thinking",
  call: "Call",
  result: "Result",
  rerender: "Shown again",
  stop: "End",
  summary: "Summary",
  queued: "Waiting prompt",
  withdrawn: "Withdrawn prompt",
};

/** One item of the conversation. */
export function Item({ item }: { item: ItemEntry }): JSX.Element {
  const page = usePage();
  let body: ComponentChildren;
  if (item.type === "call") {
    body = (
      <>
        <p><code><Line text={item.tool ?? ""} /></code> <Line text={item.title ?? ""} /></p>
        {item.arguments && item.tool !== "python" && <TextBlock text={item.arguments} label="Arguments" first={8} />}
      </>
    );
  } else if (item.type === "reply" || item.type === "summary") body = <WholeMarkdown item={item} />;
  else if (item.text?.text) body = item.type === "user" ? <WholeMarkdown item={item} /> : <TextBlock text={item.text} label={WHO[item.type]!} first={16} />;
  else body = null;
  return (
    <div class={`item item-${item.type}`} key={item.key}>
      <p class="who">
        {item.is_aside && item.type === "reply" ? "Rewindow" : WHO[item.type]}
        {item.kind === "steer" && " (while it worked)"}
        {item.is_aside && <span class="quiet"> not for models</span>}
        {item.status && item.status !== "ok" && <span class="quiet"> <Line text={[item.status, item.cause].filter(Boolean).join(", ")} /></span>}
        {item.forgotten ? <span class="quiet"> replaces {count(item.forgotten, "event")}</span> : null}
      </p>
      {body}
      {item.expansion && (
        <details>
          <summary>What models read in its place</summary>
          <TextBlock text={item.expansion} label="Expansion" />
        </details>
      )}
      {(item.attachments ?? []).map((attachment) => (
        <div class="attachment">
          <p class="quiet">Attachment <Line text={attachment.name || attachment.uri} /></p>
          {attachment.picture ? <Picture picture={attachment.picture} /> : attachment.text ? <TextBlock text={attachment.text} label="Attachment" first={12} /> : null}
        </div>
      ))}
      {(item.pictures ?? []).map((picture) => <Picture picture={picture} />)}
      {item.type === "call" && item.call && <StatementLink statement={page.session!.statementOfCall(item.call)} />}
    </div>
  );
}

function WholeMarkdown({ item }: { item: ItemEntry }): JSX.Element {
  const page = usePage();
  const text = item.text ?? { text: "" };
  const whole = text.digest ? page.loaded(text.digest)?.text : text.text;
  return (
    <>
      <Markdown text={whole ?? text.text} />
      {whole === undefined && (
        <button type="button" class="more" onClick={() => void page.whole(text).then(() => page.changed(), (error: Error) => page.notice(error.message))}>
          Show all of {count(text.size ?? 0, "character")}
        </button>
      )}
    </>
  );
}

export function PromptDetail({ item }: { item: ItemEntry }): JSX.Element {
  const page = usePage();
  const session = page.session!;
  const request = session.requestAt(item.key, item.branch);
  return (
    <article>
      <header class="detail-head">
        <h2><Icon name="prompt" /> Prompt</h2>
        <p class="facts">
          <BranchName name={item.branch} />
          <Time at={item.at} />
          {request && <a href={addressOf({ session: page.sessionId, view: "requests", entry: request.key })}>request {request.number}</a>}
        </p>
      </header>
      <Item item={item} />
    </article>
  );
}

export function MoveDetail({ move }: { move: MoveEntry }): JSX.Element {
  const page = usePage();
  const session = page.session!;
  return (
    <article>
      <header class="detail-head">
        <h2><Line text={moveText(move)} /></h2>
        <p class="facts">
          <BranchName name={move.branch} />
          <Time at={move.at} />
          {move.outcome && <span>{move.outcome}</span>}
        </p>
      </header>
      <dl class="fact-list">
        {move.origin && <Fact name="From branch"><Line text={move.origin} /></Fact>}
        {move.to && <Fact name="To branch"><Line text={move.to} /></Fact>}
        {move.mode && <Fact name="Mode">{MODES[move.mode]}</Fact>}
        {move.detail && <Fact name="Detail"><Line text={move.detail} /></Fact>}
      </dl>
      {(move.restored?.length ?? 0) > 0 && (
        <Section title="Restored files" extra={String(move.restored!.length)}>
          <ul>{move.restored!.map((file) => <li><Line text={file.name} /></li>)}</ul>
        </Section>
      )}
      {(move.left?.length ?? 0) > 0 && (
        <Section title="Files left unchanged" extra={String(move.left!.length)}>
          <ul>{move.left!.map((file) => <li><Line text={file.name} /> <span class="quiet"><Line text={file.reason ?? ""} /></span></li>)}</ul>
        </Section>
      )}
      {move.first !== undefined && (
        <Section title="Statements">
          <ul>
            {session.statementsOn(move.branch).filter((entry) => entry.index >= move.first! && entry.index <= (move.last ?? move.first!)).map((entry) => (
              <li><StatementLink statement={entry} /> <code>{visible(firstLine(entry.source))}</code></li>
            ))}
          </ul>
        </Section>
      )}
    </article>
  );
}
