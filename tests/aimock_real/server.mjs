// aimock with the cases of test_aimock.py and with faults; prints its address, and its journal when
// its input ends.
import { createRequire } from "node:module";
import { readFileSync, writeFileSync } from "node:fs";

const [where, cases, journal, seed, faults] = process.argv.slice(2);
const require = createRequire(`${where}/`);
const { LLMock } = require("@copilotkit/aimock");

// The faults are drawn from a seed, so that a run can be repeated.
let state = Number(seed) >>> 0;
Math.random = () => {
  state = (state + 0x6d2b79f5) >>> 0;
  let t = Math.imul(state ^ (state >>> 15), state | 1);
  t ^= t + Math.imul(t ^ (t >>> 7), t | 61);
  return ((t ^ (t >>> 14)) >>> 0) / 4294967296;
};

const mock = new LLMock({ port: 0, host: "127.0.0.1", journalMaxEntries: 0, logLevel: "silent" });
mock.addFixturesFromJSON(JSON.parse(readFileSync(cases, "utf8")));
if (faults === "1") {
  mock.setChaos({ dropRate: 0.07, malformedRate: 0.07, rateLimitRate: 0.06, disconnectRate: 0.07 });
}
await mock.start();
console.log(mock.url);
for await (const _ of process.stdin);
const told = mock.getRequests().map(({ headers, path, response }) => ({
  run: headers["x-test-id"],
  path,
  status: response.status,
  chaos: response.chaosAction ?? "",
  interrupted: response.interrupted ?? false,
  error: response.error ?? "",
  served: response.fixture ? `${response.fixture.match.userMessage}${response.fixture.match.turnIndex}` : "",
}));
writeFileSync(journal, JSON.stringify(told));
await mock.stop();
process.exit(0);
