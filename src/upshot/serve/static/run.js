// The page of a run.

/** @import { AgentError, Head, Medium, RateLimitState, Replayed, RunView, Said, UnreadAnswer, UnreadAnswers } from "api" */

import { NUMBER, badge, fill, h, many, moment, painted, say, statusBadge, visible, when, whose, words } from "./nodes.js";
import { link, markdown, prose } from "./markdown.js";
import { api, asked, confirmed, go, keys, live, local, may, maybe, rows, runPath, shared, stream, to } from "./site.js";
import { answeredText, drawPending } from "./inbox.js";
import { addToDataset } from "./lab.js";
import { partedAt, sides } from "./compare.js";
import { Notes } from "./notes.js";
import { callNode, copyAs, partNode } from "./step.js";
import { Timeline, isLive, within } from "./timeline.js";
import { copyButton, mediaNode, outputNode, parsed } from "./values.js";
import { Verdict } from "./verdict.js";

// How long one frame draws rows, and half as long messages; the rest follows in the next, so that a long run does not
// stall the page.
const SLICE_MS = 8;
// The timeline follows the transcript once it has rested for so long.
const MARK_MS = 100;
// The messages of one section, which is not laid out while it is off screen.
const CHUNK = 10;
// How often a page that is open looks for notes and settled effects.
const LOOK_MS = 4000;

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
      done();
    }, () => {
      // A stream does not report why it was refused.
      if (!run.drawn) api(`/api${runPath(id)}`).catch(failed);
      return run.head.has_ended && !run.isEarly;
    }));
  }));
  if (!page.isThere()) return;
  rows(page, () => [...run.timeline.rows.node.querySelectorAll("button.row")]);
  live(page, () => run.loadUnread());
  page.closing(keys((key, event) => (key === "f" && run.toEnd()) || run.timeline.key(key, event)));
}

/** The page of a run, updated with parts of its view. */
class RunPanel {
  constructor(page, id) {
    this.page = page;
    this.id = id;
    this.head = /** @type {Head} */ ({});
    /** @type {Map<string, Said & {id: number, mark: string}>} */
    this.messages = new Map();
    this.waiting = new Set();
    // The answers that no session has read yet.
    this.unread = /** @type {readonly UnreadAnswer[]} */ ([]);
    /** @type {Map<string, any>} */
    this.nodes = new Map();
    // The row that an event ended; the message of that event belongs to it.
    this.endedBy = new Map();
    /** @type {Promise<void> | null} */
    this.settling = null;
    this.follow = true;
    this.timeline = new Timeline({ id, page, onSelect: (row) => this.showMessages(row) });
    this.verdict = new Verdict({ id, page, select: (step) => this.timeline.select(this.timeline.rows, step) });
    this.notes = new Notes({ id, page });
    this.transcript = h("div.transcript", { role: "log", "aria-label": "Transcript", "aria-live": "off" });
    this.open = h("article.message.assistant.open", { hidden: true, "aria-label": "Reply so far" }, h("header", h("b", "assistant"), h("span.quiet", " writes")), h("div.prose"));
    this.transcript.append(this.open);
    this.top = h("section.head");
    this.actions = h("div.actions");
    this.pending = h("section.asks", { "aria-label": "What it waits for" });
    this.replayed = h("div.replayed", { role: "status" });
    this.facts = h("div.folds");
    const right = h("section.pane.right", { "aria-label": "Transcript" }, h("div.panehead", h("h2", "Transcript"),
      h("button.plain", { type: "button", onclick: () => this.toEnd(), title: "f" }, "To the end")), h("div.scroll", { tabindex: 0, role: "region", "aria-label": "Messages" }, this.transcript));
    this.leftScroll = this.timeline.scroll;
    this.rightScroll = right.querySelector(".scroll");
    this.rightScroll.addEventListener("scroll", () => {
      const box = this.rightScroll;
      this.follow = box.scrollHeight - box.scrollTop - box.clientHeight < 40;
      this.mark();
    }, { passive: true });
    this.node = h("div.runpage", this.top, this.verdict.node, this.pending, h("div.commands", this.actions, this.notes.thumbs), this.replayed, h("div.folding", this.facts, this.notes.node), this.tabs(), h("div.panes", this.timeline.node, right));
  }

  tabs() {
    const tabs = h("div.tabs", { role: "group", "aria-label": "Show" }, ["Timeline", "Transcript"].map((name) =>
      h("button", { type: "button", "aria-pressed": String(name === "Timeline"), onclick: (event) => {
        for (const one of tabs.children) one.setAttribute("aria-pressed", String(one === event.target));
        this.node.classList.toggle("transcripted", name === "Transcript");
      } }, name)));
    return tabs;
  }

  /** @param {RunView} part */
  take(part, type = "view") {
    if (type === "end") return;
    this.head = part.head ?? this.head;
    // The first part of a long run has only what the list of runs knows.
    this.isEarly = !part.revision && Boolean(part.head?.run_id);
    // The run has not started yet.
    if (!this.head.run_id) this.head.status = "queued";
    this.text = part.text ?? "";
    this.timeline.status = this.head.status;
    this.timeline.rows.take(part);
    if (isLive(this.head.status)) this.timeline.reach(this.head.took_s ?? 0);
    for (const row of part.rows ?? []) if (row.end_seq) this.endedBy.set(row.end_seq, String(row.id ?? 0));
    for (const one of part.messages ?? []) {
      const id = String(one.id ?? 0);
      const mark = `${one.seq} ${one.text?.length} ${one.is_cut}`;
      if (this.messages.get(id)?.mark === mark) continue;
      this.messages.set(id, { ...one, id: one.id ?? 0, mark });
      this.waiting.add(id);
    }
    if (this.drawn) this.settleSoon();
  }

  /** Reads the answers that no session has read yet. */
  async loadUnread() {
    if (this.head.status !== "input_required") return;
    const found = /** @type {UnreadAnswers | null} */ (await maybe(`/api${runPath(this.id)}/unread-answers`));
    if (!found || !this.page.isThere()) return;
    this.unread = found.answers;
    this.drawHead();
  }

  /** Settles after the next frame, in a task of its own: the frame's is for layout and paint. */
  settleSoon() {
    this.settling ??= painted().then(() => {
      this.settling = null;
      this.settle();
    });
  }

  /** Draws the parts received so far, as many as one frame allows. */
  settle() {
    this.drawn = true;
    const until = performance.now() + SLICE_MS;
    this.drawHead();
    this.timeline.drawScale();
    const isWhole = this.timeline.rows.draw(until) && this.drawMessages(until + SLICE_MS / 2);
    this.timeline.firstFailure();
    this.drawAnswer();
    this.open.hidden = !this.text;
    if (this.text !== this.openText) {
      markdown(this.open.lastElementChild, this.text);
      this.open.dataset.length = this.text.length;
    }
    this.openText = this.text;
    if (this.follow && isLive(this.head.status)) this.rightScroll.scrollTop = this.rightScroll.scrollHeight;
    if (this.isEarly) return;
    const status = `${this.head.status} ${this.head.effect}`;
    if (this.drawnFor !== status) {
      this.drawnFor = status;
      this.verdict.load().catch(() => null);
      this.unread = [];
      this.loadUnread().catch(() => null);
    }
    if (!isWhole) {
      this.settleSoon();
      return;
    }
    if (this.isFirst) return;
    this.isFirst = true;
    this.follows();
    requestAnimationFrame(() => this.toWanted());
  }

  /** Reads what others note and settle, while the page is seen: the run's stream has neither. */
  follows() {
    const look = () => {
      if (document.visibilityState === "hidden") return;
      this.notes.load().catch(() => null);
      if (this.head.effect === "unknown") this.verdict.load().catch(() => null);
    };
    const timer = setInterval(look, LOOK_MS);
    document.addEventListener("visibilitychange", look);
    this.page.closing(() => {
      clearInterval(timer);
      document.removeEventListener("visibilitychange", look);
    });
    look();
  }

  /** Shows the step that the address names by its number or call, with what the model saw there. */
  toWanted() {
    const { query } = this.page;
    const all = this.timeline.rows.rows;
    const call = query.get("call");
    const row = call ? [...all.values()].find((one) => one.call_id === call) : all.get(String(Number(query.get("step")) - 1));
    if (!row) return;
    this.timeline.select(this.timeline.rows, row.id);
    if (query.has("input")) this.timeline.input();
  }

  /** The answer if no message has it, as with a graph, a script or a machine. */
  drawAnswer() {
    const { answer } = this.head;
    if (answer === this.drawnAnswer && this.drawnCount === this.messages.size) return;
    this.drawnAnswer = answer;
    this.drawnCount = this.messages.size;
    this.answered?.remove();
    const last = [...this.messages.values()].filter((one) => one.role === "assistant").at(-1);
    if (!answer || (last && answer.startsWith(last.text ?? ""))) return;
    this.answered = h("article.message.assistant.answer", h("header", h("b", "answer")), textNode(answer));
    this.open.before(this.answered);
  }

  /** Draws changed messages in the order of their events until the time is up; returns whether all are drawn. */
  drawMessages(until) {
    for (const id of this.waiting) {
      if (performance.now() > until) return false;
      this.waiting.delete(id);
      const made = this.messageNode(this.messages.get(id));
      const old = this.nodes.get(id);
      this.nodes.set(id, made);
      if (old) {
        old.replaceWith(made);
        continue;
      }
      if (!this.chunk || this.chunk.childElementCount >= CHUNK) {
        const fresh = h("div.chunk", { role: "presentation" });
        if (this.chunk) this.chunk.after(fresh);
        else this.transcript.prepend(fresh);
        this.chunk = fresh;
      }
      this.chunk.append(made);
    }
    return true;
  }

  drawHead() {
    const head = this.head;
    const given = new Map(this.unread.filter((one) => !one.is_part).map((one) => [one.id, one]));
    const waits = head.pending ?? [];
    const isAnswered = waits.length > 0 && waits.every((one) => given.has(pendingId(one)));
    this.verdict.draw(head, this.timeline.rows.rows.values(), isAnswered ? `${[...new Set([...given.values()].map((one) => `${one.by || "An unnamed user"} ${one.did} it`))].join(", ")}. It waits for a worker.` : "");
    const mayWork = may("operate");
    const mark = JSON.stringify([head.status, head.pending, head.answered?.length, head.warnings?.length, head.children?.length, head.artifacts?.length, head.model, head.started_at, head.rate_limit, head.redacted, mayWork, this.unread]);
    if (mark === this.headMark) return;
    this.headMark = mark;
    fill(this.top, h("div.line", statusBadge(head.status ?? "running", isAnswered), h("span.quiet", head.agent), head.owner && h("span.quiet", whose(head)), head.model && h("span.quiet", head.model), head.started_at && h("time.quiet", { datetime: head.started_at }, moment(head.started_at, { long: true })), h("code.id", this.id)),
      h("h1.request", { title: head.request, dir: "auto" }, head.request || "(no text)"),
      head.redacted ? h("p.odd", `The content of this run was removed${head.redacted.by ? ` by ${head.redacted.by}` : ""}`, head.redacted.at ? [", ", when(head.redacted.at)] : null, ".") : null);
    this.drawActions(head, mayWork);
    drawPending(this.pending, this.id, waits.filter((one) => !given.has(pendingId(one))).map((one) => withApprovals(one, this.unread)), head);
    for (const one of waits) {
      const known = given.get(pendingId(one));
      if (known) this.pending.append(h("p.answered", { role: "status", "data-key": `answered ${known.id}` }, h("b", known.by || "An unnamed user"), " ", known.did, " this ", when(known.at), ": ", "tool_name" in one ? h("code", visible(one.tool_name)) : "a question", ". The run waits for a worker."));
    }
    const isOpen = new Set([...this.facts.querySelectorAll("details[open]")].map((one) => /** @type {HTMLElement} */ (one).dataset.name));
    const fold = (name, title, ...nodes) => h("details", { "data-name": name, open: isOpen.has(name) }, h("summary", title), nodes);
    const artifacts = head.artifacts ?? [];
    fill(this.facts, this.linksNode(head),
      (head.warnings ?? []).length ? fold("warnings", h("span.word.odd", many(head.warnings.length, "warning")), h("ul", head.warnings.map((one) => h("li", one.code ? [h("code", one.code), " "] : null, one.message)))) : null,
      artifacts.length ? fold("artifacts", [many(artifacts.length, "artifact"), h("span.quiet", ` ${this.artifactTools(artifacts)}`)], h("ul.artifacts", artifacts.map((one) => h("li", this.artifactName(one), (one.parts ?? []).map((part) => h("div", this.artifactPart(part))))))) : null,
      (head.answered ?? []).length ? fold("answers", `${many(head.answered.length, "answer")} of people`, h("ul", head.answered.map((one) => h("li", answeredText(one))))) : null,
      limits(head.rate_limit, fold));
  }

  /** Where else this run is. */
  linksNode(head) {
    const places = [
      ["conversation", head.conversation && local(`/conversations/${encodeURIComponent(head.conversation)}`, null, head.conversation)],
      ["started by", head.parent_run_id && local(runPath(head.parent_run_id), null, head.parent_run_id)],
      ["child runs", head.children?.length && h("span", head.children.slice(0, 4).map((id, at) => [at ? ", " : "", local(runPath(id), null, id)]), head.children.length > 4 ? ` and ${head.children.length - 4} more` : null)],
      ["trace", shared.me.trace_url && link("its spans", shared.me.trace_url.replaceAll("{run_id}", encodeURIComponent(this.id)))],
    ].filter(([, value]) => value);
    return places.length ? h("dl.places", places.map(([name, value]) => h("div", h("dt", name), h("dd", value)))) : null;
  }

  drawActions(head, mayWork) {
    const act = (text, path, sure = "") => h("button", { type: "button", onclick: (event) => this.act(event.target, text, path, sure) }, text);
    const copyOf = (text, kind, what) => h("button", { type: "button", onclick: async (event) => {
      const made = await copyAs(this.id, kind, what, event.currentTarget);
      if (made?.note) fill(hint, "The same from the command line: ", h("code", made.note), " ", copyButton(() => made.note, "command"));
    } }, text);
    const hint = h("p.quiet", { role: "status" });
    const close = (menu) => {
      menu.open = false;
      menu.firstElementChild.focus();
    };
    fill(this.actions, mayWork && !head.has_ended && [isLive(head.status) && act("Interrupt", "interrupt"), act("Cancel", "cancel", "Cancel this run? Its effects so far stay."), act("Resume", "resume")],
      mayWork && h("button", { type: "button", onclick: (event) => this.replay(event.target) }, "Replay"),
      h("button", { type: "button", onclick: () => this.compare() }, "Compare …"),
      shared.me.datasets && h("button", { type: "button", onclick: () => addToDataset("this run", { runs: [this.id] }) }, "Add to a dataset …"),
      h("details.menu", { onkeydown: (event) => event.key === "Escape" && close(event.currentTarget), onfocusout: (event) => event.relatedTarget && !event.currentTarget.contains(event.relatedTarget) && (event.currentTarget.open = false) }, h("summary.button", "Copy as …"), h("div", copyOf("A test for pytest", "test", "Test"), copyOf("A case of a dataset", "case", "Case"), h("p.quiet", "A model call as curl: in its step."), hint)),
      h("a.button", { href: to(`/api${runPath(this.id)}/export`), download: `${this.id}.html` }, "Save as a file"));
  }

  /** The call that made an artifact; null without one. */
  callOf(one) {
    return /** @type {any} */ ([...this.messages.values()].flatMap((message) => message.calls ?? []).find((each) => each.id === one.name)) ?? null;
  }

  /** The tools that made artifacts, each with how many. */
  artifactTools(artifacts) {
    const counts = new Map();
    for (const one of artifacts) {
      const name = this.callOf(one)?.name ?? one.name ?? "artifact";
      counts.set(name, (counts.get(name) ?? 0) + 1);
    }
    return [...counts].slice(0, 3).map(([name, n]) => (n > 1 ? `${name} (${n})` : name)).join(", ");
  }

  /** The call that made an artifact, with its arguments in one line; without a call, its name. */
  artifactName(one) {
    const call = this.callOf(one);
    if (!call) return h("b", visible(one.name || "artifact"));
    const given = Object.entries(call.arguments ?? {}).map(([name, value]) => `${name}: ${typeof value === "string" ? value : JSON.stringify(value)}`).join(", ");
    return [h("code", call.name), " ", h("span", given.length > 120 ? `${given.slice(0, 120)}…` : given)];
  }

  /** A part of an artifact: media shown, a stored file to save or to read here, anything else as it is. */
  artifactPart(part) {
    if (part.kind === "text") return outputNode(part.text ?? "", "artifact");
    if (["image", "audio", "file"].includes(part.kind) && (part.data || !part.id)) return partNode(part);
    if (part.kind !== "file") return outputNode(JSON.stringify(part.data ?? part), "artifact");
    const address = `/api${runPath(this.id)}/artifacts/${encodeURIComponent(part.id)}`;
    const box = h("div");
    const isText = /^text\/|json/.test(part.media_type ?? "") && (part.size_bytes ?? 0) < 1_000_000;
    return [h("a", { href: to(address), download: part.name || part.id }, visible(part.name || part.id)),
      h("span.quiet", ` ${part.media_type} ${part.size_bytes ? `${part.size_bytes.toLocaleString("en")} bytes` : ""} `),
      isText ? h("button.plain.small", { type: "button", onclick: async (event) => {
        event.currentTarget.remove();
        fill(box, outputNode(await (await fetch(to(address))).text(), "artifact"));
      } }, "Show") : null, box, mediaNode(`${address}/shown`, part.media_type ?? "", part.name)];
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
        h("p", at ? partedAt(at, "It first differs from the log at") : `${many(found.compared, "fact")} of the log compared.`, " Today’s agent and settings were run against the log: no model was asked, no tool was called, nothing was written."),
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

  /** Marks the messages of a row, and scrolls to them. */
  showMessages(row) {
    this.transcript.querySelectorAll(".on").forEach((one) => one.classList.remove("on"));
    if (row === null) return;
    const messages = [...this.transcript.querySelectorAll(`[data-row="${CSS.escape(row)}"]`)];
    messages.forEach((one) => one.classList.add("on"));
    if (messages[0]) within(this.rightScroll, messages[0]);
  }

  messageNode(/** @type {Said & {id: number}} */ message) {
    const role = message.role ?? "assistant";
    const row = this.endedBy.get(message.seq) ?? "";
    const title = row ? h("button.plain.to", { type: "button", title: "Show in the timeline", onclick: () => this.timeline.select(this.timeline.rows, Number(row)) }, `event ${message.seq}`) : h("span.quiet", message.seq ? `event ${message.seq}` : "");
    const node = h(`article.message.${role}`, h("header", h("b", message.name ? `${role} ${message.name}` : role), message.is_error && badge("error", "bad"), h("span.grow"), title),
      this.textOf(message, role), (message.media ?? []).map((one, at) => this.mediumNode(message, one, at)), (message.calls ?? []).map(callNode));
    node.dataset.row = row;
    return node;
  }

  /** The text of a message; a shortened one has a button that reads the rest. */
  textOf(/** @type {Said} */ message, role) {
    if (!message.text) return null;
    const draw = (text) => (role === "tool" ? outputNode(text) : textNode(text));
    if (!message.is_cut) return draw(message.text);
    const box = h("div", role === "tool" ? h("pre.output", { tabindex: 0, role: "group", "aria-label": "output" }, visible(message.text)) : prose(message.text));
    const more = h("button", { type: "button", onclick: async () => {
      try {
        fill(box, draw(wholeText(await api(`/api${runPath(this.id)}/events/${message.seq}`))));
      } catch (error) {
        say(error.message);
      }
    } }, "The text is longer: show all of it");
    box.append(more);
    return box;
  }

  /** An image, sound or document of a message; what is elsewhere is a link, and never fetched. */
  mediumNode(/** @type {Said} */ message, /** @type {Medium} */ one, at) {
    const name = one.name || one.kind;
    if (one.url) return h("p", link(`${one.kind}: ${name}`, one.url));
    return mediaNode(`/api${runPath(this.id)}/events/${message.seq}/media/${at}`, one.media_type ?? "", one.name) ?? h("p.quiet", `${one.kind} ${name} (${one.media_type || "unknown type"})`);
  }

  /** Marks the row of the message at the top of the transcript once it rests: a frame draws new rows in one pane only. */
  mark() {
    clearTimeout(this.marking);
    this.marking = setTimeout(() => {
      const box = this.rightScroll.getBoundingClientRect();
      const found = /** @type {HTMLElement} */ (document.elementFromPoint(box.left + box.width / 2, box.top + 24)?.closest(".message"));
      this.timeline.rows.node.querySelector(".here")?.classList.remove("here");
      if (!found?.dataset.row) return;
      const row = this.timeline.rows.nodes.get(found.dataset.row);
      row?.classList.add("here");
      if (row && this.timeline.selected === null) within(this.leftScroll, row);
    }, MARK_MS);
  }

  toEnd() {
    this.follow = true;
    this.rightScroll.scrollTop = this.rightScroll.scrollHeight;
    this.leftScroll.scrollTop = this.leftScroll.scrollHeight;
    return true;
  }
}

const pendingId = (/** @type {any} */ one) => (one.kind === "pending_approval" ? one.call_id : one.id);

/** What a run waits for, with the approvals that no session has read yet. */
function withApprovals(/** @type {any} */ one, /** @type {readonly UnreadAnswer[]} */ unread) {
  const given = unread.filter((each) => each.is_part && each.id === pendingId(one)).map(({ by, at }) => ({ by, at }));
  return given.length ? { ...one, approved_by: [...(one.approved_by ?? []), ...given] } : one;
}

export const isOver = (status) => !isLive(status) && status !== "input_required";

/** What a model or user said: JSON as a tree, else Markdown. */
const textNode = (text) => (parsed(text) === undefined ? prose(text) : outputNode(text));

/** The whole text of a message, from its event. */
function wholeText(event) {
  const parts = (content) => (typeof content === "string" ? content : (content ?? []).map((part) => part.text ?? "").join(""));
  if (event.record) return JSON.stringify(event.record.outcome.output ?? event.record.outcome);
  if (event.response) return parts(event.response.parts);
  return parts(event.request?.message?.content ?? event.request?.message ?? event.value);
}

export const errorText = (/** @type {AgentError} */ error) => (typeof error === "string" ? error : error.message || words(error.code));

/** The provider's rate-limit windows, with what is left of each. */
/** @param {RateLimitState} found */
function limits(found, fold) {
  const windows = Object.entries(found?.windows ?? {});
  if (!windows.length) return null;
  const facts = (one) => Object.entries(one).filter(([, value]) => value !== null && typeof value !== "object").map(([name, value]) => `${words(name)} ${typeof value === "number" ? NUMBER.format(value) : value}`).join(", ");
  return fold("limits", "Rate limits", h("ul", windows.map(([name, one]) => h("li", h("b", words(one.name ?? name)), " ", facts(one)))));
}
