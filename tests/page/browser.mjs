// A browser for tests in Python: one command in JSON a line on standard input, one answer a line on standard output.
// {"do": NAME, ...} gives {"value": ...} or {"error": TEXT}. Targets are Playwright selectors.
import { createInterface } from "node:readline";
import chromium from "@sparticuz/chromium";
import axe from "axe-core";
import { chromium as playwright } from "playwright-core";

// The arguments of the package suit servers: these would end the browser with its first context, or hide what a browser
// of a user refuses.
const UNWANTED = ["--single-process", "--disable-web-security", "--allow-running-insecure-content"];
const PATIENCE_MS = Number(process.env.PATIENCE_MS ?? 20_000);

const browser = await playwright.launch({
  executablePath: await chromium.executablePath(),
  args: chromium.args.filter((argument) => !UNWANTED.includes(argument)),
});
let context;
let page;
const problems = []; // uncaught errors, messages of the console, refused requests, dialogs
const requests = [];

const commands = {
  async open({ url, width = 1440, height = 900, dark = false, still = true }) {
    await context?.close();
    context = await browser.newContext({
      viewport: { width, height },
      colorScheme: dark ? "dark" : "light",
      reducedMotion: still ? "reduce" : "no-preference",
    });
    context.setDefaultTimeout(PATIENCE_MS);
    page = await context.newPage();
    // What a click can be meant for, and what was copied.
    await page.addInitScript(() => {
      globalThis.clickable = new Set();
      const add = EventTarget.prototype.addEventListener;
      EventTarget.prototype.addEventListener = function (type, ...rest) {
        if (type === "click") globalThis.clickable.add(this);
        return add.call(this, type, ...rest);
      };
      if (globalThis.Clipboard) {
        Clipboard.prototype.writeText = async (text) => {
          globalThis.copied = text;
        };
      }
    });
    problems.length = 0;
    requests.length = 0;
    page.on("pageerror", (error) => problems.push(`error: ${error.stack ?? error.message}`));
    page.on("console", (message) => {
      // A refusal of the server is in the console too; pages show it as a sentence.
      const isRefusal = message.text().startsWith("Failed to load resource: the server responded");
      if (["error", "warning"].includes(message.type()) && !isRefusal) problems.push(`console: ${message.text()}`);
    });
    page.on("dialog", (dialog) => {
      problems.push(`dialog: ${dialog.message()}`);
      void dialog.dismiss();
    });
    page.on("request", (request) => requests.push(request.url()));
    await page.goto(url);
  },
  /** Open a page and return what it took until `target` is there, in ms: by the clock, and of the main thread's time. */
  async measure({ url, target }) {
    await commands.open({ url: "about:blank" });
    const session = await context.newCDPSession(page);
    await session.send("Performance.enable", { timeDomain: "threadTicks" });
    await page.goto(url);
    await page.locator(target).first().waitFor();
    await page.waitForFunction(() => performance.getEntriesByName("usable").length > 0);
    const usable = await page.evaluate(() => {
      const [navigation] = performance.getEntriesByType("navigation");
      return performance.getEntriesByName("usable")[0].startTime - navigation.responseStart;
    });
    const { metrics } = await session.send("Performance.getMetrics");
    const { value } = metrics.find(({ name }) => name === "TaskDuration");
    return { usable, busy: value * 1000 };
  },
  /** Scroll a list from its beginning to its end. Returns the main thread's time for a frame and its longest task, in
   * ms; tasks of less than 50 ms are no long tasks for the browser, and count as 0. */
  async scroll({ target }) {
    const session = await context.newCDPSession(page);
    await session.send("Performance.enable", { timeDomain: "threadTicks" });
    const worked = async () => (await session.send("Performance.getMetrics")).metrics.find(({ name }) => name === "TaskDuration").value * 1000;
    const before = await worked();
    const found = await page.evaluate(async (selector) => {
      const list = document.querySelector(selector);
      const tasks = [];
      const observer = new PerformanceObserver((entries) => tasks.push(...entries.getEntries()));
      observer.observe({ type: "longtask" });
      const step = Math.max(list.clientHeight, (list.scrollHeight - list.clientHeight) / 300);
      let frames = 0;
      for (let top = 0; top < list.scrollHeight; top += step) {
        list.scrollTop = top;
        await new Promise((resolve) => requestAnimationFrame(resolve));
        frames += 1;
      }
      await new Promise((resolve) => setTimeout(resolve, 50));
      tasks.push(...observer.takeRecords());
      observer.disconnect();
      return { frames, longest: Math.max(0, ...tasks.map((task) => task.duration)) };
    }, target);
    return { ...found, frame: ((await worked()) - before) / found.frames };
  },
  async leave() {
    await page.goto("about:blank");
  },
  async reload() {
    await page.reload();
  },
  async theme({ dark }) {
    await page.emulateMedia({ colorScheme: dark ? "dark" : "light" });
  },
  async resize({ width, height = 900 }) {
    await page.setViewportSize({ width, height });
  },
  async click({ target }) {
    await page.locator(target).first().click();
  },
  async fill({ target, text }) {
    await page.locator(target).first().fill(text);
  },
  async choose({ target, value }) {
    await page.locator(target).first().selectOption(value);
  },
  async press({ key }) {
    await page.keyboard.press(key);
  },
  async wait({ target, state = "visible" }) {
    await page.locator(target).first().waitFor({ state });
  },
  async text({ target }) {
    return page.locator(target).first().innerText();
  },
  async texts({ target }) {
    return page.locator(target).allInnerTexts();
  },
  async count({ target }) {
    return page.locator(target).count();
  },
  async evaluate({ expression }) {
    return page.evaluate(expression);
  },
  async url() {
    return page.url();
  },
  async hide({ hidden }) {
    await page.evaluate((isHidden) => {
      Object.defineProperty(document, "visibilityState", { configurable: true, get: () => (isHidden ? "hidden" : "visible") });
      document.dispatchEvent(new Event("visibilitychange"));
    }, hidden);
  },
  async shot({ path }) {
    await page.screenshot({ path });
  },
  async problems() {
    return problems;
  },
  async requests() {
    return requests;
  },
  // The page's policy admits no other script, so the checker comes from the driver.
  async axe() {
    await page.evaluate(axe.source);
    const result = await page.evaluate(() => globalThis.axe.run(document, { resultTypes: ["violations"] }));
    return result.violations.map(({ id, nodes }) => `${id}: ${nodes.map((node) => `${node.html} ${node.failureSummary}`).join("\n")}`);
  },
};

const lines = createInterface({ input: process.stdin });
process.stdout.write(`${JSON.stringify({ value: browser.version() })}\n`);
for await (const line of lines) {
  const command = JSON.parse(line);
  let answer;
  try {
    answer = { value: (await commands[command.do](command)) ?? null };
  } catch (error) {
    answer = { error: String(error.stack ?? error) };
  }
  process.stdout.write(`${JSON.stringify(answer)}\n`);
}
await browser.close();
