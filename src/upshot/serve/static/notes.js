// Notes on a run: a thumb, labels and a comment, with who wrote them; each user changes only their own.

/** @import { Note, NoteList } from "api" */

import { fill, h, jsonNode, many, say, when } from "./nodes.js";
import { api, may, maybe, runPath, shared } from "./site.js";

const THUMB = "thumb";
const COMMENT = "comment";

export class Notes {
  /** @param {{id: string, page: any}} run */
  constructor(run) {
    this.run = run;
    this.thumbs = h("span.thumbs", { role: "group", "aria-label": "Your verdict" });
    this.list = h("div");
    this.summary = h("summary", "Notes");
    this.node = h("details.notes", this.summary, this.list);
  }

  /** Reads the notes, and draws them if they changed; returns whether they could be read. */
  async load() {
    const found = /** @type {NoteList} */ (await maybe(`/api${runPath(this.run.id)}/notes`));
    const isThere = Boolean(found) && this.run.page.isThere();
    if (!this.mark) this.node.hidden = !isThere;
    const mark = JSON.stringify(found?.notes);
    if (!isThere || mark === this.mark) return isThere;
    this.mark = mark;
    this.draw(found.notes);
    return true;
  }

  /** @param {readonly Note[]} notes */
  draw(notes) {
    // What the user is writing, and where, outlives what another user notes meanwhile.
    const written = new Map([...this.list.querySelectorAll("input, textarea")].map((one) => [/** @type {HTMLInputElement} */ (one).name, /** @type {HTMLInputElement} */ (one).value]));
    const at = this.node.contains(document.activeElement) ? /** @type {HTMLInputElement} */ (document.activeElement).name : "";
    const isWritten = [...this.list.querySelectorAll("input, textarea")].some((/** @type {any} */ one) => one.value !== one.defaultValue);
    const me = shared.me.user?.id;
    const isMine = (/** @type {Note} */ one) => (one.by ?? "") === me;
    const own = (name) => notes.find((one) => one.name === name && isMine(one))?.value;
    const mayNote = may("answer", "operate", "own");
    const thumb = (value, text) => {
      const isOn = own(THUMB) === value;
      return h(`button.thumb.${value}`, { type: "button", "aria-pressed": String(isOn), title: isOn ? "Take it back" : `Note ${THUMB}=${value}`, onclick: () => this.keep(THUMB, isOn ? null : value) }, text);
    };
    fill(this.thumbs, mayNote ? [thumb("up", "Good run"), thumb("down", "Bad run")] : null);
    fill(this.summary, notes.length ? many(notes.length, "note") : "Notes", notes.length ? h("span.quiet", ` ${notes.slice(0, 3).map((one) => (one.name === COMMENT ? `comment${one.by ? ` by ${one.by}` : ""}` : `${one.name}: ${typeof one.value === "string" ? one.value : JSON.stringify(one.value)}`)).join(", ")}`) : null);
    fill(this.list, h("ul.notelist", notes.map((one) => h("li", h("b", one.name), ": ", one.name === COMMENT && typeof one.value === "string" ? h("span.comment", one.value) : jsonNode(one.value), h("span.quiet", one.by ? ` by ${one.by} ` : " ", when(one.at)),
      isMine(one) && mayNote ? [" ", h("button.plain.small", { type: "button", "aria-label": `Remove your note ${one.name}`, onclick: () => this.keep(one.name, null) }, "Remove")] : null))),
      mayNote ? [this.labelForm(), this.commentForm(own(COMMENT))] : null);
    for (const [name, value] of isWritten ? written : []) {
      const field = /** @type {HTMLInputElement} */ (this.list.querySelector(`[name="${name}"]`));
      if (field) field.value = value;
    }
    if (at) /** @type {HTMLElement} */ (this.list.querySelector(`[name="${at}"]`))?.focus({ preventScroll: true });
  }

  labelForm() {
    const name = h("input", { name: "note", required: true, maxlength: 100, "aria-label": "Name of the note", placeholder: "Name, such as label" });
    const value = h("input", { name: "value", required: true, "aria-label": "What it says", placeholder: "What it says" });
    return h("form.note", { onsubmit: (event) => {
      event.preventDefault();
      this.keep(name.value.trim(), value.value);
    } }, name, value, h("button", "Keep"));
  }

  commentForm(mine) {
    const text = h("textarea", { name: "comment", rows: 2, required: true, maxlength: 8000, "aria-label": "Your comment", placeholder: "Your comment", value: typeof mine === "string" ? mine : "" });
    return h("form.note", { onsubmit: (event) => {
      event.preventDefault();
      this.keep(COMMENT, text.value);
    } }, text, h("button", mine === undefined ? "Comment" : "Change your comment"));
  }

  /** Stores a note; null removes one's own. */
  async keep(name, value) {
    try {
      await api(`/api${runPath(this.run.id)}/note`, { method: "POST", body: { name, value } });
      if (name !== THUMB) this.list.replaceChildren();
      this.mark = "";
      say(value === null ? "Note removed." : "Noted.");
      await this.load();
    } catch (error) {
      say(error.message);
      this.list.querySelector(".error")?.remove();
      this.list.append(h("p.error", { role: "status" }, error.message));
      this.node.open = true;
    }
  }
}
