// What is happening now: the running statement with its output, questions that wait, and the next prompt.

import type { JSX } from "preact";
import { useEffect, useRef, useState } from "preact/hooks";

import { Regions } from "./diff";
import { Icon } from "./icons";
import { Markdown } from "./markdown";
import { type Page, sentence, usePage } from "./page_state";
import type { Field, Question } from "./page_types";
import { TextBlock } from "./blocks";
import { count, escaped, Line } from "./visible";
import { firstLine, Said, StatementLink } from "./words";

export const PROMPT = "prompt";
export const QUESTION = "question";
const LAST_LINES = 8;
const MOST_RADIOS = 8;

export function Dock(): JSX.Element | null {
  const page = usePage();
  const { state, session } = page;
  if (page.file || !session || !state) return null;
  const questions = state.questions;
  return (
    <section class="dock" aria-label="Now">
      {page.connection === "lost" && <p class="status-line warning"><Icon name="warn" /> <Said text={page.connectionText} /></p>}
      {page.connection === "ended" && (
        <p class="status-line warning">
          <Icon name="warn" /> <Said text={page.connectionText || "The live view ended."} />{" "}
          <button type="button" onClick={() => void page.load()}>Load again</button>
        </p>
      )}
      {!state.acts && state.why_not && state.why_not !== page.connectionText && <p class="status-line"><Icon name="warn" /> This page follows the session, and cannot act: <Said text={state.why_not} /></p>}
      {page.retry && <p class="status-line" role="status"><Said text={page.retry} /></p>}
      {state.progress && <p class="status-line" role="status">Running again: <Said text={state.progress} /></p>}
      <Running />
      {questions[0] && <QuestionPanel key={questions[0].id} question={questions[0]} more={questions.length - 1} />}
      {state.acts && <Composer />}
    </section>
  );
}

function Running(): JSX.Element | null {
  const page = usePage();
  const session = page.session!;
  const running = session.running.at(-1);
  const output = running?.call ? page.outputs.get(running.call) : undefined;
  const replies = [...page.replies.values()].filter((reply) => reply.text);
  const last = replies.at(-1);
  if (!running && !last) return null;
  const lines = `${output?.stdout ?? ""}${output?.stderr ?? ""}`.split("\n");
  const tail = lines.slice(-LAST_LINES - 1).join("\n").trimEnd();
  return (
    <div class="running">
      {running && (
        <p class="status-line" role="status">
          <Icon name="running" title="running" className="status status-running" />
          <StatementLink statement={running} /> is running: <code><Line text={firstLine(running.source)} most={80} /></code>
        </p>
      )}
      {tail && <TextBlock text={tail} label="Output so far" />}
      {last && !running && (
        <div class={`draft ${last.is_reasoning ? "reasoning" : ""}`}>
          <p class="who">{last.is_reasoning ? "Model, thinking" : "Model"}</p>
          <Markdown text={last.text.slice(-4_000)} />
        </div>
      )}
    </div>
  );
}

function Composer(): JSX.Element {
  const page = usePage();
  const [text, setText] = useState("");
  const [problem, setProblem] = useState("");
  const [isSending, setSending] = useState(false);
  const state = page.state!;
  const send = async (): Promise<void> => {
    if (!text.trim() || isSending) return;
    setSending(true);
    setProblem("");
    try {
      await page.act({ action: "prompt", branch: page.session!.branch, text });
      setText("");
    } catch (error) {
      setProblem(sentence(error));
    } finally {
      setSending(false);
    }
  };
  const cancel = async (): Promise<void> => {
    try {
      await page.act({ action: "cancel" });
    } catch (error) {
      setProblem(sentence(error));
    }
  };
  return (
    <form
      class="composer"
      onSubmit={(event) => {
        event.preventDefault();
        void send();
      }}
    >
      <label class="visually-hidden" for={PROMPT}>Prompt</label>
      <textarea
        id={PROMPT}
        rows={Math.min(8, Math.max(1, text.split("\n").length))}
        placeholder="Prompt the model"
        value={text}
        onInput={(event) => setText(event.currentTarget.value)}
        onKeyDown={(event) => {
          if (event.key === "Enter" && !event.shiftKey && !event.isComposing) {
            event.preventDefault();
            void send();
          }
        }}
      />
      {!state.is_here && (
        <button type="button" class="open-here" title="Open the session in this server, so that its output and questions come here" onClick={() => page.act({ action: "open" }).catch((error: unknown) => setProblem(sentence(error)))}>
          Open here
        </button>
      )}
      {state.is_busy && (
        <button type="button" class="danger" onClick={() => void cancel()}>
          <Icon name="stop" /> Cancel
        </button>
      )}
      <button type="submit" class="primary" disabled={!text.trim() || isSending}>Send</button>
      {problem && <p class="refusal" role="alert"><Said text={problem} /></p>}
    </form>
  );
}

function useAnswer(page: Page): { problem: string; isSending: boolean; send: (action: Parameters<Page["act"]>[0]) => Promise<void> } {
  const [problem, setProblem] = useState("");
  const [isSending, setSending] = useState(false);
  const send = async (action: Parameters<Page["act"]>[0]): Promise<void> => {
    setSending(true);
    setProblem("");
    try {
      await page.act(action);
    } catch (error) {
      setProblem(sentence(error));
    } finally {
      setSending(false);
    }
  };
  return { problem, isSending, send };
}

function QuestionPanel({ question, more }: { question: Question; more: number }): JSX.Element {
  const page = usePage();
  const statement = page.session!.statementOfCall(question.call);
  const { cwd } = page.session!.head;
  const facts = [
    statement && <StatementLink statement={statement} />,
    question.cwd && <span>in <Line text={question.cwd} /></span>,
    page.state?.is_shared && <span>also asked where the session was opened; the first answer counts</span>,
    more > 0 && <span>{count(more, "more question")} after this</span>,
  ].filter(Boolean);
  const head = (
    <>
      <h2 id="question-title">
        <Icon name="help" /> <Line text={cwd ? question.title.replace(` ${cwd}/`, " ") : question.title} />
      </h2>
      {facts.length > 0 && <p class="facts">{facts}</p>}
    </>
  );
  return (
    <div class="question" id={QUESTION} role="alertdialog" aria-labelledby="question-title" tabIndex={-1}>
      {head}
      {question.protected && <p class="loud"><Icon name="warn" /> <Said text={question.protected} /></p>}
      {question.outside && <p class="loud"><Icon name="warn" /> It runs outside of the sandbox.</p>}
      {question.note && <p class="note"><Said text={question.note} /></p>}
      {question.source && <TextBlock text={question.source} kind={question.type === "statement" ? "python" : "plain"} label="What is asked about" first={200} />}
      {question.paths.some((path) => !question.title.includes(path)) && (
        <ul class="paths">
          {question.paths.map((path) => <li><Icon name="file" /> <Line text={path} /></li>)}
        </ul>
      )}
      {question.regions.length > 0 && <div class="diff"><Regions regions={question.regions} label="Changes that are asked about" /></div>}
      {question.type === "form" ? <FormAnswer question={question} /> : <Permission question={question} />}
    </div>
  );
}

function Permission({ question }: { question: Question }): JSX.Element {
  const page = usePage();
  const { problem, isSending, send } = useAnswer(page);
  const [reason, setReason] = useState("");
  const [remember, setRemember] = useState(false);
  const [rest, setRest] = useState(false);
  const answer = (outcome: "allowed" | "rejected"): void => {
    void send({ action: "answer", question: question.id, outcome, reason: outcome === "rejected" ? reason : "", remember, rest });
  };
  return (
    <div class="answers">
      {question.always && (
        <label class="check">
          <input type="checkbox" checked={remember} onChange={(event) => setRemember(event.currentTarget.checked)} />
          <span>Remember the answer for <Line text={question.always} /></span>
        </label>
      )}
      {question.rest && (
        <label class="check">
          <input type="checkbox" checked={rest} onChange={(event) => setRest(event.currentTarget.checked)} />
          Also for all further file changes of this statement
        </label>
      )}
      <div class="acts">
        <button type="button" class="primary" disabled={isSending} onClick={() => answer("allowed")}>Allow</button>
        <button type="button" disabled={isSending} onClick={() => answer("rejected")}>Reject</button>
        <label class="reason">
          <span class="visually-hidden">Reason of a rejection</span>
          <input value={reason} placeholder="Reason of a rejection, for the model" onInput={(event) => setReason(event.currentTarget.value)} />
        </label>
      </div>
      {problem && <p class="refusal" role="alert"><Said text={problem} /></p>}
    </div>
  );
}

function FormAnswer({ question }: { question: Question }): JSX.Element {
  const page = usePage();
  const { problem, isSending, send } = useAnswer(page);
  const [values, setValues] = useState<Record<string, unknown>>(() =>
    Object.fromEntries(question.fields.flatMap((field) => (field.default === null || field.default === undefined ? [] : [[field.name, field.default]]))),
  );
  const fill = (outcome: "accepted" | "declined"): void => {
    void send({ action: "fill", question: question.id, outcome, values: outcome === "accepted" ? values : {} });
  };
  return (
    <form
      class="answers"
      onSubmit={(event) => {
        event.preventDefault();
        fill("accepted");
      }}
    >
      {question.fields.map((field) => (
        <FieldInput
          field={field}
          value={values[field.name]}
          onChange={(value) =>
            setValues((old) => {
              const next = { ...old };
              if (value === undefined) delete next[field.name];
              else next[field.name] = value;
              return next;
            })
          }
        />
      ))}
      <div class="acts">
        <button type="submit" class="primary" disabled={isSending}>Send</button>
        <button type="button" disabled={isSending} onClick={() => fill("declined")}>Decline</button>
      </div>
      {problem && <p class="refusal" role="alert"><Said text={problem} /></p>}
    </form>
  );
}

function FieldInput({ field, value, onChange }: { field: Field; value: unknown; onChange: (value: unknown) => void }): JSX.Element {
  const id = `field-${field.name}`;
  const label = <Line text={field.title || field.name} />;
  const description = field.description && <span class="quiet"><Said text={field.description} /></span>;
  if (field.type === "boolean") {
    return (
      <label class="check">
        <input type="checkbox" checked={value === true} onChange={(event) => onChange(event.currentTarget.checked)} /> {label} {description}
      </label>
    );
  }
  if (field.type === "array") {
    const chosen = Array.isArray(value) ? (value as string[]) : [];
    return (
      <fieldset class="field">
        <legend>{label}</legend>
        {description}
        {field.choices.map((choice) => (
          <label class="check">
            <input
              type="checkbox"
              checked={chosen.includes(choice.value)}
              onChange={(event) => onChange(event.currentTarget.checked ? [...chosen, choice.value] : chosen.filter((other) => other !== choice.value))}
            />
            <Line text={choice.title || choice.value} />
          </label>
        ))}
      </fieldset>
    );
  }
  const isNumber = field.type === "number" || field.type === "integer";
  if (field.is_open ? field.choices.length : field.choices.length > 0 && field.choices.length <= MOST_RADIOS) {
    const isOther = value !== undefined && !field.choices.some((choice) => choice.value === value);
    return (
      <fieldset class="field">
        <legend>{label}{field.is_required && " (required)"}</legend>
        {description}
        {field.choices.map((choice) => (
          <label class="check">
            <input type="radio" name={id} checked={choice.value === value} onChange={() => onChange(choice.value)} />
            <Line text={choice.title || choice.value} />
          </label>
        ))}
        {field.is_open && (
          <label class="other">
            <span class="visually-hidden">Another answer</span>
            <input id={id} placeholder="Another answer" value={isOther ? String(value) : ""} onInput={(event) => onChange(event.currentTarget.value || undefined)} />
          </label>
        )}
      </fieldset>
    );
  }
  return (
    <label class="field" for={id}>
      <span>{label}{field.is_required && " (required)"}</span>
      {description}
      {field.choices.length > 0 && !field.is_open ? (
        <select id={id} value={String(value ?? "")} onChange={(event) => onChange(event.currentTarget.value || undefined)}>
          <option value="">Choose</option>
          {field.choices.map((choice) => <option value={choice.value}>{escaped(choice.title || choice.value)}</option>)}
        </select>
      ) : (
        <input
          id={id}
          inputMode={isNumber ? "decimal" : "text"}
          value={value === undefined ? "" : String(value)}
          onInput={(event) => {
            const text = event.currentTarget.value;
            onChange(text === "" ? undefined : isNumber && Number.isFinite(Number(text)) ? Number(text) : text);
          }}
        />
      )}
    </label>
  );
}

/** Say in the title of the tab that a question waits. */
export function useTitle(): void {
  const page = usePage();
  const waits = page.state?.questions.length ?? 0;
  const name = escaped(page.session?.head.title || page.session?.head.session_id || "Sessions").slice(0, 80);
  const last = useRef("");
  useEffect(() => {
    const title = `${waits ? "(?) " : ""}${name} \u00b7 Rewindow`;
    if (title !== last.current) document.title = last.current = title;
  });
}
