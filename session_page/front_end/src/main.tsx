// Starts the page.

import "./style.css";

import { render } from "preact";

import { App } from "./app";
import { Page, PageContext } from "./page_state";

const page = new Page();

render(
  <PageContext.Provider value={page}>
    <App />
  </PageContext.Provider>,
  document.getElementById("page")!,
);
void page.start();
