// Nodes, words and figures. Untrusted text enters the page as text nodes only.


// Invisible characters that change how others are shown: directions, controls, tags, and stray joiners.
const STEERING = /[\u0000-\u0008\u000b\u000c\u000e-\u001f\u007f-\u009f\u00ad\u061c\u180e\u200b\u200e\u200f\u2028-\u202e\u2060-\u206f\ufeff\ufff9-\ufffb\u{e0000}-\u{e0fff}\ud800-\udfff]/gu;
// Attributes that people read.
const READ = new Set(["title", "aria-label", "placeholder", "alt"]);
const codeOf = (char) => `U+${char.codePointAt(0).toString(16).toUpperCase().padStart(4, "0")}`;

/** Text for a place without nodes, with such characters as their codes. */
export const plain = (text) => String(text).replace(STEERING, (char) => `[${codeOf(char)}]`);

/** JSON with such characters escaped, which is the same value. */
export const escaped = (json) => json.replace(STEERING, (char) => [...Array(char.length)].map((_, at) => `\\u${char.charCodeAt(at).toString(16).padStart(4, "0")}`).join(""));

/** Puts text into a node, with each such character as its code, so that it reads as it is. */
function marked(node, text) {
  let last = 0;
  for (const found of text.matchAll(STEERING)) {
    if (found.index > last) node.append(text.slice(last, found.index));
    last = found.index + found[0].length;
    const mark = document.createElement("span");
    mark.className = "mark";
    mark.title = "a character that cannot be seen";
    mark.append(codeOf(found[0]));
    node.append(mark);
  }
  node.append(text.slice(last));
}

// ---- Nodes -----------------------------------------------------------------------------------------------------

/** A node: h("a.link", {href}, "text", node, [nodes]); "on..." properties are listeners, and null is left out. */
export function h(name, given, ...children) {
  const [tag, ...classes] = name.split(".");
  const node = document.createElement(tag || "div");
  if (classes.length) node.className = classes.join(" ");
  if (given instanceof Node || typeof given !== "object" || Array.isArray(given)) children.unshift(given);
  else if (given) {
    for (const [key, value] of Object.entries(given)) {
      if (value === null || value === undefined || value === false) continue;
      if (key.startsWith("on")) node.addEventListener(key.slice(2), value);
      else if (key === "value" || key === "checked") node[key] = value;
      else node.setAttribute(key, value === true ? "" : READ.has(key) ? plain(value) : value);
    }
  }
  put(node, children);
  return node;
}

export const $ = (id) => document.getElementById(id);

export function put(node, children) {
  for (const child of children.flat(Infinity)) {
    if (child === null || child === undefined || child === false || child === "") continue;
    if (typeof child === "string" && child.search(STEERING) >= 0) marked(node, child);
    else node.append(child);
  }
}

export function fill(node, ...children) {
  node.replaceChildren();
  put(node, children);
  return node;
}

/** Resolves when the next frame is painted; at once in a hidden tab, which paints none. */
export const painted = () => new Promise((done) => {
  if (document.hidden) setTimeout(done);
  else requestAnimationFrame(() => setTimeout(done));
});

// How long a frame draws nodes of a list.
const PART_MS = 12;

// A press ends with its click: a node that is replaced in between is not clicked.
/** @type {Promise<void> | null} */
let press = null;
addEventListener("pointerdown", () => {
  press ??= new Promise((done) => {
    const up = () => setTimeout(() => {
      press = null;
      done();
    });
    for (const name of ["pointerup", "pointercancel", "dragend", "blur"]) addEventListener(name, up, { once: true, capture: true });
  });
}, true);

/**
 * Updates the children of a node, which is in the document, to match a list, by key; unchanged items keep their node and
 * focus. No node is replaced while a pointer is pressed. A frame draws for PART_MS, so that a long list does not stall the
 * page (what is off screen is not laid out), and at least *least* nodes, as a busy machine passes the time without drawing.
 * @template T
 * @param {any} parent
 * @param {readonly T[]} list
 * @param {(item: T) => unknown} key
 * @param {(item: T) => any} draw
 * @param {{least?: number, keep?: (node: any, item: T) => unknown}} [options] *keep*: whether it has updated a node itself
 * @returns {Promise<boolean>} whether all are drawn; false if a later call draws the list instead
 */
export async function keyed(parent, list, key, draw, { least = 20, keep = () => false } = {}) {
  const turn = {};
  parent.turn = turn;
  if (press && parent.firstElementChild) await press;
  if (parent.turn !== turn) return false;
  const old = new Map();
  const wanted = new Set(list.map((item) => String(key(item))));
  for (const child of [...parent.children]) {
    if (wanted.has(child.dataset.key)) old.set(child.dataset.key, child);
    else child.remove();
  }
  let at = parent.firstElementChild;
  let left = least;
  let until = performance.now() + PART_MS;
  for (const item of list) {
    const id = String(key(item));
    // Redraw on a new day: dates are shown relative to today.
    const mark = JSON.stringify(item) + new Date().toDateString();
    let node = old.get(id);
    if (node && node.drawnFrom !== mark && keep(node, item)) node.drawnFrom = mark;
    if (!node || node.drawnFrom !== mark) {
      if (left <= 0 && performance.now() > until) {
        await painted();
        if (parent.turn !== turn) return false;
        left = least;
        until = performance.now() + PART_MS;
      }
      left -= 1;
      const made = draw(item);
      made.dataset.key = id;
      made.drawnFrom = mark;
      if (node) {
        const here = node.contains(document.activeElement) ? /** @type {HTMLElement} */ (document.activeElement) : null;
        if (node === at) at = node.nextElementSibling;
        node.replaceWith(made);
        // The same part of it if that has a name, else the item.
        if (here) (made.querySelector(`[data-mark="${CSS.escape(here.dataset.mark ?? "")}"]`) ?? (made.matches("a,[tabindex]") ? made : made.querySelector("a,button")))?.focus({ preventScroll: true });
      }
      node = made;
    }
    if (node === at) at = at.nextElementSibling;
    else if (node.nextElementSibling !== at || node.parentNode !== parent) parent.insertBefore(node, at);
  }
  return true;
}

/** Focuses the part with a name, where there is one. */
export const focusMark = (/** @type {HTMLElement} */ node, /** @type {string | undefined} */ mark) => mark && /** @type {HTMLElement} */ (node.querySelector(`[data-mark="${CSS.escape(mark)}"]`))?.focus({ preventScroll: true });

let spoken = 0;

/** Announces the outcome of an action, visibly and to screen readers, wherever the page is scrolled. */
export function say(text) {
  fill($("said"), text);
  clearTimeout(spoken);
  spoken = setTimeout(() => fill($("said")), 8000);
}

// ---- Words and figures -----------------------------------------------------------------------------------------

export const NUMBER = new Intl.NumberFormat("en-US");
export const many = (n, word) => `${NUMBER.format(n)} ${word}${n === 1 ? "" : "s"}`;

export function took(seconds) {
  if (seconds === null || seconds === undefined) return "";
  if (seconds < 0.0995) return `${Math.round(seconds * 1000)} ms`;
  if (seconds < 9.95) return `${seconds.toFixed(1)} s`;
  if (seconds < 99.5) return `${Math.round(seconds)} s`;
  const minutes = Math.round(seconds / 60);
  if (minutes < 120) return `${minutes} min`;
  return minutes < 2880 ? `${Math.round(minutes / 60)} h` : `${Math.round(minutes / 1440)} d`;
}

/** A time span where there is room for all of it: "2 min 05 s", "1 h 02 min". */
export function duration(seconds) {
  if (seconds === null || seconds === undefined || seconds < 59.5) return took(seconds);
  const whole = Math.round(seconds);
  const two = (n) => String(n).padStart(2, "0");
  if (whole < 3600) return `${Math.floor(whole / 60)} min ${two(whole % 60)} s`;
  if (whole < 86_400) return `${Math.floor(whole / 3600)} h ${two(Math.floor((whole % 3600) / 60))} min`;
  return `${many(Math.floor(whole / 86_400), "day")} ${Math.floor((whole % 86_400) / 3600)} h`;
}

export function money(cost) {
  const total = cost && typeof cost === "object" ? cost.total : cost;
  if (total === null || total === undefined) return "";
  const currency = cost.currency || "USD";
  const value = Number(total);
  const digits = value === 0 || value >= 1 ? 2 : value >= 0.01 ? 3 : 5;
  let text = `${currency} ${value.toFixed(digits)}`;
  try {
    text = value.toLocaleString("en-US", { style: "currency", currency, minimumFractionDigits: digits, maximumFractionDigits: digits });
  } catch {
    // The user's own unit, such as "credits".
  }
  return text + (cost.unpriced_calls ? "+" : "");
}

export function tokensOf(usage) {
  const n = usage && typeof usage === "object" ? usage.total_tokens ?? (usage.input_tokens ?? 0) + (usage.output_tokens ?? 0) : usage;
  return n ? NUMBER.format(n) : "";
}

/** What calls used, in words: tokens in, how many of them cached, and out; "" if that is unknown. */
export const usageWords = (usage) => [usage?.input_tokens && `${NUMBER.format(usage.input_tokens)} in`, usage?.cache_read_tokens && `${NUMBER.format(usage.cache_read_tokens)} of them cached`, usage?.output_tokens && `${NUMBER.format(usage.output_tokens)} out`].filter(Boolean).join(", ");

export function moment(text, { long = false } = {}) {
  if (!text) return "";
  const at = new Date(text);
  const now = new Date();
  const clock = at.toLocaleTimeString("en-GB", long ? { timeZoneName: "short" } : { hour: "2-digit", minute: "2-digit" });
  if (!long && at.toDateString() === now.toDateString()) return clock;
  const isOld = long || at.getFullYear() !== now.getFullYear();
  return `${at.toLocaleDateString("en-GB", { day: "numeric", month: "short", ...(isOld ? { year: "numeric" } : {}) })} ${clock}`;
}

/** A user, with the tenant. */
export const whose = (one) => [one.owner, one.tenant].filter(Boolean).join(" of ");

/** The time zone of the times shown. */
export const zone = () => Intl.DateTimeFormat().resolvedOptions().timeZone;

/** How long ago it was. */
export const ago = (text) => took(Math.max(0, (Date.now() - Date.parse(text)) / 1000));

export const when = (text) => (text ? h("time", { datetime: text, title: moment(text, { long: true }) }, moment(text)) : null);
export const words = (text) => String(text).replaceAll("_", " ");

export const TONES = { completed: "good", failed: "bad", aborted: "bad", input_required: "wait", running: "live", queued: "plain", interrupted: "odd", canceled: "odd" };
export const EFFECTS = {
  unknown: ["unknown", "bad", "It is unknown whether it took effect"],
  applied: ["applied", "odd", "It certainly took effect"],
  none: ["none", "plain", "It certainly did nothing outside"],
};
export const STATUS_WORDS = { input_required: "waits" };

export const badge = (text, tone = "plain", title = null) => h(`span.badge.${tone || "plain"}`, { title }, text);
export const statusBadge = (status, isAnswered = false) => (isAnswered ? badge("answered", "live", "It was answered, and waits for a worker") : badge(STATUS_WORDS[status] ?? words(status), TONES[status]));

export function effectBadge(effect) {
  const [text, tone, title] = EFFECTS[effect || "none"] ?? [effect, "plain", null];
  return text === "none" ? h("span.quiet", { title }, "none") : badge(text, tone, title);
}

// ---- Untrusted text --------------------------------------------------------------------------------------------

// Characters that are invisible, or that change how others are shown.
const HIDDEN = /[\u0000-\u0009\u000b-\u001f\u007f-\u00a0\u00ad\u034f\u061c\u115f\u1160\u1680\u17b4\u17b5\u180b-\u180e\u2000-\u200f\u2028-\u202f\u205f-\u206f\u3000\u3164\ufe00-\ufe0f\ufeff\uffa0\ufff0-\ufffc\u{e0000}-\u{e0fff}\ud800-\udfff]|[ ]+(?=\n|$)|\n|[^\x00-\x7f]/gu;

/** Text with every character visible: hidden ones as their code, line ends and trailing spaces marked. */
export function visible(text) {
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

/** JSON with every character visible; strings keep their line ends. */
export function jsonNode(value) {
  if (typeof value === "string") return h("span.string", "“", visible(value), "”");
  if (value === null || typeof value !== "object") return h("span.number", String(value));
  const entries = Object.entries(value);
  if (!entries.length) return h("span.number", Array.isArray(value) ? "[]" : "{}");
  return h("dl.json", entries.map(([key, one]) => h("div", h("dt", visible(key)), h("dd", jsonNode(one)))));
}
