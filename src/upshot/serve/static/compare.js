// What changed between two runs: their facts, the first difference, and their steps side by side.

/** @import { AgentSpec, Compared, ComparedStep, Difference, Head, StepLine } from "api" */

import { badge, effectBadge, fill, h, jsonNode, many, money, moment, statusBadge, tokensOf, took, visible, words } from "./nodes.js";
import { prose } from "./markdown.js";
import { api, local, runPath } from "./site.js";
import { stepPath } from "./step.js";

export async function comparePage(page, id, other) {
  page.title("Compare");
  const found = /** @type {Compared} */ (await api(`/api${runPath(id)}/compare/${encodeURIComponent(other)}`));
  if (!page.isThere()) return;
  const at = found.difference;
  const facts = factsOf(found);
  const changed = facts.filter((one) => !one.same);
  const parted = found.steps.filter((one) => !one.same);
  fill(page.main, h("h1", "Two runs compared"),
    h("p.lead", at || parted.length || changed.some((one) => one.isTelling) ? leadOf(changed, parted) : "They said and did the same."),
    at ? h("p", partedAt(at, "They first differ, in the first run, at")) : null,
    h("div.table", { tabindex: 0, role: "region", "aria-label": "Facts" }, h("table.facing", h("thead", h("tr", h("th", { scope: "col" }, h("span.away", "Fact")), [id, other].map((run) => h("th", { scope: "col" }, local(runPath(run), null, run))))),
      h("tbody", facts.map((one) => h(one.same ? "tr.same" : one.isTelling ? "tr.changed" : "tr", h("th", { scope: "row" }, one.name, one.same ? null : h("span.away", ", changed")), one.same ? h("td", { colspan: 2 }, one.values[0]) : one.values.map((value) => h("td", value ?? h("span.quiet", "none")))))))),
    at ? [h("h2", "Where they first differ"), sides([[id, at.recorded], [other, at.replayed]].map(([run, value]) => [local(runPath(String(run)), null, String(run)), value]))] : null,
    h("h2", "Steps"), stepsNode(found.steps, id, other));
}

/** One sentence on what changed. */
function leadOf(changed, parted) {
  const names = changed.filter((one) => one.isTelling).map((one) => one.name);
  const only = (side) => parted.filter((one) => !one[side === "left" ? "right" : "left"] && one[side]).length;
  const counts = [[only("left"), "only in the first"], [only("right"), "only in the second"], [parted.filter((one) => one.left && one.right).length, "with another outcome"]];
  const steps = counts.filter(([n]) => n).map(([n, text]) => `${many(Number(n), "step")} ${text}`).join(", ");
  return [names.length ? ["Changed: ", h("b", names.join(", ")), ". "] : null, steps ? `${steps[0].toUpperCase()}${steps.slice(1)}.` : "Each step had the same outcome."];
}

/** The facts of both runs; telling ones say what a run was and did, others only what it took. */
function factsOf(/** @type {Compared} */ found) {
  const [a, b] = found.heads;
  const agents = found.agents.map((one) => one ?? /** @type {AgentSpec} */ ({}));
  const row = (name, of, draw = (/** @type {any} */ value) => value, isTelling = true) => {
    const values = [of(a, agents[0]), of(b, agents[1])];
    return { name, isTelling, same: JSON.stringify(values[0]) === JSON.stringify(values[1]), values: values.map((one) => (one === undefined || one === null || one === "" ? null : draw(one))) };
  };
  const figure = (name, of, draw) => row(name, of, draw, false);
  return [
    row("status", (/** @type {Head} */ head) => head.status, statusBadge),
    row("why", (/** @type {Head} */ head) => head.cause?.says),
    row("error", (/** @type {Head} */ head) => head.error?.code, (code) => badge(words(code), "bad")),
    row("request", (/** @type {Head} */ head) => head.request),
    row("answer", (/** @type {Head} */ head) => head.answer, prose),
    row("effect", (/** @type {Head} */ head) => head.effect ?? "none", effectBadge),
    row("agent", (/** @type {Head} */ head) => head.agent),
    row("model", (/** @type {Head} */ head) => head.model),
    row("instructions", (_, /** @type {AgentSpec} */ agent) => agent.instructions, visible),
    row("tools", (_, /** @type {AgentSpec} */ agent) => agent.tools, (/** @type {string[]} */ names) => names.join(", ")),
    row("settings", (_, /** @type {AgentSpec} */ agent) => agent.settings, jsonNode),
    figure("cost", (/** @type {Head} */ head) => head.cost, money),
    figure("tokens", (/** @type {Head} */ head) => head.usage, tokensOf),
    figure("took", (/** @type {Head} */ head) => head.took_s, took),
    figure("began", (/** @type {Head} */ head) => head.started_at, (text) => moment(text, { long: true })),
  ].filter((one) => one.values.some((value) => value !== null && value !== ""));
}

/** The steps of both side by side; runs of equal steps are folded. */
function stepsNode(/** @type {readonly ComparedStep[]} */ steps, id, other) {
  const groups = [];
  for (const one of steps) {
    if (groups.at(-1)?.[0].same === one.same) groups.at(-1).push(one);
    else groups.push([one]);
  }
  const lines = (group) => h("ol.pairs", group.map((one) => h(one.same ? "li.same" : "li.changed", cell(one.left, id), cell(one.right, other))));
  return h("div.pairing", groups.map((group) => (group[0].same ? h("details", h("summary", `${many(group.length, "step")} the same`), lines(group)) : lines(group))));
}

const cell = (/** @type {StepLine | null} */ line, run) => (line
  ? h("div.cell", local(stepPath(run, line.step), null, h("span.no", String(line.step + 1)), h("code", line.given)), h(`p.word.${line.tone}`, line.got))
  : h("div.cell.none", h("span.quiet", "not in this run")));

/** Where two runs differ, in words. */
export const partedAt = (/** @type {Difference} */ at, begin) => [`${begin} `, h("b", at.seq ? `event ${at.seq}` : "what comes after its last event"), `: ${words(at.kind)}${at.part ? `, ${at.part}` : ""}.`, at.asked ? ` It asked for ${at.asked}.` : ""];

/** What each of two runs said at that place. */
export const sides = (both) =>
  h("div.sides", both.map(([name, value]) => h("section.pane", h("div.panehead", h("h2", name)), h("div.side", value === null || value === undefined ? h("p.quiet", "nothing more") : jsonNode(value)))));
