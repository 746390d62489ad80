// Calls of one tool side by side: what differs is marked, and a user approves those that they choose.

/** @import { InboxEntry, InboxPage, PendingApproval, Taken, Outdated } from "api" */

import { NUMBER, ago, badge, fill, h, jsonNode, many, moment, say, visible, whose } from "./nodes.js";
import { api, confirmed, listQuery, local, rows, runPath, shared } from "./site.js";

/** @typedef {Omit<InboxEntry, "pending"> & {pending: PendingApproval}} Call */
/** @typedef {{call: Call, values: Map<string, unknown>, odd: Map<string, string>, isEqual: boolean, isWrong: boolean}} Compared */

// A number is far from the others if its modified z-score, on a scale of equal factors, is over FAR and it is at least so many times the usual one.
const FAR = 3.5;
const TIMES = 2;
// A value, or a form, is rare if at most this share of the calls has it, or one call.
const RARE = 0.1;
// Of so many calls each must have another value, such as the number of an order, for an equal one to stand out.
const MOSTLY = 0.8;

/** The single values in arguments, by their paths. */
function leaves(value, path = "", out = new Map()) {
  const isTree = value !== null && typeof value === "object" && Object.keys(value).length > 0;
  if (!isTree) out.set(path, value);
  else for (const [key, one] of Object.entries(value)) leaves(one, path ? `${path}.${key}` : key, out);
  return out;
}

/** The form of a value: texts of the same form have the same marks, and addresses the same host. */
function formOf(value) {
  if (typeof value !== "string") return value === null ? "null" : Array.isArray(value) ? "list" : typeof value;
  const host = /^(?:[a-z][a-z0-9+.-]*:\/\/)?(?:[^\s/@]*@)?([^\s/:@]+\.[^\s/:@.]{2,})(?::\d+)?(?:[/?#]|$)/iu.exec(value);
  if (host) return `at ${host[1].toLowerCase()}`;
  return value.replace(/[0-9]+/gu, "9").replace(/[a-z]+/giu, "a");
}

/** The value that more than half of all have; undefined if there is none. */
function usual(values) {
  const counts = new Map();
  for (const one of values) counts.set(one, (counts.get(one) ?? 0) + 1);
  const [most, n] = [...counts].reduce((a, b) => (b[1] > a[1] ? b : a), [undefined, 0]);
  return n * 2 > values.length ? most : undefined;
}

/** Whether each text is rare among all. */
function isRare(texts) {
  const counts = new Map();
  for (const one of texts) counts.set(one, (counts.get(one) ?? 0) + 1);
  return texts.map((one) => counts.get(one) <= Math.max(1, texts.length * RARE));
}

const median = (numbers) => [...numbers].sort((a, b) => a - b)[Math.floor(numbers.length / 2)];

/** Whether each number is far from the others, by its distance from the median. */
function far(numbers) {
  const middle = median(numbers);
  if (!middle) return numbers.map(() => false);
  const distances = numbers.map((one) => (Math.sign(one) === Math.sign(middle) ? Math.abs(Math.log(one / middle)) : Infinity));
  const usualDistance = median(distances);
  return distances.map((one) => one >= Math.log(TIMES) && 0.6745 * one > FAR * usualDistance);
}

/**
 * Why the value of each call at one path stands out; "" if it does not.
 * @param {unknown[]} values
 * @param {boolean[]} isNamed whether the request of each call has its value
 */
function oddities(values, isNamed) {
  const texts = values.map((one) => JSON.stringify(one) ?? "");
  const same = usual(texts);
  const rare = isRare(texts);
  if (same !== undefined) return values.map((one, at) => (!rare[at] ? "" : one === undefined ? "only this call has no such argument" : same === "" ? "only this call has such an argument" : `rare: most have ${same.length > 40 ? "another value" : same}`));
  const isText = values.every((one) => typeof one === "string" && /[0-9]/u.test(one));
  const isNumber = values.every((one) => Number.isInteger(one)) && isNamed.filter(Boolean).length > values.length * MOSTLY;
  const isOwn = values.length > 4 && (isText || isNumber) && new Set(texts).size > values.length * MOSTLY;
  const forms = values.map(formOf);
  const rareForm = usual(forms) === undefined ? [] : isRare(forms);
  const numbers = values.filter((one) => typeof one === "number");
  const isFar = numbers.length > 2 ? far(numbers) : [];
  let place = 0;
  return values.map((one, at) => {
    const isFarHere = typeof one === "number" && isFar[place++];
    if (isOwn && texts.some((other, there) => there !== at && other === texts[at])) return "another call has the same";
    if (rareForm[at]) return "rare: it has another form than the others";
    return isFarHere ? "rare: it is far from the others" : "";
  });
}

/**
 * Compares calls argument by argument. An argument stands out if it contradicts the request or is rare among the calls.
 * @param {Call[]} calls
 * @returns {Compared[]}
 */
export function compare(calls) {
  const compared = calls.map((call) => ({ call, values: leaves(call.pending.arguments ?? {}), odd: new Map(), isEqual: false,
    isWrong: call.contradictions.length > 0 }));
  // The inbox lists the longest wait first, so an equal call is one of a later question.
  const met = new Set();
  for (const one of compared) {
    const text = JSON.stringify([...one.values].sort());
    one.isEqual = met.has(text);
    met.add(text);
    for (const { path, asked } of one.call.contradictions) one.odd.set(path, `the request says ${asked}`);
  }
  for (const path of new Set(compared.flatMap((one) => [...one.values.keys()]))) {
    // What contradicts its request says nothing about the others.
    const others = compared.filter((one) => !one.odd.has(path));
    const values = others.map((one) => one.values.get(path));
    if (new Set(values.map((one) => JSON.stringify(one))).size < 2) continue;
    oddities(values, others.map((one) => one.call.named.includes(path))).forEach((why, at) => why && others[at].odd.set(path, why));
  }
  return compared;
}

/** Whether a call is chosen at first: there are others to compare it with, nothing about it stands out, and it may not be one intent that arrived twice. */
function isChosenAtFirst(one, n) {
  const p = one.call.pending;
  return n > 2 && !one.odd.size && !one.isEqual && p.effect !== "destructive" && !p.taint && !(p.doubts ?? []).length;
}

/** What stands out about a call, in words. */
export function marks(/** @type {Compared} */ one) {
  return one.odd.size ? h("ul.marks", { "aria-label": "What stands out" }, [...one.odd].map(([path, why]) => h("li", h("code", visible(path || "(all)")), one.values.has(path) ? [" ", jsonNode(one.values.get(path))] : null, `: ${why}`))) : null;
}

/**
 * The outcome of one answer.
 * @param {Partial<Taken & Outdated>} got
 * @param {string} done
 */
function outcome(got, done) {
  if (got && ("decision" in got || "reason" in got)) {
    return { isTaken: false, text: got.decision ? `Not accepted: ${got.by || "another user"} answered it${got.at ? ` at ${moment(got.at)}` : ""}.` : `Not accepted: ${got.reason}.` };
  }
  return { isTaken: true, text: got?.missing ? `Approved; ${many(got.missing, "more user")} must approve it.` : done };
}

const nameOf = (/** @type {Call} */ call) => call.request || call.run_id;

/** One call, with all its arguments; what stands out is marked. */
class Line {
  /**
   * @param {Compared} one
   * @param {boolean} isChosen
   * @param {() => void} changed
   */
  constructor(one, isChosen, changed) {
    this.call = one.call;
    this.isOdd = one.odd.size > 0;
    this.isPlain = !this.isOdd && !one.isEqual;
    // What contradicts the request comes first, then what else stands out.
    this.rank = one.isWrong ? 2 : Number(this.isOdd);
    this.result = h("p.result", { role: "status" });
    const item = one.call;
    const label = `${item.pending.tool_name}, ${nameOf(item)}`;
    this.box = h("input", { type: "checkbox", "aria-label": `Choose ${label}`, checked: isChosen, onchange: changed });
    const head = h("header", this.box, h("b.owner", { title: "owner of the run" }, whose(item) || "no owner"), local(runPath(item.run_id), null, nameOf(item)),
      h("span.grow"), one.isWrong ? badge("contradicts the request", "bad") : this.isOdd ? badge("stands out", "bad") : null, one.isEqual ? badge("equal to an earlier call", "odd") : null, h("span.quiet", item.pending.asked_at ? `waits ${ago(item.pending.asked_at)}` : ""));
    const lines = [...one.values].map(([path, value]) => {
      const why = one.odd.get(path);
      const shown = jsonNode(value);
      return h("div", { class: why ? "odd" : null }, h("dt", visible(path || "(all)")), h("dd", why ? [h("mark", shown), h("span.reason", ` ${why}`)] : shown));
    });
    for (const [path, why] of one.odd) if (!one.values.has(path)) lines.push(h("div.odd", h("dt", visible(path)), h("dd", h("mark", "not given"), h("span.reason", ` ${why}`))));
    const p = item.pending;
    const asked = p.reason || p.taint || p.doubts?.length ? h("div.why", h("b", "Why it is asked: "), p.reason || "the run has read untrusted content", p.doubts?.length ? h("ul", p.doubts.map((doubt) => h("li", jsonNode(doubt)))) : null) : null;
    this.node = h(`article.ask.alike${this.isOdd ? ".strange" : ""}`, { tabindex: 0, "aria-label": label }, head, h("dl.json.arguments", { "aria-label": "Arguments" }, lines), asked, this.result);
  }

  get isChosen() {
    return this.box.checked && !this.isDone;
  }

  /** Sends an answer; returns whether it was taken. */
  async answer(/** @type {{kind: string, reason?: string}} */ given) {
    const { call_id, digest } = this.call.pending;
    const [done, not] = given.kind === "deny" ? ["Denied.", "Not denied"] : ["Approved.", "Not approved"];
    this.box.disabled = this.isDone = true;
    let said = { isTaken: false, text: "" };
    try {
      const [got] = await api(`/api${runPath(this.call.run_id)}/answer`, { method: "POST", body: { answers: [{ ...given, call_id, ...(digest ? { digest } : {}) }] } });
      said = outcome(got, done);
    } catch (error) {
      this.box.disabled = this.isDone = false;
      said.text = `${not}: ${error.message}`;
    }
    this.node.classList.remove("done", "lost");
    this.node.classList.add(said.isTaken ? "done" : "lost");
    fill(this.result, said.text);
    return said.isTaken;
  }
}

/** Calls of one tool that wait, to approve or deny together. */
export async function alikePage(page, tool, filter) {
  page.title(`Calls of ${tool}`);
  const table = new Table(page, tool, filter);
  await table.more();
  if (!page.isThere()) return;
  fill(page.main, table.node);
  rows(page, () => table.lines.map((one) => one.node));
}

/** The calls loaded so far, compared with each other, and the buttons that answer those that are chosen. */
class Table {
  constructor(page, tool, filter) {
    this.page = page;
    this.tool = tool;
    this.filter = filter;
    /** @type {Map<string, Call>} */
    this.calls = new Map();
    /** @type {Line[]} */
    this.lines = [];
    // What the user chose, by the key of the call; it stays when more calls are loaded.
    this.chosen = new Map();
    this.next = /** @type {string | null} */ ("");
    this.total = 0;
    const button = (name, text, act) => h(name, { type: "button", onclick: act }, text);
    this.approve = button("button.primary", "", () => this.approveChosen());
    this.deny = button("button", "", () => this.denyChosen());
    this.form = h("div.form");
    this.status = h("p", { role: "status" });
    this.head = h("div.inboxhead");
    this.about = h("p.quiet");
    this.bulk = h("div.actions.bulk", this.approve, this.deny, button("button", "Choose all that do not stand out", () => this.choose((one) => one.isPlain)),
      button("button", "Choose those that stand out", () => this.choose((one) => one.isOdd)), button("button", "Choose none", () => this.choose(() => false)), this.form, this.status);
    this.list = h("div.asks");
    this.paging = h("nav.paging", { "aria-label": "More calls" });
    this.node = h("div.comparison", this.head, this.about, this.bulk, this.list, this.paging);
  }

  /** Loads the next calls, and compares all that are loaded. */
  async more() {
    const found = /** @type {InboxPage} */ (await api("/api/inbox" + listQuery({ ...this.filter, tool: this.tool, before: this.next })));
    if (!this.page.isThere()) return;
    const me = shared.me.user?.id;
    const old = new Set(this.calls.keys());
    for (const one of found.items) {
      const isMine = one.pending.kind === "pending_approval" && one.answerable && !(one.pending.approved_by ?? []).some((given) => given.by === me);
      if (isMine) this.calls.set(keyOf(/** @type {Call} */ (one)), /** @type {Call} */ (one));
    }
    this.next = found.next;
    this.total = found.total ?? this.calls.size;
    this.draw();
    // The focus goes to the first call that is new.
    if (old.size) this.lines.find((one) => !old.has(keyOf(one.call)))?.node.focus();
  }

  draw() {
    const done = new Map(this.lines.filter((one) => one.isDone).map((one) => [keyOf(one.call), one]));
    const compared = compare([...this.calls.values()]);
    const changed = (key) => (event) => {
      this.chosen.set(key, event.target.checked);
      this.count();
    };
    this.lines = compared.map((one) => {
      const key = keyOf(one.call);
      return done.get(key) ?? new Line(one, this.chosen.get(key) ?? isChosenAtFirst(one, compared.length), changed(key));
    });
    this.lines.sort((a, b) => b.rank - a.rank);
    const n = this.lines.length;
    const odd = this.lines.filter((one) => one.isOdd).length;
    const wrong = this.lines.filter((one) => one.rank === 2).length;
    fill(this.head, h("h1", "Calls of ", h("code", visible(this.tool))), h("span.quiet", this.next ? `the first ${n} of ${NUMBER.format(Math.max(this.total, n))} calls` : many(n, "call"), odd ? `, ${odd} ${odd === 1 ? "stands" : "stand"} out` : "", wrong ? `, ${wrong} ${wrong === 1 ? "contradicts" : "contradict"} the request` : ""), local("/inbox" + listQuery({ ...this.filter, tool: this.tool }), { class: "button" }, "One by one"));
    fill(this.about, n ? "A value is marked if it contradicts the request or is rare among these calls. Such calls come first and are not chosen, nor are those equal to an earlier one." : "No call of this tool waits for you.");
    this.about.className = n ? "quiet" : "empty";
    this.bulk.hidden = !n;
    fill(this.list, this.lines.map((one) => one.node));
    fill(this.paging, this.next ? h("button", { type: "button", onclick: (event) => {
      event.target.disabled = true;
      this.more().catch((error) => fill(this.paging, h("p.error", error.message)));
    } }, "Next 50") : null);
    this.count();
  }

  get chosenLines() {
    return this.lines.filter((one) => one.isChosen);
  }

  count() {
    const n = this.chosenLines.length;
    fill(this.approve, n ? `Approve ${many(n, "call")}` : "Choose the calls to approve");
    fill(this.deny, n ? `Deny ${many(n, "call")} …` : "Deny …");
    this.approve.disabled = this.deny.disabled = !n;
  }

  choose(wanted) {
    for (const one of this.lines) {
      if (one.isDone) continue;
      one.box.checked = wanted(one);
      this.chosen.set(keyOf(one.call), one.box.checked);
    }
    this.form.replaceChildren();
    this.count();
  }

  async approveChosen() {
    const chosen = this.chosenLines;
    const isDestructive = chosen.some((one) => one.call.pending.effect === "destructive");
    const odd = chosen.filter((one) => one.isOdd).length;
    const doubt = [isDestructive && `${this.tool} is destructive: it cannot be undone.`, odd && `${many(odd, "call")} of these ${odd === 1 ? "stands" : "stand"} out.`].filter(Boolean);
    if (doubt.length && !(await confirmed(`${doubt.join(" ")} Approve ${many(chosen.length, "call")}?`, "Approve"))) return;
    await this.send(chosen, { kind: "approve" }, "approved");
  }

  /** Asks for the reason, and shows which calls it is for. */
  denyChosen() {
    const chosen = this.chosenLines;
    const reason = h("input", { name: "reason", autocomplete: "off", "aria-label": "Reason, which the model of each is given", placeholder: "Reason, which the model of each is given" });
    const close = () => {
      this.form.replaceChildren();
      this.deny.focus();
    };
    fill(this.form, h("form", { onkeydown: (event) => event.key === "Escape" && close(), onsubmit: (event) => {
      event.preventDefault();
      this.form.replaceChildren();
      this.send(chosen, { kind: "deny", reason: reason.value.trim() }, "denied");
    } }, h("p", h("b", `${many(chosen.length, "call")} to deny:`)), h("ul.from", { tabindex: 0, "aria-label": "Calls to deny" }, chosen.map((one) => h("li", nameOf(one.call)))),
    h("div.actions", reason, h("button.danger", `Deny ${many(chosen.length, "call")}`), h("button", { type: "button", onclick: close }, "Back"))));
    reason.focus();
  }

  async send(chosen, answer, word) {
    this.approve.disabled = this.deny.disabled = true;
    this.form.replaceChildren();
    let n = 0;
    for (const one of chosen) {
      n += Number(await one.answer(answer));
      fill(this.status, `${n} of ${chosen.length} ${word}`);
    }
    const text = `${many(n, "call")} ${word}${n < chosen.length ? `, ${chosen.length - n} not: each says why` : ""}.`;
    fill(this.status, h("b", text));
    say(text);
    this.count();
  }
}

const keyOf = (/** @type {Call} */ call) => `${call.run_id} ${call.pending.call_id} ${call.pending.digest ?? ""}`;
