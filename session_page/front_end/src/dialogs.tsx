// What changes a session asks first: a rewind names its files, and each act says what it does. Refusals are shown as
// the server's sentence.

import type { ComponentChildren, JSX } from "preact";
import { useEffect, useRef, useState } from "preact/hooks";

import { Icon } from "./icons";
import { Markdown } from "./markdown";
import { type Page, sentence, usePage } from "./page_state";
import type { Preview, ReplayAnswer, RewindAnswer } from "./page_types";
import { TextBlock } from "./blocks";
import { count, Line } from "./visible";
import type { RestoredFile } from "./session_json";
import { Said } from "./words";

export function Dialogs(): JSX.Element | null {
  const page = usePage();
  const { dialog } = page;
  if (page.help) return <Help />;
  if (!dialog || !page.session) return null;
  switch (dialog.type) {
    case "rewind":
      return <RewindDialog statement={dialog.statement} />;
    case "switch":
      return <SwitchDialog to={dialog.to} />;
    case "edit":
      return <EditDialog statement={dialog.statement} />;
    case "replay":
      return <ReplayDialog statement={dialog.statement} />;
    case "report":
      return (
        <Modal title={dialog.title} onClose={() => page.show(null)}>
          {dialog.title.startsWith("Report") ? <Markdown text={dialog.text} /> : <TextBlock text={dialog.text} label={dialog.title} first={400} />}
        </Modal>
      );
  }
}

export function Modal({ title, onClose, children, buttons }: { title: string; onClose: () => void; children: ComponentChildren; buttons?: ComponentChildren }): JSX.Element {
  const box = useRef<HTMLDialogElement>(null);
  useEffect(() => {
    const before = document.activeElement;
    box.current?.showModal();
    return () => {
      if (before instanceof HTMLElement) before.focus();
    };
  }, []);
  return (
    <dialog
      ref={box}
      aria-labelledby="dialog-title"
      onCancel={(event) => {
        event.preventDefault();
        onClose();
      }}
    >
      <header>
        <h2 id="dialog-title">{title}</h2>
        <button type="button" class="icon-button" aria-label="Close" onClick={onClose}>
          <Icon name="close" />
        </button>
      </header>
      <div class="dialog-body">{children}</div>
      {buttons && <footer class="acts">{buttons}</footer>}
    </dialog>
  );
}

/** A dialog that does one thing, and stays open with the sentence if that is refused. */
function ActDialog({ title, verb, run, children, isReady = true }: { title: string; verb: string; run: (page: Page) => Promise<string>; children: ComponentChildren; isReady?: boolean }): JSX.Element {
  const page = usePage();
  const [problem, setProblem] = useState("");
  const [isRunning, setRunning] = useState(false);
  const close = (): void => page.show(null);
  const act = async (): Promise<void> => {
    setRunning(true);
    setProblem("");
    try {
      const report = await run(page);
      page.show(report ? { type: "report", title: `Report: ${title}`, text: report } : null);
    } catch (error) {
      setProblem(sentence(error));
      setRunning(false);
    }
  };
  return (
    <Modal
      title={title}
      onClose={close}
      buttons={
        <>
          <button type="button" onClick={close}>{isRunning ? "Close" : "Keep as it is"}</button>
          <button type="button" class="primary" disabled={isRunning || !isReady} onClick={() => void act()}>
            {isRunning ? "Running" : verb}
          </button>
        </>
      }
    >
      {children}
      {isRunning && <p class="quiet" role="status">{page.state?.progress ? <>Running: <Said text={page.state.progress} /></> : "It runs, and the page shows its progress. You can close this window."}</p>}
      {problem && <p class="refusal" role="alert"><Said text={problem} /></p>}
    </Modal>
  );
}

function FileList({ title, files }: { title: string; files: RestoredFile[] }): JSX.Element | null {
  if (!files.length) return null;
  return (
    <>
      <h3>{title}</h3>
      <ul class="paths">
        {files.map((file) => (
          <li><Icon name="file" /> <Line text={file.name} /> {file.reason && <span class="quiet"><Line text={file.reason} /></span>}</li>
        ))}
      </ul>
    </>
  );
}

function RewindDialog({ statement }: { statement: number }): JSX.Element {
  const page = usePage();
  const branch = useRef(page.session!.branch).current;
  const [preview, setPreview] = useState<Preview | null>(null);
  const [problem, setProblem] = useState("");
  const [files, setFiles] = useState(true);
  const [conversation, setConversation] = useState(true);
  useEffect(() => {
    page.act<Preview>({ action: "preview", branch, statement }).then(setPreview, (error: unknown) => setProblem(sentence(error)));
  }, [statement]);
  const later = page.session!.statementsOn(branch).filter((entry) => entry.index > statement).length;
  return (
    <ActDialog
      title={statement ? `Rewind to statement ${statement}` : "Rewind to the beginning"}
      verb="Rewind"
      isReady={preview !== null && (files || conversation)}
      run={async () => {
        const answer = await page.act<RewindAnswer>({ action: "rewind", branch, statement, files, conversation });
        page.go({ view: "timeline", entry: "" });
        page.notice(`Went back to ${statement ? `statement ${statement}` : "the beginning"}: ${count(answer.restored.length, "file")} restored, ${answer.left.length} left unchanged.`);
        return "";
      }}
    >
      <p>{count(later, "later statement")} {later === 1 ? "stays" : "stay"} on branch <Line text={branch} />. You can switch back to it.</p>
      {problem && <p class="refusal"><Said text={problem} /></p>}
      {!preview && !problem && <p class="quiet">Looking at the files</p>}
      {preview && files && (
        <>
          <FileList title={`Restored: ${count(preview.files.length, "file")}`} files={preview.files} />
          <FileList title={`Left unchanged: ${count(preview.left.length, "file")}`} files={preview.left} />
          {!preview.files.length && !preview.left.length && <p class="quiet">No files change.</p>}
        </>
      )}
      <label class="check"><input type="checkbox" checked={files} onChange={(event) => setFiles(event.currentTarget.checked)} /> Restore files</label>
      <label class="check"><input type="checkbox" checked={conversation} onChange={(event) => setConversation(event.currentTarget.checked)} /> Go back in the conversation and the variables</label>
    </ActDialog>
  );
}

function SwitchDialog({ to }: { to: string }): JSX.Element {
  const page = usePage();
  const branch = useRef(page.session!.branch).current;
  const [files, setFiles] = useState(true);
  return (
    <ActDialog
      title="Switch branch"
      verb="Switch"
      run={async () => {
        const answer = await page.act<RewindAnswer>({ action: "switch", branch, to, files });
        page.notice(`Switched to branch ${to}: ${count(answer.restored.length, "file")} restored, ${answer.left.length} left unchanged.`);
        return "";
      }}
    >
      <p>The session continues on branch <strong><Line text={to} /></strong>. Branch <Line text={branch} /> stays as it is.</p>
      <label class="check"><input type="checkbox" checked={files} onChange={(event) => setFiles(event.currentTarget.checked)} /> Restore its files</label>
    </ActDialog>
  );
}

function EditDialog({ statement }: { statement: number }): JSX.Element {
  const page = usePage();
  const branch = useRef(page.session!.branch).current;
  const entry = page.session!.statement(statement);
  const [source, setSource] = useState<string | null>(entry && !entry.source.digest ? entry.source.text : null);
  const [mode, setMode] = useState<"recorded" | "live">("live");
  const [problem, setProblem] = useState("");
  useEffect(() => {
    if (entry && source === null) page.whole(entry.source).then(setSource, (error: unknown) => setProblem(sentence(error)));
  }, [statement]);
  if (!entry) return <Modal title="Edit" onClose={() => page.show(null)}><p>This statement does not exist any more.</p></Modal>;
  return (
    <ActDialog
      title={`Edit statement ${entry.index} and run on`}
      verb="Run on"
      isReady={source !== null && source.trim() !== ""}
      run={async () => {
        const answer = await page.act<ReplayAnswer>({ action: "edit", branch, statement: entry.index, source: source!, mode });
        page.go({ view: "timeline", entry: "" });
        return answer.report;
      }}
    >
      <p>The new statement and the later ones run on a new branch. Branch <Line text={branch} /> stays as it is.</p>
      {problem && <p class="refusal"><Said text={problem} /></p>}
      <label class="field">
        <span>Source</span>
        <textarea class="source-input" rows={12} spellcheck={false} value={source ?? ""} disabled={source === null} onInput={(event) => setSource(event.currentTarget.value)} />
      </label>
      <ModeChoice value={mode} onChange={(value) => setMode(value as "recorded" | "live")} modes={["live", "recorded"]} />
    </ActDialog>
  );
}

function ReplayDialog({ statement }: { statement: number }): JSX.Element {
  const page = usePage();
  const branch = useRef(page.session!.branch).current;
  const highest = page.session!.statementsOn(branch).at(-1)?.index ?? statement;
  const [last, setLast] = useState(highest);
  const [first, setFirst] = useState(statement);
  const [mode, setMode] = useState<"recorded" | "live" | "dry">("recorded");
  return (
    <ActDialog
      title="Replay statements"
      verb="Replay"
      isReady={first >= 1 && first <= last && last <= highest}
      run={async () => (await page.act<ReplayAnswer>({ action: "replay", branch, first, last, mode })).report}
    >
      <p>A replay runs statements again and reports the differences.</p>
      <div class="acts">
        <label class="choice"><span>From</span><input type="number" min={1} max={highest} value={first} onInput={(event) => setFirst(Number(event.currentTarget.value))} /></label>
        <label class="choice"><span>To</span><input type="number" min={1} max={highest} value={last} onInput={(event) => setLast(Number(event.currentTarget.value))} /></label>
      </div>
      <ModeChoice value={mode} onChange={(value) => setMode(value as typeof mode)} modes={["recorded", "live", "dry"]} />
    </ActDialog>
  );
}

const MODE_TEXTS: Record<string, string> = {
  recorded: "Recorded: tools and commands give their recorded answers. No file changes.",
  live: "Live: tools and commands run again, with their questions.",
  dry: "Dry: stops at the first statement with an effect.",
};

function ModeChoice({ value, onChange, modes }: { value: string; onChange: (mode: string) => void; modes: string[] }): JSX.Element {
  return (
    <fieldset class="field">
      <legend>Mode</legend>
      {modes.map((mode) => (
        <label class="check">
          <input type="radio" name="mode" value={mode} checked={mode === value} onChange={() => onChange(mode)} /> {MODE_TEXTS[mode]}
        </label>
      ))}
    </fieldset>
  );
}

const KEYS: [string, string][] = [
  ["j, k", "next and previous row"],
  ["g, G", "first and last row"],
  ["Enter", "to the details of the row"],
  ["Esc", "back to the list, or close"],
  ["1 to 6", "the views, in the order of their tabs"],
  ["/", "search"],
  ["b", "choose a branch"],
  ["t", "dark or light"],
  ["?", "these keys"],
];

const ACT_KEYS: [string, string][] = [
  ["q", "to the waiting question"],
  ["p", "write a prompt"],
  ["r", "rewind to the chosen statement"],
  ["e", "edit the chosen statement and run on"],
];

const MARKS: [JSX.Element | string, string][] = [
  ["\u2260", "a later run had other results"],
  ["\u00d72", "ran twice"],
  [<><Icon name="file" />1</>, "changed one file"],
];

function Help(): JSX.Element {
  const page = usePage();
  const close = (): void => {
    page.help = false;
    page.changed();
  };
  return (
    <Modal title="Keys" onClose={close}>
      <table class="keys">
        <tbody>
          {[...KEYS, ...(page.file ? [] : ACT_KEYS)].map(([key, text]) => (
            <tr>
              <th scope="row"><kbd>{key}</kbd></th>
              <td>{text}</td>
            </tr>
          ))}
        </tbody>
      </table>
      <h3>Marks of statements</h3>
      <table class="keys">
        <tbody>
          {MARKS.map(([mark, text]) => (
            <tr>
              <th scope="row"><span class="badge">{mark}</span></th>
              <td>{text}</td>
            </tr>
          ))}
        </tbody>
      </table>
    </Modal>
  );
}
