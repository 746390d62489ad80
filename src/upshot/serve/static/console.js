// The console: one page, drawn from the JSON API. What models and tools wrote is put into the page as text nodes only.

const BASE = new URL("..", import.meta.url).pathname.replace(/\/$/, "");
const $ = (id) => document.getElementById(id);

// ---- Nodes -----------------------------------------------------------------------------------------------------

/** A node: h("a.link", {href}, "text", node, [nodes]); "on..." properties are listeners, null children are left out. */
function h(name, given, ...children) {
  const [tag, ...classes] = name.split(".");
  const node = document.createElement(tag || "div");
  if (classes.length) node.className = classes.join(" ");
  if (given instanceof Node || typeof given !== "object" || Array.isArray(given)) children.unshift(given);
  else if (given) {
    for (const [key, value] of Object.entries(given)) {
      if (value === null || value === undefined || value === false) continue;
      if (key.startsWith("on")) node.addEventListener(key.slice(2), value);
      else if (key === "value" || key === "checked") node[key] = value;
      else node.setAttribute(key, value === true ? "" : value);
    }
  }
  put(node, children);
  return node;
}

function put(node, children) {
  for (const child of children.flat(Infinity)) {
    if (child !== null && child !== undefined && child !== false && child !== "") node.append(child);
  }
}

function fill(node, ...children) {
  node.replaceChildren();
  put(node, children);
  return node;
}

/** Makes the children of a node those of a list, by key; what has not changed keeps its node, and so its focus. */
function keyed(parent, list, key, draw) {
  const old = new Map();
  for (const child of parent.children) old.set(child.dataset.key, child);
  let at = parent.firstElementChild;
  for (const item of list) {
    const id = String(key(item));
    const mark = JSON.stringify(item);
    let node = old.get(id);
    old.delete(id);
    if (!node || node.drawnFrom !== mark) {
      const made = draw(item);
      made.dataset.key = id;
      made.drawnFrom = mark;
      if (node) {
        const had = node.contains(document.activeElement);
        if (node === at) at = node.nextElementSibling;
        node.replaceWith(made);
        if (had) (made.matches("a,[tabindex]") ? made : made.querySelector("a,button"))?.focus();
      }
      node = made;
    }
    if (node === at) at = at.nextElementSibling;
    else if (node.nextElementSibling !== at || node.parentNode !== parent) parent.insertBefore(node, at);
  }
  for (const node of old.values()) node.remove();
}

function say(text) {
  fill($("said"), text);
}

// ---- Words and figures -----------------------------------------------------------------------------------------

const NUMBER = new Intl.NumberFormat("en-US");
const many = (n, word) => `${NUMBER.format(n)} ${word}${n === 1 ? "" : "s"}`;

function took(seconds) {
  if (seconds === null || seconds === undefined) return "";
  if (seconds < 0.0995) return `${Math.round(seconds * 1000)} ms`;
  if (seconds < 9.95) return `${seconds.toFixed(1)} s`;
  if (seconds < 99.5) return `${Math.round(seconds)} s`;
  const minutes = Math.round(seconds / 60);
  if (minutes < 120) return `${minutes} min`;
  return minutes < 2880 ? `${Math.round(minutes / 60)} h` : `${Math.round(minutes / 1440)} d`;
}

function money(cost) {
  const total = cost && typeof cost === "object" ? cost.total : cost;
  if (total === null || total === undefined) return "";
  const sign = !cost.currency || cost.currency === "USD" ? "$" : `${cost.currency} `;
  const value = Number(total);
  const digits = value === 0 || value >= 1 ? 2 : value >= 0.01 ? 3 : 5;
  return sign + value.toFixed(digits) + (cost.unpriced_calls ? "+" : "");
}

function tokensOf(usage) {
  const n = usage && typeof usage === "object" ? usage.total_tokens ?? (usage.input_tokens ?? 0) + (usage.output_tokens ?? 0) : usage;
  return n ? NUMBER.format(n) : "";
}

function moment(text, { long = false } = {}) {
  if (!text) return "";
  const at = new Date(text);
  const now = new Date();
  const clock = at.toLocaleTimeString("en-GB", long ? {} : { hour: "2-digit", minute: "2-digit" });
  if (!long && at.toDateString() === now.toDateString()) return clock;
  return `${at.toLocaleDateString("en-GB", { day: "numeric", month: "short", ...(long ? { year: "numeric" } : {}) })} ${clock}`;
}

const when = (text) => (text ? h("time", { datetime: text, title: moment(text, { long: true }) }, moment(text)) : null);
const words = (text) => String(text).replaceAll("_", " ");

const TONES = { completed: "good", failed: "bad", aborted: "bad", input_required: "wait", running: "live", queued: "plain", interrupted: "odd", canceled: "odd" };
const EFFECTS = {
  unknown: ["unknown", "bad", "Nobody knows whether it took effect"],
  applied: ["applied", "odd", "It certainly took effect"],
  none: ["none", "plain", "It certainly did nothing outside"],
};
const STATUS_WORDS = { input_required: "waits" };

const badge = (text, tone = "plain", title = null) => h(`span.badge.${tone || "plain"}`, { title }, text);
const statusBadge = (status) => badge(STATUS_WORDS[status] ?? words(status), TONES[status]);

function effectBadge(effect) {
  const [text, tone, title] = EFFECTS[effect || "none"] ?? [effect, "plain", null];
  return text === "none" ? h("span.quiet", { title }, "none") : badge(text, tone, title);
}

// ---- Text of others --------------------------------------------------------------------------------------------

// Characters that a reader cannot see, or that change how others are shown.
const HIDDEN = /[\u0000-\u0009\u000b-\u001f\u007f-\u00a0\u00ad\u034f\u061c\u115f\u1160\u1680\u17b4\u17b5\u180b-\u180e\u2000-\u200f\u2028-\u202f\u205f-\u206f\u3000\u3164\ufe00-\ufe0f\ufeff\uffa0\ufff0-\ufffc\u{e0000}-\u{e0fff}\ud800-\udfff]|[ ]+(?=\n|$)|\n|[^\x00-\x7f]/gu;

/** Text with every character visible: hidden ones as their code, line ends and trailing spaces marked. */
function visible(text) {
  const out = h("bdo.visible", { dir: "ltr" });
  let last = 0;
  for (const found of text.matchAll(HIDDEN)) {
    if (found.index > last) out.append(text.slice(last, found.index));
    last = found.index + found[0].length;
    const code = `U+${found[0].codePointAt(0).toString(16).toUpperCase().padStart(4, "0")}`;
    if (found[0] === "\n") out.append(h("span.mark", { "aria-hidden": "true" }, "↵"), "\n");
    else if (found[0][0] === " ") out.append(h("span.mark", { title: "spaces at the end" }, "·".repeat(found[0].length)));
    else if (/[\p{L}\p{N}\p{P}\p{S}\p{M}]/u.test(found[0])) out.append(h("span.far", { title: code }, found[0]));
    else out.append(h("span.mark", { title: "a character that cannot be seen" }, code));
  }
  out.append(text.slice(last));
  return out;
}

/** JSON with every character visible, strings with their line ends as they are. */
function jsonNode(value) {
  if (typeof value === "string") return h("span.string", "“", visible(value), "”");
  if (value === null || typeof value !== "object") return h("span.number", String(value));
  const entries = Object.entries(value);
  if (!entries.length) return h("span.number", Array.isArray(value) ? "[]" : "{}");
  return h("dl.json", entries.map(([key, one]) => h("div", h("dt", visible(key)), h("dd", jsonNode(one)))));
}

// ---- Markdown, drawn as nodes ----------------------------------------------------------------------------------

const INLINE = /(`+)(.+?)\1(?!`)|(!?)\[([^\]\n]*)\]\(\s*<?([^\s)>]+)>?(?:\s+["'][^)]*["'])?\s*\)|(\*\*|__)(?=\S)(.+?\S?)\6|(?<![\w*])([*_])(?=[^\s*_])(.+?)(?<=\S)\8(?!\w)|~~(.+?)~~|(https?:\/\/[^\s<>()"']+[^\s<>()"'.,;:!?])|\\([!-/:-@[-`{-~])|( {2,}\n|\\\n)/s;

function link(text, address) {
  let url = null;
  try {
    url = new URL(address);
  } catch {
    // An address of this site, or none: shown as it was written.
  }
  if (!url || !["https:", "http:", "mailto:"].includes(url.protocol)) return h("span", text, ` (${address})`);
  const host = url.protocol === "mailto:" ? url.pathname : url.host;
  const shown = [text].flat().map((one) => one.textContent ?? one).join("");
  return h("a.out", { href: url.href, target: "_blank", rel: "noopener noreferrer nofollow" }, text,
    shown.includes(host) ? null : h("span.host", ` ${host}`));
}

function inline(text) {
  const out = [];
  while (text) {
    const found = INLINE.exec(text);
    if (!found) break;
    if (found.index) out.push(text.slice(0, found.index));
    const [all, , code, image, label, address, , strong, , em, gone, url, escaped, br] = found;
    if (code !== undefined) out.push(h("code", code.trim() || code));
    else if (address !== undefined) out.push(link(image ? `image: ${label || address}` : inline(label), address));
    else if (strong !== undefined) out.push(h("strong", inline(strong)));
    else if (em !== undefined) out.push(h("em", inline(em)));
    else if (gone !== undefined) out.push(h("s", inline(gone)));
    else if (url !== undefined) out.push(link(url, url));
    else if (escaped !== undefined) out.push(escaped);
    else if (br !== undefined) out.push(h("br"));
    text = text.slice(found.index + all.length);
  }
  if (text) out.push(text);
  return out;
}

const FENCE = /^ {0,3}(```+|~~~+)\s*([^\s`]*)/;
const ITEM = /^( *)([-*+]|\d{1,9}[.)])(?: +|$)(.*)/;
const RULE = /^ {0,3}(?:(?:\* *){3,}|(?:- *){3,}|(?:_ *){3,})$/;
const ROW = /^ {0,3}\|/;
const DELIMITER = /^ {0,3}\|?[ :|-]*-[ :|-]*$/;

/** Whether a table begins at a line: one whose second line is still being written is one too, so that it does not jump. */
function isTable(lines, at) {
  if (!lines[at].includes("|")) return false;
  if (DELIMITER.test(lines[at + 1] ?? "")) return true;
  return ROW.test(lines[at]) && (at + 1 >= lines.length || (at + 2 >= lines.length && /^[ :|-]*$/.test(lines[at + 1])));
}

/** The blocks of a text: lists of lines with what they are; only the last one of an open text may still change. */
function blocks(text) {
  const lines = text.replaceAll("\r\n", "\n").split("\n");
  const out = [];
  let i = 0;
  const take = (kind, ok) => {
    const start = i;
    do i += 1; while (i < lines.length && ok(lines[i], i));
    out.push({ kind, text: lines.slice(start, i).join("\n") });
  };
  while (i < lines.length) {
    const line = lines[i];
    const fence = FENCE.exec(line);
    if (!line.trim()) i += 1;
    else if (fence) {
      let isOpen = true;
      take("code", (next) => {
        const was = isOpen;
        if (next.trim().startsWith(fence[1]) && !next.trim().slice(fence[1].length).trim()) isOpen = false;
        return was;
      });
    } else if (/^ {0,3}#{1,6}(\s|$)/.test(line)) take("heading", () => false);
    else if (RULE.test(line)) take("rule", () => false);
    else if (/^ {0,3}>/.test(line)) take("quote", (next) => /^ {0,3}>/.test(next));
    else if (ITEM.test(line)) take("list", (next, at) => (next.trim() ? /^ /.test(next) || ITEM.test(next) || lines[at - 1].trim() : /^( |[-*+] |\d+[.)] )/.test(lines[at + 1] ?? "")));
    else if (isTable(lines, i)) take("table", (next) => next.includes("|") || (next.trim() && DELIMITER.test(next)));
    else take("text", (next) => next.trim() && !FENCE.test(next) && !/^ {0,3}(#{1,6}\s|>)/.test(next) && !ITEM.test(next) && !ROW.test(next));
  }
  return out;
}

function cells(line) {
  return line.trim().replace(/^\||\|$/g, "").split(/(?<!\\)\|/).map((cell) => inline(cell.trim().replaceAll("\\|", "|")));
}

function listNode(lines) {
  const first = ITEM.exec(lines[0]);
  const isNumbered = /\d/.test(first[2]);
  const items = [];
  for (const line of lines) {
    const item = ITEM.exec(line);
    if (item && item[1].length <= first[1].length + 1) items.push([item[3]]);
    else items.at(-1).push(line.replace(new RegExp(`^ {0,${first[1].length + first[2].length + 1}}`), ""));
  }
  return h(isNumbered ? "ol" : "ul", isNumbered ? { start: parseInt(first[2], 10) } : null, items.map((item) => {
    const inner = blocks(item.join("\n"));
    return h("li", inner.map((one, at) => (at === 0 && one.kind === "text" ? inline(one.text) : block(one))));
  }));
}

function block({ kind, text }) {
  const lines = text.split("\n");
  if (kind === "code") {
    const [, fence, language] = FENCE.exec(lines[0]);
    const isClosed = lines.length > 1 && lines.at(-1).trim().startsWith(fence);
    return h("pre", { tabindex: 0, "aria-label": language ? `code in ${language}` : "code", role: "region" }, h("code", lines.slice(1, isClosed ? -1 : undefined).join("\n")));
  }
  if (kind === "heading") return h(`h${Math.min(6, /^ *(#+)/.exec(text)[1].length + 2)}`, inline(text.replace(/^ *#+\s*|\s+#+\s*$/g, "")));
  if (kind === "rule") return h("hr");
  if (kind === "quote") return h("blockquote", blocks(text.replace(/^ {0,3}> ?/gm, "")).map(block));
  if (kind === "list") return listNode(lines);
  if (kind === "table") {
    const body = lines.slice(2).filter((line) => line.trim()).map((line) => h("tr", cells(line).map((cell) => h("td", cell))));
    return h("div.table", { tabindex: 0, role: "region", "aria-label": "table" }, h("table", h("thead", h("tr", cells(lines[0]).map((cell) => h("th", cell)))), h("tbody", body)));
  }
  return h("p", inline(text));
}

/** Draws Markdown into a node; called again with longer text it draws only the blocks that changed. */
function markdown(node, text) {
  node.sourceText = text;
  const list = blocks(text);
  const nodes = [...node.children];
  list.forEach((one, at) => {
    const mark = `${one.kind}\n${one.text}`;
    if (nodes[at]?.drawnFrom === mark) return;
    const made = block(one);
    made.drawnFrom = mark;
    if (nodes[at]) nodes[at].replaceWith(made);
    else node.append(made);
  });
  nodes.slice(list.length).forEach((one) => one.remove());
  return node;
}

const prose = (text) => markdown(h("div.prose"), text);

// ---- Server ----------------------------------------------------------------------------------------------------

class Refusal extends Error {
  constructor(status, text) {
    super(text);
    this.status = status;
  }
}

async function api(path, { method = "GET", body } = {}) {
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
  if (!reply.ok) throw new Refusal(reply.status, value?.error ?? `The server refused this (${reply.status}).`);
  return value;
}

/** What a route gives, or *instead* where this server has no such route or the user may not. */
async function maybe(path, instead = null) {
  try {
    return await api(path);
  } catch (error) {
    if ([403, 404, 405].includes(error.status)) return instead;
    throw error;
  }
}

/** Server-sent events that go on where they were: by the browser, and by a new request where that gave up. */
function stream(path, take, isOver = () => false) {
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
    source.onerror = () => {
      if (isClosed) return;
      if (isOver()) {
        close();
        return;
      }
      online(false);
      if (source.readyState === EventSource.CLOSED) timer = setTimeout(open, 1000);
    };
  };
  // A browser has six lines to a server for all tabs: one that nobody looks at gives its own back.
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
    source.close();
  };
  document.addEventListener("visibilitychange", turned);
  open();
  return close;
}

function online(isThere) {
  document.body.classList.toggle("offline", !isThere);
  const line = $("line");
  if (line && line.hidden !== isThere) line.hidden = isThere;
}

// ---- Pages -----------------------------------------------------------------------------------------------------

const ROUTES = [
  [/^\/$/, runsPage],
  [/^\/runs\/([^/]+)$/, runPage],
  [/^\/runs\/([^/]+)\/compare\/([^/]+)$/, comparePage],
  [/^\/inbox$/, inboxPage],
  [/^\/conversations$/, conversationsPage],
  [/^\/conversations\/([^/]+)$/, (page, id) => chatPage(page, { conversation: id })],
  [/^\/chat\/([^/]+)$/, (page, agent) => chatPage(page, { agent })],
];
const shared = { me: { agents: [], user: {} } };
const rolesOf = () => shared.me.roles ?? shared.me.user?.roles ?? [];
const may = (...roles) => rolesOf().some((one) => one === "owner" || roles.includes(one));
let closers = [];
let turn = 0;

const to = (path) => BASE + path;
const runPath = (id) => `/runs/${encodeURIComponent(id)}`;
const local = (path, given, ...children) => h("a", { href: to(path), ...given }, ...children);

function go(path, { replace = false } = {}) {
  history[replace ? "replaceState" : "pushState"](null, "", to(path));
  show();
}

async function show({ isBack = false } = {}) {
  turn += 1;
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
    title: (text) => (document.title = `${text} · upshot`),
  };
  for (const link of document.querySelectorAll("nav a")) {
    const isHere = link.dataset.at === "/" ? path === "/" || path.startsWith("/runs") : path.startsWith(link.dataset.at);
    link.toggleAttribute("aria-current", isHere);
    if (isHere) link.setAttribute("aria-current", "page");
  }
  main.setAttribute("aria-busy", "true");
  try {
    for (const [pattern, draw] of ROUTES) {
      const found = pattern.exec(path);
      if (found) {
        await draw(page, ...found.slice(1).map(decodeURIComponent));
        return;
      }
    }
    fill(main, h("h1", "No such page"), h("p", local("/", null, "To the runs")));
  } catch (error) {
    if (page.isThere()) trouble(main, error);
  } finally {
    if (page.isThere()) {
      main.removeAttribute("aria-busy");
      if (!isBack) scrollTo(0, 0);
    }
  }
}

function trouble(main, error) {
  const isLost = error.status === 0 || error.status === 503;
  fill(main, h("h1", error.status === 401 ? "Nobody is signed in" : error.status === 404 ? "Not there" : "That did not work"), h("p", error.message),
    error.status === 401 ? h("p", "Open the address again that ", h("code", "upshot serve"), " printed.") : null,
    h("p", h("button", { type: "button", onclick: () => show() }, "Try again")));
  if (!(error instanceof Refusal)) console.error(error);
  if (isLost) {
    const timer = setTimeout(show, 2000);
    closers.push(() => clearTimeout(timer));
  }
}

function header() {
  const isWorker = shared.me.agents.length > 0;
  fill($("top"),
    local("/", { class: "brand", "aria-label": "upshot, runs" }, "upshot"),
    h("nav", { "aria-label": "Pages" },
      local("/", { "data-at": "/" }, "Runs"),
      local("/inbox", { "data-at": "/inbox" }, "Inbox", h("span", { id: "waits" })),
      isWorker && local("/conversations", { "data-at": "/c" }, "Chat")),
    h("span.grow"),
    h("span", { id: "line", hidden: true, role: "status" }, "Line lost; going on by itself"),
    h("span.quiet.who", { title: rolesOf().join(", ") }, shared.me.user?.id ?? shared.me.user ?? ""),
    h("button.plain", { type: "button", "aria-label": "Keyboard", title: "Keyboard (?)", onclick: help }, "?"));
  waits(shared.me.waits);
}

function waits(n) {
  shared.me.waits = n;
  const node = $("waits");
  if (node) fill(node, n ? h("span.count", { "aria-label": `${n} wait` }, n > 99 ? "99+" : String(n)) : "");
}

const HELP = [["j, k", "next, previous row"], ["Enter", "open it"], ["g then r, i, c", "Runs, Inbox, Chat"], ["/", "search"],
  ["a", "approve (inbox)"], ["d", "deny, with a reason"], ["e", "edit the arguments"], ["n", "not now"], ["f", "follow the run’s end (run)"], ["Esc", "close"]];

function help() {
  const box = h("dialog", { "aria-labelledby": "help-title", onclose: () => box.remove() }, h("h2", { id: "help-title" }, "Keyboard"),
    h("dl.keys", HELP.map(([key, text]) => h("div", h("dt", h("kbd", key)), h("dd", text)))),
    h("form", { method: "dialog" }, h("button", "Close")));
  document.body.append(box);
  box.showModal();
}

/** Calls *changed* now and then when the list of runs or the inbox may have changed. */
function live(page, changed) {
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

const listeners = new Set();

// ---- Runs ------------------------------------------------------------------------------------------------------

const STATUSES = ["running", "queued", "input_required", "completed", "failed", "interrupted", "canceled", "aborted"];
const SORTS = [["", "newest"], ["cost", "cost"], ["tokens", "tokens"], ["took", "time"], ["effect", "effect"]];
const FILTERS = ["status", "agent", "effect", "error_code", "tool", "conversation", "owner", "tenant", "text", "since", "until", "sort"];

const listQuery = (given) => {
  const out = new URLSearchParams();
  for (const [name, value] of Object.entries(given)) if (value) out.set(name, value);
  const text = out.toString();
  return text ? `?${text}` : "";
};

async function runsPage(page) {
  page.title("Runs");
  const filter = {};
  for (const name of [...FILTERS, "before"]) if (page.query.get(name)) filter[name] = page.query.get(name);
  const { before, ...rest } = filter;
  const set = (change) => go("/" + listQuery({ ...rest, ...change }));
  const list = h("ol.runs", { "aria-label": "Runs" });
  const counts = h("section.counts", { "aria-label": "Counts" });
  const more = h("nav.paging", { "aria-label": "Pages of the list" });
  const choose = (name, label, options) => h("label", h("span", label),
    h("select", { name, onchange: (event) => set({ [name]: event.target.value }) },
      options.map(([value, text]) => h("option", { value, selected: (rest[name] ?? "") === value }, text))));
  const field = (name, label, type = "text", width = "") => h(`label${width}`, h("span", label), h("input", { name, type, value: shownAs(name, rest[name]) }));
  const extra = ["conversation", "owner", "tenant", "tool", "since", "until", "error_code"];
  const form = h("form.filters", { role: "search", "aria-label": "Filter", onsubmit: (event) => {
    event.preventDefault();
    const data = new FormData(form);
    set(Object.fromEntries([...data].map(([name, value]) => [name, sentAs(name, value.trim())])));
  } },
  field("text", "Text of request or answer", "search", ".wide"),
  choose("status", "Status", [["", "any"], ...STATUSES.map((one) => [one, words(one)])]),
  choose("agent", "Agent", withCurrent([["", "any"], ...shared.me.agents.map((one) => [one.id, one.id])], rest.agent)),
  choose("effect", "Effect", [["", "any"], ["unknown", "unknown"], ["applied", "applied"], ["none", "none"]]),
  choose("sort", "Order", SORTS),
  h("details.more", { open: extra.some((name) => rest[name]) }, h("summary", "More"),
    h("div.fields", field("tool", "Tool"), field("error_code", "Error code"), field("conversation", "Conversation"), field("owner", "Owner"), field("tenant", "Tenant"),
      field("since", "Since", "datetime-local"), field("until", "Until", "datetime-local"), h("button", "Filter"))));
  const active = Object.entries(rest).filter(([name]) => name !== "sort");
  const chips = h("div.chips", h("a.chip.unknown", { href: to("/" + listQuery({ ...rest, effect: rest.effect === "unknown" ? "" : "unknown" })), "aria-pressed": null, class: rest.effect === "unknown" ? "chip unknown on" : "chip unknown" }, "Unknown effects"),
    h("a", { class: rest.status === "input_required" ? "chip on" : "chip", href: to("/" + listQuery({ ...rest, status: rest.status === "input_required" ? "" : "input_required" })) }, "Waits for somebody"),
    active.map(([name, value]) => (name === "effect" && value === "unknown") || (name === "status" && value === "input_required") ? null
      : h("a.chip.on", { href: to("/" + listQuery({ ...rest, [name]: "" })), "aria-label": `Without ${words(name)} ${value}` }, `${words(name)}: ${value} ×`)));
  const draw = (found) => {
    keyed(list, found.runs, (run) => run.run_id, runLine);
    if (!found.runs.length && !list.nextElementSibling?.matches(".empty")) list.after(h("p.empty", active.length || rest.sort ? "No run matches." : "No runs yet."));
    if (found.runs.length) page.main.querySelector(".empty")?.remove();
    fill(more, before && h("button", { type: "button", onclick: () => history.back() }, "Newer"),
      found.next && local("/" + listQuery({ ...rest, before: found.next }), { class: "button", rel: "next" }, "Next 100"));
  };
  const load = () => api("/api/runs" + listQuery(filter));
  const count = async () => drawCounts(counts, await maybe("/api/counts" + listQuery({ ...rest, sort: "" })), rest);
  const [found] = await Promise.all([load(), count()]);
  if (!page.isThere()) return;
  const left = rest.sort ? h("p.quiet", "Runs of which that figure is not known are not in this order.") : null;
  fill(page.main, h("h1.away", "Runs"), counts, chips, form, left, list, more);
  draw(found);
  performance.mark("drawn");
  rows(page, () => [...list.querySelectorAll("a.run")]);
  if (!before) live(page, async () => {
    const [now] = await Promise.all([load(), count()]);
    if (page.isThere()) draw(now);
  });
}

const withCurrent = (options, value) => (value && !options.some(([one]) => one === value) ? [...options, [value, value]] : options);
const isMoment = (name) => name === "since" || name === "until";

function shownAs(name, value) {
  if (!value || !isMoment(name)) return value ?? "";
  const at = new Date(value);
  return new Date(at - at.getTimezoneOffset() * 60000).toISOString().slice(0, 16);
}

const sentAs = (name, value) => (value && isMoment(name) ? new Date(value).toISOString() : value);

function runLine(run) {
  const seconds = run.took_s ?? (run.started_at && run.updated_at ? (new Date(run.updated_at) - new Date(run.started_at)) / 1000 : null);
  return h("li", local(runPath(run.run_id), { class: "run" },
    h("span.status", statusBadge(run.status ?? "running"), run.error_code && run.status !== "input_required" ? h("span.code", words(run.error_code)) : null),
    h("span.asked", h("span.request", run.request || "(no text)"),
      h("span.quiet.sub", h("span", run.agent_id), run.parent_run_id && h("span", "child run"), run.waits_for && h("span", `waits for ${words(run.waits_for)}`), run.owner && h("span", run.owner))),
    h("span.figures", h("span", { title: "effect" }, run.effect && run.effect !== "none" ? effectBadge(run.effect) : null),
      h("span.figure", took(seconds)), h("span.figure", tokensOf(run.usage) && [tokensOf(run.usage), h("span.unit", " tok")]), h("span.figure", money(run.cost)),
      h("span.figure.when", when(run.started_at)))));
}

function drawCounts(node, counts, rest) {
  if (!counts) return;
  const errors = Object.entries(counts.errors ?? {}).sort((a, b) => b[1] - a[1]);
  const days = (counts.cost_by_day ?? []).slice(0, 30).reverse();
  const of = (day) => Number(day.cost ?? 0);
  const told = (day) => `${day.day}: ${day.cost == null ? "no price known" : money(of(day))}, ${many(day.runs ?? 0, "run")}`;
  const most = Math.max(...days.map(of), 1e-9);
  const sum = days.reduce((all, day) => all + of(day), 0);
  fill(node,
    h("div.statuses", Object.entries(counts.statuses ?? {}).filter(([, n]) => n).map(([status, n]) =>
      h("a", { href: to("/" + listQuery({ ...rest, status })), class: `tally ${TONES[status] ?? "plain"}` }, h("b", NUMBER.format(n)), ` ${STATUS_WORDS[status] ? "waiting" : words(status)}`))),
    errors.length ? h("div.errors", h("h2", "Errors"), errors.slice(0, 8).map(([code, n]) => h("a.tally.bad", { href: to("/" + listQuery({ ...rest, error_code: code })) }, h("b", NUMBER.format(n)), ` ${words(code)}`))) : null,
    sum > 0 ? h("figure.days", h("figcaption", "Cost by day", h("span.quiet", ` ${money(sum)} in ${many(days.length, "day")}`)),
      h("ol", days.map((day) => {
        const bar = h("span.bar");
        bar.style.height = `${Math.max(2, (100 * of(day)) / most)}%`;
        return h("li", { title: told(day) }, bar, h("span.away", told(day)));
      }))) : null);
}

/** j and k go through rows. */
function rows(page, list) {
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

const handlers = [];

function keys(handler) {
  handlers.unshift(handler);
  return () => handlers.splice(handlers.indexOf(handler), 1);
}

// ---- Run -------------------------------------------------------------------------------------------------------

// So many rows are one section, which is not laid out while it is away from the window.
const CHUNK = 50;
// So many are drawn at once; the others follow, so that a long run does not stall the page.
const AT_ONCE = 300;
const ROW_TONES = { good: "good", odd: "odd", bad: "bad", plain: "plain" };

async function runPage(page, id) {
  page.title(`Run ${id}`);
  const run = new RunPanel(page, id);
  await new Promise((done, failed) => {
    page.closing(done);
    page.closing(stream(`/api${runPath(id)}/view`, (part, type) => {
      run.take(part, type);
      if (run.drawn || !page.isThere()) return;
      fill(page.main, run.node);
      run.settle();
      performance.mark("drawn");
      done();
    }, () => {
      // A stream does not say why it was refused.
      if (!run.drawn) api(`/api${runPath(id)}`).catch(failed);
      return run.head.has_ended;
    }));
  });
  if (!page.isThere()) return;
  rows(page, () => [...run.timeline.querySelectorAll("button.row")]);
  page.closing(keys((key) => key === "f" && run.toEnd()));
}

/** All of a run, kept up to date by parts of its view. */
class RunPanel {
  constructor(page, id) {
    this.page = page;
    this.id = id;
    this.head = {};
    this.rows = new Map();
    this.messages = new Map();
    this.selected = null;
    // The row that an event ended, to which the message of that event belongs.
    this.endedBy = new Map();
    this.timeline = h("div.timeline", { role: "list", "aria-label": "Timeline" });
    this.transcript = h("div.transcript", { role: "log", "aria-label": "Transcript", "aria-live": "off" });
    this.open = h("article.message.assistant.open", { hidden: true, "aria-label": "Reply so far" }, h("header", h("b", "assistant"), h("span.quiet", " writes")), h("div.prose"));
    this.top = h("section.head");
    this.pending = h("section.asks", { "aria-label": "What it waits for" });
    this.replayed = h("div.replayed", { role: "status" });
    this.facts = h("section.facts", { "aria-label": "Facts" });
    this.scale = h("span.scale");
    this.follow = true;
    const tabs = h("div.tabs", { role: "group", "aria-label": "Show" }, ["Timeline", "Transcript"].map((name) =>
      h("button", { type: "button", "aria-pressed": String(name === "Timeline"), onclick: (event) => {
        for (const one of tabs.children) one.setAttribute("aria-pressed", String(one === event.target));
        this.node.classList.toggle("transcripted", name === "Transcript");
      } }, name)));
    this.transcript.append(this.open);
    const left = h("section.pane", { "aria-label": "Timeline" }, h("div.panehead", h("h2", "Timeline")), h("div.scroll", { tabindex: -1 }, h("div.row.heads", { "aria-hidden": "true" }, h("span", "step"), this.scale, h("span", "outcome"), h("span.num", "took"), h("span.num.tok", "tokens"), h("span.num", "cost")), this.timeline));
    const right = h("section.pane.right", { "aria-label": "Transcript" }, h("div.panehead", h("h2", "Transcript"),
      h("button.plain", { type: "button", onclick: () => this.toEnd(), title: "f" }, "To the end")), h("div.scroll", { tabindex: 0, role: "region", "aria-label": "Messages" }, this.transcript));
    this.leftScroll = left.querySelector(".scroll");
    this.rightScroll = right.querySelector(".scroll");
    this.rightScroll.addEventListener("scroll", () => {
      const box = this.rightScroll;
      this.follow = box.scrollHeight - box.scrollTop - box.clientHeight < 40;
      this.mark();
    }, { passive: true });
    this.node = h("div.runpage", this.top, this.replayed, this.pending, this.facts, tabs, h("div.panes", left, right));
    this.waiting = { rows: new Set(), messages: new Set() };
    this.frame = 0;
  }

  take(part, type = "view") {
    if (type === "end") return;
    this.head = part.head ?? this.head;
    // Nobody has taken it up yet.
    if (!this.head.run_id) this.head.status = "queued";
    this.text = part.text ?? "";
    for (const [all, given, waiting] of [[this.rows, part.rows, this.waiting.rows], [this.messages, part.messages, this.waiting.messages]]) {
      for (const one of given ?? []) {
        const id = String(one.id ?? one.seq);
        const mark = JSON.stringify(one);
        if (all.get(id)?.mark === mark) continue;
        all.set(id, { ...one, id, mark });
        if (one.end_seq) this.endedBy.set(one.end_seq, id);
        waiting.add(id);
      }
    }
    if (this.drawn) this.settleSoon();
  }

  settleSoon() {
    this.frame ||= requestAnimationFrame(() => {
      this.frame = 0;
      this.settle();
    });
  }

  /** Draws what has come. */
  settle() {
    this.drawn = true;
    this.drawHead();
    this.drawScale();
    this.drawSome(this.timeline, this.rows, this.waiting.rows, (row) => this.rowNode(row));
    this.drawSome(this.transcript, this.messages, this.waiting.messages, (message) => this.messageNode(message));
    this.drawAnswer();
    this.open.hidden = !this.text;
    if (this.text !== this.openText) {
      markdown(this.open.lastElementChild, this.text);
      this.open.dataset.length = this.text.length;
    }
    this.openText = this.text;
    if (this.follow && isLive(this.head.status)) this.rightScroll.scrollTop = this.rightScroll.scrollHeight;
    if (this.waiting.rows.size || this.waiting.messages.size) {
      this.settleSoon();
      return;
    }
    if (this.isFirst) return;
    this.isFirst = true;
    const wanted = decodeURIComponent(location.hash.slice(1));
    if (this.rows.has(wanted)) requestAnimationFrame(() => this.select(wanted));
  }

  /** The answer, where no message has it: that of a graph, a script or a machine. */
  drawAnswer() {
    const { answer } = this.head;
    this.answered?.remove();
    const last = [...this.messages.values()].filter((one) => one.role === "assistant").at(-1);
    if (!answer || (last && answer.startsWith(last.text ?? ""))) return;
    this.answered = h("article.message.assistant.answer", h("header", h("b", "answer")), prose(answer));
    this.open.before(this.answered);
  }

  nodeOf(id) {
    return this.timeline.known?.get(id);
  }

  /** Draws what changed at its place: rows by their start, messages by their event. */
  drawSome(parent, all, changed, draw) {
    parent.known ??= new Map();
    const place = (one) => one.start_s ?? one.seq ?? 0;
    let left = AT_ONCE;
    for (const id of changed) {
      if (!left--) return;
      changed.delete(id);
      const one = all.get(id);
      const made = draw(one);
      made.place = place(one);
      const old = parent.known.get(id);
      parent.known.set(id, made);
      if (old && old.place === made.place) {
        const had = old.contains(document.activeElement);
        old.replaceWith(made);
        if (had) made.querySelector("button")?.focus({ preventScroll: true });
        continue;
      }
      old?.remove();
      let chunk = [...parent.querySelectorAll(":scope > .chunk")].at(-1);
      while (chunk?.previousElementSibling && chunk.firstElementChild?.place > made.place) chunk = chunk.previousElementSibling;
      const isLast = !chunk || !(chunk.lastElementChild?.place > made.place);
      if (isLast && (!chunk || chunk.childElementCount >= CHUNK)) {
        const fresh = h("div.chunk", { role: "presentation" });
        if (chunk) chunk.after(fresh);
        else parent.prepend(fresh);
        chunk = fresh;
      }
      let before = null;
      if (!isLast) for (before = chunk.lastElementChild; before.previousElementSibling?.place > made.place; ) before = before.previousElementSibling;
      chunk.insertBefore(made, before);
    }
  }

  drawHead() {
    const head = this.head;
    const mayWork = may("operate");
    const isOpen = !head.has_ended;
    const act = (text, path, sure = "") => h("button", { type: "button", onclick: (event) => this.act(event.target, text, path, sure) }, text);
    const figures = [
      ["took", took(head.took_s)], ["tokens", tokensOf(head.usage)], ["cost", money(head.cost)],
      ["effect", effectBadge(head.effect)], ["model", head.model], ["waited", head.waited_s >= 0.1 && took(head.waited_s)], ["began", when(head.started_at)],
      ["trace", shared.me.trace_url && link("its spans", shared.me.trace_url.replaceAll("{run_id}", encodeURIComponent(this.id)))],
      ["conversation", head.conversation && local(`/conversations/${encodeURIComponent(head.conversation)}`, null, head.conversation)],
      ["started by", head.parent_run_id && local(runPath(head.parent_run_id), null, head.parent_run_id)],
      ["child runs", head.children?.length && h("span", head.children.slice(0, 8).map((id, at) => [at ? ", " : "", local(runPath(id), null, id)]), head.children.length > 8 ? ` and ${head.children.length - 8} more` : null)],
    ].filter(([, value]) => value);
    const mark = JSON.stringify([head, mayWork]);
    if (mark === this.headMark) return;
    this.headMark = mark;
    const asked = h("h1.request", head.request || "(no text)");
    fill(this.top, h("div.line", statusBadge(head.status ?? "running"), head.error?.code && head.error.code !== head.status ? badge(words(head.error.code), "bad") : null, h("span.quiet", head.agent), h("code.id", this.id)),
      asked, head.error ? h("p.error", errorText(head.error)) : null,
      h("dl.figures", figures.map(([name, value]) => h("div", h("dt", name), h("dd", value)))),
      h("div.actions", mayWork && isOpen && [isLive(head.status) && act("Interrupt", "interrupt"), act("Cancel", "cancel", "Cancel this run? What has begun stays done.")],
        mayWork && !head.has_ended && act("Resume", "resume"),
        mayWork && h("button", { type: "button", onclick: (event) => this.replay(event.target) }, "Replay"),
        h("button", { type: "button", onclick: () => this.compare() }, "Compare …"),
        h("a.button", { href: to(`/api${runPath(this.id)}/export`), download: `${this.id}.html` }, "Save as a file")));
    drawPending(this.pending, this.id, head.pending ?? [], head);
    const artifacts = head.artifacts ?? [];
    fill(this.facts,
      head.redacted ? h("p.odd", `What was said in this run was taken out${head.redacted.by ? ` by ${head.redacted.by}` : ""}`, head.redacted.at ? [", ", when(head.redacted.at)] : null, ".") : null,
      (head.warnings ?? []).length ? h("details", { open: true }, h("summary", many(head.warnings.length, "warning")), h("ul", head.warnings.map((one) => h("li", one.code ? [h("code", one.code), " "] : null, one.message ?? one.text ?? String(one))))) : null,
      limits(head.rate_limit),
      artifacts.length ? h("details", { open: true }, h("summary", many(artifacts.length, "artifact")), h("ul", artifacts.map((one) => h("li", h("b", visible(one.name || "artifact")), (one.parts ?? []).map((part) => h("div", this.artifactPart(part))))))) : null,
      (head.answered ?? []).length ? h("details", h("summary", `${many(head.answered.length, "answer")} of people`), h("ul", head.answered.map((one) => h("li", answeredText(one))))) : null);
  }

  /** A part of an artifact: a stored file to keep, and all else as it is. */
  artifactPart(part) {
    if (part.kind !== "file" || !part.id) return part.kind === "text" ? visible(part.text) : jsonNode(part.data ?? part);
    return [h("a", { href: to(`/api${runPath(this.id)}/artifacts/${encodeURIComponent(part.id)}`), download: part.name || part.id }, visible(part.name || part.id)),
      h("span.quiet", ` ${part.media_type} ${part.size_bytes ? `${part.size_bytes.toLocaleString("en")} bytes` : ""}`)];
  }

  async act(button, name, path, sure) {
    if (sure && !(await confirmed(sure, name))) return;
    button.disabled = true;
    try {
      await api(`/api${runPath(this.id)}/${path}`, { method: "POST", body: {} });
      say(`${name}: done`);
    } catch (error) {
      say(error.message);
      button.after(h("span.error", error.message));
    }
    button.disabled = false;
  }

  /** Has the agent of today go through the log again, and shows whether it would do the same. */
  async replay(button) {
    button.disabled = true;
    try {
      const found = await api(`/api${runPath(this.id)}/replay`, { method: "POST", body: {} });
      const at = found.difference;
      fill(this.replayed, h("section.draft", { tabindex: -1 }, h("h3", at ? "Replayed: it would do something else today" : "Replayed: it would do the same today"),
        h("p", at ? partedAt(at, "It first parts from the log at") : `${many(found.compared, "fact")} of the log compared.`, " The agent and its settings of today went through the log: no model was asked, no tool was called, nothing was written."),
        at ? sides([[h("span", "The log says"), at.recorded], [h("span", "Today"), at.replayed]]) : null,
        h("div.actions", h("button", { type: "button", onclick: () => this.replayed.replaceChildren() }, "Close"))));
    } catch (error) {
      fill(this.replayed, h("p.error", error.message));
    }
    button.disabled = false;
    this.replayed.firstElementChild.scrollIntoView({ block: "nearest" });
  }

  async compare() {
    const other = await asked("Compare with which run?", "Id of the other run");
    if (other) go(`${runPath(this.id)}/compare/${encodeURIComponent(other)}`);
  }

  drawScale() {
    const span = Math.max(0.001, ...[...this.rows.values()].map((row) => row.end_s ?? row.start_s ?? 0), isLive(this.head.status) ? this.head.took_s ?? 0 : 0);
    if (span > (this.span ?? 0)) {
      // A longer run shortens all bars; a little room spares drawing them at each event of a live one.
      this.span = isLive(this.head.status) && this.span ? span * 1.25 : span;
      for (const row of this.rows.values()) this.place(this.timeline.known?.get(row.id), row);
      fill(this.scale, [0, 0.5, 1].map((part) => h("span", took(part * this.span) || "0")));
    }
  }

  place(node, row) {
    const bar = node?.querySelector(".bar");
    if (!bar) return;
    const end = row.end_s ?? this.span;
    const left = (100 * (row.start_s ?? 0)) / this.span;
    bar.style.left = `${Math.min(99.5, left)}%`;
    bar.style.width = `${Math.max(0.5, (100 * (end - (row.start_s ?? 0))) / this.span)}%`;
    const wait = bar.firstElementChild;
    if (wait && end > row.start_s) wait.style.width = `${Math.min(100, (100 * row.wait_s) / (end - row.start_s))}%`;
  }

  rowNode(row) {
    const isRunning = row.end_s === null || row.end_s === undefined;
    const tone = ROW_TONES[row.tone] ?? (isRunning ? "live" : "plain");
    const seconds = isRunning ? null : row.end_s - row.start_s;
    const name = h("span.name", row.name);
    const word = row.word || (isRunning ? (isLive(this.head.status) ? "runs" : "no end") : "");
    const button = h(`button.row.${row.kind}`, { type: "button", "aria-expanded": "false",
      onclick: () => this.select(row.id, { toggle: true }) },
    name, h("span.track", { "aria-hidden": "true" }, h(`span.bar.${tone}`, row.wait_s ? h("span.waited") : null)),
    h(`span.word.${tone}`, row.effect && row.effect !== "none" ? [effectBadge(row.effect), " "] : null, word, row.note || row.detail ? h("span.quiet", ` ${isRunning && row.note ? row.note : row.detail ?? ""}`) : null),
    h("span.num", row.kind === "mark" || row.lost ? "" : took(seconds)), h("span.num.tok", tokensOf(row.usage)), h("span.num", money(row.cost)));
    const node = h("div.step", { role: "listitem" }, button);
    node.dataset.row = row.id;
    this.place(node, row);
    if (this.selected === row.id) this.expand(node, row);
    return node;
  }

  expand(node, row) {
    node.classList.add("on");
    node.firstElementChild.setAttribute("aria-expanded", "true");
    if (node.children.length > 1) return;
    const facts = [["outcome", row.word], ["effect", row.effect && (EFFECTS[row.effect] ? `${row.effect}: ${EFFECTS[row.effect][2].toLowerCase()}` : row.effect)],
      ["denied by", row.gate && `the gate ${row.gate}`], ["why", row.detail && visible(row.detail)], ["last said", row.note && visible(row.note)], ["waited", row.wait_s ? took(row.wait_s) : ""], ["started", row.start_s === undefined ? "" : `${took(row.start_s) || "0 ms"} after the run`],
      ["model", row.kind === "model" && row.model], ["call", row.call_id], ["child run", row.child && local(runPath(row.child), null, row.child)], ["events", row.seq ? `${row.seq}${row.end_seq && row.end_seq !== row.seq ? ` to ${row.end_seq}` : ""}` : ""]].filter(([, value]) => value);
    const raw = h("div.raws");
    const seqs = [...new Set([row.seq, row.end_seq])].filter(Boolean);
    node.append(h("div.detail", h("dl.figures", facts.map(([name, value]) => h("div", h("dt", name), h("dd", value)))),
      h("div.actions", seqs.map((seq, at) => h("button", { type: "button", onclick: (event) => this.raw(raw, seq, event.target) }, at ? `Result (event ${seq})` : `What was asked (event ${seq})`)),
        may("operate") && row.end_seq && h("button", { type: "button", onclick: () => this.fork(row, raw) }, "Fork after this …")), raw));
  }

  async raw(box, seq, button) {
    const id = `raw-${this.id}-${seq}`;
    const there = document.getElementById(id);
    button.setAttribute("aria-expanded", String(!there));
    if (there) {
      there.remove();
      return;
    }
    button.disabled = true;
    try {
      const event = await api(`/api${runPath(this.id)}/events/${seq}`);
      box.append(h("section.raw", { id, tabindex: 0, role: "region", "aria-label": `Event ${seq}` }, jsonNode(event)));
    } catch (error) {
      box.append(h("p.error", error.message));
    }
    button.disabled = false;
  }

  async fork(row, box) {
    try {
      const draft = await api(`/api${runPath(this.id)}/fork`, { method: "POST", body: { at: row.end_seq, draft: true } });
      const again = draft.again ?? draft.runs_again ?? [];
      const button = h("button.primary", { type: "button", onclick: async () => {
        button.disabled = true;
        try {
          const made = await api(`/api${runPath(this.id)}/fork`, { method: "POST", body: { at: row.end_seq, draft: false } });
          go(runPath(made.run_id));
        } catch (error) {
          button.disabled = false;
          box.append(h("p.error", error.message));
        }
      } }, "Start the fork");
      fill(box, h("section.draft", h("h3", `Draft of a fork after event ${row.end_seq}`), draft.said ? h("p", draft.said) : null,
        again.length ? [h("p", "This came after it, and is done again by the fork; writes are asked about anew:"), h("ul", again.map((one) => h("li", one.tool ? ["call of ", h("code", one.tool)] : ["asks ", h("code", one.model ?? "the model")], h("span.quiet", ` event ${one.seq}`))))]
          : h("p", "Nothing that was done after it is done again by itself."), h("div.actions", button, h("button", { type: "button", onclick: () => box.replaceChildren() }, "Discard"))));
      button.focus();
    } catch (error) {
      fill(box, h("p.error", error.message));
    }
  }

  /** Shows a row with its message, or a message with its row. */
  select(id, { toggle = false } = {}) {
    const old = this.selected;
    if (old !== null) {
      const node = this.nodeOf(old);
      node?.classList.remove("on");
      node?.firstElementChild.setAttribute("aria-expanded", "false");
      [...(node?.children ?? [])].slice(1).forEach((one) => one.remove());
      this.transcript.querySelectorAll(".on").forEach((one) => one.classList.remove("on"));
    }
    this.selected = toggle && old === id ? null : id;
    if (this.selected === null) return;
    const node = this.nodeOf(id);
    if (node) this.expand(node, this.rows.get(id));
    const messages = [...this.transcript.querySelectorAll(`[data-row="${CSS.escape(id)}"]`)];
    messages.forEach((one) => one.classList.add("on"));
    if (messages[0]) within(this.rightScroll, messages[0]);
    if (node) within(this.leftScroll, node);
    history.replaceState(null, "", `#${encodeURIComponent(id)}`);
  }

  messageNode(message) {
    const role = message.role ?? "assistant";
    const row = this.endedBy.get(message.seq) ?? "";
    const title = row ? h("button.plain.to", { type: "button", title: "Show in the timeline", onclick: () => this.select(row) }, `event ${message.seq}`) : h("span.quiet", message.seq ? `event ${message.seq}` : "");
    const node = h(`article.message.${role}`, h("header", h("b", message.name ? `${role} ${message.name}` : role), message.is_error && badge("error", "bad"), h("span.grow"), title), ...this.bodyOf(message, role));
    node.dataset.row = row;
    return node;
  }

  bodyOf(message, role) {
    return [message.reasoning && h("details.reasoning", h("summary", "Reasoning"), prose(message.reasoning)),
      message.text && (role === "tool" ? h("pre.output", { tabindex: 0, role: "region", "aria-label": "output" }, visible(message.text)) : prose(message.text)),
      message.is_cut && this.whole(message), (message.calls ?? []).map(callNode)].flat().filter(Boolean);
  }

  whole(message) {
    const box = h("div");
    return h("div", h("button", { type: "button", onclick: (event) => this.raw(box, message.seq, event.target) }, "The text is longer: show all of the event"), box);
  }

  /** Marks the row of the message at the top of the transcript. */
  mark() {
    if (this.marking) return;
    this.marking = requestAnimationFrame(() => {
      this.marking = 0;
      const box = this.rightScroll.getBoundingClientRect();
      const found = document.elementFromPoint(box.left + box.width / 2, box.top + 24)?.closest(".message");
      this.timeline.querySelector(".here")?.classList.remove("here");
      if (!found?.dataset.row) return;
      const row = this.nodeOf(found.dataset.row);
      row?.classList.add("here");
      if (row && this.selected === null) within(this.leftScroll, row);
    });
  }

  toEnd() {
    this.follow = true;
    this.rightScroll.scrollTop = this.rightScroll.scrollHeight;
    this.leftScroll.scrollTop = this.leftScroll.scrollHeight;
    return true;
  }
}

const isOver = (status) => !isLive(status) && status !== "input_required";
const isLive = (status) => !status || status === "running" || status === "queued";

/** Scrolls a box, and nothing else, so that a node in it is seen. */
function within(box, node) {
  const outer = box.getBoundingClientRect();
  const inner = node.getBoundingClientRect();
  if (inner.top < outer.top || inner.bottom > outer.bottom) box.scrollTop += inner.top - outer.top - Math.min(60, outer.height / 4);
}

function callNode(call) {
  return h("div.call", h("div.callhead", h("code", call.name ?? call.tool_name), call.word ? badge(call.word, call.tone) : null, call.effect && call.effect !== "none" ? effectBadge(call.effect) : null),
    call.arguments !== undefined && jsonNode(call.arguments));
}

const errorText = (error) => (typeof error === "string" ? error : error.message || words(error.code));

/** The windows of a provider's limits, with what is left of each. */
function limits(found) {
  const windows = Object.entries(found?.windows ?? {});
  if (!windows.length) return null;
  const facts = (one) => Object.entries(one).filter(([, value]) => value !== null && typeof value !== "object").map(([name, value]) => `${words(name)} ${typeof value === "number" ? NUMBER.format(value) : value}`).join(", ");
  return h("details", h("summary", "Rate limits"), h("ul", windows.map(([name, one]) => h("li", h("b", words(one.name ?? name)), " ", facts(one)))));
}

function decisionText(decision) {
  const reason = decision?.reason ? `: ${decision.reason}` : "";
  return { approve: "approved it", deny: `denied it${reason}`, edit: "approved it with other arguments", answer: "answered it" }[decision?.kind] ?? "answered it";
}

/** Who answered what, when, and having seen what. */
function answeredText({ answer, asked, at, seq }) {
  const what = asked?.tool_name ? h("code", asked.tool_name) : asked?.question ?? asked?.description ?? "";
  const seen = asked?.arguments ? h("details", h("summary", "what was shown"), jsonNode(asked.arguments)) : null;
  const made = answer.kind === "edit" ? h("details", h("summary", "what it became"), jsonNode(answer.arguments ?? {})) : answer.kind === "answer" ? [": ", jsonNode(answer.value ?? null)] : null;
  return [h("b", answer.by || "somebody"), ` ${decisionText(answer)}`, what ? [": ", what] : null, " ", when(at), seq ? h("span.quiet", ` event ${seq}`) : null, seen, made];
}

function confirmed(question, yes) {
  return new Promise((done) => {
    const box = h("dialog", { "aria-label": question, onclose: () => {
      done(box.returnValue === "yes");
      box.remove();
    } }, h("p", question), h("form.actions", { method: "dialog" }, h("button", { value: "no" }, "Back"), h("button.danger", { value: "yes" }, yes)));
    document.body.append(box);
    box.showModal();
  });
}

function asked(question, label, given = "") {
  return new Promise((done) => {
    const field = h("input", { value: given, required: true, "aria-label": label, placeholder: label });
    const box = h("dialog", { "aria-label": question, onclose: () => {
      done(box.returnValue === "yes" ? field.value.trim() : "");
      box.remove();
    } }, h("p", question), h("form", { method: "dialog" }, field, h("div.actions", h("button", { value: "no", formnovalidate: true }, "Back"), h("button.primary", { value: "yes" }, "Go"))));
    document.body.append(box);
    box.showModal();
    field.focus();
  });
}

async function comparePage(page, id, other) {
  page.title("Compare");
  const found = await api(`/api${runPath(id)}/compare/${encodeURIComponent(other)}`);
  if (!page.isThere()) return;
  const at = found.difference;
  fill(page.main, h("h1", "Two runs compared"),
    h("p", at ? partedAt(at, "Of the first run, they part at") : "They said and did the same."),
    sides([[id, at?.recorded], [other, at?.replayed]].map(([run, value]) => [local(runPath(run), null, run), value]), !at));
}

/** Where two runs part, in words. */
const partedAt = (at, begin) => [`${begin} `, h("b", at.seq ? `event ${at.seq}` : "what comes after its last event"), `: ${words(at.kind)}${at.part ? `, ${at.part}` : ""}.`, at.asked ? ` It asked for ${at.asked}.` : ""];

/** What each of two runs said at that place. */
const sides = (both, isSame = false) =>
  h("div.sides", both.map(([name, value]) => h("section.pane", h("div.panehead", h("h2", name)), h("div.side", isSame ? h("p.quiet", "no difference") : value === null || value === undefined ? h("p.quiet", "nothing more") : jsonNode(value)))));

// ---- What waits for people -------------------------------------------------------------------------------------

/** The questions of one run, to be answered in place; those that are not there any more go. */
function drawPending(node, runId, pending, head) {
  keyed(node, pending.map((one) => (one.pending ? one : { run_id: runId, agent_id: head.agent, pending: one, inPlace: true })), (item) => item.pending.digest || itemId(item), (item) => new Ask([{ ...item, inPlace: true }]).node);
}

const itemId = (item) => item.pending.call_id ?? item.pending.id;
const itemKey = (item) => `${item.run_id}/${itemId(item)}/${item.pending.digest ?? ""}`;

/** One thing that waits, or equal ones together: what will happen, why it is asked, and the ways to answer. */
class Ask {
  constructor(items, { redraw = () => {} } = {}) {
    this.items = items;
    this.redraw = redraw;
    const [{ pending }] = items;
    this.pending = pending;
    this.isApproval = pending.kind === "pending_approval";
    this.form = h("div.form");
    this.result = h("div.result", { role: "status" });
    this.node = h("article.ask", { tabindex: 0, "aria-label": this.title() }, this.headNode(), this.isApproval ? this.callNode() : this.questionNode(), this.from = this.fromNode(), this.form, this.buttons = h("div.actions", this.actions()), this.result);
    this.node.ask = this;
  }

  title() {
    const n = this.items.length > 1 ? `${this.items.length} equal: ` : "";
    return n + (this.isApproval ? `${this.pending.tool_name}` : this.pending.question ?? this.pending.description ?? "waits");
  }

  headNode() {
    const p = this.pending;
    return h("header", h("h2", this.isApproval ? ["Call ", h("code", visible(p.tool_name))] : p.kind === "pending_question" ? "Question" : "Result of another system"),
      this.isApproval && badge(p.effect ?? "write", p.effect === "destructive" ? "bad" : "odd", "what the tool may do"),
      this.items.length > 1 && badge(`${this.items.length} equal`, "plain"),
      h("span.grow"), p.expires_at && h("span.due", "due ", when(p.expires_at), h("span.quiet", this.isApproval ? ", then it is asked anew" : ", then the run goes on without it")), p.asked_at && h("span.quiet", "asked ", when(p.asked_at)));
  }

  callNode() {
    const p = this.pending;
    const [item] = this.items;
    const description = item.description ?? item.tool_description ?? item.tool?.description;
    const doubts = p.doubts ?? [];
    return [description && h("p.quiet", description), h("div.arguments", { "aria-label": "Arguments" }, jsonNode(p.arguments ?? {})),
      (p.reason || p.taint || doubts.length) ? h("div.why", h("b", "Why it is asked: "), p.reason || "what it read may come from a stranger",
        p.taint ? h("div", "Untrusted: ", jsonNode(p.taint)) : null, doubts.length ? h("ul", doubts.map((one) => h("li", jsonNode(one)))) : null) : h("p.quiet", "A rule asks for approval of each such call."),
      item.inPlace ? null : this.beforeNode(item)];
  }

  /** What was decided about such calls, once somebody wants to know. */
  beforeNode(item) {
    const list = h("ul");
    const show = async () => {
      const found = await maybe(`/api/inbox/${encodeURIComponent(item.run_id)}/${encodeURIComponent(itemId(item))}/before`);
      const rows = (found?.answered ?? []).map((one) => h("li", one.same ? badge("the same arguments", "plain") : null, " ", answeredText(one), " in ", local(runPath(one.run_id), null, "its run")));
      fill(list, rows.length ? rows : h("li.quiet", found ? "Nothing: none of the newest runs asked about this tool." : "It does not wait any more: it was answered."));
    };
    return h("details.before", { ontoggle: (event) => event.target.open && !list.childElementCount && show() }, h("summary", "What was decided like it before"), list);
  }

  questionNode() {
    const p = this.pending;
    return h("div.question", prose(p.question ?? p.description ?? ""));
  }

  fromNode() {
    if (this.items.length === 1 && this.items[0].inPlace) return null;
    return h("ul.from", this.items.map((item) => h("li", local(runPath(item.run_id), null, item.request || item.run_id), h("span.quiet", ` ${item.agent_id}`, item.owner ? ` for ${item.owner}` : "", item.assigned ? `, assigned to ${item.assigned.to}` : "", " "), this.assignNode(item),
      this.items.length > 1 && this.mayAnswer() && h("span.actions", h("button", { type: "button", onclick: () => this.send((one) => this.approval(one), [item]) }, "Approve this one"), h("button", { type: "button", onclick: () => this.deny([item]) }, "Deny this one")))));
  }

  /** Gives an item to oneself, or back to all. */
  assignNode(item) {
    const me = shared.me.user?.id ?? shared.me.user;
    if (!this.mayAnswer()) return null;
    const isMine = item.assigned?.to === me;
    return h("button.quiet", { type: "button", onclick: async () => {
      try {
        await api(`/api/inbox/${encodeURIComponent(item.run_id)}/${encodeURIComponent(itemId(item))}/assign`, { method: "POST", body: { to: isMine ? "" : me } });
        item.assigned = isMine ? null : { to: me };
        const shown = this.fromNode();
        this.from.replaceWith(shown);
        this.from = shown;
      } catch (error) {
        fill(this.result, h("p.error", error.message));
      }
    } }, isMine ? "Give it back" : "Take it");
  }

  actions() {
    if (!this.mayAnswer()) return h("p.quiet", "Others answer this.");
    const later = !this.items[0].inPlace && h("button", { type: "button", title: "n", onclick: () => this.later() }, "Not now");
    if (!this.isApproval) return [...this.choices(), later];
    const all = this.items.length > 1 ? ` all ${this.items.length}` : "";
    const isDestructive = this.pending.effect === "destructive";
    return [
      h(isDestructive ? "button.danger" : "button.primary", { type: "button", title: "a", onclick: () => this.approve() }, `Approve${all}`),
      h("button", { type: "button", title: "d", onclick: () => this.deny() }, `Deny${all}`),
      this.items.length === 1 && h("button", { type: "button", title: "e", onclick: () => this.edit() }, "Edit"),
      !isDestructive && this.items.length === 1 && h("details.always", h("summary", "Always"), h("div", h("button", { type: "button", onclick: () => this.approve("arguments") }, "for these arguments"), h("button", { type: "button", onclick: () => this.approve("tool") }, "for this tool, in this conversation or run"))),
      later];
  }

  mayAnswer() {
    return this.items[0].answerable ?? (may("answer") || this.pending.audience === "user" || !this.isApproval);
  }

  approval(item, always = "") {
    const { call_id, digest } = item.pending;
    return { kind: "approve", call_id, ...(digest ? { digest } : {}), ...(always ? { always } : {}) };
  }

  async approve(always = "") {
    if (this.isDone) return;
    if (this.pending.effect === "destructive" && !(await confirmed(`${this.pending.tool_name} is destructive: it cannot be undone. Approve?`, "Approve"))) return;
    await this.send((item) => this.approval(item, always));
  }

  deny(items = this.items) {
    if (this.isDone) return;
    const reason = h("input", { name: "reason", "aria-label": "Reason, which the model is given", placeholder: "Reason, which the model is given" });
    this.open(h("form", { onsubmit: (event) => {
      event.preventDefault();
      this.send((item) => ({ kind: "deny", call_id: item.pending.call_id, reason: reason.value.trim(), ...(item.pending.digest ? { digest: item.pending.digest } : {}) }), items);
    } }, reason, h("button.danger", items.length > 1 ? `Deny all ${items.length}` : "Deny"), this.back()), reason);
  }

  edit() {
    if (this.isDone) return;
    const before = JSON.stringify(this.pending.arguments ?? {}, null, 2);
    const text = h("textarea", { "aria-label": "Arguments as JSON", rows: Math.min(16, before.split("\n").length + 1), spellcheck: "false", value: before });
    const changes = h("div.diff", { "aria-label": "Changes", role: "region" });
    const button = h("button.primary", { disabled: true }, "Approve as changed");
    let value = null;
    const look = () => {
      value = null;
      try {
        value = JSON.parse(text.value);
        if (value === null || typeof value !== "object" || Array.isArray(value)) throw new SyntaxError("the arguments must be an object");
        const after = JSON.stringify(value, null, 2);
        fill(changes, after === before ? h("p.quiet", "Nothing is changed yet.") : diff(before.split("\n"), after.split("\n")));
        button.disabled = after === before;
      } catch (error) {
        fill(changes, h("p.error", `Not JSON yet: ${error.message}`));
        button.disabled = true;
      }
    };
    text.addEventListener("input", look);
    this.open(h("form.edit", { onsubmit: (event) => {
      event.preventDefault();
      if (value) this.send((item) => ({ kind: "edit", call_id: item.pending.call_id, arguments: value, ...(item.pending.digest ? { digest: item.pending.digest } : {}) }));
    } }, text, changes, h("div.actions", button, this.back())), text);
    look();
  }

  choices() {
    const p = this.pending;
    const answer = (value) => this.send((item) => ({ kind: "answer", id: item.pending.id, value }));
    if (p.choices?.length) return p.choices.map((one) => h("button", { type: "button", onclick: () => answer(one) }, visible(one)));
    const isText = !p.schema || p.schema.type === "string";
    const field = h("textarea", { rows: 2, "aria-label": isText ? "Answer" : "Answer as JSON", placeholder: isText ? "Answer" : "Answer as JSON" });
    return [h("form.reply", { onsubmit: (event) => {
      event.preventDefault();
      try {
        if (field.value.trim()) answer(isText ? field.value : JSON.parse(field.value));
      } catch (error) {
        fill(this.result, h("p.error", `That is no JSON: ${error.message}`));
      }
    } }, field, h("button.primary", "Answer"))];
  }

  later() {
    if (this.isDone) return;
    const tomorrow = new Date();
    tomorrow.setDate(tomorrow.getDate() + 1);
    tomorrow.setHours(8, 0, 0, 0);
    const inHours = (n) => new Date(Date.now() + n * 3600000);
    const choices = [["1 hour", inHours(1)], ["4 hours", inHours(4)], ["tomorrow 8:00", tomorrow], ["a week", inHours(168)]];
    this.open(h("div.actions", h("span", "Hide it from me for"), choices.map(([text, until]) => h("button", { type: "button", onclick: async () => {
      try {
        for (const item of this.items) await api(`/api/inbox/${encodeURIComponent(item.run_id)}/${encodeURIComponent(itemId(item))}/later`, { method: "POST", body: { until: until.toISOString() } });
        this.finish(`Hidden from you for ${text}. It still counts among what waits.`);
      } catch (error) {
        fill(this.result, h("p.error", error.message));
      }
    } }, text)), this.back()));
  }

  open(node, focus = node.querySelector("button")) {
    fill(this.form, node);
    this.buttons.hidden = true;
    focus?.focus();
  }

  back() {
    return h("button", { type: "button", onclick: () => this.close() }, "Back");
  }

  close() {
    this.form.replaceChildren();
    this.buttons.hidden = false;
    this.node.focus();
  }

  async send(make, items = this.items) {
    const buttons = this.node.querySelectorAll("button");
    buttons.forEach((one) => (one.disabled = true));
    this.isBusy = true;
    const said = [];
    try {
      for (const item of items) {
        const answer = make(item);
        const [got] = await api(`/api${runPath(item.run_id)}/answer`, { method: "POST", body: { answers: [answer] } });
        said.push(this.told(got, answer));
      }
      this.finish([...new Set(said)].join(" "));
    } catch (error) {
      buttons.forEach((one) => (one.disabled = false));
      fill(this.result, said.length ? h("p", said.join(" ")) : null, h("p.error", error.message));
      say(error.message);
    }
    this.isBusy = false;
  }

  told(got, answer) {
    const isLate = got && (got.kind === "outdated" || "decision" in got || "reason" in got || ("by" in got && !("taken" in got)));
    if (!isLate) return { approve: "Approved.", deny: "Denied.", edit: "Approved as changed.", answer: "Answered." }[answer.kind];
    this.isLost = true;
    if (got.decision) return `${got.by || "Somebody"} was first and ${decisionText(got.decision)}${got.at ? ` at ${moment(got.at)}` : ""}. Your answer was not taken.`;
    return `Your answer came too late and was not taken: ${got.reason || "it does not wait any more"}.`;
  }

  finish(text) {
    this.isDone = true;
    const isHere = this.node.contains(document.activeElement) || document.activeElement === document.body;
    this.form.replaceChildren();
    this.buttons.replaceChildren();
    this.node.classList.add(this.isLost ? "lost" : "done");
    fill(this.result, h("p", h("b", text), " ", this.items.length === 1 && !this.items[0].inPlace && local(runPath(this.items[0].run_id), null, "See the run")));
    say(text);
    if (isHere) this.node.focus();
  }

  /** It waits no more, and not by what was done here. */
  async gone() {
    if (this.isDone || this.isBusy) return;
    this.isDone = true;
    this.isLost = true;
    const [item] = this.items;
    let text = "It does not wait any more: it was answered elsewhere, or the run ended.";
    const view = await maybe(`/api${runPath(item.run_id)}`).catch(() => null);
    const answered = (view?.head?.answered ?? []).filter((one) => [one.answer.call_id, one.answer.id].includes(itemId(item))).at(-1);
    if (answered) text = `${answered.answer.by || "Somebody"} ${decisionText(answered.answer)} at ${moment(answered.at)}.`;
    this.finish(text);
  }
}

/** Lines of two texts, as what went and what came. */
function diff(before, after) {
  const table = Array.from({ length: before.length + 1 }, () => new Uint32Array(after.length + 1));
  for (let i = before.length - 1; i >= 0; i -= 1) for (let j = after.length - 1; j >= 0; j -= 1) table[i][j] = before[i] === after[j] ? table[i + 1][j + 1] + 1 : Math.max(table[i + 1][j], table[i][j + 1]);
  const out = h("pre");
  const line = (name, sign, text) => out.append(h(name, h("span", { "aria-label": sign === "-" ? "gone" : sign === "+" ? "new" : null }, sign), " ", visible(text)));
  let [i, j] = [0, 0];
  while (i < before.length || j < after.length) {
    if (i < before.length && j < after.length && before[i] === after[j]) {
      line("span", " ", before[i]);
      [i, j] = [i + 1, j + 1];
    } else if (i < before.length && (j === after.length || table[i + 1][j] >= table[i][j + 1])) line("del", "-", before[i++]);
    else line("ins", "+", after[j++]);
  }
  return out;
}

async function inboxPage(page) {
  page.title("Inbox");
  const filter = {};
  for (const name of ["agent", "tool", "conversation", "before"]) if (page.query.get(name)) filter[name] = page.query.get(name);
  const list = h("div.asks");
  const head = h("div.inboxhead");
  const grants = h("section.grants");
  const more = h("nav.paging", { "aria-label": "Pages of the inbox" });
  const empty = h("p.empty", { hidden: true });
  const asks = new Map();
  const load = async () => {
    const found = await api("/api/inbox" + listQuery(filter));
    if (!page.isThere()) return;
    const groups = new Map();
    for (const item of found.items) {
      const p = item.pending;
      const key = p.kind === "pending_approval" ? `${p.tool_name} ${JSON.stringify(p.arguments ?? {})} ${p.effect}` : itemKey(item);
      groups.set(key, [...(groups.get(key) ?? []), item]);
    }
    for (const [key, ask] of asks) {
      const items = groups.get(key);
      const same = items && items.map(itemKey).join() === ask.items.map(itemKey).join();
      if (!items) await ask.gone();
      else if (!same && !ask.node.contains(document.activeElement)) {
        const made = new Ask(items);
        ask.node.replaceWith(made.node);
        asks.set(key, made);
      }
      groups.delete(key);
    }
    for (const [key, items] of groups) {
      const made = new Ask(items);
      asks.set(key, made);
      list.append(made.node);
    }
    const open = [...asks.values()].filter((one) => !one.isDone);
    fill(head, h("h1", "Inbox"), h("span.quiet", open.length ? many(found.items.length, "item") : ""), Object.entries(filter).filter(([name]) => name !== "before").map(([name, value]) => local("/inbox" + listQuery({ ...filter, [name]: "" }), { class: "chip on" }, `${name}: ${value} ×`)));
    empty.hidden = asks.size > 0;
    const isFiltered = Object.keys(filter).some((name) => name !== "before");
    fill(empty, isFiltered ? "Nothing that waits matches." : filter.before ? "Nothing more waits." : shared.me.waits ? "Nothing waits for you but what you put off." : "Nothing waits for you.");
    fill(more, found.next && local("/inbox" + listQuery({ ...filter, before: found.next }), { class: "button" }, "Next"));
  };
  await load();
  if (!page.isThere()) return;
  fill(page.main, head, list, empty, more, grants);
  const drawGrants = async () => {
    const found = await maybe("/api/grants");
    const all = found?.grants ?? found ?? [];
    fill(grants, all.length ? [h("h2", "Standing approvals"), h("ul", all.map((one) => grantLine(one, drawGrants)))] : null);
  };
  drawGrants();
  rows(page, () => [...list.querySelectorAll(".ask")]);
  page.closing(keys((key, event) => {
    const ask = document.activeElement?.closest?.(".ask")?.ask;
    const act = ask && { a: () => ask.approve(), d: () => ask.deny(), e: () => ask.edit(), n: () => ask.later() }[key];
    if (!act || (!ask.isApproval && key !== "n") || !ask.mayAnswer() || (key === "e" && ask.items.length > 1)) return false;
    event.preventDefault();
    act();
    return true;
  }));
  live(page, load);
}

function grantLine(one, changed) {
  return h("li", h("code", one.tool_name ?? one.tool), " ", one.scope === "arguments" ? jsonNode(one.arguments ?? {}) : h("span", "with any arguments"), h("span.quiet", "in "), local(runPath(one.run_id), null, one.run_id), h("span.quiet", ` by ${one.by || "somebody"}`, `, used ${many(one.uses ?? 0, "time")}, ends with its run`),
    h("button", { type: "button", onclick: async (event) => {
      try {
        await api(`/api/grants/${encodeURIComponent(one.id)}`, { method: "DELETE" });
        say("Withdrawn.");
        await changed();
      } catch (error) {
        event.target.after(h("span.error", error.message));
      }
    } }, "Withdraw"));
}

// ---- Chat ------------------------------------------------------------------------------------------------------

function newId(prefix) {
  return prefix + [...crypto.getRandomValues(new Uint8Array(9))].map((byte) => byte.toString(36).padStart(2, "0")).join("").slice(0, 16);
}

async function conversationsPage(page) {
  page.title("Chat");
  const found = await maybe("/api/conversations");
  if (!page.isThere()) return;
  const all = found?.conversations ?? found ?? [];
  fill(page.main, h("h1", "Chat"), h("div.chips", shared.me.agents.map((one) => local(`/chat/${encodeURIComponent(one.id)}`, { class: "button", title: one.description }, `New with ${one.id}`))),
    h("ol.runs", all.map((one) => h("li", local(`/conversations/${encodeURIComponent(one.id ?? one.conversation)}`, { class: "run" }, h("span.asked", h("span.request", one.request || one.id), h("span.quiet.sub", h("span", one.agent_id), one.turns ? h("span", many(one.turns, "turn")) : null)), h("span.figures", h("span.figure", money(one.cost)), h("span.figure.when", when(one.updated_at))))))),
    all.length ? null : h("p.empty", "No conversations yet."));
}

async function chatPage(page, { conversation = "", agent = "" }) {
  page.title("Chat");
  let runs = [];
  if (conversation) {
    const found = await api(`/api/runs${listQuery({ conversation })}`);
    runs = found.runs.filter((run) => !run.parent_run_id).reverse();
    agent = runs.at(-1)?.agent_id ?? agent;
    if (!runs.length) throw new Refusal(404, "There is no such conversation.");
  }
  if (!page.isThere()) return;
  const log = h("div.chatlog", { role: "log", "aria-label": "Conversation", "aria-live": "polite" });
  const spent = h("span.quiet");
  const costs = new Map();
  const total = () => {
    const sums = new Map();
    for (const one of costs.values()) {
      const { total, currency = "USD", unpriced_calls = 0 } = one && typeof one === "object" ? one : { total: one };
      const sum = sums.get(currency) ?? { total: 0, currency, unpriced_calls: 0 };
      sums.set(currency, { ...sum, total: sum.total + Number(total ?? 0), unpriced_calls: sum.unpriced_calls + unpriced_calls });
    }
    const known = [...sums.values()].filter((sum) => sum.total);
    fill(spent, known.length ? `${known.map(money).join(" and ")} so far` : "");
  };
  const field = h("textarea", { rows: 1, "aria-label": "Message", placeholder: `Message to ${agent}`, oninput: () => grow(), onkeydown: (event) => {
    if (event.key === "Enter" && !event.shiftKey && !event.isComposing) {
      event.preventDefault();
      form.requestSubmit();
    }
  } });
  const grow = () => {
    field.style.height = "auto";
    field.style.height = `${Math.min(200, field.scrollHeight)}px`;
  };
  const error = h("p.error", { role: "alert", hidden: true });
  let key = "";
  let follow = true;
  const end = () => {
    if (follow) scrollTo(0, document.documentElement.scrollHeight);
  };
  const onScroll = () => (follow = document.documentElement.scrollHeight - scrollY - innerHeight < 60);
  addEventListener("scroll", onScroll, { passive: true });
  page.closing(() => removeEventListener("scroll", onScroll));
  const add = (run) => {
    const turn = new ChatTurn(run.run_id, run.request, () => {
      costs.set(run.run_id, turn.head.cost);
      total();
      requestAnimationFrame(end);
    });
    log.append(turn.node);
    if (isOver(run.status) && run.status) {
      api(`/api${runPath(run.run_id)}`).then((view) => turn.take(view), (problem) => turn.foot.append(problem.message));
      return;
    }
    page.closing(stream(`/api${runPath(run.run_id)}/view`, (part, type) => turn.take(part, type), () => turn.head.has_ended));
  };
  const form = h("form.composer", { onsubmit: async (event) => {
    event.preventDefault();
    const text = field.value.trim();
    if (!text || form.isBusy) return;
    form.isBusy = true;
    const isNew = !conversation;
    conversation ||= newId("c-");
    // The same text sent again after a lost reply is the same request.
    key ||= newId("k-");
    try {
      const made = await api("/api/runs", { method: "POST", body: { agent, text, conversation, key } });
      key = "";
      error.hidden = true;
      field.value = "";
      grow();
      follow = true;
      if (isNew) history.replaceState(null, "", to(`/conversations/${encodeURIComponent(conversation)}`));
      add({ run_id: made.run_id, request: text });
      end();
    } catch (problem) {
      if (isNew) conversation = "";
      fill(error, problem.message).hidden = false;
    }
    form.isBusy = false;
    field.focus();
  } }, error, h("div.composerline", field, h("button.primary", "Send")));
  field.addEventListener("input", () => (key = ""));
  fill(page.main, h("div.chat", h("div.inboxhead", h("h1", agent), spent, h("span.grow"), local(`/chat/${encodeURIComponent(agent)}`, { class: "button" }, "New")), log, form));
  runs.forEach(add);
  field.focus({ preventScroll: true });
}

/** One turn of a chat: what was asked, the tools' cards, the text as it comes, what waits. */
class ChatTurn {
  constructor(id, request, changed) {
    this.id = id;
    this.changed = changed;
    this.head = {};
    this.rows = new Map();
    this.messages = new Map();
    this.body = h("div.answers");
    this.open = h("div.prose.open");
    this.pending = h("div.asks");
    this.foot = h("footer.quiet");
    this.node = h("section.turn", h("article.message.user", { "aria-label": "You" }, prose(request ?? "")), this.body, this.open, this.pending, this.foot);
  }

  take(part, type = "view") {
    if (type === "end") return;
    this.head = part.head ?? this.head;
    this.text = part.text ?? "";
    for (const row of part.rows ?? []) this.rows.set(row.id, row);
    for (const message of part.messages ?? []) this.messages.set(message.id ?? message.seq, message);
    this.frame ||= requestAnimationFrame(() => {
      this.frame = 0;
      this.draw();
    });
  }

  draw() {
    const parts = [];
    for (const message of this.messages.values()) {
      // What earlier turns said stands there already.
      if (message.role === "user") parts.length = 0;
      else if (message.role === "assistant" && message.text) parts.push({ key: `m${message.id ?? message.seq}`, at: message.seq, text: message.text });
    }
    for (const row of this.rows.values()) if (row.kind === "tool") parts.push({ key: `r${row.id}`, at: row.seq, row });
    parts.sort((a, b) => a.at - b.at);
    keyed(this.body, parts, (one) => one.key, (one) => (one.row ? toolCard(one.row, this.id) : h("article.message.assistant", { "aria-label": "Assistant" }, prose(one.text))));
    drawPending(this.pending, this.id, this.head.pending ?? [], this.head);
    const { status, error, cost } = this.head;
    fill(this.foot, status === "completed" ? null : [statusBadge(status ?? "queued"), " "], error ? [h("span.error", errorText(error)), " "] : null, local(runPath(this.id), null, "run"), ` ${[took(this.head.took_s), money(cost)].filter(Boolean).join(", ")}`);
    if (this.openText !== this.text) markdown(this.open, this.openText = this.text);
    this.changed();
  }
}

function toolCard(row, id) {
  const isRunning = row.end_s === null || row.end_s === undefined;
  return h("div.toolcard", h("code", row.name), " ", badge(row.word || (isRunning ? "runs" : "done"), isRunning ? "live" : row.tone), row.effect && row.effect !== "none" ? [" ", effectBadge(row.effect)] : null, row.detail ? h("span.quiet", ` ${row.detail}`) : null, local(`${runPath(id)}#${encodeURIComponent(row.id)}`, { class: "quiet to" }, "details"));
}

// ---- Begin -----------------------------------------------------------------------------------------------------

addEventListener("click", (event) => {
  const link = event.target.closest?.("a[href]");
  if (!link || event.defaultPrevented || event.button || event.metaKey || event.ctrlKey || event.shiftKey || event.altKey) return;
  if (link.origin !== location.origin || link.target || link.download || link.hasAttribute("download") || link.hash && link.pathname === location.pathname) return;
  const path = link.pathname + link.search + link.hash;
  if (!link.pathname.startsWith(`${BASE}/`)) return;
  event.preventDefault();
  go(path.slice(BASE.length));
});
addEventListener("popstate", () => show({ isBack: true }));

let chord = 0;
addEventListener("keydown", (event) => {
  if (event.ctrlKey || event.metaKey || event.altKey || event.isComposing || document.querySelector("dialog[open]")) return;
  const at = event.target;
  if (at.matches?.("input, textarea, select")) {
    if (event.key === "Escape") at.blur();
    if (event.key === "Escape") at.closest(".ask")?.ask.close();
    return;
  }
  if (chord && Date.now() - chord < 1500) {
    chord = 0;
    const page = { r: "/", i: "/inbox", c: "/conversations" }[event.key];
    if (page) {
      go(page);
      return;
    }
  }
  if (event.key === "g") chord = Date.now();
  else if (event.key === "?") help();
  else if (event.key === "/") {
    const field = document.querySelector("input[type=search]");
    if (field) {
      event.preventDefault();
      field.focus();
    }
  } else if (event.key === "Escape") at.closest?.(".ask")?.ask.close();
  else for (const handler of [...handlers]) if (handler(event.key, event)) return;
});

async function begin() {
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
  const changed = (part) => {
    if (part?.waits !== undefined && part.waits !== null) waits(part.waits);
    for (const one of listeners) one();
  };
  stream("/api/live", changed);
  await show();
}

begin();
