// Acts on several runs of the list: those chosen, or all that match; each tells its outcome.

/** @import { BulkDone, RunList } from "api" */

import { fill, h, many, say } from "./nodes.js";
import { api, confirmed, listQuery, local, may, runPath, shared } from "./site.js";

// How many runs one act may be for, and how many one request carries.
const MOST = 1000;
const AT_ONCE = 50;
const DONE = { cancel: "canceled", resume: "resumed", note: "labeled", collect: "added to the dataset" };

/** The chosen runs of a list, and what to do with them. */
export class Choice {
  /**
   * @param {HTMLElement} list
   * @param {Object<string, string>} filter
   * @param {() => unknown} changed
   */
  constructor(list, filter, changed) {
    this.list = list;
    this.filter = filter;
    this.changed = changed;
    /** @type {Set<string>} */
    this.ids = new Set();
    this.isOn = false;
    this.status = h("p", { role: "status" });
    this.outcomes = h("ul.outcomes", { "aria-label": "Outcomes" });
    this.buttons = h("div.actions");
    this.bar = h("section.choice", { hidden: true, "aria-label": "What to do with several runs" }, this.buttons, this.status, this.outcomes);
    this.toggle = h("button.chip", { type: "button", "aria-expanded": "false", onclick: () => this.turn(!this.isOn) }, "Choose runs …");
  }

  turn(isOn) {
    this.isOn = isOn;
    this.list.classList.toggle("choosing", isOn);
    this.bar.hidden = !isOn;
    this.toggle.setAttribute("aria-expanded", String(isOn));
    this.toggle.classList.toggle("on", isOn);
    this.draw();
  }

  /** The box of a run. */
  box(run) {
    return h("input.choose", { type: "checkbox", "aria-label": `Choose ${run.request || run.run_id}`, checked: this.ids.has(run.run_id), onchange: (event) => {
      if (event.target.checked) this.ids.add(run.run_id);
      else this.ids.delete(run.run_id);
      this.draw();
    } });
  }

  mark() {
    for (const node of this.list.children) {
      const box = /** @type {HTMLInputElement | null} */ (node.querySelector("input.choose"));
      if (box) box.checked = this.ids.has(/** @type {HTMLElement} */ (node).dataset.key ?? "");
    }
    this.draw();
  }

  draw() {
    const n = this.ids.size;
    const button = (text, act, isShown = true) => isShown && h("button", { type: "button", disabled: !n || this.isBusy, onclick: act }, text);
    fill(this.buttons, h("b", many(n, "run"), " chosen"),
      h("button", { type: "button", disabled: this.isBusy, onclick: () => this.chooseShown() }, "This page"),
      h("button", { type: "button", disabled: this.isBusy, onclick: () => this.chooseAll() }, "All that match"),
      h("button", { type: "button", disabled: !n || this.isBusy, onclick: () => this.chooseNone() }, "None"),
      h("span.grow"),
      button("Resume", () => this.act("resume", `Resume ${many(n, "run")}?`, "Resume"), may("operate", "own")),
      button("Label …", () => this.label(), may("operate", "answer", "own")),
      button("Add to a dataset …", () => this.collect(), shared.me.datasets),
      button("Cancel …", () => this.act("cancel", `Cancel ${many(n, "run")}? A canceled run does not continue.`, "Cancel the runs"), may("operate", "own")));
  }

  chooseShown() {
    for (const node of this.list.children) this.ids.add(/** @type {HTMLElement} */ (node).dataset.key ?? "");
    this.mark();
  }

  chooseNone() {
    this.ids.clear();
    this.mark();
  }

  /** Reads which runs match now, so that the question before the act names their exact number. */
  async chooseAll() {
    let before = "";
    this.ids.clear();
    do {
      const found = /** @type {RunList} */ (await api("/api/runs" + listQuery({ ...this.filter, before })));
      for (const run of found.runs) if (this.ids.size < MOST) this.ids.add(run.run_id);
      before = found.next ?? "";
      fill(this.status, `${many(this.ids.size, "run")} found`);
    } while (before && this.ids.size < MOST);
    fill(this.status, before ? `More than ${MOST} runs match: the first ${MOST} are chosen.` : "");
    this.mark();
  }

  label() {
    this.ask("Label", "The label, such as checked", (value) => this.act("note", "", "", { name: "label", value }));
  }

  collect() {
    this.ask("Add to a dataset", "Name of the dataset, such as bad", (name) => this.act("collect", "", "", { name }));
  }

  ask(title, label, then) {
    const field = h("input", { required: true, maxlength: 80, autocomplete: "off", "aria-label": label, placeholder: label });
    const box = h("dialog", { "aria-label": title, onclose: () => box.remove() }, h("h2", title), h("form", { onsubmit: (event) => {
      event.preventDefault();
      box.close();
      then(field.value.trim());
    } }, field, h("div.actions", h("button", { type: "button", onclick: () => box.close() }, "Back"), h("button.primary", `${title}: ${many(this.ids.size, "run")}`))));
    document.body.append(box);
    box.showModal();
    field.focus();
  }

  async act(action, question, yes, more = {}) {
    if (question && !(await confirmed(question, yes))) return;
    const ids = [...this.ids];
    const failed = [];
    let n = 0;
    let lost = "";
    this.isBusy = true;
    this.draw();
    fill(this.outcomes);
    try {
      for (let at = 0; at < ids.length; at += AT_ONCE) {
        const some = ids.slice(at, at + AT_ONCE);
        const found = /** @type {BulkDone} */ (await api("/api/bulk", { method: "POST", body: { action, runs: some, ...more } }));
        for (const one of found.outcomes) {
          if (one.error) failed.push(one);
          else {
            n += 1;
            this.ids.delete(one.run_id);
          }
          this.outcomes.append(h("li", { class: one.error ? "error" : "" }, local(runPath(one.run_id), null, one.run_id), one.error ? `: ${one.error}` : `: ${DONE[action]}`));
        }
        fill(this.status, `${n + failed.length} of ${ids.length}`);
      }
    } catch (error) {
      // Without a reply, nothing says what the server did with the runs of that request.
      const unknown = error.status ? 0 : Math.min(AT_ONCE, ids.length - n - failed.length);
      lost = unknown ? `There was no reply for ${many(unknown, "run")}, which may be ${DONE[action]} or not. ` : "";
      this.outcomes.append(h("li.error", `${lost}The others were not tried: ${error.message}`));
    }
    const text = `${many(n, "run")} ${DONE[action]}${n < ids.length ? `, ${ids.length - n} ${lost ? "not, or not known" : "not"}: see why; they are still chosen` : ""}.`;
    fill(this.status, h("b", text));
    say(text);
    // Those that failed come first.
    for (const node of [...this.outcomes.querySelectorAll(".error")].reverse()) this.outcomes.prepend(node);
    this.isBusy = false;
    this.mark();
    await this.changed();
  }
}
