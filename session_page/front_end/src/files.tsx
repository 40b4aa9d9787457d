// Files that the session changed, each with its history of diffs.

import type { JSX } from "preact";
import { useState } from "preact/hooks";

import { ChangeDiff, DiffSize, sizeOf } from "./diff";
import { Icon } from "./icons";
import { type Page, usePage } from "./page_state";
import { ContentBlock } from "./blocks";
import { count, Line } from "./visible";
import { positionOf, type Session } from "./session";
import type { FileChangeEntry, FileEntry } from "./session_json";
import { focusDetail, Split } from "./split";
import { BranchName, Empty, Said, Section, StatementLink, Time } from "./words";
import { VirtualList } from "./virtual_list";

export const LIST = "files-list";

function changesOf(page: Page, session: Session, file: FileEntry): FileChangeEntry[] {
  return (file.changes ?? []).filter((change) => !page.branch || session.isOn(page.branch, { branch: change.branch, key: positionOf(change.key) }));
}

export function FilesView(): JSX.Element {
  const page = usePage();
  const session = page.session!;
  const files = session.derived(`files ${page.branch}`, () =>
    session.tables.files.filter((file) => changesOf(page, session, file).length > 0).sort((one, other) => (one.name < other.name ? -1 : 1)),
  );
  const found = files.findIndex((file) => file.key === page.route.entry);
  const chosen = found < 0 && !page.route.entry ? Math.min(0, files.length - 1) : found;
  const file = files[chosen] ?? session.file(page.route.entry);
  return (
    <Split
      name="files"
      isOpen={page.route.entry !== ""}
      list={
        files.length ? (
          <VirtualList
            id={LIST}
            label="Files"
            rows={files.length}
            height={34}
            chosen={chosen}
            onChoose={(row) => page.go({ entry: files[row]!.key }, found >= 0)}
            onEnter={focusDetail}
            keyOf={(row) => files[row]!.key}
            render={(row) => <FileRow file={files[row]!} />}
          />
        ) : (
          <Empty title="No changed files" />
        )
      }
      detail={file ? <FileDetail key={file.key} file={file} /> : <Empty title="Choose a file"><p>Each file has its history of changes, with the statement that made each.</p></Empty>}
    />
  );
}

function FileRow({ file }: { file: FileEntry }): JSX.Element {
  const page = usePage();
  const changes = changesOf(page, page.session!, file);
  const last = changes.at(-1);
  const slash = file.name.lastIndexOf("/") + 1;
  return (
    <>
      <Icon name="file" />
      <span class="words">
        <span class="quiet"><Line text={file.name.slice(0, slash)} /></span>
        <Line text={file.name.slice(slash)} />
      </span>
      <span class="badges">
        {last?.change === "deleted" && <span class="badge">deleted</span>}
        <span class="badge">{count(changes.length, "change")}</span>
      </span>
    </>
  );
}

const BY: Record<FileChangeEntry["by"], string> = { statement: "by", rewind: "by a rewind or undo", others: "by another program" };

function FileDetail({ file }: { file: FileEntry }): JSX.Element {
  const page = usePage();
  const session = page.session!;
  const changes = changesOf(page, session, file);
  const last = changes.at(-1);
  return (
    <article>
      <header class="detail-head">
        <h2><Line text={file.name} /></h2>
        <p class="facts">
          <span>{count(changes.length, "change")}</span>
          {file.name.startsWith("/") ? <span>outside of the session's directory</span> : <span class="quiet"><Line text={file.key} /></span>}
        </p>
      </header>
      {changes.toReversed().map((change) => (
        <ChangeSection key={change.key} change={change} file={file} />
      ))}
      {last?.after && (
        <Section title="Content after the last change" open={false}>
          <LazyContent digest={last.after} name={file.name} />
        </Section>
      )}
    </article>
  );
}

function ChangeSection({ change, file }: { change: FileChangeEntry; file: FileEntry }): JSX.Element {
  const page = usePage();
  const session = page.session!;
  const statement = change.statement === undefined ? undefined : session.statement(change.statement);
  return (
    <section class="file-change history">
      <p class="file-head">
        <strong class={`change change-${change.change}`}>{change.change}</strong>
        <span>
          {BY[change.by]} {change.by === "statement" && <StatementLink statement={statement} />}
        </span>
        <BranchName name={change.branch} />
        <span class="quiet"><Time at={change.at} /></span>
        <DiffSize {...sizeOf(page, change.regions)} />
      </p>
      {change.moved_from && <p class="quiet">Moved from <Line text={change.moved_from} /></p>}
      {change.unsure && <p class="quiet"><Said text={change.unsure} /></p>}
      {change.text?.text && <p class="quiet"><Said text={change.text.text} /></p>}
      {modeText(change) && <p class="quiet">{modeText(change)}</p>}
      <ChangeDiff change={change} name={file.name} />
    </section>
  );
}

function modeText(change: FileChangeEntry): string {
  const { before_mode: before, after_mode: after } = change;
  if (before === undefined || after === undefined || before === after) return "";
  return `Permissions changed from ${before.toString(8)} to ${after.toString(8)}.`;
}

function LazyContent({ digest, name }: { digest: string; name: string }): JSX.Element {
  const page = usePage();
  const [wanted, setWanted] = useState(page.loaded(digest) !== undefined);
  if (!wanted) return <button type="button" class="more" onClick={() => setWanted(true)}>Show it</button>;
  return <ContentBlock digest={digest} label={`Content of ${name}`} kind={name.endsWith(".py") ? "python" : "plain"} />;
}
