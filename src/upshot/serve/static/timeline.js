// The timeline of a run: its steps as bars, with those of child runs inside; zoomed by wheel, pinch and keys.

/** @import { Row, RunView } from "api" */

import { effectBadge, fill, h, money, say, tokensOf, took } from "./nodes.js";
import { runPath, stream } from "./site.js";
import { stepDetail } from "./step.js";

// The rows of one section, which is not laid out while it is off screen.
const CHUNK = 10;
const TONES = { good: "good", odd: "odd", bad: "bad", plain: "plain" };
// How far one key, button or notch of the wheel zooms, and the smallest part of a run that is shown.
const FACTOR = 1.5;
const LEAST = 1 / 5000;

export const isLive = (status) => !status || status === "running" || status === "queued";

/** The rows of one run: drawn in the order of their start, those of a child run inside the row that started it. */
export class Rows {
  /**
   * @param {Timeline} timeline
   * @param {string} run
   * @param {number} offset seconds from the start of the page's run
   */
  constructor(timeline, run, offset = 0, depth = 0) {
    this.timeline = timeline;
    this.run = run;
    this.offset = offset;
    this.depth = depth;
    this.status = "running";
    /** @type {Map<string, Row & {id: number, given: Row}>} */
    this.rows = new Map();
    /** @type {Map<string, any>} */
    this.nodes = new Map();
    this.waiting = new Set();
    // The event of the reply that asked for a call, by the call.
    this.askers = new Map();
    /** @type {Map<string, {rows: Rows, close: () => void}>} */
    this.children = new Map();
    this.node = h(depth ? "div.nested" : "div.timeline", { role: "list", "aria-label": depth ? `Steps of child run ${run}` : "Timeline" });
  }

  /** Takes changed rows, which the next drawing shows. */
  take(/** @type {RunView} */ part) {
    this.status = part.head?.status || "queued";
    for (const one of part.messages ?? []) for (const call of one.calls ?? []) this.askers.set(call.id, one.seq);
    for (const one of part.rows ?? []) {
      const id = String(one.id ?? 0);
      const old = this.rows.get(id);
      if (old && JSON.stringify(old.given) === JSON.stringify(one)) continue;
      this.rows.set(id, { ...one, id: one.id ?? 0, given: one });
      this.waiting.add(id);
      this.timeline.reach(this.offset + (one.end_s ?? one.start_s ?? 0));
    }
  }

  /** Draws what changed until the time is up; returns whether all is drawn. */
  draw(until = Infinity) {
    for (const id of this.waiting) {
      if (performance.now() > until) return false;
      this.waiting.delete(id);
      this.place(id, this.rowNode(this.rows.get(id)));
    }
    return true;
  }

  place(id, made) {
    const row = this.rows.get(id);
    made.place = row.start_s ?? 0;
    const old = this.nodes.get(id);
    this.nodes.set(id, made);
    const child = this.children.get(id);
    if (child) made.append(child.rows.node);
    if (old && old.place === made.place) {
      const had = old.contains(document.activeElement);
      old.replaceWith(made);
      if (had) made.querySelector("button.row")?.focus({ preventScroll: true });
      return;
    }
    old?.remove();
    let chunk = this.node.lastElementChild;
    while (chunk?.previousElementSibling && chunk.firstElementChild?.place > made.place) chunk = chunk.previousElementSibling;
    const isLast = !chunk || !(chunk.lastElementChild?.place > made.place);
    if (isLast && (!chunk || chunk.childElementCount >= CHUNK)) {
      const fresh = h("div.chunk", { role: "presentation" });
      if (chunk) chunk.after(fresh);
      else this.node.prepend(fresh);
      chunk = fresh;
    }
    let before = null;
    if (!isLast) for (before = chunk.lastElementChild; before.previousElementSibling?.place > made.place; ) before = before.previousElementSibling;
    chunk.insertBefore(made, before);
  }

  rowNode(/** @type {Row & {id: number}} */ row) {
    const isRunning = row.end_s === null || row.end_s === undefined;
    const tone = TONES[row.tone] ?? (isRunning ? "live" : "plain");
    const seconds = isRunning ? null : row.end_s - (row.start_s ?? 0);
    const word = row.word || (isRunning ? (isLive(this.status) ? "runs" : "no end") : "");
    const bar = h(`span.bar.${tone}`, row.wait_s ? h("span.waited") : null);
    bar.style.setProperty("--s", String(this.offset + (row.start_s ?? 0)));
    if (isRunning) bar.classList.add("unended");
    else bar.style.setProperty("--w", String(Math.max(0, seconds)));
    const wait = /** @type {HTMLElement} */ (bar.firstElementChild);
    if (wait && seconds > 0) wait.style.width = `${Math.min(100, (100 * row.wait_s) / seconds)}%`;
    const key = `${this.run} ${row.id}`;
    const button = h(`button.row.${row.kind}`, { type: "button", "aria-expanded": "false", onclick: () => this.timeline.select(this, row.id, { toggle: true }) },
      h("span.name", h("span.no", String(row.id + 1)), row.child ? h("span", { title: row.child }, `child run …${row.child.slice(-5)}`) : row.name), h("span.track", { "aria-hidden": "true" }, bar),
      h(`span.word.${tone}`, row.effect && row.effect !== "none" ? [effectBadge(row.effect), " "] : null, word, row.note || row.detail ? h("span.quiet", ` ${isRunning && row.note ? row.note : row.detail ?? ""}`) : null),
      ...[["took", row.kind === "mark" || row.lost ? "" : took(seconds)], ["tok", tokensOf(row.usage)], ["cost", money(row.cost)]].map(([name, text]) => text && h(`span.num.${name}`, text)));
    const isOpen = this.children.has(String(row.id));
    const node = h(row.child ? "div.step.parent" : "div.step", { role: "listitem" }, button, row.child ? h("button.twist", { type: "button", "aria-expanded": String(isOpen), "aria-label": `Steps of child run ${row.child}`, onclick: () => this.turn(row) }, h("span", { "aria-hidden": "true" }, "›")) : null);
    node.dataset.row = this.depth ? key : String(row.id);
    if (this.timeline.selected === key) this.expand(node, row);
    return node;
  }

  /** Shows or hides the steps of the child run that a row started. */
  turn(row, isWanted = !this.children.has(String(row.id))) {
    const id = String(row.id);
    const there = this.children.get(id);
    const node = this.nodes.get(id);
    if (!row.child || Boolean(there) === isWanted) return;
    node.querySelector(":scope > .twist").setAttribute("aria-expanded", String(isWanted));
    if (there) {
      there.close();
      there.rows.node.remove();
      this.children.delete(id);
      return;
    }
    const rows = new Rows(this.timeline, row.child, this.offset + (row.start_s ?? 0), this.depth + 1);
    rows.node.append(h("p.quiet", "…"));
    let isEnded = false;
    const stop = stream(`/api${runPath(row.child)}/view`, (part, type) => {
      if (type === "end") return;
      rows.node.querySelector(":scope > p")?.remove();
      isEnded = part.head?.has_ended ?? false;
      rows.take(part);
      rows.draw();
      this.timeline.drawScale();
    }, () => isEnded);
    const close = () => {
      stop();
      for (const one of rows.children.values()) one.close();
    };
    this.timeline.page.closing(close);
    this.children.set(id, { rows, close });
    node.append(rows.node);
  }

  /** The model call that asked for a row, else the last before it, else the next. */
  modelOf(/** @type {Row & {id: number}} */ row) {
    if (row.kind === "model") return row;
    const models = [...this.rows.values()].filter((one) => one.kind === "model" && one.seq);
    const asker = this.askers.get(row.call_id);
    return models.find((one) => asker && one.end_seq === asker) ?? models.filter((one) => one.end_seq && one.end_seq <= row.seq).at(-1) ?? models.find((one) => one.seq > row.seq) ?? null;
  }

  expand(node, row) {
    node.classList.add("on");
    node.firstElementChild.setAttribute("aria-expanded", "true");
    if (node.querySelector(":scope > .detail")) return;
    const stepOf = (seq) => [...this.rows.values()].find((one) => one.seq === seq)?.id ?? null;
    const detail = stepDetail(row, { run: this.run, stepOf, model: this.modelOf(row), onInput: (isOpen) => this.timeline.address(this, row.id, isOpen) });
    node.querySelector(":scope > button:last-of-type").after(detail);
  }
}

export class Timeline {
  /** @param {{id: string, page: any, onSelect: (id: string | null) => void}} owner */
  constructor(owner) {
    this.owner = owner;
    this.page = owner.page;
    this.selected = null;
    this.status = "";
    // The whole run in seconds, and the part that is shown.
    this.length = 0.001;
    this.from = 0;
    this.span = 0;
    this.rows = new Rows(this, owner.id);
    this.scale = h("span.scale");
    this.failure = h("button.plain", { type: "button", title: "x", hidden: true, onclick: () => this.toFailure() }, "First failure");
    const zoom = (sign, label, key) => h("button.plain.icon", { type: "button", "aria-label": label, title: `${label} (${key})`, onclick: () => this.zoom(FACTOR ** sign) }, key);
    this.reset = h("button.plain", { type: "button", title: "0", disabled: true, onclick: () => this.show(0, 0) }, "All");
    this.scroll = h("div.scroll", { tabindex: -1 }, h("div.row.heads", { "aria-hidden": "true" }, h("span", "step"), this.scale, h("span", "outcome"), h("span.num", "took"), h("span.num.tok", "tokens"), h("span.num", "cost")), this.rows.node);
    this.node = h("section.pane", { "aria-label": "Timeline" }, h("div.panehead", h("h2", "Timeline"), h("span.zooms", { role: "group", "aria-label": "Zoom" }, this.failure, zoom(-1, "Zoom out", "−"), zoom(1, "Zoom in", "+"), this.reset)), this.scroll);
    this.scroll.addEventListener("wheel", (event) => this.wheel(event), { passive: false });
    this.pinched();
  }

  /** Makes room for a time; a live run that grows leaves some, so that bars do not move at each event. */
  reach(seconds) {
    if (seconds > this.length) this.length = this.status && isLive(this.status) && this.length > 0.001 ? seconds * 1.25 : seconds;
  }

  drawScale() {
    const span = this.span || this.length;
    const from = this.span ? this.from : 0;
    const style = this.scroll.style;
    style.setProperty("--from", String(from));
    style.setProperty("--span", String(span));
    fill(this.scale, [0, 0.5, 1].map((part) => h("span", took(from + part * span) || "0")));
    this.reset.disabled = !this.span;
  }

  /** The first row that failed, by start; drawn as a button once there is one. */
  firstFailure() {
    let found = null;
    for (const row of this.rows.rows.values()) if (row.tone === "bad" && (!found || (row.start_s ?? 0) < (found.start_s ?? 0))) found = row;
    this.failure.hidden = !found;
    return found;
  }

  toFailure() {
    const row = this.firstFailure();
    if (!row) return false;
    this.rows.turn(row, true);
    this.select(this.rows, row.id);
    this.rows.nodes.get(String(row.id))?.querySelector("button.row").focus({ preventScroll: true });
    return true;
  }

  // ---- Zoom ----------------------------------------------------------------------------------------------------

  /** Shows a part of the run; a span of 0 is all of it. */
  show(from, span) {
    const isAll = !span || span >= this.length;
    this.span = isAll ? 0 : Math.max(span, this.length * LEAST);
    this.from = isAll ? 0 : Math.min(Math.max(0, from), this.length - this.span);
    this.drawScale();
    return true;
  }

  /** Zooms around a part of what is shown, from 0 to 1; by default around the selected step. */
  zoom(factor, around = null) {
    const span = this.span || this.length;
    const [rows, id] = this.place ?? [];
    const row = rows?.rows.get(String(id));
    const middle = around === null && row ? rows.offset + ((row.start_s ?? 0) + (row.end_s ?? this.length)) / 2 : this.from + (around ?? 0.5) * span;
    return this.show(middle - (around ?? 0.5) * (span / factor), span / factor);
  }

  pan(part) {
    if (!this.span) return false;
    return this.show(this.from + part * this.span, this.span);
  }

  wheel(event) {
    // A pinch on a touchpad comes as a wheel with Ctrl.
    if (event.ctrlKey || event.metaKey) {
      event.preventDefault();
      this.zoom(FACTOR ** (-event.deltaY / 60), this.partAt(event.clientX));
    } else if (this.span && (event.shiftKey || Math.abs(event.deltaX) > Math.abs(event.deltaY))) {
      event.preventDefault();
      this.pan((event.deltaX || event.deltaY) / 600);
    }
  }

  /** Where a point of the page is within what is shown, from 0 to 1. */
  partAt(x) {
    const box = this.scale.getBoundingClientRect();
    return Math.min(1, Math.max(0, (x - box.left) / (box.width || 1)));
  }

  /** Two fingers zoom. */
  pinched() {
    let was = 0;
    const apart = (event) => Math.hypot(event.touches[0].clientX - event.touches[1].clientX, event.touches[0].clientY - event.touches[1].clientY);
    this.scroll.addEventListener("touchstart", (event) => (was = event.touches.length === 2 ? apart(event) : 0), { passive: true });
    this.scroll.addEventListener("touchmove", (event) => {
      if (!was || event.touches.length !== 2) return;
      event.preventDefault();
      const now = apart(event);
      this.zoom(now / was, this.partAt((event.touches[0].clientX + event.touches[1].clientX) / 2));
      was = now;
    }, { passive: false });
  }

  // ---- Selection -----------------------------------------------------------------------------------------------

  nodeOf(rows, id) {
    return rows.nodes.get(String(id));
  }

  select(/** @type {Rows} */ rows, id, { toggle = false } = {}) {
    const key = `${rows.run} ${id}`;
    const old = this.place && this.nodeOf(this.place[0], this.place[1]);
    const wasSelected = this.selected === key;
    if (old) {
      old.classList.remove("on");
      old.firstElementChild.setAttribute("aria-expanded", "false");
      old.querySelector(":scope > .detail")?.remove();
    }
    this.selected = toggle && wasSelected ? null : key;
    this.place = this.selected === null ? null : [rows, id];
    if (this.selected === null) {
      this.owner.onSelect(null);
      this.address(null, 0);
      return;
    }
    const node = this.nodeOf(rows, id);
    if (node) {
      rows.expand(node, rows.rows.get(String(id)));
      within(this.scroll, node);
    }
    this.owner.onSelect(rows.depth ? null : String(id));
    this.address(rows, id);
  }

  /** Writes the selected step into the address; a step of a child run has an address of its own page. */
  address(/** @type {Rows | null} */ rows, id, isInput = false) {
    const url = new URL(location.href);
    for (const name of ["step", "call", "input"]) url.searchParams.delete(name);
    if (rows && !rows.depth) url.searchParams.set("step", String(Number(id) + 1));
    if (rows && !rows.depth && isInput) url.searchParams.set("input", "1");
    history.replaceState(history.state, "", url);
  }

  /** Keys of the timeline; returns whether the key was one. */
  key(key, event) {
    const act = { "+": () => this.zoom(FACTOR), "=": () => this.zoom(FACTOR), "-": () => this.zoom(1 / FACTOR), "0": () => this.show(0, 0), "[": () => this.pan(-0.25), "]": () => this.pan(0.25), x: () => this.toFailure(), i: () => this.input(), ArrowRight: () => this.open(true), ArrowLeft: () => this.open(false) }[key];
    if (!act || !act()) return false;
    event.preventDefault();
    return true;
  }

  /** Shows or hides what the model saw for the selected step, the one with the focus, or the last call. */
  input() {
    const focused = document.activeElement?.closest?.("[data-row]");
    const found = focused && this.find(this.rows, focused);
    const last = this.rows.modelOf([...this.rows.rows.values()].at(-1) ?? /** @type {any} */ ({}));
    if (!this.place && found) this.select(found.rows, found.row.id);
    else if (!this.place && last) this.select(this.rows, last.id);
    const button = this.place && this.nodeOf(this.place[0], this.place[1])?.querySelector(":scope > .detail .saw");
    if (button) button.click();
    else say("No model call belongs to this step: the run has asked no model.");
    return true;
  }

  /** Opens or closes the child run of the row with the focus. */
  open(isWanted) {
    const node = document.activeElement?.closest?.("[data-row]");
    if (!node || !this.rows.node.contains(node)) return false;
    const found = this.find(this.rows, node);
    if (!found?.row.child) return false;
    found.rows.turn(found.row, isWanted);
    return true;
  }

  find(/** @type {Rows} */ rows, node) {
    for (const [id, one] of rows.nodes) if (one === node) return { rows, row: rows.rows.get(id) };
    for (const child of rows.children.values()) {
      const found = this.find(child.rows, node);
      if (found) return found;
    }
    return null;
  }
}

/**
 * Scrolls only this box until the top of a node in it is visible. A node gets its size only when it comes into view,
 * and then moves what is below it, so this repeats until nothing moves.
 */
export function within(box, node, left = 12) {
  if (left === 12) box.sought = node;
  if (box.sought !== node || !node.isConnected) return;
  const outer = box.getBoundingClientRect();
  const inner = node.getBoundingClientRect();
  const room = Math.min(60, outer.height / 4);
  const isSeen = inner.top >= outer.top && inner.top + Math.min(inner.height, room) <= outer.bottom;
  if (!isSeen) box.scrollTop += inner.top - outer.top - room;
  if (left > 1) requestAnimationFrame(() => within(box, node, left - 1));
}
