// Who saw, answered, settled and did what.

/** @import { AuditPage, AuditRow } from "api" */

import { badge, fill, h, jsonNode, keyed, when, words } from "./nodes.js";
import { BASE, api, go, listQuery, local, rows, runPath } from "./site.js";

const KINDS = ["answered", "settled", "operated", "saw", "signed"];
const TONES = { answered: "wait", settled: "odd", operated: "live", saw: "plain", signed: "plain" };
const FILTERS = ["user", "kind", "action", "run_id", "subject", "tool", "argument", "since", "until"];

export async function auditPage(page) {
  page.title("Audit");
  /** @type {Object<string, string>} */
  const filter = {};
  for (const name of [...FILTERS, "before"]) if (page.query.get(name)) filter[name] = page.query.get(name);
  const { before, ...rest } = filter;
  const send = () => go("/audit" + listQuery({ ...rest, ...typed() }));
  const moment = (/** @type {string} */ name) => h("input", { name, type: "date", value: (rest[name] ?? "").slice(0, 10) });
  const form = /** @type {HTMLFormElement} */ (h("form.filters", { role: "search", "aria-label": "Filter", onsubmit: (event) => {
    event.preventDefault();
    send();
  } },
  h("label", h("span", "Who"), h("input", { name: "user", type: "search", value: rest.user ?? "" })),
  h("label", h("span", "What"), h("select", { name: "kind", onchange: send }, ["", ...KINDS].map((one) => h("option", { value: one, selected: (rest.kind ?? "") === one }, one || "all")))),
  h("label", h("span", "Tool"), h("input", { name: "tool", value: rest.tool ?? "" })),
  h("label", h("span", "Arguments, such as amount>100"), h("input", { name: "argument", value: rest.argument ?? "" })),
  h("label", h("span", "Run"), h("input", { name: "run_id", value: rest.run_id ?? "" })),
  h("label", h("span", "From (UTC)"), moment("since")),
  h("label", h("span", "Before (UTC)"), moment("until")),
  h("button", "Filter")));
  const typed = () => {
    const given = Object.fromEntries([...new FormData(form)].map(([name, value]) => [name, String(value).trim()]));
    for (const name of ["since", "until"]) if (given[name]) given[name] += "T00:00:00Z";
    return given;
  };
  const chips = h("div.chips", ["action", "subject"].filter((name) => rest[name]).map((name) =>
    local("/audit" + listQuery({ ...rest, [name]: "" }), { class: "chip on" }, `${name}: ${rest[name]} ×`)));
  const found = /** @type {AuditPage} */ (await api("/api/audit" + listQuery(filter)));
  if (!page.isThere()) return;
  const list = h("ul.effects.audit", { "aria-label": "Acts, newest first" });
  const empty = found.rows.length ? null : h("p.empty", found.next ? "Nothing among the 10,000 acts that were looked at." : Object.keys(filter).length ? "Nothing matches." : "Nothing yet.");
  const more = h("nav.paging", { "aria-label": "Pages of the list" },
    before && local("/audit" + listQuery(rest), { class: "button" }, "To the first page"),
    found.next && local("/audit" + listQuery({ ...rest, before: String(found.next) }), { class: "button", rel: "next" }, "Further back"),
    h("a.button", { href: `${BASE}/api/audit/lines${listQuery(rest)}`, download: "audit.jsonl" }, "Save all as JSON Lines"));
  fill(page.main, h("h1", "Audit"), form, chips.childElementCount ? chips : null, list, empty, more);
  await keyed(list, found.rows, (one) => one.no, auditLine);
  rows(page, () => [...list.querySelectorAll("li")]);
}

/** @param {AuditRow} one */
function auditLine(one) {
  const user = one.user || "an unnamed user";
  const through = [one.door, one.address].filter(Boolean).join(" ");
  return h("li", { tabindex: 0 },
    when(one.at), local("/audit" + listQuery({ user: one.user }), { class: "whose" }, one.tenant ? `${user} of ${one.tenant}` : user),
    badge(words(one.action), TONES[one.kind]),
    one.tool ? h("code", one.tool) : null,
    one.subject ? h("span.quiet", one.subject) : null,
    one.run_id ? local(runPath(one.run_id), null, one.run_id) : null,
    h("span.grow"), h("span.quiet", { title: one.session ? `session ${one.session}` : null }, through),
    one.arguments ? h("div.arguments", { "aria-label": "Arguments", role: "group" }, jsonNode(one.arguments)) : null,
    one.detail ? h("p.more", h("bdi", one.detail)) : null);
}
