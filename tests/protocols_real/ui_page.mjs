// A page that talks with an agent through the AI SDK: node ui_page.mjs PACKAGES. Each line of the
// standard input is what it does, [name, ...arguments]; each line of the output what it shows then.

import { createInterface } from "node:readline";
import { pathToFileURL } from "node:url";

const from = (name) => import(pathToFileURL(`${process.argv[2]}/${name}`));
const ai = await from("ai/dist/index.js");
const { Chat } = await from("@ai-sdk/react/dist/index.js");

const schema = ai.asSchema(ai.uiMessageChunkSchema);
const streams = [];
const faults = [];
let asked, chat, under, wake;
const data = [];

async function* chunksOf(stream) {
  for (const reader = stream.getReader(); ; ) {
    const { done, value } = await reader.read();
    if (done) return;
    yield value;
  }
}

// Keeps what a stream has, which the protocol's own schema and reader must take.
async function keep(stream) {
  const chunks = [];
  streams.push(chunks);
  try {
    const parsed = ai.parseJsonEventStream({ stream, schema: ai.uiMessageChunkSchema });
    for await (const one of chunksOf(parsed)) {
      if (one.success) chunks.push(one.value);
      else faults.push(`${one.error}`);
    }
  } catch (error) {
    if (error.name !== "AbortError" && !/terminated|fetch failed/.test(`${error}`)) faults.push(`${error}`);
  }
  for (const chunk of chunks) {
    const { success, error } = await schema.validate(chunk);
    if (!success) faults.push(`${error}`);
  }
}

async function recorded(url, options) {
  const response = await fetch(url, options);
  if (!response.headers.get("content-type")?.startsWith("text/event-stream")) return response;
  const [own, other] = response.body.tee();
  under = keep(other);
  return new Response(own, { status: response.status, headers: response.headers });
}

function begin(messages = []) {
  const { api, headers, id } = asked;
  chat = new Chat({
    id,
    messages,
    transport: new ai.DefaultChatTransport({ api, headers, fetch: recorded }),
    sendAutomaticallyWhen: (given) =>
      ai.lastAssistantMessageIsCompleteWithApprovalResponses(given) ||
      ai.lastAssistantMessageIsCompleteWithToolCalls(given),
    onData: (one) => {
      data.push(one);
      wake?.();
    },
  });
  chat["~registerStatusCallback"](() => wake?.());
  chat["~registerMessagesCallback"](() => wake?.());
}

const shown = () => JSON.stringify([chat.messages, data]);
const isBusy = () => chat.status === "submitted" || chat.status === "streaming";
async function until(holds) {
  while (!holds()) await new Promise((resolve) => (wake = resolve));
}
const ended = () => until(() => !isBusy());
const partsIn = (state) =>
  chat.lastMessage.parts.filter((one) => ai.isToolUIPart(one) && one.state === state);

const does = {
  async open(given) {
    asked = given;
    begin();
  },
  // A page that is opened anew: the messages that the site has, and what is under way.
  async load() {
    const response = await fetch(`${asked.api}/${asked.id}`, { headers: asked.headers });
    const { messages } = await response.json();
    if (messages.length) {
      const { success, error } = await ai.safeValidateUIMessages({ messages });
      if (!success) faults.push(`${error}`);
    }
    begin(messages);
  },
  send: (text) => chat.sendMessage({ text }),
  sending: (text) => void chat.sendMessage({ text }),
  resume: () => chat.resumeStream(),
  resuming: () => void chat.resumeStream(),
  seen: (word) => until(() => shown().includes(word)),
  ended,
  stop: () => chat.stop(),
  async deciding(approved, reason) {
    for (const { approval } of partsIn("approval-requested")) {
      await chat.addToolApprovalResponse({ id: approval.id, approved, reason });
    }
  },
  async decide(approved, reason) {
    await does.deciding(approved, reason);
    await ended();
  },
  async output(value) {
    const [{ type, toolCallId }] = partsIn("input-available");
    await chat.addToolOutput({ tool: type.slice(5), toolCallId, output: value });
    await ended();
  },
  regenerate: (messageId) => chat.regenerate({ messageId }),
  edit: (messageId, text) => chat.sendMessage({ text, messageId }),
  // The message that the reader of streams makes of one that is whole.
  async read() {
    let message;
    const chunks = new ReadableStream({
      start(controller) {
        for (const chunk of streams.at(-1)) controller.enqueue(chunk);
        controller.close();
      },
    });
    const messages = ai.readUIMessageStream({
      stream: chunks,
      terminateOnError: true,
      onError: (error) => faults.push(`${error}`),
    });
    for await (const one of messages) message = one;
    return message;
  },
};

for await (const line of createInterface({ input: process.stdin })) {
  const [name, ...given] = JSON.parse(line);
  let result;
  try {
    result = await does[name](...given);
    if (!isBusy()) await under;
  } catch (error) {
    faults.push(`${name}: ${error.stack}`);
  }
  const { status, messages } = chat;
  console.log(
    JSON.stringify({ status, error: chat.error?.message, messages, streams, data, faults, result }),
  );
}
