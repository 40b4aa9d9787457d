import React, { useCallback, useState } from "react";
import { format } from "date-fns";

import { Row } from "./row";
import type { Entry } from "../model";

/** What a panel is given. */
export interface PanelProps {
  entries: readonly Entry[];
  title?: string;
  onPick(entry: Entry): void;
}

const LIMIT = 50;

export type Order = "newest" | "oldest";

/** Shows entries, the newest first unless told otherwise. */
export function Panel({ entries, title = "Entries", onPick }: PanelProps): JSX.Element {
  const [order, setOrder] = useState<Order>("newest");
  const pick = useCallback((entry: Entry) => onPick(entry), [onPick]);
  const shown = sorted(entries, order).slice(0, LIMIT);
  return (
    <section className="panel">
      <h2>{title}</h2>
      <button onClick={() => setOrder(order === "newest" ? "oldest" : "newest")}>{order}</button>
      {shown.map((entry) => (
        <Row key={entry.id} label={format(entry.at, "PP")} onClick={() => pick(entry)} />
      ))}
    </section>
  );
}

function sorted(entries: readonly Entry[], order: Order): Entry[] {
  const sign = order === "newest" ? -1 : 1;
  return [...entries].sort((a, b) => sign * (a.at - b.at));
}

export const EmptyPanel = () => <Panel entries={[]} onPick={() => undefined} />;

export default class Boundary extends React.Component<{ children: React.ReactNode }, { failed: boolean }> {
  state = { failed: false };

  static getDerivedStateFromError(): { failed: boolean } {
    return { failed: true };
  }

  private reset = (): void => {
    this.setState({ failed: false });
  };

  render(): React.ReactNode {
    return this.state.failed ? <button onClick={this.reset}>Again</button> : this.props.children;
  }
}
