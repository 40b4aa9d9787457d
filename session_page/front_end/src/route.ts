// The page's own addresses, in the fragment. They name a session, a view and an entry, and never carry a secret.

export const VIEWS = ["timeline", "files", "context", "views", "requests", "compare", "search"] as const;
export type ViewName = (typeof VIEWS)[number];

/** A place on the page. `entry` is the key of what is open in the view. */
export interface Route {
  session: string;
  view: ViewName;
  entry: string;
}

const WORDS: Record<ViewName, string> = {
  timeline: "statement",
  files: "file",
  context: "call",
  views: "view",
  requests: "request",
  compare: "compare",
  search: "search",
};

export function addressOf(route: Route): string {
  const parts = [route.session];
  if (route.view !== "timeline" || route.entry) parts.push(WORDS[route.view]);
  if (route.entry) parts.push(route.entry);
  return `#/${parts.map(encodeURIComponent).join("/")}`;
}

export function routeOf(fragment: string): Route {
  const parts = fragment.replace(/^#?\/?/, "").split("/").map(decoded);
  const view = VIEWS.find((name) => WORDS[name] === parts[1]) ?? "timeline";
  return { session: parts[0] ?? "", view, entry: parts[1] === undefined ? "" : parts.slice(2).join("/") };
}

function decoded(part: string): string {
  try {
    return decodeURIComponent(part);
  } catch {
    return part;
  }
}

/** The secret of an address that the server printed, and the session it names; the secret is empty in our own. */
export function secretOf(fragment: string): { name: "token" | "ticket" | ""; value: string; session: string } {
  const fields = new URLSearchParams(fragment.replace(/^#/, ""));
  const session = fields.get("session") ?? "";
  for (const name of ["token", "ticket"] as const) {
    const value = fields.get(name);
    if (value) return { name, value, session };
  }
  return { name: "", value: "", session };
}
