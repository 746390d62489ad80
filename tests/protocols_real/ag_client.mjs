// A client of AG-UI's own package: node ag_client.mjs PACKAGES. Each line of the standard input is
// what it does, [name, ...arguments]; each line of the output what it knows then.

import { createInterface } from "node:readline";
import { pathToFileURL } from "node:url";

const from = (name) => import(pathToFileURL(`${process.argv[2]}/${name}`));
const { HttpAgent, buildResumeArray, verifyEvents } = await from("@ag-ui/client/dist/index.mjs");
const { from: observe, lastValueFrom, toArray } = await from("rxjs/dist/cjs/index.js");

const LOST = "the line is lost";
const faults = [];
// What the client has to leave out or to repair is told as a warning.
console.warn = (...words) => faults.push(words.join(" "));
console.error = () => {};
// A line that is lost is told to whoever still reads it.
process.on("unhandledRejection", (error) => {
  if (error.message !== LOST) faults.push(`${error.stack}`);
});
let agent, cut, events, failed;

// The response, of which the line is lost after so many events.
async function shortened(url, options) {
  const response = await fetch(url, options);
  if (cut === undefined || !response.ok) return response;
  let left = cut;
  const lines = new TransformStream({
    transform(text, controller) {
      for (const event of text.split(/(?<=\n\n)/)) {
        if (event.startsWith("data:") && left-- <= 0) {
          controller.error(new TypeError(LOST));
          return;
        }
        controller.enqueue(event);
      }
    },
  });
  const body = response.body.pipeThrough(new TextDecoderStream()).pipeThrough(lines);
  return new Response(body.pipeThrough(new TextEncoderStream()), response);
}

async function run(parameters = {}, stop) {
  events = [];
  failed = undefined;
  cut = stop;
  const told = {
    onEvent: ({ event }) => void events.push(event),
    onRunErrorEvent: ({ event }) => void (failed = event),
  };
  try {
    await agent.runAgent(parameters, told);
  } catch (error) {
    if (stop === undefined && !failed) faults.push(`${error.stack}`);
  }
  if (stop === undefined) {
    const whole = verifyEvents(false)(observe(events)).pipe(toArray());
    await lastValueFrom(whole).catch((error) => faults.push(`${error}`));
  }
}

const responses = (given) =>
  buildResumeArray(
    agent.pendingInterrupts,
    Object.fromEntries(agent.pendingInterrupts.map(({ id }, at) => [id, given[at]])),
  );
let resume;

const does = {
  async open({ url, threadId, headers }) {
    agent = new HttpAgent({ url, threadId, headers, fetch: shortened });
    events = failed = resume = undefined;
  },
  say: (id, text, stop) => {
    agent.addMessage({ id, role: "user", content: text });
    return run({}, stop);
  },
  // After a run that failed the client sends what it was asked once more.
  go_on: (id, text) => {
    const given = agent.pendingInterrupts.map(() => ({ status: "cancelled" }));
    agent.addMessage({ id, role: "user", content: text });
    return run(given.length ? { resume: responses(given) } : {});
  },
  // The same request once more, or where the thread stands.
  again: () => run(resume && agent.pendingInterrupts.length ? { resume } : {}),
  ask: () => {
    agent.setMessages([]);
    return run();
  },
  answer: (given, stop) => {
    resume = responses(given);
    return run({ resume }, stop);
  },
  saying: async (id, text) => void does.say(id, text),
  async seen(type) {
    while (!events?.some((one) => one.type === type)) await new Promise((r) => setTimeout(r, 5));
  },
  ended: async () => {
    while (agent.isRunning) await new Promise((r) => setTimeout(r, 5));
  },
};

for await (const line of createInterface({ input: process.stdin })) {
  const [name, ...given] = JSON.parse(line);
  try {
    await does[name](...given);
  } catch (error) {
    faults.push(`${name}: ${error.stack}`);
  }
  const { messages, pendingInterrupts: interrupts } = agent;
  console.log(JSON.stringify({ messages, interrupts, events, failed, faults }));
}
