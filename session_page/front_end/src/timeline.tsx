// The timeline: the tree of branches as lanes, statements as rows, and beside it what is chosen.

import type { JSX } from "preact";

import { Icon } from "./icons";
import { colorOf } from "./legend";
import { isCommand, type Row, type Timeline, timelineOf } from "./lanes";
import { Overview } from "./overview";
import { type Page, usePage } from "./page_state";
import { Python } from "./python";
import { count, Line } from "./visible";
import type { Session } from "./session";
import { MoveDetail, PromptDetail, StatementDetail } from "./statement";
import { focusDetail, Split } from "./split";
import { duration, Empty, firstLine, MODES, moveText, StatusIcon } from "./words";
import { VirtualList } from "./virtual_list";

export const LIST = "timeline-list";
const ROW = 34;
const COLUMN = 14;

export function TimelineView(): JSX.Element {
  const page = usePage();
  const session = page.session!;
  const timeline = timelineOf(session, page.branch);
  const { rows } = timeline;
  const chosen = page.route.entry ? (timeline.rowOf.get(Number(page.route.entry)) ?? -1) : -1;
  const row = rows[chosen];
  return (
    <Split
      name="timeline"
      isOpen={page.route.entry !== ""}
      list={
        rows.length ? (
          <VirtualList
            id={LIST}
            label="Timeline"
            rows={rows.length}
            height={ROW}
            chosen={chosen}
            onChoose={(next) => page.go({ entry: String(rows[next]!.key) }, chosen >= 0)}
            onEnter={focusDetail}
            keyOf={(index) => `${rows[index]!.type}-${rows[index]!.key}`}
            rowClass={(index) => classOf(page, session, rows[index]!)}
            follows={!page.file}
            atEnd={!page.file && session.head.is_running === true}
            render={(index) => <TimelineRow timeline={timeline} index={index} />}
          />
        ) : (
          <Empty title="No statements yet">
            <p>Statements appear here as they run.</p>
          </Empty>
        )
      }
      detail={
        row?.type === "statement" ? (
          <StatementDetail key={row.key} statement={row.statement} />
        ) : row?.type === "prompt" ? (
          <PromptDetail key={row.key} item={row.item} />
        ) : row?.type === "move" ? (
          <MoveDetail key={row.key} move={row.move} />
        ) : page.route.entry ? (
          <MissingEntry session={session} />
        ) : (
          <Overview />
        )
      }
    />
  );
}

/** An entry that the list does not have: of another branch, or not there (any more). */
function MissingEntry({ session }: { session: Session }): JSX.Element {
  const page = usePage();
  const statement = session.statement(Number(page.route.entry));
  if (statement) return <StatementDetail statement={statement} />;
  const item = session.item(Number(page.route.entry));
  if (item?.type === "user") return <PromptDetail item={item} />;
  return (
    <Empty title="This entry does not exist">
      <p>The session has no statement, prompt or move at this address.</p>
    </Empty>
  );
}

function classOf(page: Page, session: Session, row: Row): string {
  const isElsewhere = !page.branch && row.type !== "move" && !session.isOn(session.branch, row);
  const isTyped = row.type === "prompt" && isCommand(row.item);
  return `row-${row.type}${isElsewhere ? " elsewhere" : ""}${isTyped ? " command" : ""}`;
}

function TimelineRow({ timeline, index }: { timeline: Timeline; index: number }): JSX.Element {
  const row = timeline.rows[index]!;
  return (
    <>
      {timeline.columns > 1 && <Lanes timeline={timeline} index={index} />}
      {row.type === "statement" ? <StatementRow row={row} /> : row.type === "prompt" ? <PromptRow row={row} /> : <MoveRow row={row} />}
    </>
  );
}

function StatementRow({ row }: { row: Extract<Row, { type: "statement" }> }): JSX.Element {
  const page = usePage();
  const session = page.session!;
  const { statement } = row;
  const execution = session.current(statement);
  const runs = statement.executions?.length ?? 0;
  const files = execution?.files?.length ?? 0;
  const differences = session.executionsOf(statement).some((entry) => entry.divergences?.length);
  return (
    <>
      <StatusIcon status={execution?.status ?? "none"} />
      <span class="index">{statement.index}</span>
      <span class="source">
        {statement.kind === "meta" ? <Line text={firstLine(statement.source)} /> : <Python source={firstLine(statement.source)} />}
      </span>
      <span class="badges">
        {(statement.tags ?? []).slice(0, 2).map((tag) => (
          <span class="badge">
            <Line text={tag} most={20} />
          </span>
        ))}
        {differences && (
          <span class="badge difference" title="A later run differs">
            {"\u2260"}
            <span class="visually-hidden"> differs</span>
          </span>
        )}
        {runs > 1 && (
          <span class="badge" title={count(runs, "execution")}>
            {"\u00d7"}{runs}
          </span>
        )}
        {files > 0 && (
          <span class="badge" title={`Changed ${count(files, "file")}`}>
            <Icon name="file" />
            {files}
          </span>
        )}
        <span class="time">{execution?.status === "running" ? "" : duration(execution?.time_ms)}</span>
      </span>
    </>
  );
}

function PromptRow({ row }: { row: Extract<Row, { type: "prompt" }> }): JSX.Element {
  return (
    <>
      <Icon name="prompt" title={row.item.kind === "steer" ? "You, while it worked" : "You"} />
      <span class="words">
        <Line text={row.item.text?.text || "(attachments)"} />
      </span>
    </>
  );
}

function MoveRow({ row }: { row: Extract<Row, { type: "move" }> }): JSX.Element {
  const { move } = row;
  const icon = move.type === "replay" ? "replay" : move.type === "edit" ? "edit" : move.type === "rewind" ? "rewind" : "branch";
  return (
    <>
      <Icon name={icon} />
      <span class="words">
        <Line text={moveText(move)} />
      </span>
      {move.type === "replay" && move.mode && <span class="visually-hidden">{MODES[move.mode]}</span>}
    </>
  );
}

/** The lines of the branches at one row. */
function Lanes({ timeline, index }: { timeline: Timeline; index: number }): JSX.Element {
  const { lanes, rows, columns } = timeline;
  const row = rows[index]!;
  const middle = ROW / 2;
  const x = (column: number): number => column * COLUMN + COLUMN / 2 + 1;
  const own = lanes.find((lane) => lane.branch === row.branch);
  const paths: JSX.Element[] = [];
  for (const lane of lanes) {
    const color = colorOf(lane);
    if (index > lane.first && index < lane.last) paths.push(<path class={color} d={`M${x(lane.column)} 0V${ROW}`} />);
    else if (index === lane.last && index > lane.first) paths.push(<path class={color} d={`M${x(lane.column)} 0V${middle}`} />);
    if (index === lane.first && index < lane.last) paths.push(<path class={color} d={`M${x(lane.column)} ${middle}V${ROW}`} />);
    if (lane.fork >= 0 && lane.first > lane.fork) {
      if (index > lane.fork && index < lane.first) paths.push(<path class={`${color} fork`} d={`M${x(lane.column)} 0V${ROW}`} />);
      if (index === lane.first) paths.push(<path class={`${color} fork`} d={`M${x(lane.column)} 0V${middle}`} />);
      if (index === lane.fork) paths.push(<path class={`${color} fork`} d={`M${x(lane.forkColumn)} ${middle}C${x(lane.column)} ${middle} ${x(lane.column)} ${middle} ${x(lane.column)} ${ROW}`} />);
    }
  }
  return (
    <svg class="lanes" width={columns * COLUMN + 2} height={ROW} aria-hidden="true">
      {paths}
      {own && row.type === "statement" && <circle class={colorOf(own)} cx={x(own.column)} cy={middle} r="4" />}
      {own && row.type === "prompt" && <circle class={`${colorOf(own)} hollow`} cx={x(own.column)} cy={middle} r="3" />}
    </svg>
  );
}
