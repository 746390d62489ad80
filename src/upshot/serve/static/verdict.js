// What a person looks for first in a run: why it ended so, what it did outside, and what it cost.

/** @import { CauseLine, Causes, Costly, EffectLine, EffectPage, Head, Row } from "api" */

import { EFFECTS, badge, duration, effectBadge, fill, h, many, money, statusBadge, tokensOf, took, visible, when, words } from "./nodes.js";
import { local, maybe, runPath } from "./site.js";

// How many effects are named; the list of effects has all.
const NAMED = 3;
// What a person can do about an effect, by its state.
const ADVICE = {
  unknown: "At most once: look whether it happened, then settle it.",
  applied: "Done once.",
  begun: "Under way.",
};

export class Verdict {
  /** @param {{id: string, page: any, select: (step: number) => void}} run */
  constructor(run) {
    this.run = run;
    this.why = h("div.says");
    this.money = h("p.quiet.where", { hidden: true });
    this.chain = h("ol.chain", { "aria-label": "Chain of causes", hidden: true });
    this.effects = h("div.done");
    this.cost = h("div.spent");
    const part = (name, ...nodes) => h("section", { "aria-label": name }, h("h2", name), nodes);
    this.node = h("div.verdict", part("Why", this.why, this.money, this.chain), part("Effects", this.effects), part("Cost", this.cost));
    /** @type {Map<string, EffectLine>} */
    this.known = new Map();
  }

  /**
   * @param {Head} head
   * @param {Iterable<Row>} rows
   * @param {string} says what the page knows better than the log; "" for nothing
   */
  draw(head, rows, says = "") {
    this.head = head;
    this.rows = [...rows].filter((row) => row.kind === "tool" && row.effect && row.effect !== "none");
    const mark = JSON.stringify([says, head.cause, head.error, head.effect, head.cost, head.usage, head.took_s, this.rows.length, [...this.known.keys()]]);
    if (mark === this.mark) return;
    this.mark = mark;
    const code = head.error?.code;
    fill(this.why, h(head.error && head.status !== "input_required" ? "p.error" : head.status === "input_required" ? "p.waits" : "p", says || (head.cause?.says ?? "Reading the log …")),
      code && code !== head.status ? badge(words(code), "bad") : null);
    this.drawEffects();
    this.drawMoney();
    const calls = head.usage?.api_calls;
    fill(this.cost, h("b.sum", money(head.cost) || (calls ? "no price known" : "nothing")),
      // Both lines are there from the start, so that nothing below moves.
      h("p.quiet", [tokensOf(head.usage) && `${tokensOf(head.usage)} tokens`, calls && many(calls, "model call")].filter(Boolean).join(" · ")),
      h("p.quiet", [took(head.took_s) && `took ${duration(head.took_s)}`, head.waited_s >= 0.1 && `waited ${duration(head.waited_s)}`].filter(Boolean).join(" · ")),
      insideNode(head));
  }

  /** Where the money went, if the run cost much more than others of its agent or hit its budget. */
  drawMoney() {
    const { cause, error } = this.head;
    const isOver = error?.code === "budget_exceeded";
    this.money.hidden = !cause?.spent || !(this.costly || isOver);
    fill(this.money, [this.costly, cause?.spent].filter(Boolean).join(" "));
  }

  drawEffects() {
    const lines = this.rows.map((row) => ({ row, entry: this.known.get(row.call_id) }));
    const stateOf = ({ row, entry }) => (entry?.settled || entry?.state === "unknown" ? entry.state : row.effect) ?? "none";
    lines.sort((a, b) => Number(stateOf(b) === "unknown") - Number(stateOf(a) === "unknown"));
    const list = `/effects?run_id=${encodeURIComponent(this.run.id)}`;
    const left = lines.length - NAMED;
    if (!lines.length && this.head.seq === undefined) {
      fill(this.effects, h("p", effectBadge(this.head.effect ?? "none")));
      return;
    }
    if (!lines.length) {
      const worst = this.head.effect ?? "none";
      fill(this.effects, worst === "none" ? h("p.quiet", "Nothing was changed outside.") : h("p", effectBadge(worst), " in a child run. ", local(list, null, "All effects")));
      return;
    }
    fill(this.effects, h("ul", lines.slice(0, NAMED).map((one) => {
      const state = stateOf(one);
      return h("li", state === "begun" ? badge("under way", "live") : state in EFFECTS ? effectBadge(state) : badge(state), " ",
        h("button.plain.to", { type: "button", title: "Show in the timeline", onclick: () => this.run.select(one.row.id) }, h("code", one.row.name), one.entry?.key ? [" ", h("span.key", visible(one.entry.key))] : null), " ",
        one.entry?.settled ? h("span.quiet", `settled by ${one.entry.settled.by || "an unnamed user"} `, when(one.entry.settled.at)) : h("span.quiet", ADVICE[state] ?? ""),
        state === "unknown" && one.entry?.settleable ? [" ", local(list, { class: "button small" }, "Settle")] : null);
    })), left > 0 ? h("p", local(list, null, `and ${left} more`)) : null);
  }

  /** Reads what was found out about effects since they happened, and the causes in child runs. */
  async load() {
    const wanted = [this.head.effect && this.head.effect !== "none" ? maybe(`/api/effects?run_id=${encodeURIComponent(this.run.id)}`) : null,
      this.head.cause?.spent ? maybe(`/api${runPath(this.run.id)}/costly`) : null,
      this.head.cause?.child || Number.isInteger(this.head.cause?.step) ? maybe(`/api${runPath(this.run.id)}/causes`) : null];
    const [effects, costly, causes] = /** @type {[EffectPage?, Costly?, Causes?]} */ (await Promise.all(wanted));
    if (!this.run.page.isThere()) return;
    this.costly = costly?.says ?? this.costly ?? "";
    this.drawMoney();
    for (const one of effects?.effects ?? []) if (one.call_id) this.known.set(one.call_id, one);
    if (this.known.size) this.drawEffects();
    this.drawChain(causes?.chain ?? []);
  }

  /** The chain from this run down to the error: run, step, child run, its step, and so on. */
  drawChain(/** @type {CauseLine[]} */ chain) {
    this.chain.hidden = !chain.length;
    // The chain ends with the same word.
    if (chain.length) this.why.querySelector(".badge")?.remove();
    const last = chain.at(-1);
    fill(this.chain, chain.flatMap((one, at) => {
      const step = Number.isInteger(one.step) ? one.step : null;
      const place = `step ${step + 1}: ${one.name}`;
      return [h("li", at ? local(runPath(one.run_id), { title: one.run_id }, one.agent || "child run") : h("span", one.agent || "this run"), at ? [" ", statusBadge(one.status)] : null),
        step === null ? null : h("li", at ? local(`${runPath(one.run_id)}?step=${step + 1}`, null, place) : h("button.plain.to", { type: "button", onclick: () => this.run.select(step) }, place))];
    }), last?.code ? h("li", badge(words(last.code), "bad")) : null);
  }
}

/** What the run cost without its child runs, and what they cost; null without any. */
function insideNode(/** @type {Head} */ head) {
  const { inside_cost: cost, inside_usage: usage } = head;
  if (!head.children?.length || !tokensOf(usage)) return null;
  const shown = (/** @type {any} */ one, n) => money(one) || `${n} tokens`;
  const isWhole = head.status !== "running";
  const own = isWhole ? Number(head.cost?.total ?? 0) - Number(cost?.total ?? 0) : head.cost?.total;
  const ownTokens = (head.usage?.total_tokens ?? 0) - (isWhole ? (usage?.total_tokens ?? 0) : 0);
  const alone = shown(head.cost?.total === undefined || head.cost.total === null ? null : { ...head.cost, total: own }, tokensOf(ownTokens) || "0");
  return h("p.quiet.inside", `${alone} without child runs, ${shown(cost, tokensOf(usage))} in ${many(head.children.length, "child run")}`);
}
