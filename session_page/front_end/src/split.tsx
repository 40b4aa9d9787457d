// A list and what is chosen in it: beside each other where there is room, else one after the other.

import type { ComponentChildren, JSX } from "preact";

import { Icon } from "./icons";
import { usePage } from "./page_state";

export function focusDetail(): void {
  document.getElementById("detail")?.focus();
}

export function Split({
  name,
  list,
  detail,
  isOpen,
}: {
  name: string;
  list: ComponentChildren;
  detail: ComponentChildren;
  isOpen: boolean;
}): JSX.Element {
  const page = usePage();
  return (
    <div class={`split split-${name} ${isOpen ? "open" : ""}`}>
      <div class="split-list">{list}</div>
      <section class="split-detail" id="detail" tabIndex={-1} aria-label="Details">
        <button type="button" class="back" onClick={() => page.go({ entry: "" })}>
          <Icon name="back" /> Back to the list
        </button>
        {detail}
      </section>
    </div>
  );
}
