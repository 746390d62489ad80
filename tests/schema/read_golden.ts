// Reads the golden files of a folder and writes what they say as JSON, by the name of the file.
//
// Every union is matched to its end: a kind that is declared and not handled here, or handled and
// no longer declared, does not compile.
import { readdirSync, readFileSync } from "node:fs";
import { join } from "node:path";

import type {
  AgentError,
  AgentExecutionResult,
  AgentResult,
  AnyAnswer,
  Budget,
  Event,
  Json,
  Message,
  Part,
  Pending,
  Standalone,
  ToolOutcome,
  Unknown,
} from "../../schema/upshot.js";

/** What a file holds, and one line that says what its reader understood. */
interface Reading {
  kind: string;
  says: string;
}

function assertNever(value: never): never {
  throw new Error(`nobody handles ${JSON.stringify(value)}`);
}

/** The last branch of a match over values that may be of a kind unknown to this program. */
function saysUnknown(value: Unknown): string {
  return `unknown ${value.kind}, ${Object.keys(value).length} fields`;
}

function joined(items: readonly string[] | undefined): string {
  return (items ?? []).join(" + ") || "none";
}

function saysError(error: AgentError | null | undefined): string {
  return error ? `${error.code} (${error.status_code ?? "no status"})` : "no error";
}

function saysPart(part: Part): string {
  switch (part.kind) {
    case "text":
      return part.text;
    case "image":
      return `image ${part.url || part.media_type}`;
    case "file":
      return `file ${part.name ?? part.id}, ${part.size_bytes ?? 0} bytes`;
    case "audio":
      return `audio, ${part.transcript ?? "not written down"}`;
    case "data":
      return `data ${JSON.stringify(part.data)}`;
    case "reasoning":
      return part.redacted ? "a thought that was withheld" : `thought: ${part.text}`;
    case "tool_call":
      return `calls ${part.name}`;
    case "server_tool_block":
      return `a tool of ${part.provider}'s own`;
    default:
      return saysUnknown(part);
  }
}

function saysParts(parts: readonly Part[] | undefined): string {
  return (parts ?? []).map(saysPart).join(" | ") || "nothing";
}

function saysMessage(message: Message): string {
  const { content, role } = message;
  const said = typeof content === "string" ? content : content.map(saysPart).join(" | ");
  return `${role}: ${said}`;
}

function saysOutcome(outcome: ToolOutcome): string {
  switch (outcome.kind) {
    case "tool_execution_result":
      return `result ${JSON.stringify(outcome.output)} in ${outcome.elapsed_ms} ms`;
    case "tool_timeout":
      return `timeout after ${outcome.timeout_s} s, retryable ${outcome.retryable}`;
    case "tool_failure":
      return `failure: ${outcome.error}`;
    case "tool_denied":
      return `denied by ${outcome.reason}: ${outcome.details}`;
    case "tool_artifact_reference":
      return `stored as ${outcome.artifact_id}, ${outcome.size_bytes} bytes`;
    default:
      return assertNever(outcome);
  }
}

function saysPending(pending: Pending): string {
  switch (pending.kind) {
    case "pending_approval":
      return `approval of ${pending.tool_name}`;
    case "pending_question":
      return `question ${pending.question}`;
    case "pending_effect":
      return `effect ${pending.tool_name}: ${pending.question}`;
    case "pending_external":
      return `outside: ${pending.description}`;
    default:
      return assertNever(pending);
  }
}

function saysAnswer(answer: AnyAnswer): string {
  switch (answer.kind) {
    case "approve":
      return `${answer.call_id} approved`;
    case "deny":
      return `${answer.call_id} denied: ${answer.reason}`;
    case "edit":
      return `${answer.call_id} edited: ${JSON.stringify(answer.arguments)}`;
    case "answer":
      return `${answer.id} answered: ${JSON.stringify(answer.value)}`;
    default:
      return assertNever(answer);
  }
}

function saysResult(result: AgentResult): string {
  switch (result.status) {
    case "completed":
    case "interrupted":
    case "canceled":
    case "failed":
    case "aborted":
    case "input_required":
      break;
    default:
      return assertNever(result.status);
  }
  return [
    result.status,
    saysError(result.error),
    `output ${JSON.stringify(result.output ?? null)}`,
    `${result.messages?.length ?? 0} messages`,
    `outcomes ${joined(result.tool_outcomes?.map(saysOutcome))}`,
    `pending ${joined(result.pending?.map(saysPending))}`,
    `${result.usage?.total_tokens ?? "unknown"} tokens`,
    `${result.cost?.total ?? "unknown"} ${result.cost?.currency ?? "money"}`,
    `windows ${joined(result.rate_limit?.windows?.map((window) => window.name ?? ""))}`,
  ].join("; ");
}

function saysEvent(event: Event): string {
  switch (event.kind) {
    case "run_started":
      return `${event.agent?.id} is asked: ${saysAsked(event.request?.message ?? "")}`;
    case "run_resumed":
      return `${event.interrupted_calls?.length ?? 0} interrupted`;
    case "attempt_started":
      return `told: ${event.feedback}`;
    case "model_started":
      return `turn ${event.turn} of ${event.model}`;
    case "model_retried":
      return `again in ${event.wait_s} s after ${saysError(event.response?.error)}`;
    case "text_delta":
    case "reasoning_delta":
      return `${event.seq}.${event.part} ${event.text}`;
    case "tool_call_delta":
      return `${event.name} ${event.arguments}`;
    case "part_delta":
      return `${event.index} ${event.content ? saysPart(event.content) : "nothing"}`;
    case "model_replied":
      return `${event.tries} tries: ${saysParts(event.response?.parts)}`;
    case "tool_started":
      return `${event.call?.name} is started`;
    case "tool_progress":
      return `${event.call_id} ${event.text} ${JSON.stringify(event.data)}`;
    case "tool_state_saved":
      return `${event.call_id} of ${event.tool_name} saved ${JSON.stringify(event.state)}`;
    case "tool_settled":
      return saysOutcome(event.record.outcome);
    case "artifact_stored":
      return event.artifact ? saysPart(event.artifact) : "nothing";
    case "approval_requested":
    case "question_asked":
      return event.pending ? saysPending(event.pending) : "nothing";
    case "approval_answered":
      return saysAnswer(event.answer);
    case "question_answered":
      return `${event.id}: ${JSON.stringify(event.value)}`;
    case "board_changed":
      return joined(event.messages?.map(saysMessage));
    case "compacted":
      return `${event.end} replaced by ${event.summary ? saysMessage(event.summary) : "nothing"}`;
    case "step_started":
      return `${event.key} may ${event.effect ?? "write"}`;
    case "step_settled":
      return `${event.key}: ${saysError(event.error)}`;
    case "tainted":
      return `untrusted: ${event.origin?.source}, ${event.origin?.call_id} of ${event.origin?.run_id}`;
    case "usage_reported":
      return `report ${event.number}: ${saysParts(event.response?.parts)}`;
    case "interrupted":
      return `${event.interrupt?.cause}: ${event.interrupt?.detail}`;
    case "checkpoint_saved":
      return `${event.step} after ${event.iteration} steps`;
    case "handoff":
      return `to ${event.to_agent_id}: ${event.reason}`;
    case "decided":
      return `${event.decider} says ${event.decision?.verdict ?? "accept"}`;
    case "attempt_ended":
      return `attempt ${event.line?.attempt ?? 1} ${event.line?.status ?? "completed"}`;
    case "run_released":
      return `${event.reason ?? "drain"}: ${event.at ?? ""}`;
    case "committed":
      return `${event.committed ?? true}: ${event.reason}`;
    case "warning":
      return `${event.warning?.code} from ${event.warning?.origin}`;
    case "lagged":
      return `${event.missed} missed`;
    case "run_settled":
      return saysResult(event.result);
    default:
      return saysUnknown(event);
  }
}

function saysAsked(message: Message | string): string {
  return typeof message === "string" ? message : saysMessage(message);
}

/** Null is not absence: it lifts a limit that is there by default. */
function saysTurns(budget: Budget | null | undefined): string {
  return budget?.max_turns === null ? "no limit" : `${budget?.max_turns ?? 50} turns`;
}

function says(value: Exclude<Standalone, Event>): string {
  switch (value.kind) {
    case "agent_result":
      return saysResult(value);
    case "model_response":
      return `${value.refusal ?? saysParts(value.parts)}; ${saysError(value.error)}`;
    case "request":
      return saysAsked(value.message);
    case "agent_card":
      return joined(value.skills?.map((skill) => skill.name ?? ""));
    case "agent_spec":
      return `${value.model}, ${saysTurns(value.budget)}, ${joined(value.tools ?? [])}`;
    case "tool_record":
      return `${value.tool_name}: ${saysOutcome(value.outcome)}`;
    case "checkpoint":
      return `${value.step}: ${value.board?.channels?.["main"]?.length ?? 0} messages`;
    case "message":
      return saysMessage(value);
    case "tool_call":
      return `${value.name} ${typeof value.arguments === "string" ? value.arguments : "object"}`;
    case "artifact":
      return `${value.name}: ${joined(value.parts?.map(saysPart))}`;
    case "tool_execution_result":
    case "tool_timeout":
    case "tool_failure":
    case "tool_denied":
    case "tool_artifact_reference":
      return saysOutcome(value);
    case "pending_approval":
    case "pending_question":
    case "pending_effect":
    case "pending_external":
      return saysPending(value);
    case "approve":
    case "deny":
    case "edit":
    case "answer":
      return saysAnswer(value);
    case "text":
    case "image":
    case "file":
    case "audio":
    case "data":
    case "reasoning":
    case "server_tool_block":
      return saysPart(value);
    default:
      return assertNever(value);
  }
}

function saysView(view: AgentExecutionResult): string {
  const { content, error, metadata, toolsUsed } = view;
  const roles = view.messages.map((message) => message.role);
  const told = [`tools ${joined(toolsUsed)}`, `${metadata.cost ?? "unknown"}`, roles.join(", ")];
  // Of the request, and known to no type.
  const ticket: Json | undefined = metadata["ticket"];
  return [content ?? error, ...told, `ticket ${ticket ?? "none"}`].join("; ");
}

/** Events are told from the rest by what only they carry: their place in a run's log. */
function isEvent(value: Standalone | Unknown): value is Event {
  return "seq" in value;
}

function read(name: string, text: string): Reading {
  const parsed = JSON.parse(text) as Json;
  if (name.startsWith("agent_execution_result.")) {
    return { kind: "", says: saysView(parsed as unknown as AgentExecutionResult) };
  }
  const value = parsed as unknown as Exclude<Standalone, Event> | Event;
  return { kind: value.kind, says: isEvent(value) ? saysEvent(value) : says(value) };
}

const folder = process.argv[2] ?? ".";
const readings: Record<string, Reading> = {};
for (const file of readdirSync(folder).sort()) {
  readings[file] = read(file, readFileSync(join(folder, file), "utf8"));
}
process.stdout.write(JSON.stringify(readings));
