// The page of a run, and the comparison of two.

/** @import { AgentError, Begun, Compared, Difference, EffectPage, ForkDraft, Head, NoteList, RateLimitState, Replayed, Row, RunView, Said, SentMessages } from "api" */

import { EFFECTS, NUMBER, badge, effectBadge, fill, h, jsonNode, many, moment, money, say, statusBadge, tokensOf, took, visible, when, whose, words } from "./nodes.js";
import { link, markdown, prose } from "./markdown.js";
import { api, asked, confirmed, go, keys, local, may, maybe, rows, runPath, shared, stream, to } from "./site.js";
import { answeredText, drawPending } from "./inbox.js";
import { effectLine } from "./effects.js";
import { addToDataset } from "./lab.js";

// The rows of one section, which is not laid out while it is off screen.
const CHUNK = 50;
// The rows drawn at once; the rest follows, so that a long run does not stall the page.
const AT_ONCE = 300;
const ROW_TONES = { good: "good", odd: "odd", bad: "bad", plain: "plain" };

export async function runPage(page, id) {
  page.title(`Run ${id}`);
  const run = new RunPanel(page, id);
  await /** @type {Promise<void>} */ (new Promise((done, failed) => {
    page.closing(done);
    page.closing(stream(`/api${runPath(id)}/view`, (part, type) => {
      run.take(part, type);
      if (run.drawn || !page.isThere()) return;
      fill(page.main, run.node);
      run.settle();
      performance.mark("drawn");
      done();
    }, () => {
      // A stream does not report why it was refused.
      if (!run.drawn) api(`/api${runPath(id)}`).catch(failed);
      return run.head.has_ended;
    }));
  }));
  if (!page.isThere()) return;
  rows(page, () => [...run.timeline.querySelectorAll("button.row")]);
  page.closing(keys((key) => key === "f" && run.toEnd()));
}

/** The page of a run, updated with parts of its view. */
class RunPanel {
  constructor(page, id) {
    this.page = page;
    this.id = id;
    this.head = /** @type {Head} */ ({});
    /** @type {Map<string, Row & {id: string, mark: string}>} */
    this.rows = new Map();
    /** @type {Map<string, Said & {id: string, mark: string}>} */
    this.messages = new Map();
    this.selected = null;
    // The row that an event ended; the message of that event belongs to it.
    this.endedBy = new Map();
    this.timeline = h("div.timeline", { role: "list", "aria-label": "Timeline" });
    this.transcript = h("div.transcript", { role: "log", "aria-label": "Transcript", "aria-live": "off" });
    this.open = h("article.message.assistant.open", { hidden: true, "aria-label": "Reply so far" }, h("header", h("b", "assistant"), h("span.quiet", " writes")), h("div.prose"));
    this.top = h("section.head");
    this.pending = h("section.asks", { "aria-label": "What it waits for" });
    this.replayed = h("div.replayed", { role: "status" });
    this.facts = h("section.facts", { "aria-label": "Facts" });
    this.notes = h("section.facts.notes", { "aria-label": "Notes" });
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
    this.node = h("div.runpage", this.top, this.replayed, this.pending, this.facts, this.effects = h("div.facts"), this.notes, tabs, h("div.panes", left, right));
    this.waiting = { rows: new Set(), messages: new Set() };
    this.frame = 0;
  }

  /** @param {RunView} part */
  take(part, type = "view") {
    if (type === "end") return;
    this.head = part.head ?? this.head;
    // The run has not started yet.
    if (!this.head.run_id) this.head.status = "queued";
    this.text = part.text ?? "";
    /** @type {[Map<string, any>, any[], Set<string>][]} */
    const parts = [[this.rows, part.rows, this.waiting.rows], [this.messages, part.messages, this.waiting.messages]];
    for (const [all, given, waiting] of parts) {
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

  /** Draws the parts received so far. */
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
    this.drawNotes().catch(() => null);
    this.drawEffects().catch(() => null);
    const wanted = decodeURIComponent(location.hash.slice(1));
    const row = this.rows.has(wanted) ? wanted : [...this.rows.values()].find((one) => wanted && one.call_id === wanted)?.id;
    if (row) requestAnimationFrame(() => this.select(row));
  }

  /** The answer if no message has it, as with a graph, a script or a machine. */
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

  /** Draws what changed: rows ordered by their start, messages by their event. */
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
      ["effect", effectBadge(head.effect)], ["model", head.model], ["waited", head.waited_s >= 0.1 && took(head.waited_s)], ["began", head.started_at && h("time", { datetime: head.started_at }, moment(head.started_at, { long: true }))],
      ["trace", shared.me.trace_url && link("its spans", shared.me.trace_url.replaceAll("{run_id}", encodeURIComponent(this.id)))],
      ["conversation", head.conversation && local(`/conversations/${encodeURIComponent(head.conversation)}`, null, head.conversation)],
      ["started by", head.parent_run_id && local(runPath(head.parent_run_id), null, head.parent_run_id)],
      ["child runs", head.children?.length && h("span", head.children.slice(0, 8).map((id, at) => [at ? ", " : "", local(runPath(id), null, id)]), head.children.length > 8 ? ` and ${head.children.length - 8} more` : null)],
    ].filter(([, value]) => value);
    const mark = JSON.stringify([head, mayWork]);
    if (mark === this.headMark) return;
    this.headMark = mark;
    const asked = h("h1.request", head.request || "(no text)");
    fill(this.top, h("div.line", statusBadge(head.status ?? "running"), head.error?.code && head.error.code !== head.status ? badge(words(head.error.code), "bad") : null, h("span.quiet", head.agent), head.owner && h("span.quiet", whose(head)), h("code.id", this.id)),
      asked, head.error ? h(head.status === "input_required" ? "p.waits" : "p.error", errorText(head.error)) : null,
      h("dl.figures", figures.map(([name, value]) => h("div", h("dt", name), h("dd", value)))),
      h("div.actions", mayWork && isOpen && [isLive(head.status) && act("Interrupt", "interrupt"), act("Cancel", "cancel", "Cancel this run? What has begun stays done.")],
        mayWork && !head.has_ended && act("Resume", "resume"),
        mayWork && h("button", { type: "button", onclick: (event) => this.replay(event.target) }, "Replay"),
        h("button", { type: "button", onclick: () => this.compare() }, "Compare …"),
        shared.me.datasets && h("button", { type: "button", onclick: () => addToDataset("this run", { runs: [this.id] }) }, "Add to a dataset …"),
        h("a.button", { href: to(`/api${runPath(this.id)}/export`), download: `${this.id}.html` }, "Save as a file")));
    drawPending(this.pending, this.id, head.pending ?? [], head);
    const artifacts = head.artifacts ?? [];
    fill(this.facts,
      head.redacted ? h("p.odd", `What was said in this run was taken out${head.redacted.by ? ` by ${head.redacted.by}` : ""}`, head.redacted.at ? [", ", when(head.redacted.at)] : null, ".") : null,
      (head.warnings ?? []).length ? h("details", { open: true }, h("summary", many(head.warnings.length, "warning")), h("ul", head.warnings.map((one) => h("li", one.code ? [h("code", one.code), " "] : null, one.message)))) : null,
      limits(head.rate_limit),
      artifacts.length ? h("details.artifacts", h("summary", many(artifacts.length, "artifact")), h("ul", artifacts.map((one) => h("li", this.artifactName(one), (one.parts ?? []).map((part) => h("div", this.artifactPart(part))))))) : null,
      (head.answered ?? []).length ? h("details", h("summary", `${many(head.answered.length, "answer")} of people`), h("ul", head.answered.map((one) => h("li", answeredText(one))))) : null);
  }

  /** The effects that happened or may have, with what became known since the run ended. */
  async drawEffects() {
    if (!this.head.effect || this.head.effect === "none") return;
    const found = /** @type {EffectPage} */ (await maybe(`/api/effects?run_id=${encodeURIComponent(this.id)}`));
    const all = found?.effects ?? [];
    if (!all.length || !this.page.isThere()) return;
    const isOpen = all.some((one) => one.state === "unknown" || one.settled);
    fill(this.effects, h("details", { open: isOpen }, h("summary", many(all.length, "effect")), h("ul.effects", all.map(effectLine)),
      all.some((one) => one.settleable && one.state === "unknown") ? local(`/effects?run_id=${encodeURIComponent(this.id)}`, { class: "button" }, "Settle what is unknown") : null));
  }

  /** The notes on the run, and a form to add one. */
  async drawNotes(isOpen = false) {
    const found = /** @type {NoteList} */ (await maybe(`/api${runPath(this.id)}/notes`));
    if (!found || !this.page.isThere()) return;
    const name = h("input", { name: "note", required: true, maxlength: 100, "aria-label": "Name of the note", placeholder: "Name, such as label" });
    const value = h("input", { name: "value", required: true, "aria-label": "What it says", placeholder: "What it says" });
    const said = h("span.error", { role: "status" });
    const keep = async (event) => {
      event.preventDefault();
      try {
        await api(`/api${runPath(this.id)}/note`, { method: "POST", body: { name: name.value.trim(), value: value.value } });
        say("Noted.");
        await this.drawNotes(true);
      } catch (error) {
        fill(said, error.message);
      }
    };
    fill(this.notes, h("details", { open: isOpen }, h("summary", found.notes.length ? many(found.notes.length, "note") : "Notes"),
      h("ul", found.notes.map((one) => h("li", h("b", one.name), ": ", jsonNode(one.value), h("span.quiet", one.by ? ` by ${one.by} ` : " "), when(one.at)))),
      h("form.note", { onsubmit: keep }, name, value, h("button", "Keep"), said)));
  }

  /** The call that made an artifact, with its arguments in one line; without a call, its name. */
  artifactName(one) {
    const calls = [...this.messages.values()].flatMap((message) => message.calls ?? []);
    const call = /** @type {any} */ (calls.find((each) => each.id === one.name));
    if (!call) return h("b", visible(one.name || "artifact"));
    const given = Object.entries(call.arguments ?? {}).map(([name, value]) => `${name}: ${typeof value === "string" ? value : JSON.stringify(value)}`).join(", ");
    return [h("code", call.name), " ", h("span", given.length > 120 ? `${given.slice(0, 120)}…` : given)];
  }

  /** A part of an artifact: a stored file as a download, anything else as it is. */
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
      button.parentNode.querySelector(".error")?.remove();
      button.after(h("span.error", error.message));
    }
    button.disabled = false;
  }

  /** Replays the log with the current agent, and shows whether it would do the same. */
  async replay(button) {
    button.disabled = true;
    try {
      const found = /** @type {Replayed} */ (await api(`/api${runPath(this.id)}/replay`, { method: "POST", body: {} }));
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
      // A longer run shortens all bars; some spare room avoids a redraw at each event of a live run.
      this.span = isLive(this.head.status) && this.span ? span * 1.25 : span;
      for (const row of this.rows.values()) this.place(this.timeline.known?.get(row.id), row);
      fill(this.scale, [0, 0.5, 1].map((part) => h("span", part ? took(part * this.span) : "0")));
    }
  }

  place(node, /** @type {Row} */ row) {
    const bar = node?.querySelector(".bar");
    if (!bar) return;
    const end = row.end_s ?? this.span;
    const left = (100 * (row.start_s ?? 0)) / this.span;
    bar.style.left = `${Math.min(99.5, left)}%`;
    bar.style.width = `${Math.max(0.5, (100 * (end - (row.start_s ?? 0))) / this.span)}%`;
    const wait = bar.firstElementChild;
    if (wait && end > row.start_s) wait.style.width = `${Math.min(100, (100 * row.wait_s) / (end - row.start_s))}%`;
  }

  rowNode(/** @type {Row & {id: string}} */ row) {
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

  expand(node, /** @type {Row} */ row) {
    node.classList.add("on");
    node.firstElementChild.setAttribute("aria-expanded", "true");
    if (node.children.length > 1) return;
    const facts = [["outcome", row.word], ["effect", row.effect && (EFFECTS[row.effect] ? `${row.effect}: ${EFFECTS[row.effect][2].toLowerCase()}` : row.effect)],
      ["denied by", row.gate && `the gate ${row.gate}`], ["why", row.detail && visible(row.detail)], ["last said", row.note && visible(row.note)], ["waited", row.wait_s ? took(row.wait_s) : ""], ["started", row.start_s === undefined ? "" : `${took(row.start_s) || "0 ms"} after the run`],
      ["model", row.kind === "model" && row.model], ["call", row.call_id], ["child run", row.child && local(runPath(row.child), null, row.child)], ["events", row.seq ? `${row.seq}${row.end_seq && row.end_seq !== row.seq ? ` to ${row.end_seq}` : ""}` : ""]].filter(([, value]) => value);
    const raw = h("div.raws");
    const seqs = [...new Set([row.seq, row.end_seq])].filter(Boolean);
    node.append(h("div.detail", h("dl.figures", facts.map(([name, value]) => h("div", h("dt", name), h("dd", value)))),
      h("div.actions", row.kind === "model" && row.seq && h("button", { type: "button", onclick: (event) => this.sent(raw, row.seq, event.target) }, "What it was sent"),
        seqs.map((seq, at) => h("button", { type: "button", onclick: (event) => this.raw(raw, seq, event.target) }, at ? `Result (event ${seq})` : row.kind === "model" ? `Event ${seq}` : `What was asked (event ${seq})`)),
        may("operate") && row.end_seq && h("button", { type: "button", onclick: () => this.fork(row, raw) }, "Fork after this …")), raw));
  }

  /** The messages that a model was sent, in full: the event has only their digests. */
  async sent(box, seq, button) {
    await this.unfold(box, `sent-${this.id}-${seq}`, button, async () => {
      const found = /** @type {SentMessages} */ (await api(`/api${runPath(this.id)}/events/${seq}/sent`));
      return [found.instructions ? h("details", h("summary", "Instructions of the agent"), h("pre.output", visible(found.instructions))) : null,
        found.lacks ? h("p.odd", `${many(found.lacks, "message")} of them, which an engine made for this call, the log does not have.`) : null,
        h("ol.sent", found.messages.map((one) => h("li", h("b", one.role), jsonNode(one.content))))];
    });
  }

  async raw(box, seq, button) {
    await this.unfold(box, `raw-${this.id}-${seq}`, button, async () => jsonNode(await api(`/api${runPath(this.id)}/events/${seq}`)));
  }

  /** Shows something below its button, or removes it again. */
  async unfold(box, id, button, read) {
    const there = document.getElementById(id);
    button.setAttribute("aria-expanded", String(!there));
    if (there) {
      there.remove();
      return;
    }
    button.disabled = true;
    try {
      box.append(h("section.raw", { id, tabindex: 0, role: "region", "aria-label": button.textContent }, await read()));
    } catch (error) {
      box.append(h("p.error", error.message));
    }
    button.disabled = false;
  }

  async fork(/** @type {Row} */ row, box) {
    try {
      const draft = /** @type {ForkDraft} */ (await api(`/api${runPath(this.id)}/fork`, { method: "POST", body: { at: row.end_seq, draft: true } }));
      const again = draft.again;
      const button = h("button.primary", { type: "button", onclick: async () => {
        button.disabled = true;
        try {
          const made = /** @type {Begun} */ (await api(`/api${runPath(this.id)}/fork`, { method: "POST", body: { at: row.end_seq, draft: false } }));
          go(runPath(made.run_id));
        } catch (error) {
          button.disabled = false;
          box.append(h("p.error", error.message));
        }
      } }, "Start the fork");
      fill(box, h("section.draft", h("h3", `Draft of a fork after event ${row.end_seq}`),
        again.length ? [h("p", "These calls came after it, and the fork repeats them; writes need a new approval:"), h("ul", again.map((one) => h("li", one.tool ? ["call of ", h("code", one.tool)] : ["asks ", h("code", one.model ?? "the model")], h("span.quiet", ` event ${one.seq}`))))]
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
    history.replaceState(history.state, "", `#${encodeURIComponent(id)}`);
  }

  messageNode(/** @type {Said} */ message) {
    const role = message.role ?? "assistant";
    const row = this.endedBy.get(message.seq) ?? "";
    const title = row ? h("button.plain.to", { type: "button", title: "Show in the timeline", onclick: () => this.select(row) }, `event ${message.seq}`) : h("span.quiet", message.seq ? `event ${message.seq}` : "");
    const node = h(`article.message.${role}`, h("header", h("b", message.name ? `${role} ${message.name}` : role), message.is_error && badge("error", "bad"), h("span.grow"), title), ...this.bodyOf(message, role));
    node.dataset.row = row;
    return node;
  }

  bodyOf(/** @type {Said} */ message, role) {
    return [message.text && (role === "tool" ? h("pre.output", { tabindex: 0, role: "region", "aria-label": "output" }, visible(message.text)) : prose(message.text)),
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
      const found = /** @type {HTMLElement} */ (document.elementFromPoint(box.left + box.width / 2, box.top + 24)?.closest(".message"));
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

export const isOver = (status) => !isLive(status) && status !== "input_required";
const isLive = (status) => !status || status === "running" || status === "queued";

/**
 * Scrolls only this box until the top of a node in it is visible. A node gets its size only when it comes into view,
 * and then moves what is below it, so this repeats until nothing moves.
 */
function within(box, node, left = 12) {
  if (left === 12) box.sought = node;
  if (box.sought !== node || !node.isConnected) return;
  const outer = box.getBoundingClientRect();
  const inner = node.getBoundingClientRect();
  const room = Math.min(60, outer.height / 4);
  const isSeen = inner.top >= outer.top && inner.top + Math.min(inner.height, room) <= outer.bottom;
  if (!isSeen) box.scrollTop += inner.top - outer.top - room;
  if (left > 1) requestAnimationFrame(() => within(box, node, left - 1));
}

export function callNode(call) {
  return h("div.call", h("div.callhead", h("code", call.name ?? call.tool_name), call.word ? badge(call.word, call.tone) : null, call.effect && call.effect !== "none" ? effectBadge(call.effect) : null),
    call.arguments !== undefined && jsonNode(call.arguments));
}

export const errorText = (/** @type {AgentError} */ error) => (typeof error === "string" ? error : error.message || words(error.code));

/** The provider's rate-limit windows, with what is left of each. */
/** @param {RateLimitState} found */
function limits(found) {
  const windows = Object.entries(found?.windows ?? {});
  if (!windows.length) return null;
  const facts = (one) => Object.entries(one).filter(([, value]) => value !== null && typeof value !== "object").map(([name, value]) => `${words(name)} ${typeof value === "number" ? NUMBER.format(value) : value}`).join(", ");
  return h("details", h("summary", "Rate limits"), h("ul", windows.map(([name, one]) => h("li", h("b", words(one.name ?? name)), " ", facts(one)))));
}

export async function comparePage(page, id, other) {
  page.title("Compare");
  const found = /** @type {Compared} */ (await api(`/api${runPath(id)}/compare/${encodeURIComponent(other)}`));
  if (!page.isThere()) return;
  const at = found.difference;
  fill(page.main, h("h1", "Two runs compared"),
    h("p", at ? partedAt(at, "Of the first run, they part at") : "They said and did the same."),
    sides([[id, at?.recorded], [other, at?.replayed]].map(([run, value]) => [local(runPath(run), null, run), value]), !at));
}

/** Where two runs differ, in words. */
const partedAt = (/** @type {Difference} */ at, begin) => [`${begin} `, h("b", at.seq ? `event ${at.seq}` : "what comes after its last event"), `: ${words(at.kind)}${at.part ? `, ${at.part}` : ""}.`, at.asked ? ` It asked for ${at.asked}.` : ""];

/** What each of two runs said at that place. */
const sides = (both, isSame = false) =>
  h("div.sides", both.map(([name, value]) => h("section.pane", h("div.panehead", h("h2", name)), h("div.side", isSame ? h("p.quiet", "no difference") : value === null || value === undefined ? h("p.quiet", "nothing more") : jsonNode(value)))));
