// The list of effects, those that may have happened included, and a way to settle one.

/** @import { EffectChecked, EffectLine, EffectPage } from "api" */

import { EFFECTS, ago, badge, effectBadge, fill, h, jsonNode, keyed, moment, say, took, visible, when, whose } from "./nodes.js";
import { api, asked, chips, go, listQuery, live, local, rows, runPath, shared, to, toNext } from "./site.js";

const STATES = ["unknown", "applied", "none", "begun"];
const FILTERS = ["state", "tool", "key", "run_id", "older", "younger"];
// The filters that no field of the page has, and how it says each.
const CHIPS = {
  run_id: (value) => `run: ${value}`,
  older: (value) => `began over ${took(Number(value))} ago`,
  younger: (value) => `began under ${took(Number(value))} ago`,
};

export async function effectsPage(page) {
  page.title("Effects");
  /** @type {Object<string, string>} */
  const filter = {};
  for (const name of [...FILTERS, "after"]) if (page.query.get(name)) filter[name] = page.query.get(name);
  const { after, ...rest } = filter;
  const doubts = h("div.asks.doubts", { "aria-label": "Unknown effects", role: "region" });
  const done = h("ul.effects", { "aria-label": "What was done" });
  const heading = h("h2", { hidden: true }, "What was done");
  const empty = h("p.empty", { hidden: true }, Object.keys(filter).length ? "No effect matches." : "No effects yet.");
  const typed = () => Object.fromEntries([...new FormData(form)].map(([name, value]) => [name, String(value).trim()]));
  const send = () => go("/effects" + listQuery({ ...rest, ...typed() }));
  const form = h("form.filters", { role: "search", "aria-label": "Filter", onsubmit: (event) => {
    event.preventDefault();
    send();
  } },
  h("label.wide", h("span", "Key, such as 7"), h("input", { name: "key", type: "search", value: rest.key ?? "" })),
  h("label", h("span", "Tool"), h("input", { name: "tool", value: rest.tool ?? "" })),
  h("label", h("span", "State"), h("select", { name: "state", onchange: send }, ["", ...STATES].map((one) => h("option", { value: one, selected: (rest.state ?? "") === one }, one || "any")))),
  h("button", "Filter"));
  const removable = chips("/effects", rest, CHIPS);
  const chip = removable.length && h("div.chips", removable);
  const next = /** @type {HTMLAnchorElement} */ (local("/effects", { class: "button", rel: "next" }, "Next 100"));
  const more = h("nav.paging", { "aria-label": "Pages of the list" }, after && local("/effects" + listQuery(rest), { class: "button" }, "To the first page"));
  /** @returns {Promise<EffectPage>} */
  const read = () => api("/api/effects" + listQuery(filter));
  const draw = async (/** @type {EffectPage} */ found) => {
    const unknown = found.effects.filter((one) => one.state === "unknown");
    // An effect that the user is about to settle stays unchanged until the next refresh.
    const isBusy = doubts.contains(document.activeElement) && document.activeElement?.matches("button");
    const known = found.effects.filter((one) => one.state !== "unknown");
    heading.hidden = !known.length;
    empty.hidden = found.effects.length > 0;
    toNext(more, next, found.next && to("/effects" + listQuery({ ...rest, after: found.next })));
    if (!isBusy) await keyed(doubts, unknown, (one) => one.id, (one) => doubtNode(one, load), { least: 2 });
    await keyed(done, known, (one) => one.id, effectLine);
  };
  const load = async () => {
    const found = await read();
    if (page.isThere()) await draw(found);
  };
  const found = await read();
  if (!page.isThere()) return;
  fill(page.main, h("h1", "Effects"), form, chip || null, doubts, heading, done, empty, more);
  await draw(found);
  if (!page.isThere()) return;
  rows(page, () => [...doubts.querySelectorAll(".ask"), ...done.querySelectorAll("li")]);
  if (!after) live(page, load);
}

/** The value of stored JSON, or the text if it is not JSON. */
export function kept(text) {
  try {
    return jsonNode(JSON.parse(text));
  } catch {
    return jsonNode(text);
  }
}

/** @param {EffectLine} one */
const from = (one) => [one.run_id && local(runPath(one.run_id), null, one.run_id), one.agent_id, whose({ owner: one.user, tenant: one.tenant }), one.scope].filter(Boolean).map((part, at) => [at ? ", " : "", part]);

/**
 * Calls verify now, and shows the result in *node*; returns whether the effect is known.
 * @param {string} id
 * @param {HTMLElement} node
 */
export async function checkNow(id, node) {
  try {
    const found = /** @type {EffectChecked} */ (await api(`/api/effects/${encodeURIComponent(id)}/check`, { method: "POST", body: {} }));
    fill(node, h("p", h("b", found.said)), found.seen === null ? null : h("details", h("summary", "what was seen"), jsonNode(found.seen)));
    say(found.said);
    return found.effect.state !== "unknown";
  } catch (error) {
    fill(node, h("p.error", error.message));
    say(error.message);
    return false;
  }
}

export const fact = (name, value) => (value ? h("div", h("dt", name), h("dd", value)) : null);

/**
 * What may have happened, and what can be asked about it, in words.
 * @param {{tool: string, declared: string, since?: string | null, lookup?: string}} asked
 */
export function mayHave({ tool, declared, since, lookup }) {
  return h("p", h("code", visible(tool)), declared === "destructive" ? " may have destroyed something that cannot be restored" : " may have changed something outside", since ? [": it was called ", when(since)] : "", ", and no reply says whether it did what the arguments say. ",
    lookup === undefined ? "" : lookup === "verify" ? "Check now asks the tool itself." : lookup ? ["Check now asks ", h("code", visible(lookup)), "."] : "The tool cannot be asked: look in the other system, then say what you saw.");
}

/**
 * An unknown effect: all that helps to find out whether it happened, and buttons to settle it.
 * @param {EffectLine} one
 * @param {() => Promise<void>} changed
 */
function doubtNode(one, changed) {
  const since = one.ended_at ?? one.started_at;
  const result = h("div.result", { role: "status" });
  const settle = async (/** @type {boolean} */ applied) => {
    const note = await seen(one.name, applied);
    if (note === null) return;
    const buttons = node.querySelectorAll("button");
    buttons.forEach((button) => (button.disabled = true));
    try {
      const known = /** @type {EffectLine} */ (await api(`/api/effects/${encodeURIComponent(one.id)}`, { method: "POST", body: { applied, note } }));
      const isSo = (known.state === "applied") === applied;
      const text = isSo ? `Settled: ${words(applied)}.` : `${known.settled?.by || "Another user"} was first: ${words(known.state === "applied")}. Your answer was not accepted.`;
      say(text);
      /** @type {HTMLElement} */ (document.activeElement)?.blur();
      await changed();
    } catch (error) {
      buttons.forEach((button) => (button.disabled = false));
      fill(result, h("p.error", error.message));
      say(error.message);
    }
  };
  const node = h("article.ask", { tabindex: 0, "aria-label": `${one.name}${one.key ? ` ${one.key}` : ""}: did this happen?` },
    h("header", h("h2", "Did this happen? ", h("code", one.name)), effectBadge("unknown"), h("span.grow"), since && h("span.quiet", { title: moment(since, { long: true }) }, `unknown for ${ago(since)}`)),
    mayHave({ tool: one.name, declared: "", since: one.started_at, lookup: one.lookup }),
    one.key ? h("div.arguments", { "aria-label": "Key", role: "group" }, kept(one.key)) : null,
    h("dl.json", fact("other arguments", one.others && kept(one.others)), fact("began", when(one.started_at)), fact("ended", when(one.ended_at)),
      fact("attempts", one.attempts > 1 && String(one.attempts)), fact("the tool said", one.said && kept(one.said)), fact("idempotency key", one.idempotency_key && h("code", one.idempotency_key)),
      fact("approved by", one.approved_by), fact("call", one.call_id && h("code", one.call_id)), fact("from", from(one))),
    one.settleable ? h("div.actions", h("button", { type: "button", onclick: () => settle(true) }, "It happened"), h("button", { type: "button", onclick: () => settle(false) }, "It did not happen"),
      h("button", { type: "button", title: "asks the tool's verify", onclick: async () => (await checkNow(one.id, result)) && changed() }, "Check now"))
      : h("p.quiet", "Other users settle this."),
    result);
  return node;
}

/** Asks what the user saw before an effect is settled; null if the user goes back. A browser's autofill lays out each card that has a field. */
export const seen = (/** @type {string} */ name, /** @type {boolean} */ applied) => asked(applied ? `${name} happened? It counts as done, and is not made again.` : `${name} did not happen? Its key becomes free, and a call may then make it.`,
  "What you saw, such as re_123 at the bank", { yes: applied ? "It happened" : "It did not happen", optional: true });

export const words = (/** @type {boolean} */ applied) => (applied ? "it happened" : "it did not happen");

/** @param {EffectLine} one */
export function effectLine(one) {
  const known = one.settled;
  return h("li", { tabindex: 0 }, one.state === "begun" ? badge("under way", "live") : one.state in EFFECTS ? effectBadge(one.state) : badge(one.state ?? ""), h("code", one.name), one.key ? h("span.key", one.key) : null,
    h("span.quiet", when(one.started_at), " ", from(one)),
    shared.me.audit && one.run_id && local("/audit" + listQuery({ run_id: one.run_id, tool: one.tool_name ?? "" }), null, "who answered"),
    known ? h("span.quiet", `settled by ${known.by || "an unnamed user"} `, when(known.at), known.note ? `: ${known.note}` : "") : null);
}
