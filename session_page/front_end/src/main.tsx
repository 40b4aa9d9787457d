// Starts the page.

import "./style.css";

import { render } from "preact";

import { App } from "./app";
import { Page, PageContext } from "./page_state";

/** The mark at which a reader can use the page. Benchmarks read it. */
const USABLE = "usable";

const page = new Page();

render(
  <PageContext.Provider value={page}>
    <App />
  </PageContext.Provider>,
  document.getElementById("page")!,
);
void page.start().then(() => requestAnimationFrame(() => performance.mark(USABLE)));
