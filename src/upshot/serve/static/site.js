// What all pages share: the server, the routes, the header, keys and dialogs.

/** @import { Me, RunList, SignedOut } from "api" */

import { $, fill, h, plain, say } from "./nodes.js";

export const BASE = new URL("..", import.meta.url).pathname.replace(/\/$/, "");

// ---- Server ----------------------------------------------------------------------------------------------------

export class Refusal extends Error {
  /**
   * @param {number} status
   * @param {string} text
   * @param {string} [signIn] the path where the user signs in
   */
  constructor(status, text, signIn = "") {
    super(text);
    this.status = status;
    this.signIn = signIn;
  }
}

/**
 * Returns what a route sends; the caller declares its type.
 * @param {string} path
 * @param {{method?: string, body?: object}} [options]
 * @returns {Promise<any>}
 */
export async function api(path, { method = "GET", body } = {}) {
  const headers = { accept: "application/json" };
  if (method !== "GET") headers["X-Upshot"] = "1";
  if (body !== undefined) headers["content-type"] = "application/json";
  let reply;
  try {
    reply = await fetch(BASE + path, { method, headers, body: body === undefined ? undefined : JSON.stringify(body), credentials: "same-origin" });
  } catch {
    throw new Refusal(0, "The server cannot be reached.");
  }
  const text = await reply.text();
  let value = null;
  try {
    value = text ? JSON.parse(text) : null;
  } catch {
    value = null;
  }
  if (!reply.ok) throw new Refusal(reply.status, value?.error ?? `The server refused this (${reply.status}).`, value?.sign_in);
  return value;
}

/** Returns what a route sends, or *instead* if the server has no such route or the user may not use it. */
export async function maybe(path, instead = null) {
  try {
    return await api(path);
  } catch (error) {
    if ([403, 404, 405].includes(error.status)) return instead;
    throw error;
  }
}

/** Server-sent events that resume where they stopped: by the browser, and by a new request if that gives up. */
export function stream(path, take, isOver = () => false) {
  let source = null;
  let last = "";
  let timer = 0;
  let isClosed = false;
  const open = () => {
    const url = new URL(BASE + path, location.origin);
    if (last) url.searchParams.set("after", last);
    source = new EventSource(url);
    source.onopen = () => online(true);
    const on = (event) => {
      if (event.lastEventId) last = event.lastEventId;
      take(event.data ? JSON.parse(event.data) : {}, event.type);
    };
    source.onmessage = on;
    for (const name of ["view", "changed", "end"]) source.addEventListener(name, (event) => {
      on(event);
      if (name === "end") close();
    });
    source.onerror = async () => {
      if (isClosed) return;
      if (isOver()) {
        close();
        return;
      }
      if (source.readyState !== EventSource.CLOSED) {
        online(false);
        return;
      }
      // The stream was refused, and does not report why.
      const refusal = await api("/api/me").then(() => null, (error) => error);
      if (isClosed) return;
      if (refusal?.status === 401) signedOut(refusal);
      else {
        online(false);
        timer = setTimeout(open, 1000);
      }
    };
  };
  // A browser has six connections to a server for all tabs: a hidden tab closes its own.
  const turned = () => {
    if (document.hidden) {
      clearTimeout(timer);
      source.close();
    } else if (source.readyState === EventSource.CLOSED) open();
  };
  const close = () => {
    isClosed = true;
    clearTimeout(timer);
    document.removeEventListener("visibilitychange", turned);
    streams.delete(close);
    source.close();
  };
  streams.add(close);
  document.addEventListener("visibilitychange", turned);
  open();
  return close;
}

/** Shows that the user is signed out, and nothing else. */
function signedOut(refusal) {
  for (const close of [...streams]) close();
  for (const close of closers) close();
  online(true);
  trouble($("main"), refusal);
}

const streams = new Set();

function online(isThere) {
  document.body.classList.toggle("offline", !isThere);
  const line = $("line");
  if (!line || line.hidden === isThere) return;
  line.hidden = isThere;
  // Only then in the document: whatever reads the text of a page would find it there.
  fill(line, isThere ? "" : "Connection lost; reconnecting");
}

// ---- Pages -----------------------------------------------------------------------------------------------------

/** Addresses and the pages that they show; the entry script fills it. */
export const routes = [];
export const shared = { me: /** @type {Me} */ ({ agents: [], user: {} }) };
const rolesOf = () => shared.me.user?.roles ?? [];
export const may = (/** @type {string[]} */ ...roles) => rolesOf().some((one) => one === "owner" || roles.includes(one));
export let closers = [];
export let turn = 0;

export const to = (path) => BASE + path;
export const runPath = (id) => `/runs/${encodeURIComponent(id)}`;
export const local = (path, given, ...children) => h("a", { href: to(path), ...given }, ...children);

export function go(path, { replace = false } = {}) {
  keepPlace();
  const depth = history.state?.depth ?? 0;
  history[replace ? "replaceState" : "pushState"]({ depth: replace ? depth : depth + 1 }, "", to(path));
  return show();
}

/** Stores the scroll position, for when the user comes back to the page. */
export const keepPlace = () => history.replaceState({ ...history.state, y: scrollY }, "");

/** Whether there is a page of this site to go back to. */
export const hasBefore = () => (history.state?.depth ?? 0) > 0;

export async function show({ isBack = false } = {}) {
  turn += 1;
  const isFirst = turn === 1;
  const field = document.activeElement?.closest("form[role=search]") ? /** @type {HTMLInputElement} */ (document.activeElement).name : "";
  const mine = turn;
  for (const close of closers) close();
  closers = [];
  const path = location.pathname.slice(BASE.length) || "/";
  const main = $("main");
  const page = {
    main,
    query: new URLSearchParams(location.search),
    isThere: () => turn === mine,
    closing: (close) => (turn === mine ? closers.push(close) : close()),
    title: (text) => (document.title = `${plain(text)} · upshot`),
  };
  for (const link of /** @type {NodeListOf<HTMLElement>} */ (document.querySelectorAll("nav a"))) {
    const isHere = link.dataset.at === "/" ? path === "/" : path.startsWith(link.dataset.at);
    link.toggleAttribute("aria-current", isHere);
    if (isHere) link.setAttribute("aria-current", "page");
  }
  main.setAttribute("aria-busy", "true");
  try {
    for (const [pattern, draw] of routes) {
      const found = pattern.exec(path);
      if (found) {
        await draw(page, ...found.slice(1).map(decodeURIComponent));
        if (page.isThere()) performance.mark("drawn");
        return;
      }
    }
    page.title("No such page");
    fill(main, h("h1", "No such page"), h("p", "There is nothing at ", h("code", path), ". ", local("/runs", null, "To the runs")));
  } catch (error) {
    if (page.isThere()) trouble(main, error);
  } finally {
    if (page.isThere()) {
      main.removeAttribute("aria-busy");
      scrollTo(0, isBack ? history.state?.y ?? 0 : 0);
      // The focused node is gone: focus the same field, or the page.
      const isLost = !document.activeElement || document.activeElement === document.body;
      const same = field && /** @type {HTMLElement} */ (main.querySelector(`form[role=search] [name="${CSS.escape(field)}"]`));
      if (isLost && same) same.focus({ preventScroll: true });
      else if (isLost && !isFirst) main.focus({ preventScroll: true });
    }
  }
}

/** Ends the session of this browser, here and at the provider. */
async function signOut() {
  const found = /** @type {SignedOut} */ (await api("/api/sign-out", { method: "POST", body: {} }));
  if (found.to) location.assign(found.to);
  else location.reload();
}

export function trouble(main, error) {
  const isLost = error.status === 0 || error.status === 503;
  fill(main, h("h1", error.status === 401 ? "You are not signed in" : error.status === 404 ? "Not there" : "That did not work"), h("p", error.message),
    error.status === 401 && !error.signIn ? h("p", "Open the link that ", h("code", "upshot serve"), " printed. It works once: if it was used, start the server again for another one.") : null,
    // Not by itself: who has just signed out would be signed in again.
    error.signIn ? h("p", h("a.button.primary", { href: `${BASE}${error.signIn}?next=${encodeURIComponent(location.pathname + location.search)}`, rel: "external", target: "_self" }, "Sign in")) : h("p", h("button", { type: "button", onclick: () => show() }, "Try again")));
  if (!(error instanceof Refusal)) console.error(error);
  if (isLost) {
    const timer = setTimeout(show, 2000);
    closers.push(() => clearTimeout(timer));
  }
}

/** Opens the run of an id or of its beginning; else lists the runs with that text. */
async function findRun(/** @type {HTMLInputElement} */ field) {
  const text = field.value.trim();
  if (!text) return;
  const id = text.replace(/\s+/g, "").toLowerCase();
  try {
    const { runs } = /** @type {RunList} */ (await api("/api/runs" + listQuery({ text })));
    const same = runs.filter((one) => one.run_id.toLowerCase().startsWith(id));
    const found = same.find((one) => one.run_id.toLowerCase() === id) ?? (same.length === 1 ? same[0] : null);
    field.value = "";
    field.blur();
    await go(found ? runPath(found.run_id) : "/runs" + listQuery({ text }));
  } catch (error) {
    say(error.message);
  }
}

function finder() {
  const field = /** @type {HTMLInputElement} */ (h("input", { name: "find-run", type: "search", autocomplete: "off", "aria-label": "Find a run by id or by text", placeholder: "Run id or text" }));
  return h("form.finder", { role: "search", "aria-label": "Find a run", onsubmit: (event) => {
    event.preventDefault();
    findRun(field);
  } }, field);
}

export function header() {
  const isWorker = shared.me.agents.length > 0;
  fill($("top"),
    local("/", { class: "brand", "aria-label": "upshot, overview" }, "upshot"),
    h("nav", { "aria-label": "Pages" },
      local("/", { "data-at": "/" }, "Overview"),
      local("/runs", { "data-at": "/runs" }, "Runs"),
      local("/inbox", { "data-at": "/inbox" }, "Inbox", h("span", { id: "waits" })),
      local("/effects", { "data-at": "/effects" }, "Effects"),
      local("/tools", { "data-at": "/tools" }, "Tools"),
      shared.me.workers && local("/workers", { "data-at": "/workers" }, "Workers"),
      shared.me.lab && local("/lab", { "data-at": "/lab" }, "Lab"),
      isWorker && local("/conversations", { "data-at": "/c" }, "Chat"),
      shared.me.audit && local("/audit", { "data-at": "/audit" }, "Audit")),
    h("span.grow"), finder(),
    h("span", { id: "line", hidden: true, role: "status" }),
    shared.me.sessions ? local("/sessions", { class: "who", title: `${rolesOf().join(", ")}: sessions`, "data-at": "/sessions" }, shared.me.user?.id ?? "")
      : h("span.quiet.who", { title: rolesOf().join(", ") }, shared.me.user?.id ?? ""),
    shared.me.sessions && h("button.plain.out", { type: "button", onclick: signOut }, "Sign out"),
    h("button.plain", { type: "button", "aria-label": "Keyboard", title: "Keyboard (?)", onclick: help }, "?"));
  waits(shared.me.waits);
}

export function waits(n) {
  shared.me.waits = n;
  const node = $("waits");
  if (node) fill(node, n ? h("span.count", { "aria-label": `${n} wait` }, n > 99 ? "99+" : String(n)) : "");
}

const HELP = [["j, k", "next, previous row"], ["Enter", "open it"], ["g then o, r, i, e, t, w, l, c, a, s", "Overview, Runs, Inbox, Effects, Tools, Workers, Lab, Chat, Audit, Sessions"], ["/", "search"],
  ["x", "choose the run (runs)"], ["a", "approve (inbox)"], ["d", "deny, with a reason"], ["e", "edit the arguments"], ["n", "not now"], ["f", "follow the run’s end (run)"],
  ["x", "first failed step (run)"], ["i", "what the model saw at the selected step (run)"], ["→, ←", "open, close the child run of a step (run)"], ["+, −, 0", "zoom the timeline in, out, all (run)"], ["[, ]", "move the zoomed timeline (run)"], ["Esc", "close"]];

export function help() {
  const box = h("dialog", { "aria-labelledby": "help-title", onclose: () => box.remove() }, h("h2", { id: "help-title" }, "Keyboard"),
    h("dl.keys", HELP.map(([key, text]) => h("div", h("dt", h("kbd", key)), h("dd", text)))),
    h("form", { method: "dialog" }, h("button", "Close")));
  document.body.append(box);
  box.showModal();
}

/** Calls *changed* when the list of runs or the inbox may have changed. */
export function live(page, changed) {
  let timer = 0;
  page.closing(() => clearTimeout(timer));
  const soon = () => {
    if (!timer) timer = setTimeout(async () => {
      timer = 0;
      try {
        if (page.isThere()) await changed();
      } catch (error) {
        if (error.status === 0) soon();
      }
    }, 300);
  };
  listeners.add(soon);
  page.closing(() => listeners.delete(soon));
}

export const listeners = new Set();

export const listQuery = (given) => {
  const out = new URLSearchParams();
  for (const [name, value] of Object.entries(given)) if (value) out.set(name, value);
  const text = out.toString();
  return text ? `?${text}` : "";
};

/**
 * Links that each remove one filter of a list.
 * @param {string} path
 * @param {Object<string, string>} filter
 * @param {Object<string, (value: string) => string>} said how the page says each filter that has such a link
 */
export const chips = (path, filter, said) => Object.keys(said).filter((name) => filter[name]).map((name) => {
  const text = said[name](filter[name]);
  return local(path + listQuery({ ...filter, before: "", after: "", [name]: "" }), { class: "chip on", "aria-label": `Without: ${text}` }, `${text} ×`);
});

/** Points the link to the next page of a list; it stays the same node, as it may be about to be pressed. */
export function toNext(/** @type {HTMLElement} */ nav, /** @type {HTMLAnchorElement} */ link, /** @type {string | null | undefined} */ address) {
  if (!address) link.remove();
  else {
    link.href = address;
    if (!link.isConnected) nav.append(link);
  }
}

/** j and k go through rows. */
export function rows(page, list) {
  page.closing(keys((key, event) => {
    if (key !== "j" && key !== "k") return false;
    const all = list();
    const at = all.findIndex((one) => one.contains(document.activeElement));
    const next = all[Math.min(all.length - 1, Math.max(0, at + (key === "j" ? 1 : -1)))];
    event.preventDefault();
    next?.focus();
    next?.scrollIntoView({ block: "nearest" });
    return true;
  }));
}

export const handlers = [];

export function keys(handler) {
  handlers.unshift(handler);
  return () => handlers.splice(handlers.indexOf(handler), 1);
}

export function confirmed(question, yes) {
  return new Promise((done) => {
    const box = h("dialog", { "aria-label": question, onclose: () => {
      done(box.returnValue === "yes");
      box.remove();
    } }, h("p", question), h("form.actions", { method: "dialog" }, h("button", { value: "no" }, "Back"), h("button.danger", { value: "yes" }, yes)));
    document.body.append(box);
    box.showModal();
  });
}

/** Asks for a line of text; null if the user goes back. @returns {Promise<string | null>} */
export function asked(question, label, { yes = "Go", optional = false } = {}) {
  return new Promise((done) => {
    const field = h("input", { required: !optional, autocomplete: "off", "aria-label": label, placeholder: label });
    const box = h("dialog", { "aria-label": question, onclose: () => {
      done(box.returnValue === "yes" ? field.value.trim() : null);
      box.remove();
    } }, h("p", question), h("form", { method: "dialog" }, field, h("div.actions", h("button", { type: "button", onclick: () => box.close("no") }, "Back"), h("button.primary", { value: "yes" }, yes))));
    document.body.append(box);
    box.showModal();
    field.focus();
  });
}
