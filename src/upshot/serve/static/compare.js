// What changed between two runs: their facts, the first difference, and their steps side by side.

/** @import { AgentSpec, Compared, ComparedStep, Difference, Head, StepLine } from "api" */

import { badge, duration, effectBadge, fill, h, jsonNode, many, money, moment, statusBadge, tokensOf, visible, words } from "./nodes.js";
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
  const equal = facts.filter((one) => one.same);
  const parted = found.steps.filter((one) => !one.same);
  const table = (/** @type {any[]} */ some, name) => h("div.table", { tabindex: 0, role: "region", "aria-label": name }, h("table.facing", h("thead", h("tr", h("th", { scope: "col" }, h("span.away", "Fact")), [id, other].map((run) => h("th", { scope: "col" }, local(runPath(run), null, run))))),
    h("tbody", some.map((one) => h(one.same ? "tr.same" : one.isTelling ? "tr.changed" : "tr", h("th", { scope: "row" }, one.name), one.same ? h("td", { colspan: 2 }, one.values[0]) : one.values.map((value) => h("td", value ?? h("span.quiet", "none"))))))));
  fill(page.main, h("h1", "Two runs compared"),
    h("p.lead.first", at || parted.length || changed.some((one) => one.isTelling) ? firstOf(found.steps, id, other) : "They said and did the same."),
    parted.length || changed.some((one) => one.isTelling) ? h("p.changes", leadOf(changed, parted)) : null,
    changed.length ? table(changed, "Facts that differ") : null,
    equal.length ? h("details", h("summary", `${many(equal.length, "fact")} the same`), table(equal, "Facts that are the same")) : null,
    at ? h("details", h("summary", "The first difference of the logs"), h("p", partedAt(at, "They first differ, in the first run, at")), sides([[id, at.recorded], [other, at.replayed]].map(([run, value]) => [local(runPath(String(run)), null, String(run)), value]))) : null,
    h("h2", "Steps"), stepsNode(found.steps, id, other));
}

/** What was the same at first, and what each run did then. */
function firstOf(/** @type {readonly ComparedStep[]} */ steps, id, other) {
  const at = steps.findIndex((one) => !one.same);
  if (at < 0) return `All ${many(steps.length, "step")} are the same.`;
  const until = at ? `The first ${many(at, "step")} ${at > 1 ? "are" : "is"} the same. Then ` : "They differ from the start: ";
  const both = steps[at];
  const step = (/** @type {StepLine} */ line, run) => local(stepPath(run, line.step), null, `step ${line.step + 1}, `, h("code", line.given));
  if (both.left && both.right) return [until, step(both.left, id), " had different outcomes: ", h(`span.word.${both.left.tone}`, both.left.got || "nothing"), " in the first run, and ", h(`span.word.${both.right.tone}`, both.right.got || "nothing"), " in the second (", local(stepPath(other, both.right.step), null, `step ${both.right.step + 1}`), ")."];
  const side = (/** @type {"left" | "right"} */ name) => steps.slice(at).find((one) => one[name])?.[name];
  const did = (line, run) => (line ? ["did ", step(line, run)] : "had ended");
  return [until, "the first run ", did(side("left"), id), ", and the second ", did(side("right"), other), "."];
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
    figure("took", (/** @type {Head} */ head) => head.took_s, duration),
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
