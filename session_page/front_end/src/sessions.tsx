// All sessions, most recently used first.

import type { JSX } from "preact";
import { useState } from "preact/hooks";

import { usePage } from "./page_state";
import type { SessionRow } from "./page_types";
import { count, Line } from "./visible";
import { bytes, Empty, Time } from "./words";
import { VirtualList } from "./virtual_list";

export const LIST = "sessions-list";

export function SessionsView(): JSX.Element {
  const page = usePage();
  const [query, setQuery] = useState("");
  const [chosen, setChosen] = useState(-1);
  const needle = query.toLowerCase();
  const rows = (page.rows ?? []).filter((row) => [row.title, row.cwd, row.session_id].some((text) => text.toLowerCase().includes(needle)));
  return (
    <main class="sessions" id="main">
      <header class="detail-head">
        <h1>Sessions</h1>
        <label class="choice">
          <span class="visually-hidden">Search sessions</span>
          <input id="search" type="search" placeholder="Search titles and directories" value={query} onInput={(event) => {
            setQuery(event.currentTarget.value);
            setChosen(-1);
          }} />
        </label>
        <p class="quiet">{count(rows.length, "session")}</p>
      </header>
      {rows.length ? (
        <VirtualList
          id={LIST}
          label="Sessions"
          rows={rows.length}
          height={52}
          chosen={chosen}
          onChoose={setChosen}
          onOpen={(row) => page.go({ session: rows[row]!.session_id, view: "timeline", entry: "" })}
          keyOf={(row) => rows[row]!.session_id}
          render={(row) => <Row row={rows[row]!} />}
        />
      ) : (
        <Empty title={query ? "No session matches" : "No sessions yet"}>
          {!query && <p>Start one with <code>rewindow run</code> or in an editor.</p>}
        </Empty>
      )}
    </main>
  );
}

function Row({ row }: { row: SessionRow }): JSX.Element {
  return (
    <div class="two-lines">
      <span class="words">
        <strong><Line text={row.title || "Session without a title"} most={120} /></strong>
        {row.is_held && <span class="badge">open in another process</span>}
        {row.archived && <span class="badge">archived</span>}
      </span>
      <span class="second">
        <Line text={row.cwd} most={80} />
        <span><Time at={row.updated_at} /></span>
        <span>{count(row.events, "event")}</span>
        <span>{bytes(row.size)}</span>
      </span>
    </div>
  );
}
