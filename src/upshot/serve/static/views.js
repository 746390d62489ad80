// Which columns the list of runs shows, and lists that a user has named: the address alone has all of it.

import { fill, h } from "./nodes.js";
import { listQuery, local, shared } from "./site.js";

export const COLUMNS = ["user", "tools", "effect", "took", "steps", "tokens", "cost", "notes"];
const AT_FIRST = COLUMNS.filter((one) => one !== "notes");

/** The columns that an address asks for. */
export function columnsOf(text) {
  const wanted = text ? COLUMNS.filter((one) => text.split(",").includes(one)) : AT_FIRST;
  return text === "none" ? [] : wanted;
}

/** The columns as an address has them; "" for those at first. */
const asked = (columns) => (columns.join() === AT_FIRST.join() ? "" : columns.join() || "none");

// The box that was used last: the page is drawn again, and the user goes on there.
let last = "";

/** Boxes to choose columns. */
export function columnChoice(columns, set) {
  return h("details.columns", { open: last !== "" }, h("summary", "Columns"), h("div.fields", COLUMNS.map((name) => h("label.check", h("input", { type: "checkbox", name, checked: columns.includes(name), onchange: (event) => {
    const wanted = COLUMNS.filter((one) => (one === name ? event.target.checked : columns.includes(one)));
    last = name;
    set({ columns: asked(wanted) });
  } }), " ", name))));
}

/** Focuses the box that was used last, once. */
export function focusColumn(node) {
  if (last) node.querySelector(`.columns input[name="${last}"]`)?.focus({ preventScroll: true });
  last = "";
}

const place = () => `upshot views ${shared.me.user?.tenant ?? ""} ${shared.me.user?.id ?? ""}`;

/** @returns {{name: string, query: string}[]} */
function stored() {
  try {
    const found = JSON.parse(localStorage.getItem(place()) ?? "[]");
    return Array.isArray(found) ? found.filter((one) => typeof one?.name === "string" && /^(\?[^#]*)?$/.test(one?.query)) : [];
  } catch {
    return [];
  }
}

/** The views that this user has named in this browser, and a form to name the present one. */
export function views(given) {
  const query = listQuery(given);
  const list = h("ul");
  const keep = (all) => {
    localStorage.setItem(place(), JSON.stringify(all));
    draw();
  };
  const draw = () => fill(list, stored().map((one) => h("li", local("/runs" + one.query, { "aria-current": one.query === query ? "page" : null }, one.name), " ",
    h("button.quiet", { type: "button", "aria-label": `Remove the view ${one.name}`, onclick: () => keep(stored().filter((other) => other.name !== one.name)) }, "×"))));
  const name = h("input", { required: true, maxlength: 60, "aria-label": "Name of this view", placeholder: "Name of this view" });
  const form = h("form.viewform", { onsubmit: (event) => {
    event.preventDefault();
    keep([...stored().filter((one) => one.name !== name.value.trim()), { name: name.value.trim(), query }]);
    name.value = "";
  } }, name, h("button", "Keep"));
  draw();
  return h("details.views", h("summary", "Views"), list, form, h("p.quiet", "A view is an address: filters, order and columns. To share it, send the address. The names are kept in this browser."));
}
