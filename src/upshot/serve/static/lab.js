// The lab: experiments, their reports, and datasets; and the dialog that adds runs to one.

/** @import { CasesAdded, DatasetLine, KeptExperiment, LabPage, ReportPart } from "api" */

import { fill, h, many, say, when } from "./nodes.js";
import { api, local, rows, to } from "./site.js";

const SVG = new Set(["svg", "rect", "line"]);

export async function labPage(page) {
  page.title("Lab");
  const found = /** @type {LabPage} */ (await api("/api/lab"));
  if (!page.isThere()) return;
  const list = h("ul.experiments", { "aria-label": "Experiments" }, found.experiments.map(experimentLine));
  fill(page.main, h("h1", "Lab"),
    h("p.quiet", "Experiments try agents on past runs. Their tools answer from the record, so nothing outside changes."),
    found.experiments.length ? list : h("div.empty", h("p", "No experiments yet."), h("p", "Collect runs, then try a change on them: ", h("code", "upshot lab run datasets/bad.jsonl desk.py:support"))),
    found.keeps_datasets && h("h2", "Datasets"),
    found.keeps_datasets && (found.datasets.length ? h("ul.datasets", { "aria-label": "Datasets" }, found.datasets.map(datasetLine)) : h("p.quiet", "None yet. “Add to a dataset” is on the list of runs and on the page of a run.")));
  rows(page, () => [...list.querySelectorAll("a")]);
}

/** @param {KeptExperiment} one */
function experimentLine(one) {
  const facts = [one.dataset && `${many(one.cases ?? 0, "case")} of ${one.dataset}`, (one.variants ?? []).join(", "), (one.repeat ?? 1) > 1 && `${one.repeat} times each`].filter(Boolean).join(" · ");
  const body = [h("span.name", one.name), h("span.quiet", facts, " · ", one.ended_at ? when(one.ended_at) : ["started ", when(one.started_at), ", no report yet"]), one.finding ? h("span.finding", one.finding) : null];
  return h("li", one.ended_at ? local(labPath(one.name), null, body) : h("div", body));
}

/** @param {DatasetLine} one */
const datasetLine = (one) => h("li", h("a", { href: to(`/api/datasets/${encodeURIComponent(one.name)}`), download: `${one.name}.jsonl` }, one.name), " ", one.fault ? h("span.error", one.fault) : h("span.quiet", many(one.cases ?? 0, "case")));

const labPath = (name) => `/lab/${encodeURIComponent(name)}`;

export async function reportPage(page, name) {
  page.title(name);
  const load = async (after = 0) => /** @type {ReportPart} */ (await api(`/api/lab/${encodeURIComponent(name)}?after=${after}`));
  const first = await load();
  if (!page.isThere()) return;
  const report = h("div.report", all(first.nodes));
  const more = h("nav.paging", { "aria-label": "More cases" });
  const offer = (/** @type {ReportPart} */ part) => fill(more, part.next && h("button", { type: "button", onclick: async () => {
    const last = report.lastElementChild;
    const next = await load(part.next);
    report.append(...all(next.nodes));
    offer(next);
    /** @type {HTMLElement} */ (last?.nextElementSibling?.querySelector("summary"))?.focus();
  } }, "Next 50 cases"));
  offer(first);
  fill(page.main, h("div.line", h("h1", name), h("span.grow"), h("a.button", { href: to(`/api/lab/${encodeURIComponent(name)}/file`), download: `${name}.html` }, "Save as a file")), report, more);
  rows(page, () => [...report.querySelectorAll("summary")]);
}

const all = (/** @type {any} */ nodes) => nodes.map(drawn);

/** A node of a report: a text, or its tag with classes, its attributes, and its children. */
function drawn(one) {
  if (!Array.isArray(one)) return document.createTextNode(String(one));
  const [tag, given, ...children] = one;
  const kind = tag.split(".")[0];
  if (!SVG.has(kind)) return h(tag, given.href ? { ...given, href: to(given.href) } : given, children.map((child) => (Array.isArray(child) ? drawn(child) : child)));
  const node = document.createElementNS("http://www.w3.org/2000/svg", kind);
  for (const [name, value] of Object.entries(given)) node.setAttribute(name, value);
  if (tag !== kind) node.setAttribute("class", tag.slice(kind.length + 1).replaceAll(".", " "));
  node.append(...children.map(drawn));
  return node;
}

/**
 * Asks for the name of a dataset, and adds runs to it.
 * @param {string} what
 * @param {{runs?: string[], filters?: object}} body
 */
export function addToDataset(what, body) {
  const known = h("datalist", { id: "datasets" });
  const name = h("input", { name: "dataset", required: true, pattern: "[A-Za-z0-9][A-Za-z0-9._\\-]*", maxlength: 80, autocomplete: "off", list: "datasets", placeholder: "Name, such as bad", "aria-label": "Name of the dataset" });
  const said = h("p.error", { role: "alert" });
  const box = h("dialog", { "aria-labelledby": "add-title", onclose: () => box.remove() }, h("h2", { id: "add-title" }, `Add ${what} to a dataset`),
    h("p.quiet", "A dataset is a file of past runs, with what their models and tools said. The lab tries changes on it."),
    h("form", { onsubmit: async (event) => {
      event.preventDefault();
      try {
        const found = /** @type {CasesAdded} */ (await api(`/api/datasets/${encodeURIComponent(name.value.trim())}`, { method: "POST", body }));
        box.close();
        say(`${many(found.added, "case")} added to ${found.path}, which has ${many(found.cases, "case")} now.`);
      } catch (error) {
        fill(said, error.message);
      }
    } }, name, known, said,
    h("div.actions", h("button", { type: "button", onclick: () => box.close() }, "Back"), h("button.primary", "Add"))));
  document.body.append(box);
  box.showModal();
  name.focus();
  // The names only help: the dialog works without them.
  api("/api/lab").then((/** @type {LabPage} */ found) => fill(known, found.datasets.map((one) => h("option", { value: one.name }))), () => null);
}
