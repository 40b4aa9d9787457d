// A list of any length, of which only the rows in sight are in the document. Rows have one height.
// It is a list box: one element has the focus, and the keys move which row is chosen.

import type { ComponentChildren, JSX } from "preact";
import { useLayoutEffect, useRef, useState } from "preact/hooks";

const MARGIN = 8; // rows above and below those in sight

export interface VirtualListProps {
  label: string;
  rows: number;
  height: number;
  /** The chosen row, or -1. */
  chosen: number;
  onChoose: (row: number) => void;
  /** After a click or Enter on a row. */
  onOpen?: (row: number) => void;
  /** After Enter on a row. */
  onEnter?: () => void;
  render: (row: number) => ComponentChildren;
  /** A class of a row's element. */
  rowClass?: (row: number) => string;
  keyOf: (row: number) => string;
  /** Whether new rows are shown as they come, if the end is in sight. */
  follows?: boolean;
  /** Whether it begins at its end. */
  atEnd?: boolean;
  id: string;
}

export function VirtualList(props: VirtualListProps): JSX.Element {
  const { rows, height, chosen } = props;
  const box = useRef<HTMLDivElement>(null);
  const [top, setTop] = useState(0);
  const [seen, setSeen] = useState(900);
  const known = useRef(props.atEnd ? -1 : rows);

  useLayoutEffect(() => {
    const element = box.current!;
    const measure = (): void => setSeen(element.clientHeight || 900);
    measure();
    const observer = new ResizeObserver(measure);
    observer.observe(element);
    return () => observer.disconnect();
  }, []);

  useLayoutEffect(() => {
    const element = box.current!;
    const before = known.current;
    known.current = rows;
    const sawEnd = element.scrollTop + element.clientHeight >= before * height - height;
    if (before < 0 || (props.follows && rows > before && sawEnd)) element.scrollTop = rows * height;
  }, [rows]);

  useLayoutEffect(() => {
    const element = box.current!;
    if (chosen < 0) return;
    const place = chosen * height;
    if (place < element.scrollTop) element.scrollTop = place;
    else if (place + height > element.scrollTop + element.clientHeight) element.scrollTop = place + height - element.clientHeight;
  }, [chosen, seen]);

  const onScroll = (): void => {
    setTop(box.current!.scrollTop);
  };

  const first = Math.max(0, Math.floor(top / height) - MARGIN);
  const last = Math.min(rows, Math.ceil((top + seen) / height) + MARGIN);
  // While it only scrolls its props are the same, and so are the rows that stay in sight.
  const drawn = useRef<{ props: VirtualListProps; rows: Map<number, JSX.Element> }>({ props, rows: new Map() });
  if (drawn.current.props !== props) drawn.current = { props, rows: new Map() };
  const rowAt = (row: number): JSX.Element => {
    let element = drawn.current.rows.get(row);
    if (!element) drawn.current.rows.set(row, (element = drawRow(props, row)));
    return element;
  };
  const shown = Array.from({ length: Math.max(0, last - first) }, (_, index) => first + index);
  const isShown = chosen >= first && chosen < last;
  return (
    <div
      ref={box}
      id={props.id}
      class="list"
      role="listbox"
      tabIndex={0}
      aria-label={props.label}
      aria-activedescendant={isShown ? `${props.id}-${chosen}` : undefined}
      onScroll={onScroll}
      onKeyDown={(event) => {
        const page = Math.max(1, Math.floor(seen / height) - 1);
        const next = nextRow(event.key, chosen, rows, page);
        if (next !== null) {
          event.preventDefault();
          props.onChoose(next);
        } else if (event.key === "Enter" && chosen >= 0) {
          event.preventDefault();
          props.onChoose(chosen);
          props.onOpen?.(chosen);
          // What was chosen has to be drawn first.
          setTimeout(() => props.onEnter?.());
        }
      }}
    >
      <div role="presentation" class="list-space" style={{ height: `${rows * height}px` }}>
        {shown.map(rowAt)}
      </div>
    </div>
  );
}

function drawRow(props: VirtualListProps, row: number): JSX.Element {
  const { rows, height, chosen } = props;
  return (
    <div
      key={props.keyOf(row)}
      id={`${props.id}-${row}`}
      role="option"
      aria-selected={row === chosen}
      aria-setsize={rows}
      aria-posinset={row + 1}
      class={`row ${props.rowClass?.(row) ?? ""} ${row === chosen ? "chosen" : ""}`}
      style={{ height: `${height}px`, transform: `translateY(${row * height}px)` }}
      onClick={() => {
        props.onChoose(row);
        props.onOpen?.(row);
      }}
    >
      {props.render(row)}
    </div>
  );
}

/** The row that a key leads to, or null if it is no key of a list. */
export function nextRow(key: string, chosen: number, rows: number, page: number): number | null {
  if (!rows) return null;
  const within = (row: number): number => Math.max(0, Math.min(rows - 1, row));
  switch (key) {
    case "j":
    case "ArrowDown":
      return within(chosen + 1);
    case "k":
    case "ArrowUp":
      return within(chosen < 0 ? rows - 1 : chosen - 1);
    case "PageDown":
      return within(chosen + page);
    case "PageUp":
      return within(chosen - page);
    case "Home":
    case "g":
      return 0;
    case "End":
    case "G":
      return rows - 1;
    default:
      return null;
  }
}
