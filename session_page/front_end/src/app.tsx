// The frame of the page: the bar above, the tabs, the view, what is happening now, and the keys.

import type { JSX } from "preact";
import { useEffect, useState } from "preact/hooks";

import { CallsView, LIST as CALLS } from "./calls";
import { CompareView } from "./compare";
import { Dialogs } from "./dialogs";
import { Dock, PROMPT, QUESTION, useTitle } from "./dock";
import { FilesView, LIST as FILES } from "./files";
import { HandlesView, LIST as HANDLES } from "./handles";
import { Icon } from "./icons";
import { type Page, type Theme, usePage } from "./page_state";
import { LIST as REQUESTS, requestsOn, RequestsView } from "./requests";
import { addressOf, type ViewName } from "./route";
import { escaped, Line } from "./visible";
import { LIST as RESULTS, SearchView } from "./search";
import { LIST as SESSIONS, SessionsView } from "./sessions";
import { focusDetail } from "./split";
import { LIST as TIMELINE, TimelineView } from "./timeline";
import { Said } from "./words";

const TABS: { view: ViewName; title: string; list: string; count: (page: Page) => number }[] = [
  { view: "timeline", title: "Timeline", list: TIMELINE, count: (page) => page.session!.tables.statements.length },
  { view: "files", title: "Files", list: FILES, count: (page) => page.session!.tables.files.length },
  { view: "context", title: "Context", list: CALLS, count: (page) => page.session!.tables.calls.length },
  { view: "views", title: "Views", list: HANDLES, count: (page) => page.session!.tables.handles.length },
  { view: "requests", title: "Requests", list: REQUESTS, count: (page) => requestsOn(page.session!, "").length },
  { view: "compare", title: "Compare", list: "", count: (page) => page.session!.tables.branches.length },
];

const VIEWS: Record<ViewName, () => JSX.Element> = {
  timeline: TimelineView,
  files: FilesView,
  context: CallsView,
  views: HandlesView,
  requests: RequestsView,
  compare: CompareView,
  search: SearchView,
};

export function App(): JSX.Element {
  const page = usePage();
  useTitle();
  useKeys(page);
  if (page.needsToken) return <TokenForm />;
  if (page.problem) {
    return (
      <main class="notice-page" id="main">
        <h1>This session cannot be shown</h1>
        <p class="refusal"><Said text={page.problem} /></p>
        <p class="acts">
          {!page.file && <button type="button" onClick={() => void page.load()}>Try again</button>}
          {!page.file && <a href="#/">All sessions</a>}
        </p>
      </main>
    );
  }
  if (!page.route.session && !page.file) {
    return (
      <>
        <TopBar />
        {page.rows ? <SessionsView /> : <Loading />}
        <Notices />
        <Dialogs />
      </>
    );
  }
  if (!page.session) return <Loading />;
  const View = VIEWS[page.route.view];
  return (
    <>
      <TopBar />
      <Tabs />
      <main id="main">
        <h1 class="visually-hidden">{TABS.find((tab) => tab.view === page.route.view)?.title ?? "Search"}</h1>
        <View />
      </main>
      <Dock />
      <Notices />
      <Dialogs />
    </>
  );
}

function Loading(): JSX.Element {
  return <main class="notice-page" id="main"><h1 class="visually-hidden">Rewindow</h1><p class="quiet" role="status">Loading</p></main>;
}

function TopBar(): JSX.Element {
  const page = usePage();
  const { session } = page;
  return (
    <header class="top">
      {session && (
        <a
          class="skip"
          href={addressOf(page.route)}
          onClick={(event) => {
            event.preventDefault();
            focusDetail();
          }}
        >
          To the details
        </a>
      )}
      {page.file ? <span class="brand"><Mark /> <span>Rewindow</span></span> : <a class="brand" href="#/" title="All sessions"><Mark /> <span>Rewindow</span></a>}
      {session && (
        <>
          <a class="title" href={addressOf({ session: page.sessionId, view: "timeline", entry: "" })}>
            <Line text={session.head.title || session.head.session_id} most={120} />
          </a>
          <Activity />
          <BranchSelect />
          <label class="search">
            <Icon name="search" />
            <span class="visually-hidden">Search this session</span>
            <input
              id="search"
              type="search"
              placeholder="Search"
              value={page.route.view === "search" ? page.route.entry : ""}
              onInput={(event) => page.go({ view: "search", entry: event.currentTarget.value }, page.route.view === "search")}
              onKeyDown={(event) => {
                if (event.key === "Enter" || event.key === "ArrowDown") {
                  event.preventDefault();
                  document.getElementById(RESULTS)?.focus();
                }
              }}
            />
            <kbd aria-hidden="true">/</kbd>
          </label>
        </>
      )}
      <button type="button" class="icon-button" aria-label={`Colours: ${page.theme}. Change`} title={`Colours: ${page.theme}`} onClick={() => page.setTheme(nextTheme(page.theme))}>
        <Icon name={page.theme === "dark" ? "moon" : "sun"} />
      </button>
      <button type="button" class="icon-button" aria-label="Keys" title="Keys" onClick={() => {
        page.help = true;
        page.changed();
      }}>
        <Icon name="help" />
      </button>
    </header>
  );
}

function Mark(): JSX.Element {
  return (
    <svg class="brand-mark" viewBox="0 0 20 20" width="20" height="20" aria-hidden="true">
      <path d="M4 3v14M4 9c0 4 9 1 9 6" fill="none" stroke="currentColor" stroke-width="2" stroke-linecap="round" />
      <circle cx="4" cy="4" r="2.4" />
      <circle cx="13" cy="15.500" r="2.4" class="second" />
      <circle cx="4" cy="16" r="2.4" />
    </svg>
  );
}

function nextTheme(theme: Theme): Theme {
  return theme === "system" ? "dark" : theme === "dark" ? "light" : "system";
}

/** Whether the session is live, busy, or only read. */
function Activity(): JSX.Element {
  const page = usePage();
  const { state } = page;
  if (page.file) return <span class="activity">file</span>;
  if (page.connection === "ended") return <span class="activity">not live</span>;
  if (page.connection === "lost") return <span class="activity warning">reconnecting</span>;
  if (state && state.questions.length > 0) return <button type="button" class="activity asks" onClick={() => document.getElementById(QUESTION)?.focus()}>question waits</button>;
  if (state && !state.acts) return <span class="activity" title={escaped(state.why_not)}>read only</span>;
  return <span class={`activity ${state?.is_busy ? "busy" : ""}`}>{state?.is_busy ? "running" : "live"}</span>;
}

function BranchSelect(): JSX.Element | null {
  const page = usePage();
  const session = page.session!;
  const names = session.tables.branches.map((branch) => branch.key);
  if (names.length < 2) return null;
  const isOther = page.acts && page.branch && page.branch !== session.branch;
  return (
    <span class="branch-select">
      <label>
        <Icon name="branch" />
        <span class="visually-hidden">Branch</span>
        <select id="branch" value={page.branch} onChange={(event) => page.setBranch(event.currentTarget.value)}>
          <option value="">All branches</option>
          {names.map((name) => (
            <option value={name}>
              {escaped(name)}
              {name === session.branch ? " (active)" : ""}
            </option>
          ))}
        </select>
      </label>
      {isOther && (
        <button type="button" onClick={() => page.show({ type: "switch", to: page.branch })}>
          Switch to it
        </button>
      )}
    </span>
  );
}

function Tabs(): JSX.Element {
  const page = usePage();
  return (
    <nav class="tabs" aria-label="Views">
      {TABS.map((tab) => (
        <a
          href={addressOf({ session: page.sessionId, view: tab.view, entry: "" })}
          aria-current={page.route.view === tab.view ? "page" : undefined}
          onClick={(event) => {
            if (event.metaKey || event.ctrlKey) return;
            event.preventDefault();
            page.go({ view: tab.view });
          }}
        >
          {tab.title} <span class="count">{tab.count(page).toLocaleString("en-US")}</span>
        </a>
      ))}
    </nav>
  );
}

function Notices(): JSX.Element {
  const page = usePage();
  return (
    <div class="notices" role="status" aria-live="polite">
      {page.notices.map((text) => (
        <p>
          <Said text={text} />
          <button type="button" class="icon-button" aria-label="Dismiss" onClick={() => page.dismiss(text)}>
            <Icon name="close" />
          </button>
        </p>
      ))}
    </div>
  );
}

function TokenForm(): JSX.Element {
  const page = usePage();
  const [text, setText] = useState("");
  return (
    <main class="notice-page" id="main">
      <h1>Open this page from the terminal</h1>
      {page.problem && <p class="refusal"><Said text={page.problem} /></p>}
      <p>The page needs the token of its server. `rewindow page` printed an address with the token. Paste that address here, or use `/page` in the session again.</p>
      <form
        class="composer"
        onSubmit={(event) => {
          event.preventDefault();
          void page.useAddress(text.trim());
        }}
      >
        <label class="visually-hidden" for="token">Address or token</label>
        <input id="token" type="password" autocomplete="off" placeholder="Address or token" value={text} onInput={(event) => setText(event.currentTarget.value)} />
        <button type="submit" class="primary" disabled={!text.trim()}>Open</button>
      </form>
    </main>
  );
}

/** Keys of the whole page. Those of lists are theirs, once they have the focus. */
function useKeys(page: Page): void {
  useEffect(() => {
    const onKey = (event: KeyboardEvent): void => {
      if (event.ctrlKey || event.metaKey || event.altKey || event.defaultPrevented) return;
      const target = event.target as HTMLElement;
      const isTyping = target.matches("input:not([type=checkbox]):not([type=radio]), textarea, select");
      if (document.querySelector("dialog[open]")) return;
      if (event.key === "Escape") {
        if (isTyping) target.blur();
        if (target.id === "search" && page.route.view === "search") page.go({ view: "timeline" });
        else if (!isTyping) back(page);
        listOf(page)?.focus({ preventScroll: true });
        return;
      }
      if (isTyping) return;
      if (press(page, event.key, target)) event.preventDefault();
    };
    window.addEventListener("keydown", onKey);
    return () => window.removeEventListener("keydown", onKey);
  }, [page]);
}

function listOf(page: Page): HTMLElement | null {
  const id = page.session ? (TABS.find((tab) => tab.view === page.route.view)?.list ?? RESULTS) : SESSIONS;
  return document.getElementById(id);
}

function back(page: Page): void {
  if (page.route.entry && page.route.view !== "compare") page.go({ entry: "" });
}

function press(page: Page, key: string, target: HTMLElement): boolean {
  const tab = /^[1-6]$/.test(key) ? TABS[Number(key) - 1] : undefined;
  if (tab && page.session) {
    page.go({ view: tab.view });
    setTimeout(() => listOf(page)?.focus({ preventScroll: true }));
    return true;
  }
  const statement = page.route.view === "timeline" ? page.session?.statement(Number(page.route.entry)) : undefined;
  const canAct = page.acts && statement && page.session!.isOn(page.session!.branch, statement);
  switch (key) {
    case "j":
    case "k":
    case "g":
    case "G": {
      const list = listOf(page);
      if (!list || target === list) return false;
      list.focus({ preventScroll: true });
      list.dispatchEvent(new KeyboardEvent("keydown", { key, bubbles: true, cancelable: true }));
      return true;
    }
    case "/":
      document.getElementById("search")?.focus();
      return true;
    case "?":
      page.help = true;
      page.changed();
      return true;
    case "b":
      document.getElementById("branch")?.focus();
      return true;
    case "t":
      page.setTheme(nextTheme(page.theme));
      return true;
    case "q":
      document.getElementById(QUESTION)?.focus();
      return true;
    case "p":
      document.getElementById(PROMPT)?.focus();
      return true;
    case "r":
      if (canAct) page.show({ type: "rewind", statement: statement.index });
      return Boolean(canAct);
    case "e":
      if (canAct && statement.kind !== "meta" && !statement.is_withheld) page.show({ type: "edit", statement: statement.key });
      return Boolean(canAct);
    default:
      return false;
  }
}
