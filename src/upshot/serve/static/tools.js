// What the tools did in a period: how often, how well, how fast, and their slowest calls.

/** @import { ToolLine, ToolList } from "api" */

import { NUMBER, fill, focusMark, h, keyed, took, words } from "./nodes.js";
import { api, listQuery, live, local, rows, runPath, to } from "./site.js";
import { SPAN, periods, range, scaleOf, slower } from "./overview.js";

const SORTS = { slowest: ["Slowest", (one) => one.p95_s ?? 0], calls: ["Most calls", (one) => one.calls], failed: ["Most failures", (one) => one.failed], approvals: ["Slowest approvals", (one) => one.approval_p95_s ?? 0] };
const REST_MS = 5000;

export async function toolsPage(page) {
  page.title("Tools");
  const period = page.query.get("period") ?? "day";
  const asked = page.query.get("sort") ?? "";
  const sort = SORTS[asked] ? asked : "slowest";
  const list = h("ol.tools", { "aria-label": "Tools" });
  const empty = h("p.empty", { hidden: true }, "No run that has ended in this time called a tool.");
  let at = 0;
  let timer = 0;
  const read = async () => {
    at = Date.now();
    return /** @type {ToolList} */ (await api("/api/tools" + listQuery({ period })));
  };
  const draw = async (/** @type {ToolList} */ found) => {
    const { since, until } = found;
    const scale = scaleOf(found.tools);
    const value = SORTS[sort][1];
    empty.hidden = found.tools.length > 0;
    await keyed(list, [...found.tools].sort((one, other) => value(other) - value(one)).map((one) => ({ ...one, since, until, scale })), (one) => one.name, toolNode, { least: 5 });
  };
  const found = await read();
  if (!page.isThere()) return;
  const mark = /** @type {HTMLElement} */ (document.activeElement)?.dataset?.mark;
  const here = (given) => "/tools" + listQuery({ period: found.period === "day" ? "" : found.period, sort: sort === "slowest" ? "" : sort, ...given });
  fill(page.main,
    h("header.ovhead", h("h1", "Tools"), periods(found.period, (name) => here({ period: name === "day" ? "" : name }))),
    h("nav.periods.sorts", { "aria-label": "Order" }, Object.entries(SORTS).map(([name, [text]]) =>
      h("a", { href: to(here({ sort: name === "slowest" ? "" : name })), "data-mark": `sort ${name}`, "aria-current": name === sort ? "true" : null }, text))),
    h("p.quiet", `Calls in the runs that started in ${SPAN[found.period]}.`), list, empty);
  focusMark(page.main, mark);
  await draw(found);
  if (!page.isThere()) return;
  page.closing(() => clearTimeout(timer));
  rows(page, () => [...page.main.querySelectorAll(".tools > li > h2 > a")]);
  live(page, async () => {
    clearTimeout(timer);
    const left = REST_MS - (Date.now() - at);
    const load = async () => {
      const now = await read();
      if (page.isThere()) await draw(now);
    };
    if (left <= 0) await load();
    else timer = setTimeout(() => page.isThere() && load().catch(() => {}), left);
  });
}

/** @param {ToolLine & {since: string, until: string, scale: number[]}} one */
function toolNode(one) {
  const runs = "/runs" + listQuery({ tool: one.name, since: one.since, until: one.until });
  const figure = (name, n, path, tone = "") => h("div", h("dt", name), h("dd", n ? h("a", { href: to(path), class: tone, "data-mark": `${one.name} ${name}` }, NUMBER.format(n)) : "–"));
  const fact = (name, ...text) => h("div", h("dt", name), h("dd", text));
  return h("li.card", h("h2", local(runs, { "data-mark": `tool ${one.name}` }, h("code", one.name))),
    h("dl.figures",
      figure("calls", one.calls, runs),
      figure("failed", one.failed, runs, "failing"),
      figure("timed out", one.timed_out, runs, "failing"),
      figure("unknown effect", one.unknown, "/effects" + listQuery({ state: "unknown", tool: one.name }), "failing"),
      figure("denied", one.denied, runs),
      figure("asked for twice", one.repeated, "/effects" + listQuery({ tool: one.name })),
      fact("half within", one.p50_s === null ? "–" : took(one.p50_s)),
      fact("95 % within", one.p95_s === null ? "–" : took(one.p95_s), slower(one.p95_s, one.p95_before_s)),
      one.approvals ? figure("approvals", one.approvals, runs) : null,
      one.approvals ? fact("answered within", `${took(one.approval_p50_s)} (half), ${took(one.approval_p95_s)} (95 %)`) : null),
    range(one, one.scale[0], one.scale[1]),
    one.slowest.length ? h("p.slow", h("span.quiet", "slowest calls "), one.slowest.map((call, at) => [at ? ", " : "", local(`${runPath(call.run_id)}?call=${encodeURIComponent(call.call_id)}`, { "data-mark": `slow ${call.run_id} ${call.call_id}`, "aria-label": `${words(one.name)}: ${took(call.took_ms / 1000)} in run ${call.run_id}` }, took(call.took_ms / 1000))])) : null);
}
