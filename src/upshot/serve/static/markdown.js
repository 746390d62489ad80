// Markdown, drawn as nodes: no HTML, no remote images.

import { h } from "./nodes.js";

const INLINE = /(`+)(.+?)\1(?!`)|(!?)\[([^\]\n]*)\]\(\s*<?([^\s)>]+)>?(?:\s+["'][^)]*["'])?\s*\)|(\*\*|__)(?=\S)(.+?\S?)\6|(?<![\w*])([*_])(?=[^\s*_])(.+?)(?<=\S)\8(?!\w)|~~(.+?)~~|(https?:\/\/[^\s<>()"']+[^\s<>()"'.,;:!?])|\\([!-/:-@[-`{-~])|( {2,}\n|\\\n)/s;

export function link(text, address) {
  let url = null;
  try {
    url = new URL(address);
  } catch {
    // An address of this site, or no address: shown as written.
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

/** Whether a table starts at a line; also if its second line is incomplete, so that the page does not jump. */
function isTable(lines, at) {
  if (!lines[at].includes("|")) return false;
  if (DELIMITER.test(lines[at + 1] ?? "")) return true;
  return ROW.test(lines[at]) && (at + 1 >= lines.length || (at + 2 >= lines.length && /^[ :|-]*$/.test(lines[at + 1])));
}

/** The blocks of a text: lists of lines with their kind; only the last of an unfinished text may change. */
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
    return h("pre", { tabindex: 0, "aria-label": language ? `code in ${language}` : "code", role: "group" }, h("code", lines.slice(1, isClosed ? -1 : undefined).join("\n")));
  }
  if (kind === "heading") return h(`h${Math.min(6, /^ *(#+)/.exec(text)[1].length + 2)}`, inline(text.replace(/^ *#+\s*|\s+#+\s*$/g, "")));
  if (kind === "rule") return h("hr");
  if (kind === "quote") return h("blockquote", blocks(text.replace(/^ {0,3}> ?/gm, "")).map(block));
  if (kind === "list") return listNode(lines);
  if (kind === "table") {
    const body = lines.slice(2).filter((line) => line.trim()).map((line) => h("tr", cells(line).map((cell) => h("td", cell))));
    return h("div.table", { tabindex: 0, role: "group", "aria-label": "table" }, h("table", h("thead", h("tr", cells(lines[0]).map((cell) => h("th", cell)))), h("tbody", body)));
  }
  return h("p", inline(text));
}

/** Draws Markdown into a node; called again with longer text, it redraws only changed blocks. */
export function markdown(node, text) {
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

export const prose = (text) => markdown(h("div.prose"), text);
