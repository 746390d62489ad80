// Who is signed in: a user's own sessions; for operators all of them. Each can be ended.

/** @import { SessionLine, SessionList, SessionsEnded } from "api" */

import { ago, badge, fill, h, keyed, many, moment, say, when } from "./nodes.js";
import { api, confirmed, may, rows, shared } from "./site.js";

export async function sessionsPage(page) {
  page.title("Sessions");
  const list = h("ul.effects", { "aria-label": "Sessions, last seen first" });
  const result = h("div.result", { role: "status" });
  const empty = h("p.empty", { hidden: true }, "No user is signed in with a session.");
  const load = async () => {
    const found = /** @type {SessionList} */ (await api("/api/sessions"));
    if (!page.isThere()) return;
    keyed(list, found.sessions, (one) => one.id, (one) => sessionLine(one, found.sessions.filter((other) => same(one, other)).length, end));
    empty.hidden = found.sessions.length > 0;
  };
  const end = async (/** @type {object} */ body, /** @type {string} */ question, /** @type {boolean} */ isMine) => {
    if (!(await confirmed(question, "End it"))) return;
    try {
      const done = /** @type {SessionsEnded} */ (await api("/api/sessions/end", { method: "POST", body }));
      if (isMine) {
        location.reload();
        return;
      }
      say(`${many(done.ended, "session")} ended.`);
      await load();
    } catch (error) {
      fill(result, h("p.error", error.message));
      say(error.message);
    }
  };
  await load();
  if (!page.isThere()) return;
  const about = may("operate") ? "Users who are signed in with a browser. Ending a session takes effect at once, also on open pages." : "Where you are signed in. Ending a session takes effect at once.";
  fill(page.main, h("h1", "Sessions"), h("p.quiet", about), result, list, empty);
  rows(page, () => [...list.querySelectorAll("li")]);
}

/** @type {(one: SessionLine, other: SessionLine) => boolean} */
const same = (one, other) => one.user === other.user && one.tenant === other.tenant;

/**
 * @param {SessionLine} one
 * @param {number} count how many sessions its user has
 * @param {(body: object, question: string, isMine: boolean) => Promise<void>} end
 */
function sessionLine(one, count, end) {
  const who = one.tenant ? `${one.user} of ${one.tenant}` : one.user;
  const isMine = one.user === shared.me.user?.id && one.tenant === (shared.me.user?.tenant ?? "");
  return h("li", { tabindex: 0 },
    h("b", who), one.name && one.name !== one.user ? h("span.quiet", h("bdi", one.name)) : null,
    one.here ? badge("this browser", "live") : null,
    h("span.quiet", "since ", when(one.started_at), ", seen ", h("time", { datetime: one.seen_at, title: moment(one.seen_at, { long: true }) }, `${ago(one.seen_at)} ago`), ", until ", when(one.until)),
    h("span.quiet", one.address, one.browser ? [", ", h("bdi", one.browser)] : null),
    h("span.grow"),
    h("button", { type: "button", "aria-label": `End this session of ${who}`, onclick: () => end({ id: one.id }, one.here ? "End the session of this browser?" : `End this session of ${who}?`, !!one.here) }, "End"),
    count > 1 ? h("button", { type: "button", "aria-label": `End all sessions of ${who}`, onclick: () => end({ user: one.user, tenant: one.tenant }, `End all ${count} sessions of ${who}?`, isMine) }, `End all ${count}`) : null);
}
