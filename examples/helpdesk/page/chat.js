// The customer's chat: reads the UI message stream of the AI SDK, without the SDK.
// Source: AI SDK 7, "Stream Protocols".

const DOOR = "/desk/ui/helpdesk";
const talk = document.getElementById("talk");
const form = document.getElementById("say");
const text = document.getElementById("text");
let me;
let messages = [];
let note = "";
let isBusy = true;

function make(tag, className, said = "") {
  const made = document.createElement(tag);
  made.className = className;
  made.textContent = said;
  return made;
}

// What a chunk makes of the parts of a message.
function add(message, chunk) {
  const parts = message.parts;
  const call = parts.find((part) => part.toolCallId && part.toolCallId === chunk.toolCallId);
  note = "";
  switch (chunk.type) {
    case "start":
      message.id = chunk.messageId;
      break;
    case "start-step":
      parts.push({ type: "step-start" });
      break;
    case "reset-step":
      while (parts.length && parts.at(-1).type !== "step-start") parts.pop();
      break;
    case "text-start":
      parts.push({ type: "text", text: "" });
      break;
    case "text-delta":
      parts.findLast((part) => part.type === "text").text += chunk.delta;
      break;
    case "tool-input-available":
      if (!call) parts.push({ ...chunk, type: `tool-${chunk.toolName}`, state: "input-available" });
      break;
    case "tool-approval-request":
      Object.assign(call, { state: "approval-requested", approval: { id: chunk.approvalId } });
      break;
    case "tool-output-available":
      if (!chunk.preliminary) call.state = "output-available";
      break;
    case "tool-output-error":
      call.state = "output-error";
      break;
    case "data-waiting":
      note = "A colleague is looking at this. You may close the page: it goes on by itself.";
      break;
    case "finish":
      if (chunk.finishReason === "error") note = "Something went wrong. Please say it once more.";
      break;
    case "error":
      note = chunk.errorText;
      break;
  }
}

async function* chunksOf(response) {
  const reader = response.body.pipeThrough(new TextDecoderStream()).getReader();
  for (let rest = ""; ; ) {
    const { value, done } = await reader.read();
    if (done) throw new Error("the line was lost");
    const lines = (rest + value).split(/\r?\n/);
    rest = lines.pop();
    for (const line of lines) {
      if (line === "data: [DONE]") return;
      if (line.startsWith("data: ")) yield JSON.parse(line.slice(6));
    }
  }
}

// Reads an answer into the last message; `isWhole` says that it comes from its beginning.
async function read(response, isWhole) {
  let message = messages.at(-1);
  if (message?.role !== "assistant") messages.push((message = { id: "", role: "assistant", parts: [] }));
  if (isWhole) message.parts = [];
  for await (const chunk of chunksOf(response)) {
    add(message, chunk);
    draw();
  }
}

async function post() {
  isBusy = true;
  note = "";
  draw();
  try {
    const response = await fetch(DOOR, {
      method: "POST",
      headers: { "content-type": "application/json", "x-upshot": "1" },
      body: JSON.stringify({ id: me.chat, messages, trigger: "submit-message" }),
    });
    if (response.ok) await read(response, false);
    else {
      const { error } = await response.json();
      await load();
      note = error;
    }
  } catch {
    await goOn();
  }
  await finish();
}

// What there is by now, and what is under way, as often as it takes after a lost line.
async function goOn() {
  for (;;) {
    try {
      return await load();
    } catch {
      note = "The line is lost. Trying again…";
      draw();
      await new Promise((resolve) => setTimeout(resolve, 500));
    }
  }
}

async function load() {
  // In this order: where nothing is under way, the messages have all answers.
  const under = await fetch(`${DOOR}/${me.chat}/stream`);
  if (!under.ok) throw new Error(under.statusText);
  messages = (await (await fetch(`${DOOR}/${me.chat}`)).json()).messages;
  note = "";
  draw();
  if (under.status === 200) await read(under, true);
}

async function finish() {
  isBusy = false;
  await orders();
  draw();
}

async function orders() {
  const answer = await fetch("/mine").catch(() => null);
  if (!answer?.ok) return;
  me = await answer.json();
  document.getElementById("who").textContent = `signed in as ${me.name}`;
  const rows = me.orders.map((order) => {
    const row = make("li", "", `${order.number} ${order.article}`);
    row.append(make("small", "", `${order.price.toFixed(2)} €, ${order.state}`));
    return row;
  });
  document.getElementById("orders").replaceChildren(...rows);
}

// The word for a state of a call, and its tone.
const STATES = {
  "input-available": ["at work", ""],
  "approval-requested": ["needs your word", "asked"],
  "approval-responded": ["at work", ""],
  "output-available": ["done", "done"],
  "output-error": ["not finished", "failed"],
};

function card(part) {
  const [word, tone] = STATES[part.state];
  const made = make("div", `card ${tone}`);
  made.append(make("span", "how", word), make("b", "", part.type.slice(5)));
  const facts = make("dl", "");
  for (const [name, value] of Object.entries(part.input ?? {})) {
    facts.append(make("dt", "", name), make("dd", "", typeof value === "string" ? value : JSON.stringify(value)));
  }
  if (facts.childElementCount) made.append(facts);
  if (part.state !== "approval-requested") return made;
  const row = make("p", "");
  for (const [word, approved] of [["Yes, do it", true], ["No", false]]) {
    const button = make("button", "", word);
    button.disabled = isBusy;
    button.onclick = () => {
      part.state = "approval-responded";
      part.approval = { ...part.approval, approved };
      post();
    };
    row.append(button);
  }
  made.append(row);
  return made;
}

function draw() {
  const isAtEnd = innerHeight + scrollY >= document.body.scrollHeight - 40;
  const rows = messages.map((message) => {
    const row = make("div", `message ${message.role}`);
    for (const part of message.parts) {
      if (part.type === "text") row.append(make("div", "text", part.text));
      else if (part.type.startsWith("tool-")) row.append(card(part));
    }
    return row;
  });
  if (!rows.length) rows.push(make("p", "note", "Ask about an order: you may want it cancelled, or your money back."));
  if (note) rows.push(make("p", "note", note));
  talk.replaceChildren(...rows);
  form.querySelector("button").disabled = isBusy;
  if (isAtEnd) scrollTo(0, document.body.scrollHeight);
}

form.onsubmit = (event) => {
  event.preventDefault();
  const said = text.value.trim();
  if (!said || isBusy) return;
  text.value = "";
  messages.push({ id: crypto.randomUUID(), role: "user", parts: [{ type: "text", text: said }] });
  post();
};

await orders();
await goOn();
await finish();
