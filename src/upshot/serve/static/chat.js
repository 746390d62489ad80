// Chat with an agent.

/** @import { Begun, ConversationList, Head, Row, RunList, RunSummary, RunView, Said } from "api" */

import { badge, duration, effectBadge, fill, h, keyed, many, money, statusBadge, tokensOf, when } from "./nodes.js";
import { markdown, prose } from "./markdown.js";
import { Refusal, api, listQuery, local, maybe, runPath, shared, stream, to } from "./site.js";
import { errorText, isOver } from "./run.js";
import { drawPending } from "./inbox.js";

function newId(prefix) {
  return prefix + [...crypto.getRandomValues(new Uint8Array(9))].map((byte) => byte.toString(36).padStart(2, "0")).join("").slice(0, 16);
}

export async function conversationsPage(page) {
  page.title("Chat");
  const found = /** @type {ConversationList} */ (await maybe("/api/conversations"));
  if (!page.isThere()) return;
  const all = found?.conversations ?? [];
  fill(page.main, h("h1", "Chat"), h("div.chips", shared.me.agents.map((one) => local(`/chat/${encodeURIComponent(one.id)}`, { class: "button", title: one.description }, `New with ${one.id}`))),
    h("ol.runs", all.map((one) => h("li", local(`/conversations/${encodeURIComponent(one.id)}`, { class: "run talk" }, h("span.asked", h("span.request", one.title || one.id), h("span.quiet.sub", h("code", one.id), one.revision ? h("span", many(one.revision, "turn")) : null, one.waiting ? h("span", `${one.waiting} waiting`) : null)), h("span.figures", h("span.figure", money(one.cost)), h("span.figure.when", when(one.last_at))))))),
    all.length ? null : h("p.empty", "No conversations yet."));
}

export async function chatPage(page, { conversation = "", agent = "" }) {
  page.title("Chat");
  /** @type {RunSummary[]} */
  let runs = [];
  let before = "";
  /** A page of the turns, oldest first: those before a run, "" for the newest. */
  const older = async (/** @type {string} */ before) => {
    const found = /** @type {RunList} */ (await api(`/api/runs${listQuery({ conversation, before })}`));
    return { runs: found.runs.filter((run) => !run.parent_run_id).reverse(), next: found.next ?? "" };
  };
  if (conversation) {
    const found = await older("");
    runs = found.runs;
    before = found.next;
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
  const add = (run, first = null) => {
    const turn = new ChatTurn(run.run_id, run.request, () => {
      costs.set(run.run_id, turn.head.cost);
      total();
      if (!first) requestAnimationFrame(end);
    });
    log.insertBefore(turn.node, first);
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
    // Resending the same text after a lost reply is the same request.
    key ||= newId("k-");
    try {
      const made = /** @type {Begun} */ (await api("/api/runs", { method: "POST", body: { agent, text, conversation, key } }));
      key = "";
      conversation = made.conversation;
      error.hidden = true;
      field.value = "";
      grow();
      follow = true;
      if (isNew) history.replaceState(history.state, "", to(`/conversations/${encodeURIComponent(conversation)}`));
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
  const earlier = h("p.earlier", h("button", { type: "button", onclick: async (event) => {
    event.target.disabled = true;
    try {
      const found = await older(before);
      const first = earlier.nextSibling;
      follow = false;
      for (const run of found.runs) add(run, first);
      before = found.next;
      earlier.hidden = !before;
    } catch (problem) {
      fill(error, problem.message).hidden = false;
    }
    event.target.disabled = false;
  } }, "Earlier turns"), h("span.quiet", " These are the newest ones; costs are those of the turns that are shown."));
  earlier.hidden = !before;
  log.append(earlier);
  for (const run of runs) add(run);
  field.focus({ preventScroll: true });
}

/** One turn of a chat: the question, the tools' cards, the text as it arrives, what waits. */
class ChatTurn {
  constructor(id, request, changed) {
    this.id = id;
    this.changed = changed;
    this.head = /** @type {Head} */ ({});
    /** @type {Map<number, Row>} */
    this.rows = new Map();
    /** @type {Map<number, Said>} */
    this.messages = new Map();
    this.body = h("div.answers");
    this.open = h("div.prose.open");
    this.pending = h("div.asks");
    this.foot = h("footer.quiet");
    this.node = h("section.turn", h("article.message.user", { "aria-label": "You" }, prose(request ?? "")), this.body, this.open, this.pending, this.foot);
  }

  /** @param {RunView} part */
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
      // The messages of earlier turns are on the page already.
      if (message.role === "user") parts.length = 0;
      else if (message.role === "assistant" && message.text) parts.push({ key: `m${message.id ?? message.seq}`, at: message.seq, text: message.text });
    }
    for (const row of this.rows.values()) if (row.kind === "tool") parts.push({ key: `r${row.id}`, at: row.seq, row });
    parts.sort((a, b) => a.at - b.at);
    keyed(this.body, parts, (one) => one.key, (one) => (one.row ? toolCard(one.row, this.id) : h("article.message.assistant", { "aria-label": "Assistant" }, prose(one.text))), { least: Infinity });
    drawPending(this.pending, this.id, this.head.pending ?? [], this.head);
    const { status, error, cost } = this.head;
    fill(this.foot, status === "completed" ? null : [statusBadge(status ?? "queued"), " "], error ? [h(status === "input_required" ? "span.waits" : "span.error", errorText(error)), " "] : null, local(runPath(this.id), null, "run"), ` ${[duration(this.head.took_s), money(cost), tokensOf(this.head.usage) && `${tokensOf(this.head.usage)} tokens`].filter(Boolean).join(", ")}`);
    if (this.openText !== this.text) markdown(this.open, this.openText = this.text);
    this.changed();
  }
}

/**
 * @param {Row} row
 * @param {string} id
 */
function toolCard(row, id) {
  const isRunning = row.end_s === null || row.end_s === undefined;
  return h("div.toolcard", h("code", row.name), " ", badge(row.word || (isRunning ? "runs" : "done"), isRunning ? "live" : row.tone), row.effect && row.effect !== "none" ? [" ", effectBadge(row.effect)] : null, row.detail ? h("span.quiet", ` ${row.detail}`) : null, local(`${runPath(id)}?step=${(row.id ?? 0) + 1}`, { class: "quiet to" }, "details"));
}
