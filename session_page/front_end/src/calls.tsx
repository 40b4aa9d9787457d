// The context of each model call: what was sent, where its tokens went, and what differs from the call before.

import type { JSX } from "preact";
import { useEffect, useState } from "preact/hooks";

import { CallPlot, SharedBar, Treemap } from "./call_pictures";
import { TextDiff } from "./diff";
import { messagesOf, projectionText } from "./export";
import { sentence, usePage } from "./page_state";
import { ContentBlock, TextBlock } from "./blocks";
import { count, Line } from "./visible";
import type { CallEntry, MessageEntry } from "./session_json";
import { focusDetail, Split } from "./split";
import { BranchName, CopyButton, CopyLink, dollars, Empty, Fact, number, Section, StatementLink, Time } from "./words";
import { VirtualList } from "./virtual_list";

export const LIST = "calls-list";

export function CallsView(): JSX.Element {
  const page = usePage();
  const session = page.session!;
  const calls = session.derived(`calls ${page.branch}`, () =>
    session.tables.calls.filter((call) => !page.branch || session.isOn(page.branch, { branch: call.branch, key: call.position })),
  );
  const found = calls.findIndex((call) => String(call.key) === page.route.entry);
  const chosen = found < 0 && !page.route.entry ? calls.length - 1 : found;
  const call = calls[chosen] ?? session.call(Number(page.route.entry));
  const most = session.derived(`most ${page.branch}`, () => calls.reduce((max, entry) => Math.max(max, entry.used), 1));
  const choose = (row: number): void => page.go({ entry: String(calls[row]!.key) }, found >= 0);
  return (
    <Split
      name="context"
      isOpen={page.route.entry !== ""}
      list={
        calls.length ? (
          <VirtualList
            id={LIST}
            label="Model calls"
            rows={calls.length}
            height={34}
            chosen={chosen}
            onChoose={choose}
            onEnter={focusDetail}
            keyOf={(row) => String(calls[row]!.key)}
            render={(row) => <CallRow call={calls[row]!} most={most} />}
          />
        ) : (
          <Empty title="No model calls" />
        )
      }
      detail={
        <>
          {calls.length > 0 && <CallPlot calls={calls} chosen={chosen} onChoose={choose} />}
          {call ? <CallDetail key={call.key} call={call} /> : calls.length > 0 && <Empty title="Choose a call"><p>Each call shows exactly what the model was sent.</p></Empty>}
        </>
      }
    />
  );
}

function CallRow({ call, most }: { call: CallEntry; most: number }): JSX.Element {
  const shared = call.shared ?? 0;
  return (
    <>
      <span class="index">{call.key}</span>
      <span class="call-bar">
        <svg viewBox="0 0 100 10" preserveAspectRatio="none" aria-hidden="true">
          <rect class="bar-shared" width={(100 * shared) / most} height="10" />
          <rect class="bar-used" x={(100 * shared) / most} width={(100 * Math.max(0, call.used - shared)) / most} height="10" />
        </svg>
      </span>
      <span class="badges">
        <span class="n">{number(call.used)} tokens</span>
        {call.answered === false && <span class="badge">no answer</span>}
        {call.dollars ? <span class="time">{dollars(call.dollars)}</span> : null}
      </span>
    </>
  );
}

function CallDetail({ call }: { call: CallEntry }): JSX.Element {
  const page = usePage();
  const session = page.session!;
  const before = call.key > 1 ? session.call(call.key - 1) : undefined;
  const statement = session.tables.statements.findLast((entry) => entry.key < call.position && session.isOn(call.branch, entry));
  return (
    <article>
      <header class="detail-head">
        <h2>Model call {call.key}</h2>
        <p class="facts">
          <BranchName name={call.branch} />
          {call.model && <Line text={call.model} />}
          {statement && <span>after <StatementLink statement={statement} /></span>}
          <Time at={call.at} />
          {call.answered === false && <span>no answer</span>}
        </p>
        <div class="acts">
          <CopyLink view="context" entry={String(call.key)} />
          <CopyButton label="Copy as text" text={() => projectionText(page, call)} />
          <button type="button" onClick={() => void projectionText(page, call).then((text) => page.show({ type: "report", title: `Model call ${call.key} as text`, text }), (error: unknown) => page.notice(sentence(error)))}>
            Show as text
          </button>
        </div>
      </header>
      <dl class="fact-list wide">
        <Fact name="Sent">{number(call.used)} of at most {number(call.size)} tokens ({Math.round((100 * call.used) / Math.max(1, call.size))}%)</Fact>
        {call.input_tokens !== undefined && (
          <Fact name="Provider">{number(call.input_tokens)} read, {number(call.cached_tokens)} of them cached, {number(call.output_tokens)} written</Fact>
        )}
        {call.dollars !== undefined && <Fact name="Cost">{dollars(call.dollars)}</Fact>}
      </dl>
      <SharedBar call={call} before={before} />
      <Treemap call={call} />
      {before && <Difference call={call} before={before} />}
      <Sent call={call} before={before} />
    </article>
  );
}

function Sent({ call, before }: { call: CallEntry; before: CallEntry | undefined }): JSX.Element {
  const page = usePage();
  const messages = messagesOf(page, call);
  const kept = Math.min(call.kept ?? 0, messages.length);
  return (
    <Section title="What was sent" extra={count(messages.length, "message")}>
      <Lazy title="Instructions" note={before && before.instructions === call.instructions ? `as in call ${before.key}` : ""} open={!before}>
        {() => (call.instructions ? <ContentBlock digest={call.instructions} label="Instructions" /> : <p class="quiet">Nothing.</p>)}
      </Lazy>
      {kept > 0 && (
        <Lazy title={count(kept, "message")} note={`as in call ${call.key - 1}`}>
          {() => messages.slice(0, kept).map((message) => <Message message={message} />)}
        </Lazy>
      )}
      {messages.slice(kept).map((message) => (
        <Message message={message} isNew={kept > 0} />
      ))}
      <Lazy title="End of the newest message" note={before && call.tail && before.tail === call.tail ? `as in call ${before.key}` : ""} open>
        {() => (call.tail ? <ContentBlock digest={call.tail} label="End of the newest message" /> : <p class="quiet">Nothing.</p>)}
      </Lazy>
    </Section>
  );
}

/** A part that is put into the document once it was opened. */
function Lazy({ title, note, open = false, children }: { title: string; note?: string; open?: boolean; children: () => JSX.Element | JSX.Element[] }): JSX.Element {
  const [isOpen, setOpen] = useState(open);
  return (
    <details class="sent" open={isOpen} onToggle={(event) => setOpen(event.currentTarget.open)}>
      <summary>
        {title} {note && <span class="quiet">{note}</span>}
      </summary>
      {isOpen && children()}
    </details>
  );
}

function Message({ message, isNew = false }: { message: MessageEntry; isNew?: boolean }): JSX.Element {
  return (
    <div class={`item message ${isNew ? "new" : ""}`} key={message.key}>
      <p class="who">
        <Line text={message.role} /> <span class="quiet"><Line text={message.event} />{message.is_shortened && ", shortened for this call"}</span>
      </p>
      {message.problem ? <p class="quiet"><Line text={message.problem} /></p> : <TextBlock text={message.text} label={`Message, ${message.role}`} first={40} kind={message.role === "call of python" ? "python" : "plain"} />}
    </div>
  );
}

function Difference({ call, before }: { call: CallEntry; before: CallEntry }): JSX.Element {
  const page = usePage();
  const kept = call.kept ?? 0;
  const removed = messagesOf(page, before).slice(kept);
  const added = messagesOf(page, call).slice(kept);
  const isSame = before.instructions === call.instructions && before.tail === call.tail && !removed.length && !added.length;
  return (
    <Section title={`Difference from call ${before.key}`} extra={isSame ? "none" : `+${added.length} \u2212${removed.length} messages`} open={false}>
      {isSame && <p class="quiet">Both calls were sent the same.</p>}
      <ContentDiff title="Instructions" old={before.instructions} next={call.instructions} />
      {removed.map((message) => (
        <div class="difference-part removed"><p class="who">{"\u2212"} no longer sent</p><Message message={message} /></div>
      ))}
      {added.map((message) => (
        <div class="difference-part added"><p class="who">+ new</p><Message message={message} /></div>
      ))}
      <ContentDiff title="End of the newest message" old={before.tail} next={call.tail} />
    </Section>
  );
}

function ContentDiff({ title, old, next }: { title: string; old: string | undefined; next: string | undefined }): JSX.Element | null {
  const page = usePage();
  const [problem, setProblem] = useState("");
  const wanted = [old, next].filter((digest): digest is string => Boolean(digest) && !page.loaded(digest!));
  useEffect(() => {
    if (old === next) return;
    for (const digest of wanted) page.content(digest).then(() => page.changed(), (error: unknown) => setProblem(sentence(error)));
  }, [old, next]);
  if (old === next) return null;
  const text = (digest: string | undefined): string => (digest ? (page.loaded(digest)?.text ?? "") : "");
  return (
    <>
      <h4>{title}</h4>
      {problem ? <p class="refusal">{problem}</p> : wanted.length ? <p class="quiet">Loading</p> : <TextDiff old={text(old)} next={text(next)} label={`Difference of ${title}`} />}
    </>
  );
}
