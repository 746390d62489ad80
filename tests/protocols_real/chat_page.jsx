// A page with a chat, as the documentation has it.

import { useChat } from "@ai-sdk/react";
import {
  DefaultChatTransport,
  isToolUIPart,
  lastAssistantMessageIsCompleteWithApprovalResponses,
  lastAssistantMessageIsCompleteWithToolCalls,
} from "ai";
import { useState } from "react";
import { createRoot } from "react-dom/client";

const [, agent, id] = location.hash.split("/");
const api = `/site/ui/${agent}`;

function Chat({ messages: before }) {
  const [waits, setWaits] = useState(false);
  const chat = useChat({
    id,
    messages: before,
    resume: true,
    transport: new DefaultChatTransport({ api }),
    sendAutomaticallyWhen: (given) =>
      lastAssistantMessageIsCompleteWithApprovalResponses(given) ||
      lastAssistantMessageIsCompleteWithToolCalls(given),
    onData: ({ type }) => setWaits(type === "data-waiting"),
    onFinish: () => setWaits(false),
  });
  const part = (one, at) => {
    if (one.type === "text") return <p key={at}>{one.text}</p>;
    if (!isToolUIPart(one)) return null;
    const decide = (approved) =>
      chat.addToolApprovalResponse({ id: one.approval.id, approved });
    const answer = (output) =>
      chat.addToolOutput({ tool: one.type.slice(5), toolCallId: one.toolCallId, output });
    return (
      <div key={at} className="call">
        <code>{`${one.type} ${one.state}`}</code>
        {one.state === "approval-requested" && (
          <>
            <button onClick={() => decide(true)}>Approve</button>
            <button onClick={() => decide(false)}>Deny</button>
          </>
        )}
        {one.type === "tool-ask_user" &&
          one.state === "input-available" &&
          one.input.choices.map((choice) => (
            <button key={choice} onClick={() => answer(choice)}>
              {choice}
            </button>
          ))}
      </div>
    );
  };
  return (
    <main>
      {chat.messages.map((message) => (
        <article key={message.id} className={message.role}>
          {message.parts.map(part)}
        </article>
      ))}
      <output>{waits ? "waits" : chat.status}</output>
      {chat.error && <em>{chat.error.message}</em>}
      <form
        onSubmit={(event) => {
          event.preventDefault();
          const field = event.currentTarget.elements.text;
          chat.sendMessage({ text: field.value });
          field.value = "";
        }}
      >
        <input name="text" />
      </form>
      <button onClick={() => chat.regenerate()}>Again</button>
      <button onClick={() => chat.stop()}>Stop</button>
    </main>
  );
}

const { messages } = await (await fetch(`${api}/${id}`)).json();
createRoot(document.body.appendChild(document.createElement("div"))).render(
  <Chat messages={messages} />,
);
