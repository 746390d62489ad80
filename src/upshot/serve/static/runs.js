// The list of runs.

/** @import { DayCost, Note, RunCounts, RunList, RunSummary } from "api" */

import { NUMBER, STATUS_WORDS, TONES, effectBadge, fill, h, keyed, many, money, painted, plain, say, statusBadge, tokensOf, took, when, whose, words, zone } from "./nodes.js";
import { Choice } from "./choice.js";
import { addToDataset } from "./lab.js";
import { COLUMNS, columnChoice, columnsOf, focusColumn, views } from "./views.js";
import { api, go, hasBefore, keys, shared, listQuery, live, local, maybe, rows, runPath, to, toNext } from "./site.js";

const STATUSES = ["running", "queued", "input_required", "completed", "failed", "interrupted", "canceled", "aborted"];
const SORTS = [["", "newest"], ["cost", "cost"], ["tokens", "tokens"], ["took", "time"], ["effect", "effect"]];
const PAGE = 100;
const FILTERS = ["status", "agent", "effect", "error_code", "tool", "model", "conversation", "owner", "tenant", "text", "find", "since", "until", "currency", "sort"];

export async function runsPage(page) {
  page.title("Runs");
  /** @type {Object<string, string>} */
  const filter = {};
  for (const name of [...FILTERS, "before"]) if (page.query.get(name)) filter[name] = page.query.get(name);
  const columns = columnsOf(page.query.get("columns") ?? "");
  // Part of the address, and not sent to the server.
  const shape = { columns: page.query.get("columns") ?? "" };
  const { before, ...rest } = filter;
  const address = (/** @type {Object<string, string>} */ change) => "/runs" + listQuery({ ...rest, ...shape, ...change });
  const set = (change, given = {}) => go(address(change), given);
  const list = h("ol.runs", { "aria-label": "Runs" });
  const choice = new Choice(list, rest, () => refresh());
  const counts = h("section.counts", { "aria-label": "Counts" });
  const newer = before ? h("button", { type: "button", onclick: () => (hasBefore() ? history.back() : go(address({}))) }, hasBefore() ? "Newer" : "To the first page") : null;
  const next = /** @type {HTMLAnchorElement} */ (local(address({}), { class: "button", rel: "next" }, "Next 100"));
  const more = h("nav.paging", { "aria-label": "Pages of the list" }, newer);
  // An arrow key changes a closed select: its steps are not pages of the history.
  let isByKey = false;
  const choose = (name, label, options) => h("label", h("span", label),
    h("select", { name, onkeydown: () => (isByKey = true), onpointerdown: () => (isByKey = false), onchange: () => set(typed(), { replace: isByKey }) },
      options.map(([value, text]) => h("option", { value, selected: (rest[name] ?? "") === value }, text))));
  const field = (name, label, type = "text", width = "") => h(`label${width}`, h("span", label), h("input", { name, type, value: shownAs(name, rest[name]) }));
  const extra = ["find", "conversation", "owner", "tenant", "tool", "model", "since", "until", "error_code"];
  const typed = () => Object.fromEntries([...new FormData(form)].map(([name, value]) => [name, sentAs(name, String(value).trim())]));
  const form = h("form.filters", { role: "search", "aria-label": "Filter", onsubmit: (event) => {
    event.preventDefault();
    set(typed());
  } },
  field("text", "Text of request or answer, or a run’s id", "search", ".wide"),
  choose("status", "Status", [["", "any"], ...STATUSES.map((one) => [one, words(one)])]),
  choose("agent", "Agent", withCurrent([["", "any"], ...shared.me.agents.map((one) => [one.id, one.id])], rest.agent)),
  choose("effect", "Effect", [["", "any"], ["unknown", "unknown"], ["applied", "applied"], ["none", "none"]]),
  choose("sort", "Order", SORTS),
  rest.currency && choose("currency", "Currency", [["", "any"], [rest.currency, rest.currency]]),
  h("details.more", { open: extra.some((name) => rest[name]) }, h("summary", "More"),
    h("div.fields", field("find", "Any text in arguments and outputs", "search"), field("tool", "Tool"), field("model", "Model"), field("error_code", "Error code"), field("conversation", "Conversation"), field("owner", "Owner"), field("tenant", "Tenant"),
      field("since", "Since", "datetime-local"), field("until", "Until", "datetime-local"), h("button", "Filter"))));
  const active = Object.entries(rest).filter(([name]) => name !== "sort");
  const chips = h("div.chips", h("a.chip.unknown", { href: to(address({ effect: rest.effect === "unknown" ? "" : "unknown" })), "aria-pressed": null, class: rest.effect === "unknown" ? "chip unknown on" : "chip unknown" }, "Unknown effects"),
    h("a", { class: rest.status === "input_required" ? "chip on" : "chip", href: to(address({ status: rest.status === "input_required" ? "" : "input_required" })) }, "Waits for an answer"),
    active.map(([name, value]) => (name === "effect" && value === "unknown") || (name === "status" && value === "input_required") ? null
      : h("a.chip.on", { href: to(address({ [name]: "" })), "aria-label": `Without ${words(name)} ${value}` }, `${words(name)}: ${value} ×`)),
    h("span.grow"), choice.toggle,
    shared.me.datasets && !rest.find && h("button.chip", { type: "button", onclick: () => addToDataset("the runs of this list", { filters: Object.fromEntries(active) }) }, "Add to a dataset …"));
  const empty = h("p.empty", { hidden: true }, active.length || rest.sort ? "No run matches." : "No runs yet.",
    rest.text && !rest.find && [" ", h("a", { href: to(address({ text: "", find: rest.text })) }, "Search arguments and outputs too")]);
  const draw = async (/** @type {RunList} */ found) => {
    empty.hidden = found.runs.length > 0;
    // Hits of a search are added below those that are there.
    if (!rest.find) toNext(more, next, found.next && to(address({ before: found.next })));
    await keyed(list, found.runs.map((run) => ({ ...run, notes: found.notes?.[run.run_id], isAnswered: (found.answered ?? []).includes(run.run_id) })), (run) => run.run_id, (run) => runLine(run, choice));
    choice.mark();
  };
  /** @returns {Promise<RunList>} */
  const load = (change = {}) => api("/api/runs" + listQuery({ ...filter, notes: columns.includes("notes") ? "true" : "", ...change }));
  /** @returns {Promise<RunCounts>} */
  const count = () => maybe("/api/counts" + listQuery({ ...rest, find: "", sort: "" }));
  const refresh = async () => {
    const [now, counted] = await Promise.all([load(), count()]);
    if (page.isThere()) await Promise.all([draw(now), drawCounts(counts, counted, rest)]);
  };
  const search = rest.find ? new Search(page, load, draw, count) : null;
  const [found, counted] = search ? [] : await Promise.all([load(), count()]);
  if (!page.isThere()) return;
  const left = rest.sort ? h("p.quiet", "Runs without that figure are left out.", rest.sort === "cost" && !rest.currency ? " Amounts are grouped by currency." : "") : null;
  const heads = h("div.run.heads", { "aria-hidden": "true" }, h("span", "status"), h("span", "request"), h("span.tools", "tools"), h("span.figures", h("span.effect"), h("span.figure.took", "took"), h("span.figure.events", "events"), h("span.figure.tokens", "tokens"), h("span.figure.cost", "cost"), h("span.figure.when", "began")));
  const listing = h("div.listing", heads, list);
  for (const name of COLUMNS) listing.classList.toggle(`without-${name}`, !columns.includes(name));
  fill(page.main, h("h1.away", "Runs"), counts, chips, form, h("div.shape", columnChoice(columns, (change) => set(change, { replace: true })), views({ ...rest, ...shape })), left, search?.node, choice.bar, listing, empty, more, h("p.quiet.zone", `Times are those of ${zone()}; days of costs are those of UTC.`));
  focusColumn(page.main);
  if (search) search.turn();
  else {
    await drawCounts(counts, counted, rest);
    // The page first, then its rows: each is one task of the browser.
    await painted();
    await draw(found);
    if (!page.isThere()) return;
  }
  rows(page, () => [...list.querySelectorAll("a.run")]);
  // A search reads many logs, so it is not repeated by itself.
  if (!before && !rest.find) live(page, refresh);
  page.closing(keys((key, event) => {
    const box = /** @type {HTMLInputElement | null | undefined} */ (document.activeElement?.closest("li")?.querySelector("input.choose"));
    if (key !== "x" || !box) return false;
    event.preventDefault();
    if (!choice.isOn) choice.turn(true);
    box.click();
    return true;
  }));
}

const withCurrent = (options, value) => (value && !options.some(([one]) => one === value) ? [...options, [value, value]] : options);
const isMoment = (name) => name === "since" || name === "until";

function shownAs(name, value) {
  if (!value || !isMoment(name)) return value ?? "";
  const at = new Date(value);
  if (Number.isNaN(at.getTime())) return "";
  return new Date(at.getTime() - at.getTimezoneOffset() * 60000).toISOString().slice(0, 16);
}

const sentAs = (name, value) => (value && isMoment(name) ? new Date(value).toISOString() : value);

/**
 * @param {RunSummary & {notes?: readonly Note[], isAnswered?: boolean}} run
 * @param {Choice} choice
 */
function runLine(run, choice) {
  const seconds = run.took_s ?? (run.started_at && run.updated_at ? (Date.parse(run.updated_at) - Date.parse(run.started_at)) / 1000 : null);
  const notes = (run.notes ?? []).map((one) => h("span.note-chip", { title: one.by ? `by ${one.by}` : null }, `${one.name}: `, plain(typeof one.value === "string" ? one.value : JSON.stringify(one.value))));
  return h("li", choice.box(run), local(runPath(run.run_id), { class: "run" },
    h("span.status", statusBadge(run.status ?? "running", run.isAnswered), run.error_code && run.status !== "input_required" ? h("span.code", words(run.error_code)) : null),
    h("span.asked", h("span.request", run.request || "(no text)"),
      h("span.quiet.sub", h("span", run.agent_id), run.parent_run_id && h("span", "child run"), run.owner && h("span.user", whose(run)), notes.length ? h("span.notes-of", notes) : null)),
    h("span.tools", run.tools?.length ? { title: run.tools.join(", ") } : null, (run.tools ?? []).map((name, at) => [at ? ", " : "", h("code", name)])),
    h("span.figures", h("span.effect", { title: "effect" }, run.effect && run.effect !== "none" ? effectBadge(run.effect) : null),
      h("span.figure.took", took(seconds)), h("span.figure.events", run.events ? NUMBER.format(run.events) : ""), h("span.figure.tokens", tokensOf(run.usage) && [tokensOf(run.usage), h("span.unit", " tok")]), amount(run.cost),
      h("span.figure.when", when(run.started_at)))));
}

/** A cost with its point below those of other rows. */
function amount(cost) {
  const text = money(cost);
  return h("span.figure.cost", text, h("span", { "aria-hidden": "true", class: `short-by-${5 - (/\.(\d+)/.exec(text)?.[1].length ?? 5)}` }));
}

/**
 * Reads the logs of matching runs for a text, request by request: hits are shown as they are found and stay, until a page
 * of them is found, all runs are read, or the user stops.
 */
class Search {
  /**
   * @param {any} page
   * @param {(change: Object<string, string>) => Promise<RunList>} load
   * @param {(found: RunList) => Promise<void>} draw
   * @param {() => Promise<RunCounts>} count
   */
  constructor(page, load, draw, count) {
    this.page = page;
    this.load = load;
    this.draw = draw;
    this.count = count;
    this.found = /** @type {RunList} */ ({ runs: [], next: null, notes: {} });
    this.read = 0;
    this.total = -1;
    this.isOn = false;
    this.isBusy = false;
    this.bar = /** @type {HTMLProgressElement} */ (h("progress", { "aria-label": "Runs read", value: 0, max: 1 }));
    this.told = h("span", "Searching …");
    this.button = h("button", { type: "button", onclick: () => this.turn() }, "Stop");
    this.node = h("div.search", this.bar, this.told, this.button);
  }

  /** Stops or continues. */
  async turn() {
    this.isOn = !this.isOn;
    fill(this.button, this.isOn ? "Stop" : "Search on");
    if (!this.isOn || this.isBusy) return;
    this.isBusy = true;
    const most = this.found.runs.length + PAGE;
    try {
      if (this.total < 0) this.total = sum((await this.count())?.statuses ?? {});
      do await this.step(most);
      while (this.isOn && this.page.isThere());
    } catch (error) {
      this.isOn = false;
      fill(this.told, h("span.error", error.message));
    }
    this.isBusy = false;
    fill(this.button, "Search on");
  }

  async step(most) {
    const { runs } = this.found;
    const part = await this.load(this.found.next ? { before: this.found.next } : {});
    if (!this.page.isThere()) return;
    this.read += part.searched ?? 0;
    this.found = { runs: [...runs, ...part.runs], notes: { ...this.found.notes, ...part.notes }, answered: [...(this.found.answered ?? []), ...(part.answered ?? [])], next: part.next };
    const isWhole = !part.next;
    if (isWhole || this.found.runs.length >= most) this.isOn = false;
    this.button.hidden = isWhole;
    this.bar.hidden = isWhole;
    this.bar.value = this.total ? Math.min(1, this.read / this.total) : 0;
    const text = `${many(this.found.runs.length, "run")} found in ${NUMBER.format(this.read)} of ${many(Math.max(this.total, this.read), "run")} that were read`;
    fill(this.told, text, part.back_to ? [", back to ", when(part.back_to)] : null, ".");
    if (!this.isOn) say(`${text}.`);
    // "No run matches" is known at the end.
    if (this.found.runs.length || isWhole) await this.draw(this.found);
  }
}

const sum = (counts) => Object.values(counts).reduce((one, other) => one + other, 0);

/**
 * @param {HTMLElement} node
 * @param {RunCounts} counts
 * @param {Object<string, string>} rest
 */
async function drawCounts(node, counts, rest) {
  if (!counts) return;
  const errors = Object.entries(counts.errors ?? {}).sort((a, b) => b[1] - a[1]);
  const days = (counts.cost_by_day ?? []).slice(0, 30).reverse();
  const currencies = [...new Set(days.flatMap((day) => Object.keys(day.costs ?? {})))].sort();
  const statuses = Object.entries(counts.statuses ?? {}).filter(([, n]) => n);
  const parts = [
    { key: "statuses", data: statuses, draw: () => h("div.statuses", statuses.map(([status, n]) =>
      h("a", { href: to("/runs" + listQuery({ ...rest, status })), class: `tally ${TONES[status] ?? "plain"}`, "data-mark": `status ${status}` }, h("b", NUMBER.format(n)), ` ${STATUS_WORDS[status] ? "waiting" : words(status)}`))) },
    errors.length ? { key: "errors", data: errors, draw: () => h("div.errors", h("h2", "Errors"), errors.slice(0, 8).map(([code, n]) => h("a.tally.bad", { href: to("/runs" + listQuery({ ...rest, error_code: code })), "data-mark": `error ${code}` }, h("b", NUMBER.format(n)), ` ${words(code)}`))) } : null,
    ...currencies.map((currency) => ({ key: `days ${currency}`, data: days, draw: () => costsByDay(days, currency, currencies.length > 1 ? to("/runs" + listQuery({ ...rest, currency, sort: "cost" })) : "") ?? h("span", { hidden: true }) })),
  ].filter((one) => one !== null);
  await keyed(node, parts, (one) => one.key, (one) => one.draw());
}

/**
 * The bars of one currency: two currencies are never added up or drawn on one scale.
 * @param {DayCost[]} days
 * @param {string} currency
 * @param {string} address
 */
function costsByDay(days, currency, address) {
  const of = (/** @type {DayCost} */ day) => Number(day.costs?.[currency] ?? 0);
  const shown = (/** @type {number} */ total) => money({ total, currency });
  const told = (/** @type {DayCost} */ day) => `${day.day}: ${day.costs?.[currency] == null ? "no price known" : shown(of(day))}, ${many(day.runs ?? 0, "run")}`;
  const most = Math.max(...days.map(of), 1e-9);
  const sum = days.reduce((all, day) => all + of(day), 0);
  if (!(sum > 0)) return null;
  return h("figure.days", h("figcaption", address ? h("a", { href: address }, `Cost by day, ${currency}`) : "Cost by day", h("span.quiet", ` ${shown(sum)} in ${many(days.length, "day")}`)),
    h("ol", days.map((day) => {
      const bar = h("span.column");
      bar.style.height = `${Math.max(2, (100 * of(day)) / most)}%`;
      return h("li", { title: told(day) }, bar, h("span.away", told(day)));
    })));
}
