// Calls of one tool side by side: what differs is marked, and a user approves those that they choose.

/** @import { InboxEntry, InboxPage, PendingApproval, Taken, Outdated } from "api" */

import { ago, badge, fill, h, jsonNode, many, moment, say, visible, whose } from "./nodes.js";
import { api, confirmed, listQuery, local, rows, runPath, shared } from "./site.js";

/** @typedef {Omit<InboxEntry, "pending"> & {pending: PendingApproval}} Call */
/** @typedef {{call: Call, values: Map<string, unknown>, odd: Map<string, string>, isEqual: boolean}} Compared */

// How many times the usual amount an amount must be to stand out.
const FAR = 3;
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

const median = (numbers) => [...numbers].sort((a, b) => a - b)[Math.floor(numbers.length / 2)];

/** Why the value of each call at one path stands out; "" if it does not. */
function oddities(values) {
  const same = usual(values.map((one) => JSON.stringify(one) ?? ""));
  if (same !== undefined) return values.map((one) => ((JSON.stringify(one) ?? "") === same ? "" : one === undefined ? "only this call has no such argument" : same === "" ? "only this call has such an argument" : "the others have another value"));
  const texts = values.map((one) => JSON.stringify(one) ?? "");
  const isOwn = values.length > 4 && new Set(texts).size > values.length * MOSTLY && !values.some((one) => typeof one === "number" && !Number.isInteger(one));
  const form = usual(values.map(formOf));
  const numbers = values.filter((one) => typeof one === "number");
  const middle = median(numbers);
  return values.map((one, at) => {
    if (isOwn && texts.some((other, place) => place !== at && other === texts[at])) return "another call has the same";
    if (form !== undefined && formOf(one) !== form) return "it has another form than the others";
    if (typeof one !== "number" || numbers.length < 3) return "";
    const isFar = Math.sign(one) !== Math.sign(middle) || Math.abs(one) > Math.abs(middle) * FAR || Math.abs(one) * FAR < Math.abs(middle);
    return isFar ? "it is far from the others" : "";
  });
}

/**
 * Compares calls argument by argument.
 * @param {Call[]} calls
 * @returns {{compared: Compared[], differing: Set<string>}}
 */
export function compare(calls) {
  const compared = calls.map((call) => ({ call, values: leaves(call.pending.arguments ?? {}), odd: new Map(), isEqual: false }));
  // The inbox lists the longest wait first, so an equal call is one of a later question.
  const met = new Set();
  for (const one of compared) {
    const text = JSON.stringify([...one.values].sort());
    one.isEqual = met.has(text);
    met.add(text);
  }
  const paths = [...new Set(compared.flatMap((one) => [...one.values.keys()]))];
  const differing = new Set();
  for (const path of paths) {
    const values = compared.map((one) => one.values.get(path));
    if (new Set(values.map((one) => JSON.stringify(one))).size < 2) continue;
    differing.add(path);
    oddities(values).forEach((why, at) => why && compared[at].odd.set(path, why));
  }
  return { compared, differing };
}

/** Whether a call is chosen at first: there are others to compare it with, nothing about it stands out, and it may not be one intent that arrived twice. */
function isChosenAtFirst(one, n) {
  const p = one.call.pending;
  return n > 2 && !one.odd.size && !one.isEqual && p.effect !== "destructive" && !p.taint && !(p.doubts ?? []).length;
}

/** The outcome of one answer. */
/** @param {Partial<Taken & Outdated>} got */
function outcome(got) {
  if (got && ("decision" in got || "reason" in got)) {
    return { isTaken: false, text: got.decision ? `Not accepted: ${got.by || "another user"} answered it${got.at ? ` at ${moment(got.at)}` : ""}.` : `Not accepted: ${got.reason}.` };
  }
  return { isTaken: true, text: got?.missing ? `Approved; ${many(got.missing, "more user")} must approve it.` : "Approved." };
}

/** One call, with all its arguments; what differs is marked. */
class Line {
  /**
   * @param {Compared} one
   * @param {Set<string>} differing
   * @param {boolean} isChosen
   * @param {() => void} changed
   */
  constructor(one, differing, isChosen, changed) {
    this.call = one.call;
    this.isPlain = !one.odd.size && !one.isEqual;
    this.result = h("p.result", { role: "status" });
    const item = one.call;
    const label = `${item.pending.tool_name}, ${item.request || item.run_id}`;
    this.box = h("input", { type: "checkbox", "aria-label": `Approve ${label}`, checked: isChosen, onchange: changed });
    const head = h("header", this.box, h("b.owner", { title: "owner of the run" }, whose(item) || "no owner"), local(runPath(item.run_id), null, item.request || item.run_id),
      h("span.grow"), one.odd.size ? badge("stands out", "bad") : null, one.isEqual ? badge("equal to an earlier call", "odd") : null, h("span.quiet", item.pending.asked_at ? `waits ${ago(item.pending.asked_at)}` : ""));
    const lines = [...one.values].map(([path, value]) => {
      const why = one.odd.get(path);
      const shown = jsonNode(value);
      return h("div", { class: why ? "odd" : differing.has(path) ? "differs" : "same" }, h("dt", visible(path || "(all)")), h("dd", differing.has(path) ? h("mark", shown) : shown, why ? h("span.reason", ` ${why}`) : null));
    });
    for (const [path, why] of one.odd) if (!one.values.has(path)) lines.push(h("div.odd", h("dt", visible(path)), h("dd", h("mark", "not given"), h("span.reason", ` ${why}`))));
    const p = item.pending;
    const asked = p.reason || p.taint || p.doubts?.length ? h("div.why", h("b", "Why it is asked: "), p.reason || "the run has read untrusted content", p.doubts?.length ? h("ul", p.doubts.map((doubt) => h("li", jsonNode(doubt)))) : null) : null;
    this.node = h(`article.ask.alike${one.odd.size ? ".strange" : ""}`, { tabindex: 0, "aria-label": label }, head, h("dl.json.arguments", { "aria-label": "Arguments" }, lines), asked, this.result);
  }

  get isChosen() {
    return this.box.checked && !this.box.disabled;
  }

  async approve() {
    const { call_id, digest } = this.call.pending;
    this.box.disabled = true;
    let done = { isTaken: false, text: "" };
    try {
      const [got] = await api(`/api${runPath(this.call.run_id)}/answer`, { method: "POST", body: { answers: [{ kind: "approve", call_id, ...(digest ? { digest } : {}) }] } });
      done = outcome(got);
    } catch (error) {
      this.box.disabled = false;
      done.text = `Not approved: ${error.message}`;
    }
    this.node.classList.add(done.isTaken ? "done" : "lost");
    fill(this.result, done.text);
    return done.isTaken;
  }
}

/** Calls of one tool that wait, to approve together. */
export async function alikePage(page, tool, filter) {
  page.title(`Calls of ${tool}`);
  const found = /** @type {InboxPage} */ (await api("/api/inbox" + listQuery({ ...filter, tool })));
  if (!page.isThere()) return;
  const me = shared.me.user?.id;
  const calls = /** @type {Call[]} */ (found.items.filter((one) => one.pending.kind === "pending_approval" && one.answerable && !(one.pending.approved_by ?? []).some((given) => given.by === me)));
  const { compared, differing } = compare(calls);
  const approve = h("button.primary", { type: "button", onclick: () => run() });
  const changed = () => {
    const n = lines.filter((one) => one.isChosen).length;
    fill(approve, n ? `Approve ${many(n, "call")}` : "Choose the calls to approve");
    approve.disabled = !n;
  };
  const lines = compared.map((one) => new Line(one, differing, isChosenAtFirst(one, compared.length), changed));
  const status = h("p", { role: "status" });
  // Those that stand out come first.
  lines.sort((a, b) => Number(b.node.matches(".strange")) - Number(a.node.matches(".strange")));
  const choose = (wanted) => {
    for (const one of lines) if (!one.box.disabled) one.box.checked = wanted(one);
    changed();
  };
  const run = async () => {
    const chosen = lines.filter((one) => one.isChosen);
    const isDestructive = chosen.some((one) => one.call.pending.effect === "destructive");
    if (isDestructive && !(await confirmed(`${tool} is destructive: it cannot be undone. Approve ${many(chosen.length, "call")}?`, "Approve"))) return;
    approve.disabled = true;
    let n = 0;
    for (const one of chosen) {
      n += Number(await one.approve());
      fill(status, `${n} of ${chosen.length} approved`);
    }
    const text = `${many(n, "call")} approved${n < chosen.length ? `, ${chosen.length - n} not: each says why` : ""}.`;
    fill(status, h("b", text));
    say(text);
    changed();
  };
  const strange = lines.filter((one) => one.node.matches(".strange")).length;
  fill(page.main, h("div.inboxhead", h("h1", "Calls of ", h("code", visible(tool))), h("span.quiet", many(lines.length, "call"), strange ? `, ${strange} of them stand out` : "", found.next ? "; only the longest waits are shown" : ""), local("/inbox" + listQuery({ ...filter, tool }), { class: "button" }, "One by one")),
    lines.length ? h("p.quiet", "Marked values differ from call to call. Calls that stand out, or are equal to an earlier one, are not chosen.") : h("p.empty", "No call of this tool waits for you."),
    lines.length ? h("div.actions.bulk", approve, h("button", { type: "button", onclick: () => choose((one) => one.isPlain) }, "Choose all that do not stand out"), h("button", { type: "button", onclick: () => choose(() => false) }, "Choose none"), status) : null,
    h("div.asks", lines.map((one) => one.node)));
  changed();
  rows(page, () => lines.map((one) => one.node));
}
