// One step of a run in detail: its facts, what the model saw, its events, copies, and a fork from there.

/** @import { Begun, Copied, ForkDraft, Message, Row, SentMessage, SentRequest, SentTool } from "api" */

import { EFFECTS, badge, duration, effectBadge, fill, h, jsonNode, many, money, usageWords, visible } from "./nodes.js";
import { link } from "./markdown.js";
import { api, go, local, may, runPath, to } from "./site.js";
import { copy, copyButton, mediaNode, outputNode, valueNode } from "./values.js";

export const stepPath = (run, step, more = "") => `${runPath(run)}?step=${step + 1}${more}`;

/**
 * The facts and actions of a step, below its row.
 * @param {Row & {id: number}} row
 * @param {{run: string, stepOf: (seq: number) => number | null, model: (Row & {id: number}) | null, onInput?: (isOpen: boolean) => void}} place
 */
export function stepDetail(row, place) {
  const { run, model } = place;
  const facts = [["outcome", row.word], ["effect", row.effect && (EFFECTS[row.effect] ? `${row.effect}: ${EFFECTS[row.effect][2].toLowerCase()}` : row.effect)],
    ["denied by", row.gate && `the gate ${row.gate}`], ["why", row.detail && visible(row.detail)], ["last said", row.note && visible(row.note)], ["waited", row.wait_s ? duration(row.wait_s) : ""], ["started", row.start_s === undefined ? "" : `${duration(row.start_s) || "0 ms"} after the run`],
    ["took", row.end_s === null || row.end_s === undefined || row.lost || row.kind === "mark" ? "" : duration(row.end_s - (row.start_s ?? 0))], ["cost", money(row.cost)], ["tokens", usageWords(row.usage)],
    ["model", row.kind === "model" && row.model], ["call", row.call_id], ["child run", row.child && local(runPath(row.child), null, row.child)], ["events", row.seq ? `${row.seq}${row.end_seq && row.end_seq !== row.seq ? ` to ${row.end_seq}` : ""}` : ""]].filter(([, value]) => value);
  const raw = h("div.raws");
  const seqs = [...new Set([row.seq, row.end_seq])].filter(Boolean);
  const saw = model?.seq && h("button.saw", { type: "button", "aria-expanded": "false", title: "i", onclick: async () => place.onInput?.(await showInput(raw, model, place, saw)) }, model.id === row.id ? "What the model saw" : `What the model saw (step ${model.id + 1})`);
  return h("div.detail", h("dl.figures", facts.map(([name, value]) => h("div", h("dt", name), h("dd", value)))),
    h("div.actions", saw,
      seqs.map((seq, at) => h("button", { type: "button", onclick: (event) => showEvent(raw, run, seq, event.currentTarget) }, at ? `Result (event ${seq})` : row.kind === "model" ? `Event ${seq}` : `What was asked (event ${seq})`)),
      h("button", { type: "button", onclick: () => copy(new URL(to(stepPath(run, row.id)), location.href).href, "Link to this step") }, "Copy link"),
      row.kind === "model" && row.seq && h("button", { type: "button", onclick: (event) => copyAs(`${run}`, `curl/${row.seq}`, "Command of curl", event.currentTarget) }, "Copy as curl"),
      may("operate") && row.end_seq && h("button", { type: "button", onclick: () => fork(run, row, raw) }, "Fork after this …")), raw);
}

/** Copies the run or a step as something that stands alone; see the button for what. */
export async function copyAs(run, kind, what, button) {
  button.parentNode.querySelector(".error")?.remove();
  try {
    const found = /** @type {Copied} */ (await api(`/api${runPath(run)}/copies/${kind}`));
    await copy(found.text, what);
    return found;
  } catch (error) {
    button.after(h("span.error", { role: "status" }, error.message));
    return null;
  }
}

export async function showEvent(box, run, seq, button) {
  await unfold(box, `raw-${run}-${seq}`, button, async () => {
    const event = await api(`/api${runPath(run)}/events/${seq}`);
    return [h("div.tools", copyButton(() => JSON.stringify(event, null, 2), "event")), valueNode(event)];
  });
}

/** Shows something below its button, or removes it again; returns whether it is shown. */
export async function unfold(box, id, button, read) {
  const there = document.getElementById(id);
  button.setAttribute("aria-expanded", String(!there));
  if (there) {
    there.remove();
    return false;
  }
  button.disabled = true;
  try {
    box.append(h("section.raw", { id, tabindex: 0, role: "region", "aria-label": button.textContent }, await read()));
  } catch (error) {
    box.append(h("p.error", error.message));
  }
  button.disabled = false;
  return true;
}

async function fork(run, /** @type {Row} */ row, box) {
  try {
    const draft = /** @type {ForkDraft} */ (await api(`/api${runPath(run)}/fork`, { method: "POST", body: { at: row.end_seq, draft: true } }));
    const again = draft.again;
    const button = h("button.primary", { type: "button", onclick: async () => {
      button.disabled = true;
      try {
        const made = /** @type {Begun} */ (await api(`/api${runPath(run)}/fork`, { method: "POST", body: { at: row.end_seq, draft: false } }));
        go(runPath(made.run_id));
      } catch (error) {
        button.disabled = false;
        box.append(h("p.error", error.message));
      }
    } }, "Start the fork");
    fill(box, h("section.draft", h("h3", `Draft of a fork after event ${row.end_seq}`),
      again.length ? [h("p", "These calls came after it, and the fork repeats them; writes need a new approval:"), h("ul", again.map((one) => h("li", one.tool ? ["call of ", h("code", one.tool)] : ["asks ", h("code", one.model ?? "the model")], h("span.quiet", ` event ${one.seq}`))))]
        : h("p", "The fork repeats no call that came after it."), h("div.actions", button, h("button", { type: "button", onclick: () => box.replaceChildren() }, "Discard"))));
    button.focus();
  } catch (error) {
    fill(box, h("p.error", error.message));
  }
}

// ---- What the model saw ------------------------------------------------------------------------------------------

/** The whole input of a model call, and how it differs from the call before. */
async function showInput(box, row, place, button) {
  return unfold(box, `sent-${place.run}-${row.id}`, button, async () => {
    const read = async (more = "") => /** @type {SentRequest} */ (await api(`/api${runPath(place.run)}/events/${row.seq}/sent${more}`));
    return inputNode(await read(), row, place, () => read("?whole=1"));
  });
}

function inputNode(/** @type {SentRequest} */ found, row, place, readWhole) {
  const before = found.before ? place.stepOf(found.before) : null;
  const offered = found.tools.filter((one) => !one.withheld);
  const withheld = found.tools.length - offered.length;
  const changed = new Set(found.changed);
  const isChanged = (name) => (changed.has(name) ? badge("changed", "odd") : null);
  const fresh = found.messages.filter((one) => one.is_new);
  const count = found.messages.length + found.skipped;
  const lacks = found.messages.filter((one) => !one.message).length;
  const since = found.before ? `the call before${before === null ? "" : ` (step ${before + 1})`}` : "";
  return [
    h("p.diffs", h("b", `Step ${row.id + 1}, ${found.model}`), ": ",
      since ? [`${many(fresh.length, "message")} of ${count} new since ${since}`, found.dropped ? `, ${found.dropped} no longer sent` : "", changed.size ? `; ${[...changed].join(", ")} changed` : "; nothing else changed", "."] : `${many(count, "message")}; it is the first call.`),
    h("details", { open: changed.has("instructions") }, h("summary", "Instructions ", isChanged("instructions"), found.is_instructed ? null : h("span.quiet", " not these: a function or a decider gave others, and the log has only a digest of those")),
      found.instructions ? outputNode(found.instructions, "instructions") : h("p.quiet", "none")),
    h("details", { open: changed.has("tools") }, h("summary", `${many(offered.length, "tool")} offered`, withheld ? h("span", `, ${withheld} withheld`) : null, " ", isChanged("tools"), found.has_tools ? null : h("span.quiet", " as today’s agent describes them; the call had others")),
      h("ul.toollist", found.tools.map(toolNode))),
    found.hidden.length ? h("details", h("summary", `${many(found.hidden.length, "message")} hidden by compaction`), h("ol.sent", found.hidden.map((one) => messageItem({ message: one, is_new: false })))) : null,
    lacks ? h("p.odd", `The log does not have ${many(lacks, "message")} of them, which an engine made for this call.`) : null,
    messagesNode(found, readWhole),
  ];
}

/** The messages in order; those that the call before sent too are folded. */
function messagesNode(/** @type {SentRequest} */ found, readWhole) {
  const box = h("div");
  const draw = (/** @type {SentRequest} */ one) => {
    const at = one.messages.findIndex((each) => each.is_new);
    const old = at < 0 ? one.messages : one.messages.slice(0, at);
    const list = h("ol.sent", { start: one.skipped + 1 }, old.map(messageItem));
    const rest = h("ol.sent", { start: one.skipped + old.length + 1 }, one.messages.slice(old.length).map(messageItem));
    fill(box,
      old.length || one.skipped ? h("details", { open: !rest.childElementCount }, h("summary", `${many(old.length + one.skipped, "message")} as before`),
        one.skipped ? h("button", { type: "button", onclick: async () => {
          draw(await readWhole());
          box.querySelector("details").open = true;
        } }, `Show the first ${one.skipped} too`) : null, list) : null,
      rest);
  };
  draw(found);
  return box;
}

function messageItem(/** @type {SentMessage} */ one) {
  const message = one.message;
  if (!message) return h("li", h("b", "message"), " ", h("span.quiet", "not in the log"));
  return h(`li${one.is_new ? ".fresh" : ""}`, h("b", message.name ? `${message.role} ${message.name}` : message.role), one.is_new ? [" ", badge("new", "live")] : null, contentNodes(message.content));
}

/** The parts of a message as the model got them. */
function contentNodes(/** @type {Message["content"]} */ content) {
  if (typeof content === "string") return outputNode(content, "message");
  return /** @type {any[]} */ (content ?? []).map((part) => {
    if (part.kind === "text") return outputNode(part.text ?? "", "message");
    if (part.kind === "tool_call") return h("div.call", h("div.callhead", h("code", part.name)), valueNode(part.arguments ?? {}));
    if (["image", "audio", "file"].includes(part.kind)) return partNode(part);
    return jsonNode(part);
  });
}

/** A medium within a message: shown from its bytes, as a link if it is elsewhere. */
export function partNode(part) {
  const name = part.name || part.kind;
  if (!part.data) return part.url ? link(`${part.kind}: ${name}`, part.url) : jsonNode(part);
  const type = part.media_type ?? "";
  const shown = mediaNode(`data:${type};base64,${part.data}`, type, name);
  return shown && !shown.matches(".button") ? shown : h("a", { href: `data:application/octet-stream;base64,${part.data}`, download: part.name || "file" }, `Save ${name} (${type || "file"})`);
}

const toolNode = (/** @type {SentTool} */ one) => h("li", h("details", h("summary", h("code", one.name), one.withheld ? [" ", badge("withheld", "odd")] : null, one.description ? h("span.quiet", ` ${one.description.split("\n")[0]}`) : null),
  one.description ? h("p", one.description) : null, valueNode(one.parameters ?? {})));

export function callNode(call) {
  return h("div.call", h("div.callhead", h("code", call.name ?? call.tool_name), call.word ? badge(call.word, call.tone) : null, call.effect && call.effect !== "none" ? effectBadge(call.effect) : null),
    call.arguments !== undefined && valueNode(call.arguments));
}
