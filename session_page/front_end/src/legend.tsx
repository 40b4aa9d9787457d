// The colours of branches.

import type { JSX } from "preact";

import { type Lane, timelineOf } from "./lanes";
import { usePage } from "./page_state";
import { BranchName } from "./words";

export function colorOf(lane: Lane): string {
  return `lane lane-${lane.column % 6}`;
}

/** The names of branches with the colours of their lanes. */
export function Legend(): JSX.Element | null {
  const page = usePage();
  const session = page.session!;
  const timeline = timelineOf(session, "");
  const others = session.tables.branches.map((branch) => branch.key).filter((name) => !timeline.lanes.some((lane) => lane.branch === name));
  if (timeline.lanes.length + others.length < 2) return null;
  return (
    <ul class="legend">
      {timeline.lanes.map((lane) => (
        <li>
          <svg width="12" height="12" aria-hidden="true">
            <circle class={colorOf(lane)} cx="6" cy="6" r="4" />
          </svg>
          <BranchName name={lane.branch} />
          {lane.branch === session.branch && <span class="quiet"> active</span>}
        </li>
      ))}
      {others.map((name) => (
        <li>
          <BranchName name={name} />
          <span class="quiet">{name === session.branch ? "active, " : ""}without statements of its own</span>
        </li>
      ))}
    </ul>
  );
}
