// The workers: which processes work on runs, since when, on which, and a button that drains one.

/** @import { WorkerList, WorkerState } from "api" */

import { ago, badge, fill, h, keyed, many, say, when } from "./nodes.js";
import { api, confirmed, live, local, rows, runPath } from "./site.js";

const REST_MS = 2000;
const MOST = 12;
const TONES = { working: "live", draining: "wait", stopped: "odd", gone: "bad" };
const WORDS = { working: "It takes runs.", draining: "It takes no more runs, and finishes those that it holds.", stopped: "Its process is suspended.", gone: "Its process has ended without saying so; other workers take its runs." };

export async function workersPage(page) {
  page.title("Workers");
  const list = h("ul.workers", { "aria-label": "Workers" });
  const none = h("p");
  const empty = h("div.empty", { hidden: true, role: "status" }, none, h("p", "New runs stay queued until a worker takes them. Start one: ", h("code", "upshot work desk.py")));
  let timer = 0;
  const load = async (isChanged = false) => {
    clearTimeout(timer);
    const found = /** @type {WorkerList} */ (await api("/api/workers"));
    if (!page.isThere()) return;
    timer = setTimeout(() => page.isThere() && load().catch(() => {}), REST_MS);
    empty.hidden = found.workers.some((one) => one.id && one.state === "working" && !one.drain);
    none.textContent = found.workers.length ? "No worker takes new runs." : "No process works on runs.";
    // What the user is about to press stays as it is.
    if (!isChanged && list.contains(document.activeElement) && document.activeElement?.matches("a, button")) return;
    keyed(list, found.workers.map((one) => ({ ...one, drainable: found.drainable, ago: one.seen ? ago(one.seen) : "" })), (one) => `${one.id}${one.host}${one.pid}`, (one) => workerNode(one, load));
  };
  page.closing(() => clearTimeout(timer));
  await load();
  if (!page.isThere()) return;
  fill(page.main, h("h1", "Workers"), h("p.quiet", "The processes that work on the runs of this journal. Times are those of the journal’s database."), list, empty);
  rows(page, () => [...list.querySelectorAll("li")]);
  live(page, () => load());
}

/** @param {WorkerState & {drainable: boolean, ago: string}} one */
function workerNode(one, load) {
  const runs = one.runs ?? [];
  const fact = (name, ...text) => h("div", h("dt", name), h("dd", text));
  const left = one.lease_s === null || one.lease_s === undefined ? "–" : one.lease_s > 0 ? `${Math.round(one.lease_s)} s left` : "lapsed";
  const name = `${one.host} ${one.pid}`;
  return h("li.card", { tabindex: 0, "aria-label": `Worker ${name}: ${one.state}` },
    h("div.cardhead", h("h2", name), badge(one.state, TONES[one.state], WORDS[one.state]), h("span.grow"),
      one.drainable && one.id && one.state !== "gone" && !one.drain && h("button", { type: "button", "aria-label": `Drain ${name}`, onclick: () => drain(one, name, load) }, "Drain")),
    h("dl.figures",
      fact("runs in hand", one.concurrency ? `${runs.length} of ${one.concurrency}` : String(runs.length)),
      fact("lease", left),
      one.since ? fact("since", when(one.since)) : null,
      one.ago ? fact("last sign of life", `${one.ago} ago`) : null,
      one.version ? fact("version", h("code", one.version)) : null,
      one.upshot ? fact("upshot", one.upshot) : null,
      one.id ? fact("id", h("code", one.id)) : null),
    one.id ? null : h("p.quiet", "No worker: a process that works on runs of its own."),
    one.drain ? h("p", `Drained by ${one.drain.by}, `, when(one.drain.at), one.state === "draining" ? `; ${runs.length ? `${many(runs.length, "run")} left` : "about to end"}.` : ".") : null,
    runs.length ? h("p", h("span.quiet", "runs "), runs.slice(0, MOST).map((id, at) => [at ? ", " : "", local(runPath(id), null, id)]), runs.length > MOST ? h("span.quiet", ` and ${runs.length - MOST} more`) : null) : null);
}

/** @param {WorkerState} one */
async function drain(one, name, load) {
  const held = one.runs?.length ?? 0;
  if (!(await confirmed(`Drain ${name}? It finishes ${held ? many(held, "run") : "nothing, as it holds no run"}, and takes no more. Other workers take the rest.`, "Drain"))) return;
  try {
    await api(`/api/workers/${encodeURIComponent(one.id ?? "")}/drain`, { method: "POST", body: {} });
    say(`${name} takes no more runs.`);
  } catch (error) {
    say(error.message);
  }
  await load(true);
}
