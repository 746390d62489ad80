// The console: pages drawn from the JSON API.

/** @import { Live } from "api" */

import { $ } from "./nodes.js";
import { BASE, handlers, api, closers, go, header, help, keepPlace, listeners, routes, shared, show, stream, trouble, waits } from "./site.js";
import { overviewPage } from "./overview.js";
import { runsPage } from "./runs.js";
import { runPage } from "./run.js";
import { comparePage } from "./compare.js";
import { inboxPage } from "./inbox.js";
import { effectsPage } from "./effects.js";
import { toolsPage } from "./tools.js";
import { workersPage } from "./workers.js";
import { auditPage } from "./audit.js";
import { sessionsPage } from "./sessions.js";
import { labPage, reportPage } from "./lab.js";
import { chatPage, conversationsPage } from "./chat.js";

routes.push(
  [/^\/$/, overviewPage],
  [/^\/runs$/, runsPage],
  [/^\/runs\/([^/]+)$/, runPage],
  [/^\/runs\/([^/]+)\/compare\/([^/]+)$/, comparePage],
  [/^\/inbox$/, inboxPage],
  [/^\/effects$/, effectsPage],
  [/^\/tools$/, toolsPage],
  [/^\/workers$/, workersPage],
  [/^\/audit$/, auditPage],
  [/^\/sessions$/, sessionsPage],
  [/^\/lab$/, labPage],
  [/^\/lab\/([^/]+)$/, reportPage],
  [/^\/conversations$/, conversationsPage],
  [/^\/conversations\/([^/]+)$/, (page, id) => chatPage(page, { conversation: id })],
  [/^\/chat\/([^/]+)$/, (page, agent) => chatPage(page, { agent })],
);

addEventListener("click", (event) => {
  const link = /** @type {HTMLAnchorElement} */ (/** @type {Element} */ (event.target).closest?.("a[href]"));
  if (!link || event.defaultPrevented || event.button || event.metaKey || event.ctrlKey || event.shiftKey || event.altKey) return;
  if (link.origin !== location.origin || link.target || link.download || link.hasAttribute("download") || link.hash && link.pathname === location.pathname) return;
  const path = link.pathname + link.search + link.hash;
  if (!link.pathname.startsWith(`${BASE}/`)) return;
  event.preventDefault();
  go(path.slice(BASE.length));
});
addEventListener("popstate", () => show({ isBack: true }));
// The browser would scroll before the page is drawn.
history.scrollRestoration = "manual";
let resting = 0;
addEventListener("scroll", () => {
  clearTimeout(resting);
  resting = setTimeout(keepPlace, 150);
}, { passive: true });

let chord = 0;
addEventListener("keydown", (event) => {
  if (event.ctrlKey || event.metaKey || event.altKey || event.isComposing || document.querySelector("dialog[open]")) return;
  const at = /** @type {HTMLElement} */ (event.target);
  if (at.matches?.("input, textarea, select")) {
    if (event.key === "Escape") at.blur();
    if (event.key === "Escape") at.closest(".ask")?.ask.close();
    return;
  }
  if (chord && Date.now() - chord < 1500) {
    chord = 0;
    const page = { o: "/", r: "/runs", i: "/inbox", e: "/effects", t: "/tools", w: "/workers", l: "/lab", c: "/conversations", a: "/audit", s: "/sessions" }[event.key];
    if (page) {
      go(page);
      return;
    }
  }
  if (event.key === "g") chord = Date.now();
  else if (event.key === "?") help();
  else if (event.key === "/") {
    const field = /** @type {HTMLInputElement} */ (document.querySelector("main input[type=search]") ?? document.querySelector("input[type=search]"));
    if (field) {
      event.preventDefault();
      field.focus();
    }
  } else if (event.key === "Escape") at.closest?.(".ask")?.ask.close();
  else for (const handler of [...handlers]) if (handler(event.key, event)) return;
});

export async function begin() {
  for (;;) {
    try {
      shared.me = await api("/api/me");
      break;
    } catch (error) {
      trouble($("main"), error);
      closers.forEach((close) => close());
      if (error.status !== 0 && error.status !== 503) return;
      await new Promise((done) => setTimeout(done, 1000));
    }
  }
  header();
  /** @param {Live} part */
  const changed = (part) => {
    if (part?.waits !== undefined && part.waits !== null) waits(part.waits);
    for (const one of listeners) one();
  };
  stream("/api/live", changed);
  await show({ isBack: true });
}

begin();
