// Search over statements, results, files and words.

import type { JSX } from "preact";
import { useEffect, useState } from "preact/hooks";

import { sentence, usePage } from "./page_state";
import type { Found, SearchAnswer } from "./page_types";
import { count, Line, visible } from "./visible";
import type { Session } from "./session";
import type { Route } from "./route";
import { BranchName, Empty } from "./words";
import { VirtualList } from "./virtual_list";

export const LIST = "search-list";
const WAIT_MS = 150;
const SHORTEST = 2;

interface Hit {
  found: Found;
  title: string;
  branch: string;
  route: Partial<Route>;
}

/** Where a hit is on the page; null for what has no place there. */
export function hitOf(session: Session, found: Found): Hit | null {
  const key = Number(found.key);
  const statement = found.table === "executions" ? session.statement(session.execution(key)?.statement ?? -1) : found.table === "statements" ? session.statement(key) : undefined;
  if (statement) {
    const title = `${found.table === "executions" ? "Result of statement" : "Statement"} ${statement.index}`;
    return { found, title, branch: statement.branch, route: { view: "timeline", entry: String(statement.key) } };
  }
  if (found.table === "files") {
    const file = session.file(String(found.key)) ?? session.fileChange(String(found.key))?.file;
    return file ? { found, title: "File", branch: "", route: { view: "files", entry: file.key } } : null;
  }
  if (found.table === "messages" || found.table === "calls") {
    const call = found.table === "calls" ? session.call(key) : session.tables.calls.find((entry) => entry.messages?.includes(key));
    return call ? { found, title: `Model call ${call.key}`, branch: call.branch, route: { view: "context", entry: String(call.key) } } : null;
  }
  if (found.table === "handles") {
    const handle = session.handle(key);
    return handle ? { found, title: "View", branch: handle.branch, route: { view: "views", entry: String(handle.key) } } : null;
  }
  if (found.table === "conversation") {
    const item = session.item(key);
    if (!item) return null;
    if (item.type === "user" && !item.is_aside) return { found, title: "Prompt", branch: item.branch, route: { view: "timeline", entry: String(key) } };
    const around = session.statementsOn(item.branch).find((entry) => entry.before?.includes(key) || entry.after?.includes(key) || (entry.call && entry.call === item.call));
    if (around) return { found, title: `Words at statement ${around.index}`, branch: item.branch, route: { view: "timeline", entry: String(around.key) } };
    const request = session.requestAt(key, item.branch);
    return request ? { found, title: `Request ${request.number}`, branch: item.branch, route: { view: "requests", entry: request.key } } : null;
  }
  return null;
}

export function SearchView(): JSX.Element {
  const page = usePage();
  const session = page.session!;
  const query = page.route.entry;
  const [answer, setAnswer] = useState<{ query: string; answer: SearchAnswer } | null>(null);
  const [problem, setProblem] = useState("");
  const [chosen, setChosen] = useState(-1);
  useEffect(() => {
    setChosen(-1);
    if (query.length < SHORTEST) return;
    let wanted = true;
    const timer = setTimeout(() => {
      page.search(query).then(
        (found) => {
          if (!wanted) return;
          setProblem("");
          setAnswer({ query, answer: found });
        },
        (error: unknown) => wanted && setProblem(sentence(error)),
      );
    }, WAIT_MS);
    return () => {
      wanted = false;
      clearTimeout(timer);
    };
  }, [query]);
  if (query.length < SHORTEST) {
    return <div class="single"><Empty title="Search this session"><p>Type at least two characters above. The search covers statements, results, files and words.</p></Empty></div>;
  }
  const hits = answer?.query === query ? answer.answer.found.flatMap((found) => hitOf(session, found) ?? []) : null;
  return (
    <div class="single search-results">
      <p class="quiet summary" role="status">
        {problem ? "" : hits === null ? "Searching" : `${count(hits.length, "result")} for \u201c${query.slice(0, 80)}\u201d${answer!.answer.is_cut ? ", and more" : ""}`}
      </p>
      {problem && <p class="refusal">{problem}</p>}
      {hits !== null && hits.length > 0 && (
        <VirtualList
          id={LIST}
          label="Search results"
          rows={hits.length}
          height={52}
          chosen={chosen}
          onChoose={setChosen}
          onOpen={(row) => page.go(hits[row]!.route)}
          keyOf={(row) => `${row}`}
          render={(row) => <HitRow hit={hits[row]!} query={query} />}
        />
      )}
    </div>
  );
}

function HitRow({ hit, query }: { hit: Hit; query: string }): JSX.Element {
  const { excerpt, at } = hit.found;
  const line = excerpt.replaceAll("\n", " ");
  return (
    <div class="two-lines hit">
      <span class="words">
        <strong>{hit.title}</strong> {hit.branch && <BranchName name={hit.branch} />} {hit.title === "File" && <Line text={String(hit.found.key)} />}
      </span>
      <span class="second excerpt">
        <bdi>
          {visible(line.slice(0, at))}
          <mark>{visible(line.slice(at, at + query.length))}</mark>
          {visible(line.slice(at + query.length))}
        </bdi>
      </span>
    </div>
  );
}
