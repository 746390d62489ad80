// What tools and models gave: JSON as tables and trees, long values folded, media of this site's own origin, and copies.

import { NUMBER, fill, h, jsonNode, many, say, visible } from "./nodes.js";
import { to } from "./site.js";

// A value longer than this is folded; what is drawn of a list at once.
const LONG_CHARS = 900;
const LONG_LINES = 14;
const AT_ONCE = 50;
const MOST_COLUMNS = 12;

const isObject = (value) => value !== null && typeof value === "object" && !Array.isArray(value);

/** Copies a text; where the browser refuses, the text is shown selected. */
export async function copy(text, what) {
  try {
    await navigator.clipboard.writeText(text);
    say(`${what} copied.`);
  } catch {
    const field = h("textarea", { rows: 12, readonly: true, "aria-label": what, value: text });
    const box = h("dialog", { "aria-label": what, onclose: () => box.remove() }, h("p", "The browser does not let this page copy. Copy it from here:"), field, h("form", { method: "dialog" }, h("button", "Close")));
    document.body.append(box);
    box.showModal();
    field.select();
  }
}

export const copyButton = (/** @type {() => string} */ text, what) => h("button.plain.small", { type: "button", "aria-label": `Copy ${what}`, title: `Copy ${what}`, onclick: () => copy(text(), what[0].toUpperCase() + what.slice(1)) }, "Copy");

/** The JSON that a text is, if it is an object or a list; else undefined. */
export function parsed(text) {
  if (!/^\s*[[{]/.test(text)) return undefined;
  try {
    const value = JSON.parse(text);
    return typeof value === "object" && value !== null ? value : undefined;
  } catch {
    return undefined;
  }
}

/** A text of a tool or model: JSON as a table or tree, other text as it is; folded if it is long. */
export function outputNode(text, what = "output") {
  const value = onlyResult(parsed(text) ?? text);
  const isText = typeof value === "string";
  const whole = isText ? h("pre", visible(value)) : valueNode(value);
  const copied = isText ? value : JSON.stringify(value, null, 2);
  const lines = isText ? value.split("\n").length : 1;
  const isLong = copied.length > LONG_CHARS || lines > LONG_LINES;
  const box = h(`div.output${isLong ? ".folded" : ""}`, { tabindex: 0, role: "group", "aria-label": what }, whole);
  const size = lines > 1 ? many(lines, "line") : many(copied.length, "character");
  const turn = isLong && h("button.plain.small", { type: "button", "aria-expanded": "false", onclick: () => {
    const isFolded = box.classList.toggle("folded");
    turn.setAttribute("aria-expanded", String(!isFolded));
    fill(turn, isFolded ? `Show all (${size})` : "Fold");
  } }, `Show all (${size})`);
  return h("div.valued", box, h("div.tools", turn, copyButton(() => copied, what)));
}

/** A tool that returns no mapping has what it returned under "result". */
function onlyResult(value) {
  if (!isObject(value) || Object.keys(value).length !== 1) return value;
  return (typeof value.result === "object" && value.result !== null) || typeof value.result === "string" ? value.result : value;
}

/** JSON as nodes: a list of objects is a table, an object is a list of its fields; what is deep is folded. */
export function valueNode(value, depth = 0) {
  if (Array.isArray(value) && value.length && value.every(isObject)) {
    const columns = [...new Set(value.flatMap(Object.keys))];
    if (columns.length && columns.length <= MOST_COLUMNS) return deep(depth, () => tableNode(value, columns), many(value.length, "row"));
  }
  if (Array.isArray(value) && value.length) return deep(depth, () => listNode(value, depth), many(value.length, "item"));
  if (isObject(value) && Object.keys(value).length) {
    const entries = Object.entries(value);
    return deep(depth, () => h("dl.json", entries.map(([name, one]) => h("div", h("dt", visible(name)), h("dd", valueNode(one, depth + 1))))), many(entries.length, "field"));
  }
  return jsonNode(value);
}

/** What is deeper than two levels is drawn when it is opened. */
function deep(depth, draw, words) {
  if (depth < 2) return draw();
  const box = h("details", { ontoggle: () => box.children.length === 1 && box.append(draw()) }, h("summary", words));
  return box;
}

function listNode(values, depth) {
  const node = h("ol.items");
  return grown(node, values, (one) => h("li", valueNode(one, depth + 1)), node);
}

function tableNode(rows, columns) {
  const isNumber = Object.fromEntries(columns.map((name) => [name, rows.every((row) => row[name] === undefined || row[name] === null || typeof row[name] === "number")]));
  const body = h("tbody");
  const cell = (row, name) => {
    const value = row[name];
    if (value === undefined) return h("td");
    if (typeof value === "string") return h("td", visible(value));
    return h("td", { class: isNumber[name] ? "num" : null }, valueNode(value, 2));
  };
  const table = h("table", h("thead", h("tr", columns.map((name) => h("th", { scope: "col", class: isNumber[name] ? "num" : null }, visible(name))))), body);
  return grown(body, rows, (row) => h("tr", columns.map((name) => cell(row, name))), h("div.table", { tabindex: 0, role: "group", "aria-label": "table" }, table));
}

/** Puts the first of *values* into a node, and a button beside it that draws the rest. */
function grown(node, values, draw, whole) {
  node.append(...values.slice(0, AT_ONCE).map(draw));
  const left = values.length - AT_ONCE;
  if (left <= 0) return whole;
  const more = h("button.plain.small", { type: "button", onclick: () => {
    node.append(...values.slice(AT_ONCE).map(draw));
    more.remove();
  } }, `${NUMBER.format(left)} more`);
  return h("div", whole, more);
}

// ---- Media -----------------------------------------------------------------------------------------------------

const IMAGES = new Set(["image/png", "image/jpeg", "image/gif", "image/webp"]);
const AUDIO = /^audio\/(mpeg|mp3|wav|x-wav|wave|ogg|mp4|aac|flac|webm)$/;

/**
 * An image, a sound or a PDF of this site's own origin; null for anything else. The server checks what it is by its first
 * bytes, and sends it so that no browser runs it.
 * @param {string} address where the bytes are, below "/api"
 * @param {string} type
 */
export function mediaNode(address, type, name = "") {
  const url = to(address);
  if (IMAGES.has(type)) return h("a.picture", { href: url, target: "_blank", rel: "noopener", "aria-label": `Open ${name || "the image"}` }, h("img", { src: url, alt: name || "image", loading: "lazy" }));
  if (AUDIO.test(type)) return h("audio", { src: url, controls: true, preload: "none", "aria-label": name || "sound" });
  if (type === "application/pdf") return h("a.button", { href: url, target: "_blank", rel: "noopener" }, "Open the PDF");
  return null;
}
