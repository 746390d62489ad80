// The overview: how the runs of a period ended, and what has not ended. Every mark leads to the list that it counts.

/** @import { ModelLimit, Overview, OverviewAgent, OverviewCalls, OverviewError } from "api" */

import { NUMBER, TONES, fill, focusMark, h, keyed, many, moment, money, plain, took, when, words, zone } from "./nodes.js";
import { api, go, listQuery, live, local, runPath, to } from "./site.js";

const PERIODS = [["hour", "Hour"], ["day", "Day"], ["week", "Week"]];
export const SPAN = { hour: "the last hour", day: "the last 24 hours", week: "the last 7 days" };
// From the bottom of a bar to its top.
const ORDER = ["completed", "input_required", "interrupted", "canceled", "failed", "aborted"];
const NAMES = { input_required: "waiting" };
const HEIGHT = 190;
const REST_MS = 5000;

export async function overviewPage(page) {
  // Before there was an overview, the list of runs was here.
  if ([...page.query.keys()].some((name) => name !== "period")) {
    await go("/runs" + location.search, { replace: true });
    return;
  }
  page.title("Overview");
  const period = page.query.get("period") ?? "day";
  const top = h("div.ovtop");
  const cards = h("div.cards");
  let at = 0;
  let timer = 0;
  const load = async () => {
    at = Date.now();
    const found = /** @type {Overview} */ (await api("/api/overview" + listQuery({ period })));
    if (!page.isThere()) return;
    const mark = /** @type {HTMLElement} */ (document.activeElement)?.dataset?.mark;
    const isFirst = !top.isConnected;
    if (isFirst) fill(page.main, top, cards, h("p.quiet.zone", `Times are those of ${zone()}; days are those of UTC. A run counts in the period in which it started, once it has ended or waits. Durations are exact to the width of a bucket.`));
    // Card by card, one or two a frame: what has not changed stays.
    const isWhole = (await keyed(top, topParts(found), (one) => one.key, (one) => one.draw(), { least: 2 })) && (await keyed(cards, cardParts(found), (one) => one.key, (one) => one.draw(), { least: 2 }));
    if (isFirst && isWhole) focusMark(page.main, mark);
  };
  await load();
  if (!page.isThere()) return;
  page.closing(() => clearTimeout(timer));
  live(page, async () => {
    clearTimeout(timer);
    const left = REST_MS - (Date.now() - at);
    if (left <= 0) await load();
    else timer = setTimeout(() => page.isThere() && load().catch(() => {}), left);
  });
}

/** The lists of the runs of a period. */
const runsOf = (/** @type {Overview} */ found) => (given, since = found.since, until = found.until) => "/runs" + listQuery({ ...given, since, until });

/** A part of the page, drawn again once its data have changed. */
const part = (/** @type {string} */ key, /** @type {any} */ data, /** @type {() => HTMLElement} */ draw) => ({ key, data, draw });

/** @param {Overview} found */
function topParts(found) {
  const runs = runsOf(found);
  const all = sum(found.now.statuses);
  const { period, since, until } = found;
  return [
    part("head", period, () => h("header.ovhead", h("h1", "Overview"), periods(period, (name) => "/" + listQuery({ period: name === "day" ? "" : name })))),
    part("open", found.work, () => openWork(found)),
    part("outcomes", [period, since, until, found.now, found.before, found.parts], () => h("section.card.outcomes", { "aria-labelledby": "ov-outcomes" },
      h("div.cardhead", h("h2", { id: "ov-outcomes" }, "Runs by outcome"), h("span.quiet", `${many(all, "run")} that started in ${SPAN[period]}`, change(all, sum(found.before.statuses)) ?? " and none before")),
      legend(found, runs), all ? outcomes(found, runs) : h("p.none", "No run that has ended started in this time. ", local("/runs", null, "All runs")))),
  ];
}

/** @param {Overview} found */
function cardParts(found) {
  const runs = runsOf(found);
  const { period, since, until, work } = found;
  const made = (title, data, about, body, more = "") => part(title, [since, until, data], () => card(title, typeof about === "function" ? about() : about, body(), more));
  const all = () => local("/tools" + listQuery({ period: period === "day" ? "" : period }), { "data-mark": "all tools" }, "all, with failures and slowest calls");
  return [
    made("Failures", found.errors, "by code; the line marks the period before", () => (found.errors.length ? errors(found, runs) : h("p.none", "No run failed."))),
    made("Waiting", [work.waiting, work.unknown_ages], "by age", () => ages(found)),
    ...costs(found, runs, made),
    found.agents.length ? made("Agents", found.agents, "", () => agents(found, runs), ".wide") : null,
    found.models.length ? made("Models", found.models, "calls", () => calls(found.models, (model) => runs({ model }))) : null,
    found.tools.length ? made("Tools", [period, found.tools], all, () => calls(found.tools, (tool) => runs({ tool }))) : null,
    found.limits.length ? made("Limits of providers", found.limits, "as the last replies said, and calls that they refused", () => limits(found, runs), ".wide") : null,
    found.workers.length ? made("Workers", found.workers, "and how many runs each holds", () => workers(found), ".wide") : null,
  ].filter((one) => one !== null);
}

/** Links to each period; *path* gives the address of one. */
export const periods = (current, path) => h("nav.periods", { "aria-label": "Period" }, PERIODS.map(([name, text]) =>
  h("a", { href: to(path(name)), "data-mark": `period ${name}`, "aria-current": name === current ? "true" : null }, text)));

const sum = (counts) => Object.values(counts).reduce((one, other) => one + other, 0);
const name = (status) => NAMES[status] ?? words(status);
const card = (title, about, body, more = "") => h(`section.card${more}`, { "aria-label": title }, h("div.cardhead", h("h2", title), about && h("span.quiet", about)), body);

/** How a number changed since the period before, in words that need no colour. */
function change(now, before) {
  if (!before) return null;
  if (now === before) return h("span.delta", " as before");
  const by = Math.round((100 * (now - before)) / before);
  const text = by > 999 ? ` ${Math.round(now / before)} times as many` : ` ${by > 0 ? "▲" : "▼"} ${Math.abs(by)} %`;
  return h("span.delta", { title: `${NUMBER.format(before)} in the period before` }, text);
}

// ---- What has not ended -----------------------------------------------------------------------------------------

/** @param {Overview} found */
function openWork(found) {
  const work = found.work;
  const waiting = work.waiting ?? [];
  const oldest = found.ages_s.filter((_, at) => at && waiting[at]).at(-1);
  const tile = (n, text, path, tone) => h("a", { href: to(path), class: `tile ${n ? tone : "none"}`, "data-mark": `open ${text}` }, h("b", NUMBER.format(n ?? 0)), h("span", text));
  return h("nav.tiles", { "aria-label": "What has not ended" },
    tile(waiting[0], "waiting for people", "/inbox", "wait"),
    oldest ? tile(waiting[found.ages_s.indexOf(oldest)], `waiting for over ${took(oldest)}`, "/inbox" + listQuery({ older: String(oldest) }), "wait") : null,
    tile(work.unknown, "unknown effects", "/effects?state=unknown", "bad"),
    tile(work.running, "running", "/runs?status=running", "live"),
    tile(work.queued, "queued", "/runs?status=queued", "plain"),
    tile(work.begun, "effects under way", "/effects?state=begun", "plain"));
}

// ---- Plots ------------------------------------------------------------------------------------------------------

/** A node of SVG; a link in it gets the address of a page. */
function svg(tag, given, ...children) {
  const node = document.createElementNS("http://www.w3.org/2000/svg", tag);
  for (const [key, value] of Object.entries(given ?? {})) if (value !== null && value !== undefined) node.setAttribute(key, key === "aria-label" ? plain(value) : String(value));
  for (const child of children.flat(Infinity)) if (child !== null && child !== undefined && child !== false) node.append(child);
  return node;
}

/** One bar or a piece of one: a link whose name says the figure. */
function piece(path, label, mark, ...shapes) {
  return svg("a", { href: to(path), "aria-label": label, "data-mark": mark, tabindex: -1 }, svg("title", null, plain(label)), shapes);
}

/** Draws at the width of the place, again whenever that changes; the arrow keys go from mark to mark. */
function plot(label, height, paint) {
  const box = h("div.plot", { role: "group", "aria-label": `${label}. The arrow keys go from mark to mark.` });
  box.style.minHeight = `${height}px`;
  let width = 0;
  new ResizeObserver(([entry]) => {
    const now = Math.floor(entry.contentRect.width);
    if (now === width || now < 40) return;
    width = now;
    const mark = /** @type {HTMLElement} */ (box.contains(document.activeElement) ? document.activeElement : null)?.dataset.mark;
    fill(box, svg("svg", { width, height, viewBox: `0 0 ${width} ${height}`, role: "presentation" }, paint(width)));
    const marks = marksOf(box);
    const same = marks.find((one) => one.dataset.mark === mark);
    (same ?? marks.at(-1))?.setAttribute("tabindex", "0");
    same?.focus({ preventScroll: true });
  }).observe(box);
  box.addEventListener("keydown", (event) => {
    const steps = { ArrowRight: 1, ArrowUp: 1, ArrowLeft: -1, ArrowDown: -1, Home: -1e6, End: 1e6 }[event.key];
    if (!steps) return;
    event.preventDefault();
    const marks = marksOf(box);
    const here = marks.indexOf(/** @type {any} */ (document.activeElement));
    const next = marks[Math.min(marks.length - 1, Math.max(0, here + steps))];
    for (const one of marks) one.setAttribute("tabindex", one === next ? "0" : "-1");
    next?.focus();
  });
  return box;
}

/** @returns {HTMLElement[]} */
const marksOf = (box) => [...box.querySelectorAll("a[data-mark]")];

/** A round number of steps for a scale that holds *most*. */
function ticks(most) {
  const rough = most / 3;
  const unit = 10 ** Math.floor(Math.log10(Math.max(rough, 1e-9)));
  const step = [1, 2, 5, 10].map((one) => one * unit).find((one) => one >= rough) ?? unit;
  const count = Math.max(1, Math.ceil(most / step));
  return [...Array(count + 1)].map((_, at) => at * step);
}

/** When a part began, as short as the period allows. */
function partName(found, part, { long = false } = {}) {
  const at = new Date(part.since);
  if (found.period === "week") return at.toLocaleDateString("en-GB", { weekday: "short", day: "numeric", month: long ? "short" : undefined, timeZone: "UTC" });
  const clock = at.toLocaleTimeString("en-GB", { hour: "2-digit", minute: "2-digit" });
  return long ? moment(part.since) : clock;
}

const endOf = (found, part) => new Date(Date.parse(part.since) + found.step_s * 1000).toISOString();

/** Bars over time: *pieces* gives those of one part, from the bottom. */
function bars(found, label, height, shownTick, pieces) {
  const stacks = found.parts.map((part) => pieces(part));
  const most = Math.max(...stacks.map((stack) => stack.reduce((all, one) => all + one.value, 0)), 1e-9);
  const scale = ticks(most);
  const top = scale.at(-1);
  return plot(label, height, (width) => {
    const left = 8 + 7 * Math.max(...scale.map((tick) => shownTick(tick).length));
    const low = height - 22;
    const high = 8;
    const y = (value) => low - ((low - high) * value) / top;
    const slot = (width - left) / stacks.length;
    const wide = Math.max(2, Math.min(44, slot * 0.72));
    const each = Math.ceil((found.period === "week" ? 52 : 46) / slot);
    const grid = scale.map((tick) => [svg("line", { class: tick ? "grid" : "grid base", x1: left, x2: width, y1: y(tick), y2: y(tick) }),
      svg("text", { class: "tick", x: left - 6, y: y(tick) + 4, "text-anchor": "end", "aria-hidden": "true" }, shownTick(tick))]);
    const columns = stacks.map((stack, at) => {
      const x = left + slot * at + (slot - wide) / 2;
      let from = 0;
      const drawn = stack.map((one) => {
        const [y1, y2] = [y(from + one.value), y(from)];
        from += one.value;
        // Hollow pieces keep their outline inside.
        return piece(one.path, one.label, `${label} ${found.parts[at].since} ${one.tone}`, svg("rect", { class: "hit", x: x - (slot - wide) / 2, width: slot, y: y1, height: Math.max(4, y2 - y1) }),
          svg("rect", { class: `seg ${one.tone}`, x: x + 0.75, width: wide - 1.5, y: y1 + 0.75, height: Math.max(1, y2 - y1 - 1.5), rx: 2 }));
      });
      const isNamed = (stacks.length - 1 - at) % each === 0;
      const name = partName(found, found.parts[at]);
      // A name at the edge stays inside.
      const middle = Math.min(x + wide / 2, width - 4 * name.length);
      return [drawn, isNamed && svg("text", { class: "tick", x: middle, y: height - 5, "text-anchor": "middle", "aria-hidden": "true" }, name)];
    });
    return [grid, columns];
  });
}

const toneOf = (status) => ({ interrupted: "stopped", canceled: "stopped dashed", aborted: "bad dashed" })[status] ?? TONES[status] ?? "plain";

/** @param {Overview} found */
function legend(found, runs) {
  const known = ORDER.filter((status) => found.now.statuses[status] || found.before.statuses[status]);
  const effects = [["applied", "with an applied effect", "odd"], ["unknown", "with an unknown effect", "bad"]];
  return h("div.legend",
    known.map((status) => h("a", { href: to(runs({ status })), "data-mark": `status ${status}` },
      svg("svg", { width: 14, height: 14, "aria-hidden": "true" }, svg("rect", { class: `seg ${toneOf(status)}`, x: 1, y: 1, width: 12, height: 12, rx: 2 })),
      h("b", NUMBER.format(found.now.statuses[status] ?? 0)), ` ${name(status)}`, change(found.now.statuses[status] ?? 0, found.before.statuses[status] ?? 0))),
    effects.map(([effect, text]) => found.now[effect] ? h("a.effects-of", { href: to(runs({ effect })), "data-mark": `effect ${effect}` }, h("b", NUMBER.format(found.now[effect])), ` ${text}`, change(found.now[effect], found.before[effect])) : null),
    found.now.p50_s === null ? null : h("a.effects-of", { href: to(runs({ sort: "took" })), "data-mark": "took" }, "half took at most ", h("b", took(found.now.p50_s)), ", 95 % ", h("b", took(found.now.p95_s)), slower(found.now.p95_s, found.before.p95_s)));
}

/** @param {Overview} found */
function outcomes(found, runs) {
  return bars(found, "Runs by outcome over time", HEIGHT, (tick) => (tick % 1 ? "" : NUMBER.format(tick)), (part) => ORDER.filter((status) => part.statuses[status]).map((status) => ({
    value: part.statuses[status],
    tone: toneOf(status),
    path: runs({ status }, part.since, endOf(found, part)),
    label: `${partName(found, part, { long: true })}: ${many(part.statuses[status], "run")} ${name(status)}`,
  })));
}

/** One card for each currency: amounts of two are never added up or drawn on one scale. */
function costs(found, runs, made) {
  return Object.entries(found.now.costs).filter(([, total]) => Number(total) > 0).map(([currency, total], at, all) => {
    const shown = (value) => money({ total: value, currency });
    const before = Number(found.before.costs[currency] ?? 0);
    const by = found.agents.map((agent) => [agent.agent_id, Number(agent.costs[currency] ?? 0)]).filter(([, cost]) => cost).sort((a, b) => Number(b[1]) - Number(a[1])).slice(0, 6);
    return made(`Cost in ${currency}`, [total, before, by, found.parts], () => [h("b", shown(total)), change(Number(total), before)],
      () => [bars(found, `Cost in ${currency} over time`, 120, (tick) => (tick ? shown(tick).replace(/\.?0+$/, "") : "0"), (part) => Number(part.costs[currency] ?? 0) > 0 ? [{
        value: Number(part.costs[currency]),
        tone: "live",
        path: runs({ currency, sort: "cost" }, part.since, endOf(found, part)),
        label: `${partName(found, part, { long: true })}: ${shown(part.costs[currency])}`,
      }] : []),
      lines(by.map(([agent, cost]) => ({ path: runs({ agent, currency, sort: "cost" }), name: agent, value: Number(cost), text: shown(cost), mark: `cost ${currency} ${agent}` })), "live")], at === all.length - 1 && all.length % 2 ? ".wide" : "");
  });
}

/** Horizontal bars, each a line with its name and figure; *before* is marked by a tick. */
function lines(rows, tone) {
  const most = Math.max(...rows.map((row) => Math.max(row.value, row.before ?? 0)), 1e-9);
  return h("ul.lines", rows.map((row) => h("li", h("a", { href: to(row.path), "data-mark": row.mark }, h("span.what", row.name),
    svg("svg", { class: "line", viewBox: "0 0 100 12", preserveAspectRatio: "none", "aria-hidden": "true" },
      svg("rect", { class: "rail", x: 0, y: 5.5, width: 100, height: 1 }), row.value ? svg("rect", { class: `seg ${tone}`, x: 0, y: 1, width: Math.max(0.8, (100 * row.value) / most), height: 10 }) : null,
      row.before ? svg("rect", { class: "was", x: Math.min(99, (100 * row.before) / most), y: 0, width: 1, height: 12 }) : null),
    h("span.num", row.text), row.more)))); 
}

/** @param {Overview} found */
function errors(found, runs) {
  const shown = (/** @type {OverviewError} */ one) => (one.before === 0 ? "new" : one.runs === one.before ? "as before" : `${one.runs > one.before ? "▲" : one.runs ? "▼" : "gone,"} was ${NUMBER.format(one.before)}`);
  return lines(found.errors.map((one) => ({ path: runs({ error_code: one.code }), name: words(one.code), value: one.runs, before: one.before, text: NUMBER.format(one.runs), mark: `error ${one.code}`, more: h(one.runs > one.before ? "span.delta.worse" : "span.delta", { title: `${NUMBER.format(one.before)} in the period before` }, shown(one)) })), "bad");
}

/** @param {Overview} found */
function ages(found) {
  const rows = (/** @type {readonly number[] | undefined} */ least, kind, path) => found.ages_s.map((age, at) => {
    const next = found.ages_s[at + 1];
    const n = (least?.[at] ?? 0) - (least?.[at + 1] ?? 0);
    const text = next === undefined ? `over ${took(age)}` : age ? `${took(age)} to ${took(next)}` : `under ${took(next)}`;
    return { path: path(age, next), name: text, value: n, text: NUMBER.format(n), mark: `${kind} ${text}` };
  });
  const { waiting, unknown, unknown_ages } = found.work;
  const aged = (path, given = {}) => (age, next) => path + listQuery({ ...given, older: age ? String(age) : "", younger: String(next ?? "") });
  return [h("h3", "Items of the inbox"), lines(rows(waiting, "age", aged("/inbox")), "wait"),
    h("h3", "Unknown effects"), unknown ? lines(rows(unknown_ages, "unknown", aged("/effects", { state: "unknown" })), "bad") : h("p.quiet", "None.")];
}

/** @param {Overview} found */
function limits(found, runs) {
  const left = (/** @type {ModelLimit["windows"][number]} */ one) => {
    const share = one.limit && one.remaining !== null && one.remaining !== undefined ? one.remaining / one.limit : null;
    const reset = one.reset_at ? (one.reset_at * 1000 > Date.now() ? ["full again ", when(new Date(one.reset_at * 1000).toISOString())] : "full again since") : null;
    return h("li", h("span.what", words(one.name || one.resource || "requests")), share === null ? null : h("meter", { min: 0, max: 1, low: 0.2, optimum: 1, value: share, "aria-label": `${words(one.name ?? "")} left` }),
      h("span.num", one.remaining === null || one.remaining === undefined ? "" : NUMBER.format(one.remaining), one.limit ? ` of ${NUMBER.format(one.limit)} left` : ""), h("span.quiet", reset));
  };
  return h("ul.limits", found.limits.map((one) => h("li", h("p", h("code", one.model), " ", one.at ? h("span.quiet", "as of ", when(one.at)) : null),
    one.windows.length ? h("ul", one.windows.map(left)) : null,
    one.refused ? h("p", h("b.failing", `${many(one.refused, "call")} refused`),
      one.runs.length ? [h("span.quiet", "; runs that met it: "), one.runs.map((met, at) => [at ? ", " : "", local(runPath(met.run_id), { "data-mark": `met ${met.run_id}` }, met.run_id)]), h("span.quiet", "; "), local(runs({ error_code: "rate_limit" }), { "data-mark": `limit ${one.model}` }, "all that failed by a limit")] : null) : null)));
}

/** @param {Overview} found */
function workers(found) {
  return lines(found.workers.map((one) => ({ path: "/workers", name: `${one.host} ${one.pid}${one.state === "working" ? "" : `, ${one.state}`}`, value: one.runs?.length ?? 0, text: many(one.runs?.length ?? 0, "run"), mark: `worker ${one.host} ${one.pid}` })), "live");
}

// ---- Tables -----------------------------------------------------------------------------------------------------

export function slower(now, before) {
  if (!now || !before) return null;
  const by = Math.round((100 * (now - before)) / before);
  return Math.abs(by) < 10 ? null : h("span.delta", { title: `${took(before)} in the period before` }, ` ${by > 0 ? "▲" : "▼"} ${Math.abs(by)} %`);
}

/** From p50 to p95, on one scale of equal factors for all rows. */
export function range(row, least, most) {
  const x = (value) => 4 + (92 * Math.log(Math.max(value, least) / least)) / Math.log(most / least);
  return svg("svg", { class: "range", viewBox: "0 0 100 12", preserveAspectRatio: "none", "aria-hidden": "true" },
    svg("rect", { class: "rail", x: 0, y: 5.5, width: 100, height: 1 }),
    row.p50_s === null ? null : [svg("rect", { class: "seg live", x: x(row.p50_s), y: 4, width: Math.max(1, x(row.p95_s) - x(row.p50_s)), height: 4 }), svg("rect", { class: "half", x: x(row.p50_s) - 0.5, y: 1, width: 1.6, height: 10 }), svg("rect", { class: "seg live", x: x(row.p95_s) - 0.5, y: 1, width: 1.6, height: 10 })]);
}

export const scaleOf = (rows) => [0.005, Math.max(1, ...rows.map((row) => row.p95_s ?? 0)) * 1.1];

/** @param {OverviewCalls[]} rows */
function calls(rows, path) {
  const [least, most] = scaleOf(rows);
  return h("table.figures", h("thead", h("tr", h("th", { scope: "col" }, "name"), h("th.num", { scope: "col" }, "calls"), h("th.num", { scope: "col" }, "failed"), h("th.num", { scope: "col" }, "p50"), h("th.num", { scope: "col" }, "p95"), h("td.ranges"))),
    h("tbody", rows.map((row) => h("tr", h("th", { scope: "row" }, h("a", { href: to(path(row.name)), "data-mark": `calls ${row.name}` }, h("code", row.name))),
      h("td.num", NUMBER.format(row.calls)), h("td.num", { class: row.failed ? "num failing" : "num" }, row.failed ? NUMBER.format(row.failed) : "–"),
      h("td.num", row.p50_s === null ? "–" : took(row.p50_s)), h("td.num", row.p95_s === null ? "–" : took(row.p95_s), slower(row.p95_s, row.p95_before_s)), h("td.ranges", range(row, least, most))))));
}

/** @param {Overview} found */
function agents(found, runs) {
  const [least, most] = scaleOf(found.agents);
  const costsOf = (/** @type {OverviewAgent} */ row) => Object.entries(row.costs).filter(([, total]) => Number(total)).map(([currency, total]) => money({ total, currency })).join(", ");
  return h("table.figures", h("thead", h("tr", h("th", { scope: "col" }, "agent"), h("th.num", { scope: "col" }, "runs"), h("th.num", { scope: "col" }, "failed"), h("th.num", { scope: "col" }, "p50"), h("th.num", { scope: "col" }, "p95"), h("td.ranges"), h("th.num", { scope: "col" }, "cost"))),
    h("tbody", found.agents.map((row) => h("tr", h("th", { scope: "row" }, h("a", { href: to(runs({ agent: row.agent_id })), "data-mark": `agent ${row.agent_id}` }, row.agent_id)),
      h("td.num", NUMBER.format(row.runs), change(row.runs, row.before)),
      h("td.num", { class: row.failed ? "num failing" : "num" }, row.failed ? h("a", { href: to(runs({ agent: row.agent_id, status: "failed" })), "data-mark": `failed ${row.agent_id}` }, NUMBER.format(row.failed)) : "–"),
      h("td.num", row.p50_s === null ? "–" : took(row.p50_s)), h("td.num", row.p95_s === null ? "–" : took(row.p95_s)), h("td.ranges", range(row, least, most)), h("td.num.cost", costsOf(row))))));
}
