// What waits for people: the inbox, and questions on the page of a run.

/** @import { Answered, EffectPage, Grant, GrantList, EarlierDecisions, Head, InboxEntry, InboxPage, Outdated, Pending, PendingApproval, PendingEffect, PendingExternal, PendingQuestion, RunView, Taken } from "api" */

/** @import { Compared } from "./alike.js" */

import { alikePage, compare, marks } from "./alike.js";
import { checkNow, fact, kept, mayHave, seen, words } from "./effects.js";
import { NUMBER, ago, badge, effectBadge, escaped, fill, h, jsonNode, keyed, many, moment, say, took, visible, when, whose } from "./nodes.js";
import { prose } from "./markdown.js";
import { api, chips, confirmed, keys, listQuery, live, local, may, maybe, rows, runPath, shared } from "./site.js";

/** @param {any} decision */
function decisionText(decision) {
  const reason = decision?.reason ? `: ${decision.reason}` : "";
  return { approve: "approved it", deny: `denied it${reason}`, edit: "approved it with other arguments", answer: "answered it" }[decision?.kind] ?? "answered it";
}

/** The outcomes of several answers: each once, with their number where they differ. */
function counted(said) {
  const each = [...new Set(said)];
  if (each.length === 1) return each[0];
  return each.map((one) => `${said.filter((other) => other === one).length} of ${said.length}: ${one}`).join(" ");
}

/** Who answered what, when, and what they had been shown. */
/** @param {Pick<Answered, "at" | "seq"> & {answer: any, asked?: any}} answered */
export function answeredText({ answer, asked, at, seq }) {
  const what = asked?.tool_name ? h("code", asked.tool_name) : asked?.question ?? asked?.description ?? "";
  const seen = asked?.arguments ? h("details", h("summary", "what was shown"), jsonNode(asked.arguments)) : null;
  const made = answer.kind === "edit" ? h("details", h("summary", "what it became"), jsonNode(answer.arguments ?? {})) : answer.kind === "answer" ? [": ", jsonNode(answer.value ?? null)] : null;
  return [h("b", answer.by || "An unnamed user"), ` ${decisionText(answer)}`, what ? [": ", what] : null, " ", when(at), seq ? h("span.quiet", ` event ${seq}`) : null, seen, made];
}

/** @typedef {Omit<PendingApproval, "kind"> & Omit<PendingEffect, "kind"> & Omit<PendingQuestion, "kind"> & Omit<PendingExternal, "kind"> & {kind: string}} AnyPending */
/** @typedef {Partial<Omit<InboxEntry, "pending">> & {run_id: string, pending: AnyPending, inPlace?: boolean, compared?: Compared}} Item */

/** Shows the questions of one run, to answer in place; closed ones are removed. */
/**
 * @param {HTMLElement} node
 * @param {string} runId
 * @param {Pending[]} pending
 * @param {Head} head
 */
export function drawPending(node, runId, pending, head) {
  const items = pending.map((one) => /** @type {Item} */ ({ run_id: runId, agent_id: head.agent, pending: one, inPlace: true }));
  keyed(node, items, (item) => item.pending.digest || itemId(item), (item) => new Ask([item]).node, { keep: (one, item) => one.ask?.isInUse() && one.ask.refresh([item]) });
}

const itemId = (/** @type {Item} */ item) => (item.pending.kind === "pending_approval" ? item.pending.call_id : item.pending.id);
const itemKey = (/** @type {Item} */ item) => `${item.run_id}/${itemId(item)}/${item.pending.digest ?? ""}/${item.pending.approved_by?.length ?? 0}`;

/** Whether the signed-in user has given one of the approvals that a call needs. */
const isApprovedByMe = (/** @type {Item} */ item) => (item.pending.approved_by ?? []).some((one) => one.by === shared.me.user?.id);

/** How many more users must approve a call; 0 if one is enough. */
const missing = (/** @type {AnyPending} */ p) => ((p.approvals ?? 1) > 1 ? Math.max(0, (p.approvals ?? 1) - (p.approved_by?.length ?? 0)) : 0);

/** One item, or several equal ones together: what will happen, why it is asked, and buttons to answer. */
class Ask {
  /** @param {Item[]} items */
  constructor(items) {
    this.items = items;
    const [{ pending }] = items;
    this.pending = pending;
    this.isApproval = pending.kind === "pending_approval";
    this.isEffect = pending.kind === "pending_effect";
    this.form = h("div.form");
    this.result = h("div.result", { role: "status" });
    this.node = h("article.ask", { tabindex: 0, "aria-label": this.title() }, this.headNode(), this.isApproval ? this.callNode() : this.isEffect ? this.effectNode() : this.questionNode(), this.from = this.fromNode(), this.form, this.buttons = h("div.actions", this.actions()), this.result);
    this.node.ask = this;
  }

  title() {
    const n = this.items.length > 1 ? `${this.items.length} equal: ` : "";
    return n + (this.isApproval ? `${this.pending.tool_name}` : this.pending.question ?? this.pending.description ?? "waits");
  }

  headNode() {
    const p = this.pending;
    return h("header", h("h2", this.isApproval ? ["Call ", h("code", visible(p.tool_name))] : this.isEffect ? ["Did this happen? ", h("code", visible(p.tool_name))] : p.kind === "pending_question" ? "Question" : "Result of another system"),
      this.isApproval && badge(p.effect ?? "write", p.effect === "destructive" ? "bad" : "odd", "what the tool may do"),
      this.isEffect && effectBadge("unknown"),
      this.items.length > 1 && badge(`${this.items.length} equal`, "plain"),
      this.items.some((one) => one.compared?.isWrong) ? badge("contradicts the request", "bad") : this.items.some((one) => one.compared?.odd.size) ? badge("stands out", "bad") : null,
      h("span.grow"), this.dueNode(), this.waitsNode());
  }

  /** When the answer is due: the earliest of equal items. */
  dueNode() {
    const due = this.items.map((one) => one.pending.expires_at).filter(Boolean).sort()[0];
    return due ? h("span.due", this.items.length > 1 ? "the first is due " : "due ", when(due), h("span.quiet", this.isApproval ? ", then it is asked again" : ", then the run continues without it")) : null;
  }

  /** How long it has waited: the longest of equal items. */
  waitsNode() {
    const since = this.items.map((one) => one.pending.asked_at).filter(Boolean).sort()[0];
    return since ? h("span.quiet", { title: moment(since, { long: true }) }, `waits ${this.items.length > 1 ? "up to " : ""}${ago(since)}`) : null;
  }

  callNode() {
    const p = this.pending;
    const [item] = this.items;
    const description = item.description;
    const doubts = p.doubts ?? [];
    return [description && h("p.quiet", description), h("div.arguments", { "aria-label": "Arguments" }, jsonNode(p.arguments ?? {})),
      this.items.map((one) => one.compared?.odd.size ? [this.items.length > 1 && h("p.quiet", one.request || one.run_id), marks(one.compared)] : null),
      (p.reason || p.taint || doubts.length) ? h("div.why", h("b", "Why it is asked: "), p.reason || "the run has read untrusted content",
        p.taint ? h("div", "Untrusted: ", jsonNode(p.taint)) : null, doubts.length ? h("ul", doubts.map((one) => h("li", jsonNode(one)))) : null) : h("p.quiet", "A rule asks for approval of each such call."),
      this.approversNode(), item.inPlace ? null : this.beforeNode(item)];
  }

  /** Whether a user is at it, or has typed into it. */
  isInUse() {
    return this.node.contains(document.activeElement) || [...this.node.querySelectorAll("input, textarea")].some((/** @type {any} */ one) => one.value !== one.defaultValue);
  }

  /** Shows approvals that other users have given since, and keeps the focus and what was typed; returns true. */
  refresh(items) {
    if (this.isDone || this.isBusy) return true;
    this.items = items;
    this.pending = items[0].pending;
    const shown = this.approversNode();
    const old = this.node.querySelector(".approvers");
    if (!shown || !old || shown.textContent === old.textContent) return true;
    old.replaceWith(shown);
    say(shown.textContent ?? "");
    return true;
  }

  /** Who has approved a call that several users must approve. */
  approversNode() {
    const p = this.pending;
    if ((p.approvals ?? 1) < 2) return null;
    if (this.items.length > 1) return h("p.approvers", h("b", `Each needs ${p.approvals} different users.`));
    const given = (p.approved_by ?? []).map((one) => h("li", h("b", one.by), one.by === p.edited_by ? " changed the arguments and approved them " : " approved it ", when(one.at)));
    return h("div.approvers", h("b", `Needs ${p.approvals} different users; ${missing(p)} more must approve it.`), given.length ? h("ul", given) : null);
  }

  /** Earlier decisions about such calls, loaded on request. */
  beforeNode(/** @type {Item} */ item) {
    const list = h("ul");
    const show = async () => {
      const found = /** @type {EarlierDecisions} */ (await maybe(`/api/inbox/${encodeURIComponent(item.run_id)}/${encodeURIComponent(itemId(item))}/before`));
      const rows = (found?.answered ?? []).map((one) => h("li", one.same ? badge("the same arguments", "plain") : null, " ", answeredText(one), " in ", local(runPath(one.run_id), null, "its run")));
      fill(list, rows.length ? rows : h("li.quiet", found ? "Nothing: none of the newest runs asked about this tool." : "It no longer waits: it was answered."));
    };
    return h("details.before", { ontoggle: (event) => event.target.open && !list.childElementCount && show() }, h("summary", "Earlier decisions like it"), list);
  }

  /** All that helps to find out whether a call took effect. */
  effectNode() {
    const p = this.pending;
    return [mayHave({ tool: p.tool_name, declared: p.effect ?? "write", since: p.started_at, lookup: this.items[0].lookup }), h("div.arguments", { "aria-label": "Arguments" }, jsonNode(p.arguments ?? {})),
      h("dl.json", fact("began", when(p.started_at)), fact("ended", when(p.ended_at)), fact("the tool said", p.error && kept(p.error)), fact("idempotency key", p.idempotency_key && h("code", p.idempotency_key)), fact("call", h("code", p.call_id)))];
  }

  /** Buttons to say whether it happened, or to ask verify. */
  settling() {
    const settle = async (/** @type {boolean} */ applied) => {
      const note = await seen(this.pending.tool_name ?? "", applied);
      if (note !== null) this.send((item) => ({ kind: "answer", id: item.pending.id, value: applied ? "yes" : "no", ...(item.pending.digest ? { digest: item.pending.digest } : {}), ...(note ? { note } : {}) }));
    };
    const check = async () => (await checkNow(this.pending.id, this.result)) && this.finish(this.result.textContent ?? "");
    return [h("button", { type: "button", onclick: () => settle(true) }, "It happened"), h("button", { type: "button", onclick: () => settle(false) }, "It did not happen"),
      h("button", { type: "button", title: "asks the tool's verify", onclick: check }, "Check now")];
  }

  questionNode() {
    const p = this.pending;
    return h("div.question", prose(p.question ?? p.description ?? ""));
  }

  fromNode() {
    if (this.items.length === 1 && this.items[0].inPlace) return null;
    const isOne = this.items.length === 1;
    return h("ul.from", this.items.map((item) => h("li", h("b.owner", { title: "owner of the run" }, whose(item) || "no owner"), local(runPath(item.run_id), null, item.request || item.run_id),
      item.conversation && h("span.quiet", "in ", local(`/conversations/${encodeURIComponent(item.conversation)}`, null, item.title && item.title !== item.request ? item.title : "its conversation")),
      h("span.quiet", item.agent_id, item.assigned ? `, assigned to ${item.assigned.to}` : "", isOne || !item.pending.asked_at ? "" : `, waits ${ago(item.pending.asked_at)}`), isOne || !item.pending.expires_at ? null : h("span.due", "due ", when(item.pending.expires_at)), this.assignNode(item),
      this.items.length > 1 && this.mayAnswer() && h("span.actions", h("button", { type: "button", onclick: () => this.send((one) => this.approval(one), [item]) }, "Approve this one"), h("button", { type: "button", onclick: () => this.deny([item]) }, "Deny this one")))));
  }

  /** Assigns an item to the user, or removes the assignment. */
  assignNode(/** @type {Item} */ item) {
    const me = shared.me.user?.id;
    if (!this.mayAnswer()) return null;
    const isMine = item.assigned?.to === me;
    return h("button.quiet", { type: "button", onclick: async () => {
      try {
        await api(`/api/inbox/${encodeURIComponent(item.run_id)}/${encodeURIComponent(itemId(item))}/assign`, { method: "POST", body: { to: isMine ? "" : me } });
        item.assigned = isMine ? null : { to: me, by: me, at: new Date().toISOString() };
        const shown = this.fromNode();
        this.from.replaceWith(shown);
        this.from = shown;
      } catch (error) {
        fill(this.result, h("p.error", error.message));
      }
    } }, isMine ? "Give it back" : "Take it");
  }

  actions() {
    if (!this.mayAnswer()) return h("p.quiet", "Other users answer this.");
    const later = !this.items[0].inPlace && h("button", { type: "button", title: "n", onclick: () => this.later() }, "Not now");
    if (!this.isApproval) return [...(this.isEffect ? this.settling() : this.choices()), later];
    const all = this.items.length > 1 ? ` all ${this.items.length}` : "";
    const isDestructive = this.pending.effect === "destructive";
    const isMine = this.items.every(isApprovedByMe);
    return [
      isMine ? h("span.quiet", "You have approved it; another user must.") : h(isDestructive ? "button.danger" : "button.primary", { type: "button", title: "a", onclick: () => this.approve() }, `Approve${all}${all && " …"}`),
      h("button", { type: "button", title: "d", onclick: () => this.deny() }, `Deny${all}`),
      this.items.length === 1 && h("button", { type: "button", title: "e", onclick: () => this.edit() }, "Edit"),
      !isDestructive && this.items.length === 1 && !missing(this.pending) && h("details.always", h("summary", "Always"), h("div", h("button", { type: "button", onclick: () => this.approve("arguments") }, "for these arguments"), h("button", { type: "button", onclick: () => this.approve("tool") }, "for this tool, in this conversation or run"))),
      later];
  }

  mayAnswer() {
    return this.items[0].answerable ?? (may("answer") || this.pending.audience === "user" || !this.isApproval);
  }

  approval(/** @type {Item} */ item, always = "") {
    const { call_id, digest } = item.pending;
    return { kind: "approve", call_id, ...(digest ? { digest } : {}), ...(always ? { always } : {}) };
  }

  async approve(always = "") {
    if (this.isDone || this.items.every(isApprovedByMe)) return;
    if (this.items.length > 1) {
      this.approveAll();
      return;
    }
    if (this.pending.effect === "destructive" && !(await confirmed(`${this.pending.tool_name} is destructive: it cannot be undone. Approve?`, "Approve"))) return;
    await this.send((item) => this.approval(item, always));
  }

  /** Equal calls of several runs may be one intent that arrived several times: the user is asked, and no key answers. */
  approveAll() {
    const n = this.items.length;
    const [oldest] = [...this.items].sort((a, b) => String(a.pending.asked_at ?? "").localeCompare(String(b.pending.asked_at ?? "")));
    const others = this.items.filter((one) => one !== oldest);
    const runs = new Set(this.items.map((one) => one.run_id)).size;
    const owners = new Set(this.items.map(whose)).size;
    const reason = "The same call of another run was approved.";
    const denial = (/** @type {Item} */ item) => ({ kind: "deny", call_id: item.pending.call_id, reason, ...(item.pending.digest ? { digest: item.pending.digest } : {}) });
    const all = h(this.pending.effect === "destructive" ? "button.danger" : "button.primary", { disabled: true }, `Many: approve all ${n}`);
    const typed = h("input", { inputmode: "numeric", autocomplete: "off", "aria-label": `Type ${n} to approve all of them`, placeholder: `Type ${n}`, oninput: () => (all.disabled = typed.value.trim() !== String(n)) });
    this.open(h("form.intent", { onsubmit: (event) => {
      event.preventDefault();
      if (typed.value.trim() === String(n)) this.send((item) => this.approval(item));
    } }, h("p", h("b", "One intent, or many?"), ` ${many(n, "call")} of ${this.pending.tool_name} with these same arguments, from ${many(runs, "run")} of ${many(owners, "user")}. A loop or a form that was sent twice looks like this.`),
    h("div.actions", h("button", { type: "button", onclick: () => this.send((item) => (item === oldest ? this.approval(item) : denial(item)), [oldest, ...others]) }, "One: approve the oldest, deny the others"), typed, all, this.back())), typed);
  }

  deny(items = this.items) {
    if (this.isDone) return;
    const reason = h("input", { name: "reason", "aria-label": "Reason, for the model", placeholder: "Reason, for the model" });
    this.open(h("form", { onsubmit: (event) => {
      event.preventDefault();
      this.send((item) => ({ kind: "deny", call_id: item.pending.call_id, reason: reason.value.trim(), ...(item.pending.digest ? { digest: item.pending.digest } : {}) }), items);
    } }, reason, h("button.danger", items.length > 1 ? `Deny all ${items.length}` : "Deny"), this.back()), reason);
  }

  edit() {
    if (this.isDone) return;
    const before = escaped(JSON.stringify(this.pending.arguments ?? {}, null, 2));
    const text = h("textarea", { "aria-label": "Arguments as JSON", rows: Math.min(16, before.split("\n").length + 1), spellcheck: "false", value: before });
    const changes = h("div.diff", { "aria-label": "Changes", role: "region" });
    const button = h("button.primary", { disabled: true }, "Approve as changed");
    let value = null;
    const look = () => {
      value = null;
      try {
        value = JSON.parse(text.value);
        if (value === null || typeof value !== "object" || Array.isArray(value)) throw new SyntaxError("the arguments must be an object");
        const after = escaped(JSON.stringify(value, null, 2));
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
        fill(this.result, h("p.error", `That is not JSON: ${error.message}`));
      }
    } }, field, h("button.primary", "Answer"))];
  }

  later() {
    if (this.isDone) return;
    const tomorrow = new Date();
    tomorrow.setDate(tomorrow.getDate() + 1);
    tomorrow.setHours(8, 0, 0, 0);
    const inHours = (n) => new Date(Date.now() + n * 3600000);
    /** @type {[string, Date][]} */
    const choices = [["1 hour", inHours(1)], ["4 hours", inHours(4)], ["tomorrow 8:00", tomorrow], ["a week", inHours(168)]];
    this.open(h("div.actions", h("span", "Hide it from me for"), choices.map(([text, until]) => h("button", { type: "button", onclick: async () => {
      try {
        for (const item of this.items) await api(`/api/inbox/${encodeURIComponent(item.run_id)}/${encodeURIComponent(itemId(item))}/later`, { method: "POST", body: { until: until.toISOString() } });
        this.finish(`Hidden from you for ${text}. It still counts as waiting.`);
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
      this.finish(counted(said));
    } catch (error) {
      buttons.forEach((one) => (one.disabled = false));
      fill(this.result, said.length ? h("p", counted(said)) : null, h("p.error", error.message));
      say(error.message);
    }
    this.isBusy = false;
  }

  /**
   * @param {Partial<Taken & Outdated>} got
   * @param {any} answer
   */
  told(got, answer) {
    const isLate = got && ("decision" in got || "reason" in got);
    if (!isLate && this.isEffect) return `Settled: ${words(answer.value === "yes")}.`;
    if (got?.missing) return `Approved; ${many(got.missing, "more user")} must approve it.`;
    if (!isLate) return { approve: "Approved.", deny: "Denied.", edit: "Approved as changed.", answer: "Answered." }[answer.kind];
    this.isLost = true;
    if (got.decision && this.isEffect) return `${got.by || "Another user"} was first: ${words(/** @type {any} */ (got.decision).value === "yes")}. Your answer was not accepted.`;
    if (got.decision) return `${got.by || "Another user"} was first and ${decisionText(got.decision)}${got.at ? ` at ${moment(got.at)}` : ""}. Your answer was not accepted.`;
    return `Your answer was not accepted: ${got.reason || "it no longer waits"}.`;
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

  /** Shows who settled an effect since; returns whether it was settled. */
  async settledElsewhere() {
    const run = this.pending.run_id || this.items[0].run_id;
    const found = /** @type {EffectPage | null} */ (await maybe(`/api/effects?run_id=${encodeURIComponent(run)}`).catch(() => null));
    const known = found?.effects.find((one) => one.id === this.pending.id)?.settled;
    if (known) this.finish(`${known.by || "Another user"} settled it: ${words(known.effect === "applied")}.`);
    return Boolean(known);
  }

  /** The item was closed elsewhere. */
  async gone() {
    if (this.isDone || this.isBusy) return;
    this.isDone = true;
    this.isLost = true;
    const [item] = this.items;
    if (this.isEffect && (await this.settledElsewhere())) return;
    let text = "It no longer waits: it was answered elsewhere, or the run ended.";
    const view = /** @type {RunView} */ (await maybe(`/api${runPath(item.run_id)}`).catch(() => null));
    const answered = (view?.head?.answered ?? []).filter(({ answer }) => ("call_id" in answer ? answer.call_id : answer.id) === itemId(item)).at(-1);
    if (answered) text = `${answered.answer.by || "Somebody"} ${decisionText(answered.answer)} at ${moment(answered.at)}.`;
    this.finish(text);
  }
}

/** The lines of two texts as removed and added. */
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

/** Links to compare the calls of each tool that has several to approve. */
function comparisons(items, filter, isWhole) {
  const counts = new Map();
  for (const { pending: p, answerable } of items) if (p.kind === "pending_approval" && answerable) counts.set(p.tool_name, (counts.get(p.tool_name) ?? 0) + 1);
  return [...counts].filter(([, n]) => n > 1).map(([tool, n]) => local("/inbox" + listQuery({ ...filter, before: "", alike: tool }), { class: "chip" }, `Compare ${isWhole ? n : "the"} calls of `, h("code", visible(tool))));
}

/** The filters of the inbox, and how a page says each. */
const FILTERS = {
  agent: (value) => `agent: ${value}`,
  tool: (value) => `tool: ${value}`,
  conversation: (value) => `conversation: ${value}`,
  older: (value) => `waits for over ${took(Number(value))}`,
  younger: (value) => `waits for under ${took(Number(value))}`,
};

/** Compares the calls of each tool. */
function compared(items) {
  const tools = new Map();
  for (const item of items) if (item.pending.kind === "pending_approval") tools.set(item.pending.tool_name, [...(tools.get(item.pending.tool_name) ?? []), item]);
  for (const calls of tools.values()) compare(calls).forEach((one, at) => (calls[at].compared = one));
}

export async function inboxPage(page) {
  page.title("Inbox");
  const filter = {};
  for (const name of [...Object.keys(FILTERS), "before"]) if (page.query.get(name)) filter[name] = page.query.get(name);
  const tool = page.query.get("alike");
  if (tool) {
    await alikePage(page, tool, filter);
    return;
  }
  const list = h("div.asks");
  const head = h("div.inboxhead");
  const grants = h("section.grants");
  const more = h("nav.paging", { "aria-label": "Pages of the inbox" });
  const empty = h("p.empty", { hidden: true });
  const asks = new Map();
  const load = async () => {
    const found = /** @type {InboxPage} */ (await api("/api/inbox" + listQuery(filter)));
    if (!page.isThere()) return;
    compared(found.items);
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
      else if (!same && ask.isInUse()) ask.refresh(items);
      else if (!same) {
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
    drawGrants().catch(() => null);
    const isFiltered = Object.keys(filter).some((name) => name !== "before");
    const isWhole = !found.next && !filter.before;
    const total = found.total ?? found.items.length;
    const off = isWhole ? total - found.items.length : 0;
    fill(head, h("h1", "Inbox"), h("span.quiet", total ? [isWhole ? many(total, "item") : `${NUMBER.format(found.items.length)} of ${many(total, "item")}`, isFiltered ? " that match" : "", off > 0 ? `, ${NUMBER.format(off)} put off` : "", total > 1 ? "; the longest wait first" : ""] : ""), chips("/inbox", filter, FILTERS), comparisons(found.items, filter, isWhole));
    empty.hidden = asks.size > 0;
    fill(empty, isFiltered ? "Nothing that waits matches." : filter.before ? "Nothing more waits." : shared.me.waits ? "Only items that you have hidden wait for you." : "Nothing waits for you.");
    fill(more, filter.before && local("/inbox" + listQuery({ ...filter, before: "" }), { class: "button" }, "To the longest waits"), found.next && local("/inbox" + listQuery({ ...filter, before: found.next }), { class: "button" }, "Next"));
  };
  const drawGrants = async () => {
    const found = /** @type {GrantList} */ (await maybe("/api/grants"));
    const all = found?.grants ?? [];
    fill(grants, all.length ? [h("h2", "Standing approvals"), h("ul", all.map((one) => grantLine(one, drawGrants)))] : null);
  };
  await load();
  if (!page.isThere()) return;
  fill(page.main, head, list, empty, more, grants);
  rows(page, () => [...list.querySelectorAll(".ask")]);
  page.closing(keys((key, event) => {
    const ask = /** @type {Ask} */ (document.activeElement?.closest?.(".ask")?.ask);
    const act = ask && { a: () => ask.approve(), d: () => ask.deny(), e: () => ask.edit(), n: () => ask.later() }[key];
    if (!act || event.repeat || (!ask.isApproval && key !== "n") || !ask.mayAnswer() || (key === "e" && ask.items.length > 1)) return false;
    event.preventDefault();
    act();
    return true;
  }));
  live(page, load);
}

/**
 * @param {Grant} one
 * @param {() => unknown} changed
 */
function grantLine(one, changed) {
  return h("li", h("code", one.tool_name), " ", one.scope === "arguments" ? jsonNode(one.arguments ?? {}) : h("span", "with any arguments"), h("span.quiet", "in "), local(runPath(one.run_id), null, one.run_id), h("span.quiet", ` by ${one.by || "an unnamed user"}`, `, used ${many(one.uses ?? 0, "time")}, ends with its run`),
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
