// upshot contract, schema version 1; made by: upshot schema --typescript

/**
 * A kind that is not declared here: any string at run time, never "?". It is an enum so
 * that a switch over `kind` leaves `Unknown` for its default branch.
 */
export declare const enum UnknownKind {
  Any = "?",
}

/** What a served agent can do. */
export interface AgentCapabilities {
  /**
   * Whether it sends events while it works.
   * @defaultValue `false`
   */
  streaming?: boolean;
  /**
   * Whether it calls the client back.
   * @defaultValue `false`
   */
  push_notifications?: boolean;
}

/** What an agent publishes about itself; address, version and keys belong to its server. */
export interface AgentCard {
  kind: "agent_card";
  /** The version of the schema that it was written with; always written. */
  schema_version: number;
  /**
   * A name to show to users.
   * @defaultValue `""`
   */
  name?: string;
  /**
   * What the agent is for.
   * @defaultValue `""`
   */
  description?: string;
  /**
   * What it can do.
   * @defaultValue `[]`
   */
  skills?: Skill[];
  /**
   * Media types it accepts.
   * @defaultValue `["text/plain"]`
   */
  default_input_modes?: string[];
  /**
   * Media types it produces.
   * @defaultValue `["text/plain"]`
   */
  default_output_modes?: string[];
  /**
   * What it can do when it is served.
   * @defaultValue `{}`
   */
  capabilities?: AgentCapabilities;
}

/** What went wrong in a run, a model call or a hook; never raised. */
export interface AgentError {
  /** The kind of failure; an open word. */
  code: ErrorCode;
  /** One line that says what happened and, where possible, what to do. No traceback, no secret. */
  message: string;
  /**
   * The class of the original exception; `details["provider_type"]` then has the provider's own
   * word. Without an exception it is that word; "" if there is none.
   * @defaultValue `""`
   */
  type?: string;
  /** The HTTP status, null if there was none. */
  status_code?: number | null;
  /** Whether the same request may succeed later. */
  retryable: boolean;
  /** The minimum seconds to wait before a retry; null if unknown. */
  retry_after_s?: number | null;
  /**
   * The provider's own code, "" if none.
   * @defaultValue `""`
   */
  provider_code?: string;
  /** Where it arose; an open word. */
  origin: Origin;
  /**
   * Facts by name, such as dimension, limit and used of an exceeded budget. `charged` says whether
   * the failed call may have used tokens, if status and phase do not show it.
   * @defaultValue `{}`
   */
  details?: JsonObject;
}

/** The execution result, plain JSON. */
export interface AgentExecutionResult {
  /** The answer as text, structured output as compact JSON; null unless it succeeded. */
  content: string | null;
  /** The whole conversation, in upshot's form, with the seeded messages. */
  messages: Message[];
  /** Tools that ran, without duplicates, in the order of their first run; absent if none did. */
  toolsUsed?: string[];
  /** The known facts about the run. */
  metadata: ExecutionMetadata;
  /** Whether there is no error. */
  success: boolean;
  /** "code: message"; present only if success is false. */
  error?: string;
}

/** The result of a run. It can also be read like a mapping with the keys of the flat contract. */
export interface AgentResult {
  kind: "agent_result";
  /** The version of the schema that it was written with; always written. */
  schema_version: number;
  /** completed, interrupted, canceled, failed, aborted or input_required. */
  status: Status;
  /** The typed answer: the board variable `output` if set, otherwise content. */
  output?: Json;
  /** Text of the last assistant message on the main channel; null if there is none. */
  content?: string | null;
  /**
   * The messages that the run produced on the main channel, in order, without the seeded messages.
   * Other channels are artifacts, if they are asked for.
   * @defaultValue `[]`
   */
  messages?: Message[];
  /**
   * The messages on the main channel before the engine started: the history, the request, and what
   * was handed over with it.
   * @defaultValue `[]`
   */
  seeded?: Message[];
  /**
   * One for every settled call, in the order of the calls within each reply.
   * @defaultValue `[]`
   */
  tool_outcomes?: ToolOutcome[];
  /**
   * The same calls with all their facts, in the same order.
   * @defaultValue `[]`
   */
  tool_records?: ToolRecord[];
  /**
   * Each call that changed something outside, or may have done so, in this run and in `child_runs`.
   * @defaultValue `[]`
   */
  effects?: RunEffect[];
  /**
   * The runs that it started, and the runs that handed the request over to it. The outcomes and
   * records of their calls are in their own results.
   * @defaultValue `[]`
   */
  child_runs?: ChildRun[];
  /**
   * What the run produced besides the answer.
   * @defaultValue `[]`
   */
  artifacts?: Artifact[];
  /**
   * What a parked run waits for.
   * @defaultValue `[]`
   */
  pending?: Pending[];
  /**
   * Tokens of all model calls, of all attempts and child runs.
   * @defaultValue `{}`
   */
  usage?: Usage;
  /** The cost of these calls, null if none had a price. */
  cost?: Cost | null;
  /** The finish reason of the last model call; null if unknown. */
  finish_reason?: FinishReason | null;
  /** What went wrong; present exactly when status is not completed. */
  error?: AgentError | null;
  /** The rate limit of the last reply that carried one. */
  rate_limit?: RateLimitState | null;
  /**
   * provider, model, request_id, raw_headers, finish_raw of the last reply.
   * @defaultValue `{}`
   */
  provider_data?: JsonObject;
  /**
   * The cause of an interrupt.
   * @defaultValue `""`
   */
  cause?: InterruptCause;
  /**
   * The detail of an interrupt.
   * @defaultValue `""`
   */
  detail?: string;
  /** Whether its messages count for the conversation. */
  committed: boolean;
  /**
   * How many attempts it took.
   * @defaultValue `1`
   */
  attempts?: number;
  /**
   * Facts set by deciders, such as finalize_reason and handoff.
   * @defaultValue `{}`
   */
  state?: JsonObject;
  /** The handoff that ended it, null if there was none. */
  handoff?: HandoffEvent | null;
  /**
   * A summary of each attempt.
   * @defaultValue `[]`
   */
  attempt_log?: AttemptLine[];
  /**
   * What went wrong without failing the run.
   * @defaultValue `[]`
   */
  warnings?: RunWarning[];
  /** What first brought untrusted content into the run; null if nothing did. */
  taint?: TaintOrigin | null;
  /**
   * The run.
   * @defaultValue `""`
   */
  run_id?: string;
  /**
   * The caller's task, "" if none.
   * @defaultValue `""`
   */
  task_id?: string;
  /**
   * The conversation, "" if none.
   * @defaultValue `""`
   */
  context_id?: string;
  /**
   * The run that started it, "" for a root run.
   * @defaultValue `""`
   */
  parent_run_id?: string;
  /**
   * The agent of the run.
   * @defaultValue `""`
   */
  agent_id?: string;
  /** When it started, UTC; null if not measured. */
  started_at?: Moment | null;
  /** started_at + duration_ms. */
  ended_at?: Moment | null;
  /**
   * Milliseconds from started_at until this result. For a resumed run this includes the time when
   * it was parked or not running.
   * @defaultValue `0`
   */
  duration_ms?: number;
  /**
   * Free JSON from the caller and from hooks.
   * @defaultValue `{}`
   */
  metadata?: JsonObject;
  /** In this process only: `raw`, `last_board`. */
  local?: null;
}

/** An agent as data: tools, model and engine are names, resolved again when it runs. */
export interface AgentSpec {
  kind: "agent_spec";
  /** The version of the schema that it was written with; always written. */
  schema_version: number;
  /**
   * The agent's id.
   * @defaultValue `""`
   */
  id?: string;
  /**
   * A name to show to users, "" for the id.
   * @defaultValue `""`
   */
  name?: string;
  /**
   * "provider:name", "" if none is set.
   * @defaultValue `""`
   */
  model?: string;
  /** The text; null if there is none, or a function produces it. */
  instructions?: string | null;
  /** Names of its tools in order; null means that it has none and sets no restriction. */
  tools?: string[] | null;
  /** JSON Schema of its output, null for text. */
  output_schema?: JsonObject | null;
  /**
   * Ids of the agents that it may hand over to.
   * @defaultValue `[]`
   */
  handoffs?: string[];
  /**
   * The engine's class name, "" for the default.
   * @defaultValue `""`
   */
  engine?: string;
  /** How it describes itself to other agents. */
  card?: AgentCard | null;
  /** Its limits. */
  budget?: Budget | null;
  /** Settings of its model calls. */
  settings?: ModelSettings | null;
  /**
   * How failed model calls are retried; null means never.
   * @defaultValue `{}`
   */
  retry?: Retry | null;
  /**
   * Whether the model may reply without text and without a call.
   * @defaultValue `false`
   */
  allow_empty?: boolean;
  /**
   * Whether an answer that a safety filter cut off counts as an answer.
   * @defaultValue `false`
   */
  allow_filtered?: boolean;
  /**
   * `at_tokens`, `keep_last` and `summarise` (the name of a model, or null) as in `Compaction`;
   * null for none.
   */
  compaction?: JsonObject | null;
  /**
   * Channels whose messages become artifacts of its results.
   * @defaultValue `[]`
   */
  artifacts?: string[];
  /**
   * Fields of the agent that cannot be stored and were left out: any of instructions, output_type,
   * handoffs (if one has more than an id), observers, deciders, preparers, committers, dependencies
   * and compaction (if a function writes the summaries). A spec that omits more than observers does
   * not run; to run it without those fields, set this to ().
   * @defaultValue `[]`
   */
  omitted?: string[];
}

/** The answer to a question, or the result from another system. */
export interface Answer {
  kind: "answer";
  /** The id of the question or of the awaited result. */
  id: string;
  /** The answer. */
  value?: Json;
  /**
   * Who answered, "" if unknown.
   * @defaultValue `""`
   */
  by?: string;
  /**
   * What they saw, for a `PendingEffect`; it is stored with the settlement.
   * @defaultValue `""`
   */
  note?: string;
  /**
   * The digest of the `PendingEffect` that was answered; "" answers the current one. Raises:
   * @defaultValue `""`
   */
  digest?: string;
}

/** An answer of the user. */
export type AnyAnswer =
  | Approve
  | Deny
  | Edit
  | Answer;

/** The user answered a request for approval. */
export interface ApprovalAnswered {
  kind: "approval_answered";
  /** The version of the schema that it was written with; always written. */
  schema_version: number;
  /**
   * The run.
   * @defaultValue `""`
   */
  run_id?: string;
  /**
   * The attempt that it belongs to, from 1; 0 before the first.
   * @defaultValue `0`
   */
  attempt?: number;
  /** When it happened, UTC. */
  time?: Moment | null;
  /**
   * Position in the run's log, from 1; a delta repeats the `seq` of the durable event before it.
   * @defaultValue `0`
   */
  seq?: number;
  /**
   * 0 on durable events; 1, 2, ... on the deltas that follow one.
   * @defaultValue `0`
   */
  part?: number;
  /**
   * In a log, the fields whose values are meant as written, although they look omitted and would
   * otherwise be derived from earlier events; empty elsewhere.
   * @defaultValue `[]`
   */
  literal?: string[];
  /**
   * For an event of a child run, as a subscriber of an outer run gets it: the ids of the runs that
   * the child is nested in, starting with the subscribed one. Empty on a run's own events, and in
   * logs.
   * @defaultValue `[]`
   */
  path?: string[];
  /** Approve, Deny or Edit. */
  answer: AnyAnswer;
  /**
   * The digest of the question that was answered.
   * @defaultValue `""`
   */
  digest?: string;
}

/** The user's decision about a call. */
export interface ApprovalRecord {
  /**
   * "approved", "denied", "edited" or "always".
   * @defaultValue `""`
   */
  decision?: string;
  /**
   * Who answered, "" if unknown.
   * @defaultValue `""`
   */
  by?: string;
  /** When it was answered. */
  at?: Moment | null;
  /**
   * SHA-256 of the final arguments and the tool's version.
   * @defaultValue `""`
   */
  digest?: string;
  /**
   * The reason given.
   * @defaultValue `""`
   */
  reason?: string;
  /**
   * What the decision applies to: "tool", "arguments", or "" for the one call.
   * @defaultValue `""`
   */
  scope?: string;
  /**
   * All users who approved the call, in order, if several had to.
   * @defaultValue `[]`
   */
  approved_by?: GivenApproval[];
}

/** A call waits for approval. */
export interface ApprovalRequested {
  kind: "approval_requested";
  /** The version of the schema that it was written with; always written. */
  schema_version: number;
  /**
   * The run.
   * @defaultValue `""`
   */
  run_id?: string;
  /**
   * The attempt that it belongs to, from 1; 0 before the first.
   * @defaultValue `0`
   */
  attempt?: number;
  /** When it happened, UTC. */
  time?: Moment | null;
  /**
   * Position in the run's log, from 1; a delta repeats the `seq` of the durable event before it.
   * @defaultValue `0`
   */
  seq?: number;
  /**
   * 0 on durable events; 1, 2, ... on the deltas that follow one.
   * @defaultValue `0`
   */
  part?: number;
  /**
   * In a log, the fields whose values are meant as written, although they look omitted and would
   * otherwise be derived from earlier events; empty elsewhere.
   * @defaultValue `[]`
   */
  literal?: string[];
  /**
   * For an event of a child run, as a subscriber of an outer run gets it: the ids of the runs that
   * the child is nested in, starting with the subscribed one. Empty on a run's own events, and in
   * logs.
   * @defaultValue `[]`
   */
  path?: string[];
  /**
   * The request for approval.
   * @defaultValue `{"kind": "pending_approval"}`
   */
  pending?: PendingApproval;
  /**
   * The key of the step that made the call, "" if none.
   * @defaultValue `""`
   */
  step?: string;
}

/** Permission to run the call; `PendingApproval.approve` creates one. */
export interface Approve {
  kind: "approve";
  /** The call. */
  call_id: string;
  /**
   * The digest of the question that it answers. "" is accepted only if the run has asked a single
   * question about a call with this id.
   * @defaultValue `""`
   */
  digest?: string;
  /**
   * Which later calls may run too: "" for none, "tool" for all of the tool, "arguments" for calls
   * with the same arguments.
   * @defaultValue `""`
   */
  always?: "" | "arguments" | "tool";
  /**
   * Who answered, "" if unknown.
   * @defaultValue `""`
   */
  by?: string;
  /** When it was given, if several users must approve the call; upshot sets it. Raises: */
  at?: Moment | null;
}

/** What one argument of a tool means to `Policy(taint="values")`. */
export interface Argument {
  /**
   * "target" chooses what the call acts on; "recipient" who gets something; "ref" names an object;
   * "amount", "day" and "time" are compared as such; "secret" letter by letter; "choice" is
   * harmless within `choices`; "content" is text that is sent out; "free" controls nothing.
   * @defaultValue `"target"`
   */
  word?: "amount" | "choice" | "content" | "day" | "free" | "recipient" | "ref" | "secret" | "target" | "time";
  /**
   * How a target is compared: "email", "url", "account", or "" for any text.
   * @defaultValue `""`
   */
  format?: "" | "account" | "email" | "url";
  /**
   * The kind of `Record` that a ref names.
   * @defaultValue `""`
   */
  record_kind?: string;
  /**
   * The field of the record that names its owner; "" if the owner does not matter.
   * @defaultValue `""`
   */
  own?: string;
  /**
   * The harmless values; null stands for every empty value: null, [] and {}.
   * @defaultValue `[]`
   */
  choices?: (string | number | number | boolean | null)[];
  /**
   * The words that users say for other values. Raises:
   * @defaultValue `[]`
   */
  meanings?: Meaning[];
}

/** Something that a run produced besides its answer. */
export interface Artifact {
  kind: "artifact";
  /** The channel that it comes from, or the tool that produced it. */
  name: string;
  /**
   * Its content; a stored large output is a `File` with id, media_type, size_bytes, sha256 and
   * summary.
   * @defaultValue `[]`
   */
  parts?: Part[];
  /**
   * Free JSON.
   * @defaultValue `{}`
   */
  metadata?: JsonObject;
}

/** A large output was stored. */
export interface ArtifactStored {
  kind: "artifact_stored";
  /** The version of the schema that it was written with; always written. */
  schema_version: number;
  /**
   * The run.
   * @defaultValue `""`
   */
  run_id?: string;
  /**
   * The attempt that it belongs to, from 1; 0 before the first.
   * @defaultValue `0`
   */
  attempt?: number;
  /** When it happened, UTC. */
  time?: Moment | null;
  /**
   * Position in the run's log, from 1; a delta repeats the `seq` of the durable event before it.
   * @defaultValue `0`
   */
  seq?: number;
  /**
   * 0 on durable events; 1, 2, ... on the deltas that follow one.
   * @defaultValue `0`
   */
  part?: number;
  /**
   * In a log, the fields whose values are meant as written, although they look omitted and would
   * otherwise be derived from earlier events; empty elsewhere.
   * @defaultValue `[]`
   */
  literal?: string[];
  /**
   * For an event of a child run, as a subscriber of an outer run gets it: the ids of the runs that
   * the child is nested in, starting with the subscribed one. Empty on a run's own events, and in
   * logs.
   * @defaultValue `[]`
   */
  path?: string[];
  /**
   * The call that it came from.
   * @defaultValue `""`
   */
  call_id?: string;
  /**
   * The reference to the stored output.
   * @defaultValue `{"kind": "file"}`
   */
  artifact?: File;
}

/** The engine finished an attempt. */
export interface AttemptEnded {
  kind: "attempt_ended";
  /** The version of the schema that it was written with; always written. */
  schema_version: number;
  /**
   * The run.
   * @defaultValue `""`
   */
  run_id?: string;
  /**
   * The attempt that it belongs to, from 1; 0 before the first.
   * @defaultValue `0`
   */
  attempt?: number;
  /** When it happened, UTC. */
  time?: Moment | null;
  /**
   * Position in the run's log, from 1; a delta repeats the `seq` of the durable event before it.
   * @defaultValue `0`
   */
  seq?: number;
  /**
   * 0 on durable events; 1, 2, ... on the deltas that follow one.
   * @defaultValue `0`
   */
  part?: number;
  /**
   * In a log, the fields whose values are meant as written, although they look omitted and would
   * otherwise be derived from earlier events; empty elsewhere.
   * @defaultValue `[]`
   */
  literal?: string[];
  /**
   * For an event of a child run, as a subscriber of an outer run gets it: the ids of the runs that
   * the child is nested in, starting with the subscribed one. Empty on a run's own events, and in
   * logs.
   * @defaultValue `[]`
   */
  path?: string[];
  /**
   * A summary of the attempt.
   * @defaultValue `{"status": "completed"}`
   */
  line?: AttemptLine;
  /**
   * The facts that deciders have set so far.
   * @defaultValue `{}`
   */
  state?: JsonObject;
}

/** A summary of one attempt; discarded attempts have one too. */
export interface AttemptLine {
  /**
   * Its number, from 1.
   * @defaultValue `1`
   */
  attempt?: number;
  /** How it ended. */
  status: Status;
  /** Why it failed, null if it completed. */
  error?: AgentError | null;
  /**
   * Tokens of its model calls.
   * @defaultValue `{}`
   */
  usage?: Usage;
  /** Cost of its model calls. */
  cost?: Cost | null;
  /** Its answer, kept even if it was discarded. */
  content?: string | null;
  /**
   * Why there was another attempt, "" if there was none.
   * @defaultValue `""`
   */
  revise_reason?: string;
  /**
   * The feedback given to the next attempt.
   * @defaultValue `""`
   */
  feedback?: string;
}

/** The engine starts on a fresh board. */
export interface AttemptStarted {
  kind: "attempt_started";
  /** The version of the schema that it was written with; always written. */
  schema_version: number;
  /**
   * The run.
   * @defaultValue `""`
   */
  run_id?: string;
  /**
   * The attempt that it belongs to, from 1; 0 before the first.
   * @defaultValue `0`
   */
  attempt?: number;
  /** When it happened, UTC. */
  time?: Moment | null;
  /**
   * Position in the run's log, from 1; a delta repeats the `seq` of the durable event before it.
   * @defaultValue `0`
   */
  seq?: number;
  /**
   * 0 on durable events; 1, 2, ... on the deltas that follow one.
   * @defaultValue `0`
   */
  part?: number;
  /**
   * In a log, the fields whose values are meant as written, although they look omitted and would
   * otherwise be derived from earlier events; empty elsewhere.
   * @defaultValue `[]`
   */
  literal?: string[];
  /**
   * For an event of a child run, as a subscriber of an outer run gets it: the ids of the runs that
   * the child is nested in, starting with the subscribed one. Empty on a run's own events, and in
   * logs.
   * @defaultValue `[]`
   */
  path?: string[];
  /**
   * What the decider wants changed in this attempt, "" for the first.
   * @defaultValue `""`
   */
  feedback?: string;
}

/** Sound, by URL, by its bytes, or by the provider's id. */
export interface Audio {
  kind: "audio";
  /**
   * The URL to fetch it from, "" if there is none.
   * @defaultValue `""`
   */
  url?: string;
  /** The bytes (base64 in JSON), null if they are stored elsewhere. */
  data?: Base64 | null;
  /**
   * Such as "audio/wav".
   * @defaultValue `""`
   */
  media_type?: string;
  /**
   * The provider's id of the sound, "" if none.
   * @defaultValue `""`
   */
  id?: string;
  /**
   * The spoken words, "" if unknown.
   * @defaultValue `""`
   */
  transcript?: string;
}

/** Bytes as base64. */
export type Base64 = string;

/** Messages were appended or variables set. */
export interface BoardChanged {
  kind: "board_changed";
  /** The version of the schema that it was written with; always written. */
  schema_version: number;
  /**
   * The run.
   * @defaultValue `""`
   */
  run_id?: string;
  /**
   * The attempt that it belongs to, from 1; 0 before the first.
   * @defaultValue `0`
   */
  attempt?: number;
  /** When it happened, UTC. */
  time?: Moment | null;
  /**
   * Position in the run's log, from 1; a delta repeats the `seq` of the durable event before it.
   * @defaultValue `0`
   */
  seq?: number;
  /**
   * 0 on durable events; 1, 2, ... on the deltas that follow one.
   * @defaultValue `0`
   */
  part?: number;
  /**
   * In a log, the fields whose values are meant as written, although they look omitted and would
   * otherwise be derived from earlier events; empty elsewhere.
   * @defaultValue `[]`
   */
  literal?: string[];
  /**
   * For an event of a child run, as a subscriber of an outer run gets it: the ids of the runs that
   * the child is nested in, starting with the subscribed one. Empty on a run's own events, and in
   * logs.
   * @defaultValue `[]`
   */
  path?: string[];
  /**
   * The channel of the messages.
   * @defaultValue `"main"`
   */
  channel?: string;
  /**
   * The messages that were appended, in order.
   * @defaultValue `[]`
   */
  messages?: Message[];
  /**
   * The variables that were set.
   * @defaultValue `{}`
   */
  variables?: JsonObject;
  /**
   * Whether this was on the board before the engine started.
   * @defaultValue `false`
   */
  seeded?: boolean;
  /**
   * In a log, instead of the messages: the `seq` of the events whose replies and outcomes were
   * appended; empty elsewhere.
   * @defaultValue `[]`
   */
  refs?: number[];
  /** In a log, instead of the first messages of a run: a reference to them; null elsewhere. */
  seed?: SeedReference | null;
}

/** A board as it was at one moment. */
export interface BoardSnapshot {
  /**
   * Messages in order, by channel name.
   * @defaultValue `{}`
   */
  channels?: { [key: string]: Message[] };
  /**
   * JSON values by name.
   * @defaultValue `{}`
   */
  variables?: JsonObject;
  /**
   * How many messages of each channel were on the board before the engine started.
   * @defaultValue `{}`
   */
  seeded?: { [key: string]: number };
  /** What replaces the older messages in requests to models; null for nothing. */
  compacted?: Compacted | null;
}

/** Limits of a run; null means no limit. */
export interface Budget {
  /** Seconds from the start until the run fails with timeout. */
  deadline_s?: number | null;
  /** The same, without the time spent waiting for the user. */
  working_s?: number | null;
  /**
   * The maximum number of model calls of an engine, or steps of a machine or graph.
   * @defaultValue `50`
   */
  max_turns?: number | null;
  /** The maximum number of tool calls in all. */
  max_tool_calls?: number | null;
  /** The maximum number of calls of one tool. */
  max_calls_per_tool?: number | null;
  /** The maximum number of denied tool calls; after that every call is denied. */
  max_denials?: number | null;
  /** The maximum number of tokens of all model calls, child runs included. */
  max_tokens?: number | null;
  /** The maximum cost, in US dollars. */
  max_cost_usd?: Money | null;
  /**
   * How deep child runs may nest; the root run has depth 0.
   * @defaultValue `8`
   */
  max_depth?: number | null;
  /**
   * Seconds for a tool that sets no timeout.
   * @defaultValue `45`
   */
  tool_timeout_s?: number | null;
  /**
   * What `max_cost_usd` and `max_tokens` count: "run" is this run and its child runs,
   * "conversation" all runs of its conversation, as the journal has them before each call.
   * @defaultValue `"run"`
   */
  scope?: "conversation" | "run";
  /**
   * What a cost limit does about a model without a price. "refuse" raises Misuse at the start, and
   * after a reply without usage it ends the run before the next call; "allow" does not count such
   * calls.
   * @defaultValue `"refuse"`
   */
  unpriced?: "allow" | "refuse";
}

/** The calls of one model or tool in a run, without those of its child runs. */
export interface CallCount {
  /** "model" or "tool". */
  type: string;
  /** The model that replied, as "provider:name", or the tool. */
  name: string;
  /**
   * How many calls of it were started.
   * @defaultValue `0`
   */
  calls?: number;
  /**
   * How many of them failed or timed out.
   * @defaultValue `0`
   */
  failed?: number;
  /**
   * How many timed out.
   * @defaultValue `0`
   */
  timed_out?: number;
  /**
   * How many may have had an effect.
   * @defaultValue `0`
   */
  unknown?: number;
  /**
   * How many calls of a tool were denied before they started, without those that were cancelled
   * because their run was stopped.
   * @defaultValue `0`
   */
  denied?: number;
  /**
   * How many asked for what an earlier call had done, and were answered from it.
   * @defaultValue `0`
   */
  repeated?: number;
  /**
   * How many calls of a model were refused by a rate limit.
   * @defaultValue `0`
   */
  limited?: number;
  /**
   * How many of the calls whose duration is known are in each bucket of `TOOK_BOUNDS_S`, up to the
   * last bucket that has any.
   * @defaultValue `[]`
   */
  took?: number[];
  /**
   * How long the slowest call of a tool took; 0 if none was measured.
   * @defaultValue `0`
   */
  slowest_ms?: number;
  /**
   * The id of that call.
   * @defaultValue `""`
   */
  slowest?: string;
  /**
   * How many approvals were answered, by how long that took, in the buckets of `took`.
   * @defaultValue `[]`
   */
  waits?: number[];
  /**
   * The rate-limit windows of the model's last reply that had any.
   * @defaultValue `[]`
   */
  windows?: RateLimitWindow[];
  /** When the session ended whose replies had the windows, or were refused. */
  at?: Moment | null;
}

/** A point where a run can continue. */
export interface Checkpoint {
  kind: "checkpoint";
  /** The id of the run. */
  exec_id: string;
  /** The engine's name for the point. */
  step: string;
  /**
   * The board at that point; a Board is replaced by its snapshot.
   * @defaultValue `{}`
   */
  board?: BoardSnapshot;
  /** The version of the schema that it was written with; always written. */
  schema_version: number;
  /**
   * How many steps the engine had taken.
   * @defaultValue `0`
   */
  iteration?: number;
  /** What the engine needs in addition to the board. */
  payload?: Json;
  /**
   * The run's attributes.
   * @defaultValue `{}`
   */
  attributes?: JsonObject;
  /** When the checkpoint was saved. */
  timestamp?: Moment | null;
  /** When the run first started; kept when it is resumed. */
  original_started_at?: Moment | null;
  /**
   * The agent of the run; "" if unknown.
   * @defaultValue `""`
   */
  agent_id?: string;
  /** The version of the payload's format; checked when it is read. */
  spec_version: string;
}

/** The engine saved a checkpoint; its board is rebuilt from the log. */
export interface CheckpointSaved {
  kind: "checkpoint_saved";
  /** The version of the schema that it was written with; always written. */
  schema_version: number;
  /**
   * The run.
   * @defaultValue `""`
   */
  run_id?: string;
  /**
   * The attempt that it belongs to, from 1; 0 before the first.
   * @defaultValue `0`
   */
  attempt?: number;
  /** When it happened, UTC. */
  time?: Moment | null;
  /**
   * Position in the run's log, from 1; a delta repeats the `seq` of the durable event before it.
   * @defaultValue `0`
   */
  seq?: number;
  /**
   * 0 on durable events; 1, 2, ... on the deltas that follow one.
   * @defaultValue `0`
   */
  part?: number;
  /**
   * In a log, the fields whose values are meant as written, although they look omitted and would
   * otherwise be derived from earlier events; empty elsewhere.
   * @defaultValue `[]`
   */
  literal?: string[];
  /**
   * For an event of a child run, as a subscriber of an outer run gets it: the ids of the runs that
   * the child is nested in, starting with the subscribed one. Empty on a run's own events, and in
   * logs.
   * @defaultValue `[]`
   */
  path?: string[];
  /**
   * The engine's name for the point.
   * @defaultValue `""`
   */
  step?: string;
  /**
   * How many steps the engine had taken.
   * @defaultValue `0`
   */
  iteration?: number;
  /** What the engine needs in addition to the board. */
  payload?: Json;
}

/** A run whose calls count in this result; their records are in its own result. */
export interface ChildRun {
  /**
   * The run.
   * @defaultValue `""`
   */
  run_id?: string;
  /**
   * Names of the tools that ran in it and in its own child runs.
   * @defaultValue `[]`
   */
  tools?: string[];
  /** The worst effect of the run and its own child runs. */
  effect: Effect;
}

/** One argument that was changed to fit its schema. */
export interface Coercion {
  /**
   * The argument's path, as a JSON pointer.
   * @defaultValue `""`
   */
  path?: string;
  /**
   * The rule that was applied, such as "integer".
   * @defaultValue `""`
   */
  rule?: string;
  /** The value from the model. */
  before?: Json;
  /** The value that the tool got. */
  after?: Json;
}

/** It was decided whether the run counts for the conversation. */
export interface Committed {
  kind: "committed";
  /** The version of the schema that it was written with; always written. */
  schema_version: number;
  /**
   * The run.
   * @defaultValue `""`
   */
  run_id?: string;
  /**
   * The attempt that it belongs to, from 1; 0 before the first.
   * @defaultValue `0`
   */
  attempt?: number;
  /** When it happened, UTC. */
  time?: Moment | null;
  /**
   * Position in the run's log, from 1; a delta repeats the `seq` of the durable event before it.
   * @defaultValue `0`
   */
  seq?: number;
  /**
   * 0 on durable events; 1, 2, ... on the deltas that follow one.
   * @defaultValue `0`
   */
  part?: number;
  /**
   * In a log, the fields whose values are meant as written, although they look omitted and would
   * otherwise be derived from earlier events; empty elsewhere.
   * @defaultValue `[]`
   */
  literal?: string[];
  /**
   * For an event of a child run, as a subscriber of an outer run gets it: the ids of the runs that
   * the child is nested in, starting with the subscribed one. Empty on a run's own events, and in
   * logs.
   * @defaultValue `[]`
   */
  path?: string[];
  /**
   * Whether its messages count.
   * @defaultValue `true`
   */
  committed?: boolean;
  /**
   * Why not, "" if they do.
   * @defaultValue `""`
   */
  reason?: string;
}

/** Older messages were replaced in the requests to models; the board and the log keep them. */
export interface Compacted {
  kind: "compacted";
  /** The version of the schema that it was written with; always written. */
  schema_version: number;
  /**
   * The run.
   * @defaultValue `""`
   */
  run_id?: string;
  /**
   * The attempt that it belongs to, from 1; 0 before the first.
   * @defaultValue `0`
   */
  attempt?: number;
  /** When it happened, UTC. */
  time?: Moment | null;
  /**
   * Position in the run's log, from 1; a delta repeats the `seq` of the durable event before it.
   * @defaultValue `0`
   */
  seq?: number;
  /**
   * 0 on durable events; 1, 2, ... on the deltas that follow one.
   * @defaultValue `0`
   */
  part?: number;
  /**
   * In a log, the fields whose values are meant as written, although they look omitted and would
   * otherwise be derived from earlier events; empty elsewhere.
   * @defaultValue `[]`
   */
  literal?: string[];
  /**
   * For an event of a child run, as a subscriber of an outer run gets it: the ids of the runs that
   * the child is nested in, starting with the subscribed one. Empty on a run's own events, and in
   * logs.
   * @defaultValue `[]`
   */
  path?: string[];
  /**
   * How many messages of the main channel are replaced, including the messages in `kept`.
   * @defaultValue `0`
   */
  end?: number;
  /**
   * The positions of messages before *end* that are still sent: system messages, and the request.
   * @defaultValue `[]`
   */
  kept?: number[];
  /** Sent after these, in place of the other messages; null if they were dropped. */
  summary?: Message | null;
  /** The input tokens of the last model call, as its provider counted them; null if it did not. */
  tokens_before?: number | null;
  /**
   * The turn of the last model call before it, 0 before the first.
   * @defaultValue `0`
   */
  turn?: number;
}

/** The current state of a conversation, combined from its runs. */
export interface Conversation {
  /**
   * The conversation: the `context_id` of its requests.
   * @defaultValue `""`
   */
  id?: string;
  /**
   * The messages of its committed turns, in the order in which the turns ended; a summary replaces
   * the messages that compaction removed.
   * @defaultValue `[]`
   */
  messages?: Message[];
  /**
   * The usage of all its runs, including failed runs and child runs.
   * @defaultValue `{}`
   */
  usage?: Usage;
  /** The cost of that usage; null if nothing had a price. */
  cost?: Cost | null;
  /**
   * What its runs wait for; `run_id` names the run that asks.
   * @defaultValue `[]`
   */
  pending?: Pending[];
  /**
   * All its runs, oldest first.
   * @defaultValue `[]`
   */
  runs?: RunSummary[];
  /**
   * How many turns were committed.
   * @defaultValue `0`
   */
  revision?: number;
}

/** One line in the list of conversations. */
export interface ConversationSummary {
  /**
   * The conversation.
   * @defaultValue `""`
   */
  id?: string;
  /**
   * The start of its first request, 200 characters or fewer.
   * @defaultValue `""`
   */
  title?: string;
  /** When its last run started. */
  last_at?: Moment | null;
  /**
   * How many turns were committed.
   * @defaultValue `0`
   */
  revision?: number;
  /** The cost of all its runs that settled once; null if nothing had a price. */
  cost?: Cost | null;
  /**
   * How many of its runs wait for answers.
   * @defaultValue `0`
   */
  waiting?: number;
}

/** Money for one or more model calls. */
export interface Cost {
  /** For the uncached part of the prompt; null if unknown. */
  input?: Money | null;
  /** For the output, reasoning included. */
  output?: Money | null;
  /** For prompt tokens that were read from a cache. */
  cache_read?: Money | null;
  /** For prompt tokens that were written to a cache. */
  cache_write?: Money | null;
  /** Any other charge, such as a fee per request. */
  other?: Money | null;
  /** The exact sum of the parts, if parts are known. */
  total?: Money | null;
  /** ISO 4217. */
  currency: string;
  /** false if the provider itself reported the amount. */
  estimated: boolean;
  /**
   * The source of the price, such as "genai-prices" or "reported".
   * @defaultValue `""`
   */
  source?: string;
  /** The date of the price table, null if unknown. */
  priced_on?: Day | null;
  /**
   * The number of calls that are not included because they had no price, or one in another
   * currency.
   * @defaultValue `0`
   */
  unpriced_calls?: number;
}

/** A JSON value as a part. */
export interface Data {
  kind: "data";
  /** The value. */
  data?: Json;
  /**
   * "application/json" or a more specific type.
   * @defaultValue `"application/json"`
   */
  media_type?: string;
}

/** A day: RFC 3339, such as "2026-03-01". */
export type Day = string;

/** The cost of the runs of one day. */
export interface DayCost {
  /**
   * The day in UTC on which they started, such as "2027-01-31".
   * @defaultValue `""`
   */
  day?: string;
  /**
   * The cost, one sum for each currency; empty if no run of the day had a price.
   * @defaultValue `{}`
   */
  costs?: { [key: string]: Money };
  /**
   * The number of runs, without child runs: their cost is included in their parent's.
   * @defaultValue `0`
   */
  runs?: number;
}

/** A decider judged an attempt, or the request of the run. */
export interface Decided {
  kind: "decided";
  /** The version of the schema that it was written with; always written. */
  schema_version: number;
  /**
   * The run.
   * @defaultValue `""`
   */
  run_id?: string;
  /**
   * The attempt that it belongs to, from 1; 0 before the first.
   * @defaultValue `0`
   */
  attempt?: number;
  /** When it happened, UTC. */
  time?: Moment | null;
  /**
   * Position in the run's log, from 1; a delta repeats the `seq` of the durable event before it.
   * @defaultValue `0`
   */
  seq?: number;
  /**
   * 0 on durable events; 1, 2, ... on the deltas that follow one.
   * @defaultValue `0`
   */
  part?: number;
  /**
   * In a log, the fields whose values are meant as written, although they look omitted and would
   * otherwise be derived from earlier events; empty elsewhere.
   * @defaultValue `[]`
   */
  literal?: string[];
  /**
   * For an event of a child run, as a subscriber of an outer run gets it: the ids of the runs that
   * the child is nested in, starting with the subscribed one. Empty on a run's own events, and in
   * logs.
   * @defaultValue `[]`
   */
  path?: string[];
  /**
   * Its `name`, or the name of its class.
   * @defaultValue `""`
   */
  decider?: string;
  /**
   * Its decision.
   * @defaultValue `{"verdict": "accept"}`
   */
  decision?: FinalizeDecision;
  /**
   * "request" if it judged the request, "" if it judged an attempt.
   * @defaultValue `""`
   */
  stage?: "" | "request";
}

/** Which gate refused a tool call. Open. */
export type DeniedReason =
  | "blocked"
  | "budget"
  | "cancelled"
  | "circuit_open"
  | "conflict"
  | "deadline"
  | "deny_condition"
  | "duplicate"
  | "effect_unknown"
  | "policy"
  | "pre_hook"
  | "rate_limited"
  | "superseded"
  | "unknown_tool"
  | "validation"
  | "write_denied"
  | (string & {});

/** Refusal to run the call; final for the same tool and arguments. */
export interface Deny {
  kind: "deny";
  /** The call. */
  call_id: string;
  /**
   * The reason given to the model.
   * @defaultValue `""`
   */
  reason?: string;
  /**
   * The digest of the question that it answers; "" answers any question about the call.
   * @defaultValue `""`
   */
  digest?: string;
  /**
   * Who answered, "" if unknown. Raises:
   * @defaultValue `""`
   */
  by?: string;
}

/** Something about a call that a stranger may have chosen. */
export interface Doubt {
  /**
   * The argument, as a JSON pointer; "" is the call itself.
   * @defaultValue `""`
   */
  path?: string;
  /** The value as it would be used. */
  value?: Json;
  /**
   * What the argument was declared to be, such as "ref file".
   * @defaultValue `""`
   */
  word?: string;
  /**
   * Why nothing vouches for it.
   * @defaultValue `""`
   */
  reason?: string;
  /**
   * Where the value was found: "only in the result of get_page, line 3", or "nowhere".
   * @defaultValue `""`
   */
  found?: string;
  /**
   * What the user said of that kind, "" for nothing.
   * @defaultValue `""`
   */
  said?: string;
}

/** Permission to run the call with other arguments, which are validated like the original ones. */
export interface Edit {
  kind: "edit";
  /** The call. */
  call_id: string;
  /**
   * All arguments, not only the changed ones.
   * @defaultValue `{}`
   */
  arguments?: JsonObject;
  /**
   * As in `Approve`.
   * @defaultValue `""`
   */
  digest?: string;
  /**
   * Who answered, "" if unknown. Raises:
   * @defaultValue `""`
   */
  by?: string;
}

/** What a tool may do (read, write, destructive) or did (none, applied, unknown). Closed. */
export type Effect =
  | "applied"
  | "destructive"
  | "none"
  | "read"
  | "unknown"
  | "write";

/** The identity of the effect that a call is about to make. */
export interface EffectClaim {
  /** SHA-256 over scope, name and key, 32 hex digits; unique for each effect of a journal. */
  id: string;
  /** The name of the effect; the tool's name, unless it declares another one. */
  name: string;
  /**
   * Canonical JSON of the arguments that identify it; secrets are masked.
   * @defaultValue `""`
   */
  key?: string;
  /**
   * Where the key is unique: "" for the whole journal, otherwise such as "tenant acme".
   * @defaultValue `""`
   */
  scope?: string;
  /**
   * The arguments that must not differ in a second call: canonical JSON with secrets masked, or a
   * digest if it is long.
   * @defaultValue `""`
   */
  others?: string;
  /** Seconds after its end for which the key is kept; null keeps it forever. */
  keep_s?: number | null;
  /**
   * The tool, if that is not the name of the effect. Raises:
   * @defaultValue `""`
   */
  tool?: string;
}

/** The entry of one effect in the ledger of a journal. */
export interface EffectEntry {
  /** Identifies the effect in the journal. */
  id: string;
  /** The name of the effect, which several tools may share. */
  name: string;
  /**
   * Canonical JSON of the arguments that identify it; "" if its tool declares no identity.
   * @defaultValue `""`
   */
  key?: string;
  /**
   * Where the key is unique: "" for the whole journal, otherwise such as "tenant acme".
   * @defaultValue `""`
   */
  scope?: string;
  /**
   * The arguments that must not differ in a second call, as in `EffectClaim`.
   * @defaultValue `""`
   */
  others?: string;
  /**
   * The state of the effect.
   * @defaultValue `"begun"`
   */
  state?: "applied" | "begun" | "none" | "unknown";
  /**
   * The number of calls made for it, including calls that certainly had no effect.
   * @defaultValue `1`
   */
  attempts?: number;
  /**
   * The run of the last call made for it.
   * @defaultValue `""`
   */
  run_id?: string;
  /**
   * That call.
   * @defaultValue `""`
   */
  call_id?: string;
  /**
   * The tool of that call.
   * @defaultValue `""`
   */
  tool_name?: string;
  /**
   * The agent of the run.
   * @defaultValue `""`
   */
  agent_id?: string;
  /**
   * The user of the run, "" if unknown.
   * @defaultValue `""`
   */
  user?: string;
  /**
   * The tenant of the run, "" if it has none.
   * @defaultValue `""`
   */
  tenant?: string;
  /**
   * Who approved the call, "" if it needed no approval.
   * @defaultValue `""`
   */
  approved_by?: string;
  /**
   * The key that the tool was given.
   * @defaultValue `""`
   */
  idempotency_key?: string;
  /**
   * The `seq` of `tool_started` in the log of the run; 0 without a log.
   * @defaultValue `0`
   */
  started_seq?: number;
  /**
   * The `seq` of `tool_settled`, 0 until it is logged.
   * @defaultValue `0`
   */
  settled_seq?: number;
  /** When the call started. */
  started_at?: Moment | null;
  /** When it settled, null while it runs. */
  ended_at?: Moment | null;
  /** How an unknown effect was resolved, null if it was not. */
  settled?: Settlement | null;
  /** The outcome of a call that is in no log, as JSON; null if it is in a log. */
  output?: JsonObject | null;
  /**
   * How often `verify` was asked since the call ended.
   * @defaultValue `0`
   */
  checks?: number;
  /** When it is asked next, null for never. */
  check_at?: Moment | null;
}

/** A reference to the call that had an effect, or may have had one. */
export interface EffectRef {
  /**
   * The id of the effect in the ledger, "" if it is not in the ledger.
   * @defaultValue `""`
   */
  effect_id?: string;
  /**
   * The run of the call.
   * @defaultValue `""`
   */
  run_id?: string;
  /**
   * The id of the call in that run.
   * @defaultValue `""`
   */
  call_id?: string;
  /** When the call settled, or when it started if it has not settled; null if unknown. */
  at?: Moment | null;
}

/** What went wrong. The first eight are the contract's, the rest upshot's own. Open. */
export type ErrorCode =
  | "auth_error"
  | "budget_exceeded"
  | "canceled"
  | "conflict"
  | "content_filter"
  | "context_length"
  | "dead_end"
  | "effect_unknown"
  | "empty_reply"
  | "hook_failed"
  | "input_required"
  | "internal"
  | "interrupted"
  | "invalid_output"
  | "invalid_request"
  | "max_turns"
  | "model_unavailable"
  | "no_progress"
  | "not_available"
  | "not_found"
  | "policy_denied"
  | "rate_limit"
  | "refusal"
  | "server_error"
  | "taken_over"
  | "timeout"
  | "worker_lost"
  | (string & {});

/** An event, as a run's log and its subscribers get it. */
export type Event =
  | RunStarted
  | RunResumed
  | AttemptStarted
  | ModelStarted
  | ModelRetried
  | TextDelta
  | ReasoningDelta
  | ToolCallDelta
  | PartDelta
  | ModelReplied
  | ToolStarted
  | ToolStateSaved
  | ToolProgress
  | ToolSettled
  | ArtifactStored
  | ApprovalRequested
  | ApprovalAnswered
  | QuestionAsked
  | QuestionAnswered
  | BoardChanged
  | Compacted
  | StepStarted
  | StepSettled
  | UsageReported
  | Tainted
  | RunInterrupted
  | CheckpointSaved
  | HandoffEvent
  | Decided
  | AttemptEnded
  | Committed
  | Warned
  | Lagged
  | RunReleased
  | RunSettled
  | Unknown;

/** The known facts about a run, and the request's own metadata; unknown keys are missing. */
export interface ExecutionMetadata {
  /** Milliseconds. */
  executionTime: number;
  /** RFC 3339 in UTC, to the millisecond. */
  startTime?: string;
  /** startTime plus executionTime. */
  endTime?: string;
  /** All tokens of all model calls. */
  tokensUsed?: number;
  /** The cost of all model calls, in the result's currency. */
  cost?: number;
  /** The model of the last call. */
  model?: string;
  /** The provider of that model. */
  provider?: string;
  /** The provider's id of the last call. */
  requestId?: string;
  /** Why the last call stopped. */
  finishReason?: string;
  /** How the run ended; missing if it completed. */
  status?: string;
  /** The run. */
  runId?: string;
  /** The agent. */
  agentId?: string;
  /** Text received before a failure. */
  partialContent?: string;
  /** What went wrong without failing the run, each with code, message and origin. */
  warnings?: JsonObject[];
  /**
   * Each call that changed something outside, or may have done so, in the run and in its child
   * runs; missing if there is none.
   */
  effects?: JsonObject[];
  /** What a parked run waits for. */
  pending?: JsonObject[];
  [key: string]: Json | undefined;
}

/** A document, by URL, by its bytes, or by the id of the stored file. */
export interface File {
  kind: "file";
  /**
   * The file name, "" if it has none.
   * @defaultValue `""`
   */
  name?: string;
  /**
   * The URL to fetch it from, "" if there is none.
   * @defaultValue `""`
   */
  url?: string;
  /** The bytes (base64 in JSON), null if they are stored elsewhere. */
  data?: Base64 | null;
  /**
   * Such as "application/pdf".
   * @defaultValue `""`
   */
  media_type?: string;
  /**
   * The id of the stored file, in the run's artifact store or at the provider.
   * @defaultValue `""`
   */
  id?: string;
  /**
   * The size in bytes, 0 if unknown.
   * @defaultValue `0`
   */
  size_bytes?: number;
  /**
   * Hex digest of the bytes, "" if unknown.
   * @defaultValue `""`
   */
  sha256?: string;
  /** The number of lines of text, null if it is not text. */
  lines?: number | null;
  /**
   * What it contains, in at most 200 characters.
   * @defaultValue `""`
   */
  summary?: string;
}

/** One decider's decision; created by its five constructors. */
export interface FinalizeDecision {
  /** What to do with the attempt. Any refuse wins, then any discard, then any revise. */
  verdict: "accept" | "discard" | "keep_partial" | "refuse" | "revise";
  /**
   * Why. The first reason given is stored as `state["finalize_reason"]`, the reason of the winning
   * verdict in `Committed.reason` and `AttemptLine.revise_reason`.
   * @defaultValue `""`
   */
  reason?: string;
  /**
   * Instructions for the next attempt, for revise.
   * @defaultValue `""`
   */
  feedback?: string;
  /**
   * Facts to merge into the result's `state`.
   * @defaultValue `{}`
   */
  state?: JsonObject;
}

/** Why a model stopped. Closed; the provider's own word is kept beside it. */
export type FinishReason =
  | "aborted"
  | "content_filter"
  | "error"
  | "length"
  | "refusal"
  | "stop"
  | "tool_use";

/** The verdict of one gate on a call. */
export interface GateVerdict {
  /**
   * The gate's name.
   * @defaultValue `""`
   */
  gate?: string;
  /**
   * "pass", "deny", "wait" or "edit".
   * @defaultValue `"pass"`
   */
  verdict?: string;
  /**
   * Why, "" if it gave no reason.
   * @defaultValue `""`
   */
  detail?: string;
}

/** One user's approval of a call that several users must approve. */
export interface GivenApproval {
  /**
   * The user.
   * @defaultValue `""`
   */
  by?: string;
  /** When they approved it. */
  at?: Moment | null;
}

/** The model handed the request over. */
export interface HandoffEvent {
  kind: "handoff";
  /** The version of the schema that it was written with; always written. */
  schema_version: number;
  /**
   * The run.
   * @defaultValue `""`
   */
  run_id?: string;
  /**
   * The attempt that it belongs to, from 1; 0 before the first.
   * @defaultValue `0`
   */
  attempt?: number;
  /** When it happened, UTC. */
  time?: Moment | null;
  /**
   * Position in the run's log, from 1; a delta repeats the `seq` of the durable event before it.
   * @defaultValue `0`
   */
  seq?: number;
  /**
   * 0 on durable events; 1, 2, ... on the deltas that follow one.
   * @defaultValue `0`
   */
  part?: number;
  /**
   * In a log, the fields whose values are meant as written, although they look omitted and would
   * otherwise be derived from earlier events; empty elsewhere.
   * @defaultValue `[]`
   */
  literal?: string[];
  /**
   * For an event of a child run, as a subscriber of an outer run gets it: the ids of the runs that
   * the child is nested in, starting with the subscribed one. Empty on a run's own events, and in
   * logs.
   * @defaultValue `[]`
   */
  path?: string[];
  /**
   * The agent that gets the request.
   * @defaultValue `""`
   */
  to_agent_id?: string;
  /**
   * The handoff tool that the model called.
   * @defaultValue `""`
   */
  tool_name?: string;
  /**
   * The id of that call.
   * @defaultValue `""`
   */
  call_id?: string;
  /**
   * Why, in the model's words.
   * @defaultValue `""`
   */
  reason?: string;
  /**
   * What the next agent should know, in the model's words.
   * @defaultValue `""`
   */
  note?: string;
}

/** An image, by URL or by its bytes. */
export interface Image {
  kind: "image";
  /**
   * The URL to fetch it from; "" if the bytes are given.
   * @defaultValue `""`
   */
  url?: string;
  /** The bytes (base64 in JSON), null if only the URL is known. */
  data?: Base64 | null;
  /**
   * Such as "image/png".
   * @defaultValue `""`
   */
  media_type?: string;
  /**
   * How closely the model should look: "low", "high", "auto" or "".
   * @defaultValue `""`
   */
  detail?: string;
  /** What the provider wants back with an image that its model made; opaque. */
  signature?: string | null;
  /**
   * The provider of the signature, which is sent back only to it.
   * @defaultValue `""`
   */
  provider?: string;
}

/** Why a run is asked to stop. */
export interface Interrupt {
  /**
   * user_cancel, user_input, host_shutdown, deadline, custom, or your own word.
   * @defaultValue `""`
   */
  cause?: InterruptCause;
  /**
   * A free explanation.
   * @defaultValue `""`
   */
  detail?: string;
}

/** Why a run was interrupted. Open; "" if no cause was given. */
export type InterruptCause =
  | ""
  | "custom"
  | "deadline"
  | "host_shutdown"
  | "user_cancel"
  | "user_input"
  | (string & {});

/** Any JSON value. */
export type Json = null | boolean | number | string | Json[] | JsonObject;

/** Any JSON object. */
export interface JsonObject {
  [key: string]: Json;
}

/** A slow subscriber missed deltas; durable events are never dropped. */
export interface Lagged {
  kind: "lagged";
  /** The version of the schema that it was written with; always written. */
  schema_version: number;
  /**
   * The run.
   * @defaultValue `""`
   */
  run_id?: string;
  /**
   * The attempt that it belongs to, from 1; 0 before the first.
   * @defaultValue `0`
   */
  attempt?: number;
  /** When it happened, UTC. */
  time?: Moment | null;
  /**
   * Position in the run's log, from 1; a delta repeats the `seq` of the durable event before it.
   * @defaultValue `0`
   */
  seq?: number;
  /**
   * 0 on durable events; 1, 2, ... on the deltas that follow one.
   * @defaultValue `0`
   */
  part?: number;
  /**
   * In a log, the fields whose values are meant as written, although they look omitted and would
   * otherwise be derived from earlier events; empty elsewhere.
   * @defaultValue `[]`
   */
  literal?: string[];
  /**
   * For an event of a child run, as a subscriber of an outer run gets it: the ids of the runs that
   * the child is nested in, starting with the subscribed one. Empty on a run's own events, and in
   * logs.
   * @defaultValue `[]`
   */
  path?: string[];
  /**
   * How many deltas.
   * @defaultValue `0`
   */
  missed?: number;
}

/** The words that users say for a value, such as "every month" for `true`. */
export interface Meaning {
  /**
   * The value.
   * @defaultValue `""`
   */
  value?: string | number | number | boolean;
  /**
   * Any of these asks for the value, as whole words and in any case.
   * @defaultValue `[]`
   */
  words?: string[];
}

/** One message of a conversation: `Message("user", "Hello")`. */
export interface Message {
  kind: "message";
  /** The role of the speaker; the output of a tool always has the role tool. */
  role: Role;
  /** Text, or parts in order, including an assistant's tool calls. */
  content: string | Part[];
  /** The call that a tool message answers, null for other roles. */
  tool_call_id?: string | null;
  /**
   * The tool's name on a tool message, otherwise the speaker's name; "" if none.
   * @defaultValue `""`
   */
  name?: string;
  /**
   * Whether the provider paused this reply and continues it when it is sent back.
   * @defaultValue `false`
   */
  paused?: boolean;
  /**
   * Free JSON; never sent to a model.
   * @defaultValue `{}`
   */
  metadata?: JsonObject;
}

/** A model call ended, with or without an error. */
export interface ModelReplied {
  kind: "model_replied";
  /** The version of the schema that it was written with; always written. */
  schema_version: number;
  /**
   * The run.
   * @defaultValue `""`
   */
  run_id?: string;
  /**
   * The attempt that it belongs to, from 1; 0 before the first.
   * @defaultValue `0`
   */
  attempt?: number;
  /** When it happened, UTC. */
  time?: Moment | null;
  /**
   * Position in the run's log, from 1; a delta repeats the `seq` of the durable event before it.
   * @defaultValue `0`
   */
  seq?: number;
  /**
   * 0 on durable events; 1, 2, ... on the deltas that follow one.
   * @defaultValue `0`
   */
  part?: number;
  /**
   * In a log, the fields whose values are meant as written, although they look omitted and would
   * otherwise be derived from earlier events; empty elsewhere.
   * @defaultValue `[]`
   */
  literal?: string[];
  /**
   * For an event of a child run, as a subscriber of an outer run gets it: the ids of the runs that
   * the child is nested in, starting with the subscribed one. Empty on a run's own events, and in
   * logs.
   * @defaultValue `[]`
   */
  path?: string[];
  /**
   * "provider:name".
   * @defaultValue `""`
   */
  model?: string;
  /**
   * The turn of the attempt.
   * @defaultValue `0`
   */
  turn?: number;
  /**
   * How many tries it took.
   * @defaultValue `1`
   */
  tries?: number;
  /**
   * The reply to the last try.
   * @defaultValue `{"kind": "model_response", "schema_version": 1}`
   */
  response?: ModelResponse;
  /**
   * As in `ModelStarted`.
   * @defaultValue `""`
   */
  purpose?: string;
}

/** The outcome of one model call: an answer, tool calls, or an error as a value. */
export interface ModelResponse {
  kind: "model_response";
  /** The version of the schema that it was written with; always written. */
  schema_version: number;
  /**
   * Thoughts, text, calls and blocks of the provider's own tools, in the order received.
   * @defaultValue `[]`
   */
  parts?: Part[];
  /** The answer parsed as JSON if a schema was requested, otherwise null. */
  output?: Json;
  /** Why the model refused to answer, null if it did not refuse. */
  refusal?: string | null;
  /**
   * Tokens; falsy if the provider reported none.
   * @defaultValue `{}`
   */
  usage?: Usage;
  /** Money, null if the price is unknown. */
  cost?: Cost | null;
  /** Why the model stopped; null if it did not finish, or the reason is unknown. */
  finish_reason?: FinishReason | null;
  /**
   * Whether the provider paused, and continues when the reply is sent back to it.
   * @defaultValue `false`
   */
  paused?: boolean;
  /** What went wrong, null if nothing did. */
  error?: AgentError | null;
  /** The provider's rate-limit windows, null if it reported none. */
  rate_limit?: RateLimitState | null;
  /**
   * provider, model, request_id, raw_headers, finish_raw, and further facts.
   * @defaultValue `{}`
   */
  provider_data?: JsonObject;
  /**
   * From the request to the last byte, 0 if it was not measured.
   * @defaultValue `0`
   */
  duration_ms?: number;
  /** In this process only: `raw`, the reply as received. */
  local?: null;
}

/** A model call failed and is retried; the deltas shown so far are void. */
export interface ModelRetried {
  kind: "model_retried";
  /** The version of the schema that it was written with; always written. */
  schema_version: number;
  /**
   * The run.
   * @defaultValue `""`
   */
  run_id?: string;
  /**
   * The attempt that it belongs to, from 1; 0 before the first.
   * @defaultValue `0`
   */
  attempt?: number;
  /** When it happened, UTC. */
  time?: Moment | null;
  /**
   * Position in the run's log, from 1; a delta repeats the `seq` of the durable event before it.
   * @defaultValue `0`
   */
  seq?: number;
  /**
   * 0 on durable events; 1, 2, ... on the deltas that follow one.
   * @defaultValue `0`
   */
  part?: number;
  /**
   * In a log, the fields whose values are meant as written, although they look omitted and would
   * otherwise be derived from earlier events; empty elsewhere.
   * @defaultValue `[]`
   */
  literal?: string[];
  /**
   * For an event of a child run, as a subscriber of an outer run gets it: the ids of the runs that
   * the child is nested in, starting with the subscribed one. Empty on a run's own events, and in
   * logs.
   * @defaultValue `[]`
   */
  path?: string[];
  /**
   * "provider:name".
   * @defaultValue `""`
   */
  model?: string;
  /**
   * The turn of the attempt.
   * @defaultValue `0`
   */
  turn?: number;
  /**
   * How many tries have failed.
   * @defaultValue `0`
   */
  tries?: number;
  /**
   * Seconds until the next try.
   * @defaultValue `0.0`
   */
  wait_s?: number;
  /**
   * The model that a `Fallback` calls next, in the same try; "" if the same model is tried again.
   * @defaultValue `""`
   */
  next_model?: string;
  /**
   * The failed reply, with usage and rate limits.
   * @defaultValue `{"kind": "model_response", "schema_version": 1}`
   */
  response?: ModelResponse;
}

/** Settings of a model call; null leaves the choice to the provider. */
export interface ModelSettings {
  /** Usually from 0 to 2. */
  temperature?: number | null;
  /** From 0 to 1. */
  top_p?: number | null;
  /** The maximum number of tokens to generate, reasoning included. */
  max_tokens?: number | null;
  /** Strings that stop the model. */
  stop?: string[] | null;
  /** For providers that can repeat a sample. */
  seed?: number | null;
  /** "auto", "none", "required", or the name of one tool. */
  tool_choice?: string | null;
  /** Whether one reply may contain several calls. */
  parallel_tool_calls?: boolean | null;
  /** An effort, or the maximum number of tokens for thinking; 0 or "none" turns it off. */
  reasoning?: "high" | "low" | "medium" | "minimal" | "none" | "xhigh" | number | null;
  /**
   * Whether to mark the stable prefix for the provider's prompt cache. If a request of a loop does
   * not start with the previous one, the run has the warning `cache_lost`.
   */
  cache?: boolean | null;
  /**
   * Tools that the provider itself runs: "web_search", "web_fetch", "code_execution" or
   * "image_generation" where it has one, or an object in the provider's own form, such as `{"type":
   * "file_search", "vector_store_ids": [...]}`. Their calls and results are `ServerToolBlock`
   * parts; no gate is asked about them.
   */
  hosted_tools?: (string | JsonObject)[] | null;
  /**
   * Provider-specific fields, copied into the request body.
   * @defaultValue `{}`
   */
  extra?: JsonObject;
}

/** A model is about to be called. */
export interface ModelStarted {
  kind: "model_started";
  /** The version of the schema that it was written with; always written. */
  schema_version: number;
  /**
   * The run.
   * @defaultValue `""`
   */
  run_id?: string;
  /**
   * The attempt that it belongs to, from 1; 0 before the first.
   * @defaultValue `0`
   */
  attempt?: number;
  /** When it happened, UTC. */
  time?: Moment | null;
  /**
   * Position in the run's log, from 1; a delta repeats the `seq` of the durable event before it.
   * @defaultValue `0`
   */
  seq?: number;
  /**
   * 0 on durable events; 1, 2, ... on the deltas that follow one.
   * @defaultValue `0`
   */
  part?: number;
  /**
   * In a log, the fields whose values are meant as written, although they look omitted and would
   * otherwise be derived from earlier events; empty elsewhere.
   * @defaultValue `[]`
   */
  literal?: string[];
  /**
   * For an event of a child run, as a subscriber of an outer run gets it: the ids of the runs that
   * the child is nested in, starting with the subscribed one. Empty on a run's own events, and in
   * logs.
   * @defaultValue `[]`
   */
  path?: string[];
  /**
   * "provider:name".
   * @defaultValue `""`
   */
  model?: string;
  /**
   * The turn of the attempt, from 1.
   * @defaultValue `0`
   */
  turn?: number;
  /** Digests of the request; null if an engine reports its own call. */
  request?: RequestDigests | null;
  /**
   * "repair" if the call corrects a tool call's arguments, "sampling" if it replies to an MCP
   * server, "summary" if it sums up older messages; "" for a call of the engine.
   * @defaultValue `""`
   */
  purpose?: string;
  /**
   * The key of the step that makes the call, "" if none.
   * @defaultValue `""`
   */
  step?: string;
  /**
   * Tools that deciders left out of the request; calls of them are denied.
   * @defaultValue `[]`
   */
  withheld?: string[];
  /**
   * The file of the instructions and the digest of its text, as `Prompt.version` has them; "" if
   * they come from no file, or a decider changed them.
   * @defaultValue `""`
   */
  prompt?: string;
}

/** A moment: RFC 3339 in UTC, such as "2026-03-01T12:00:00Z". */
export type Moment = string;

/** An amount in the currency named beside it, else in US dollars. */
export type Money = number;

/** A note that a user attached to a run, such as a thumb or a label. */
export interface Note {
  /**
   * The run.
   * @defaultValue `""`
   */
  run_id?: string;
  /**
   * The name of the note.
   * @defaultValue `""`
   */
  name?: string;
  /** The content of the note, as JSON. */
  value?: Json;
  /**
   * Who wrote it.
   * @defaultValue `""`
   */
  by?: string;
  /** When it was written. */
  at?: Moment | null;
}

/** Where an error or a warning arose. Open. */
export type Origin =
  | "caller"
  | "decider"
  | "engine"
  | "host"
  | "journal"
  | "limit"
  | "model"
  | "observer"
  | "tool"
  | (string & {});

/** An answer that came too late. */
export interface Outdated {
  /** The answer. */
  answer: AnyAnswer;
  /**
   * Why it was not accepted.
   * @defaultValue `""`
   */
  reason?: string;
  /** The earlier answer, null if it is not known. */
  decision?: AnyAnswer | null;
  /**
   * Who gave the earlier answer, "" if unknown.
   * @defaultValue `""`
   */
  by?: string;
  /** When it was given, null if unknown. */
  at?: Moment | null;
}

/** A part of a message or an artifact. */
export type Part =
  | Text
  | Image
  | File
  | Audio
  | Data
  | Reasoning
  | ToolCall
  | ServerToolBlock
  | Unknown;

/** A part of the reply that is no text, thought or call, or a piece of one. */
export interface PartDelta {
  kind: "part_delta";
  /** The version of the schema that it was written with; always written. */
  schema_version: number;
  /**
   * The run.
   * @defaultValue `""`
   */
  run_id?: string;
  /**
   * The attempt that it belongs to, from 1; 0 before the first.
   * @defaultValue `0`
   */
  attempt?: number;
  /** When it happened, UTC. */
  time?: Moment | null;
  /**
   * Position in the run's log, from 1; a delta repeats the `seq` of the durable event before it.
   * @defaultValue `0`
   */
  seq?: number;
  /**
   * 0 on durable events; 1, 2, ... on the deltas that follow one.
   * @defaultValue `0`
   */
  part?: number;
  /**
   * In a log, the fields whose values are meant as written, although they look omitted and would
   * otherwise be derived from earlier events; empty elsewhere.
   * @defaultValue `[]`
   */
  literal?: string[];
  /**
   * For an event of a child run, as a subscriber of an outer run gets it: the ids of the runs that
   * the child is nested in, starting with the subscribed one. Empty on a run's own events, and in
   * logs.
   * @defaultValue `[]`
   */
  path?: string[];
  /**
   * The number of the part among these, from 0.
   * @defaultValue `0`
   */
  index?: number;
  /**
   * The part: an `Audio`, an `Image`, a `File`, or a `ServerToolBlock` of the provider's own tools.
   * @defaultValue `{"kind": "text", "text": ""}`
   */
  content?: Part;
}

/** What a parked run waits for. */
export type Pending =
  | PendingApproval
  | PendingQuestion
  | PendingExternal
  | PendingEffect;

/** A tool call that waits for approval. */
export interface PendingApproval {
  kind: "pending_approval";
  /**
   * The call; an answer names it.
   * @defaultValue `""`
   */
  call_id?: string;
  /**
   * The tool.
   * @defaultValue `""`
   */
  tool_name?: string;
  /**
   * The validated arguments; secrets are masked.
   * @defaultValue `{}`
   */
  arguments?: JsonObject;
  /**
   * The effect that the tool declares.
   * @defaultValue `"write"`
   */
  effect?: Effect;
  /**
   * Identifies this question: SHA-256 of the arguments, the tool's version, the reply that asked
   * for the call and the time of the question. An answer repeats it.
   * @defaultValue `""`
   */
  digest?: string;
  /**
   * Why approval is needed, "" if a rule requires it.
   * @defaultValue `""`
   */
  reason?: string;
  /** The untrusted content that made approval necessary, null if that is not the reason. */
  taint?: TaintOrigin | null;
  /**
   * What a stranger may have chosen, with `Policy(taint="values")`.
   * @defaultValue `[]`
   */
  doubts?: Doubt[];
  /**
   * What vouches for the other values.
   * @defaultValue `[]`
   */
  vouched?: Voucher[];
  /** When it was first asked. */
  asked_at?: Moment | null;
  /** When the request expires and must be repeated; null means never. */
  expires_at?: Moment | null;
  /**
   * The child run that asks; "" is the run of the result itself.
   * @defaultValue `""`
   */
  run_id?: string;
  /**
   * Who may answer, as the tool's `ask` says: with "user" the run's user may, too. A call that
   * several users must approve always waits for staff.
   * @defaultValue `"staff"`
   */
  audience?: "staff" | "user";
  /**
   * How many different users must approve the call, 1 or more. A single denial denies it.
   * @defaultValue `1`
   */
  approvals?: number;
  /**
   * The users who have approved it so far, in order; empty if one is enough.
   * @defaultValue `[]`
   */
  approved_by?: GivenApproval[];
  /**
   * The user who changed the model's arguments, if others must approve the change. They are the
   * first in `approved_by`.
   * @defaultValue `""`
   */
  edited_by?: string;
}

/** A call that may have taken effect: did it happen? */
export interface PendingEffect {
  kind: "pending_effect";
  /**
   * The id of the effect in the ledger; an answer names it.
   * @defaultValue `""`
   */
  id?: string;
  /**
   * "Did this happen?", with the call.
   * @defaultValue `""`
   */
  question?: string;
  /**
   * "yes" and "no".
   * @defaultValue `["yes", "no"]`
   */
  choices?: string[];
  /** null. */
  schema?: JsonObject | null;
  /** When it was first asked. */
  asked_at?: Moment | null;
  /** null. */
  expires_at?: Moment | null;
  /**
   * The child run that asks; "" is the run of the result itself.
   * @defaultValue `""`
   */
  run_id?: string;
  /**
   * "".
   * @defaultValue `""`
   */
  source?: string;
  /**
   * The call.
   * @defaultValue `""`
   */
  call_id?: string;
  /**
   * The tool.
   * @defaultValue `""`
   */
  tool_name?: string;
  /**
   * The arguments of the call; secrets are masked.
   * @defaultValue `{}`
   */
  arguments?: JsonObject;
  /**
   * The effect that the tool declares.
   * @defaultValue `"write"`
   */
  effect?: Effect;
  /**
   * The tool's last error message.
   * @defaultValue `""`
   */
  error?: string;
  /**
   * The key that the tool was given for a service.
   * @defaultValue `""`
   */
  idempotency_key?: string;
  /** When the call started. */
  started_at?: Moment | null;
  /** When it ended, null if its process was gone. */
  ended_at?: Moment | null;
  /**
   * Identifies this attempt: an answer with another digest is about an earlier attempt.
   * @defaultValue `""`
   */
  digest?: string;
  /**
   * Who may answer, as the tool's `ask` says: with "user" the run's user may, too.
   * @defaultValue `"staff"`
   */
  audience?: "staff" | "user";
}

/** A result that another system will deliver. */
export interface PendingExternal {
  kind: "pending_external";
  /**
   * The id that an answer names.
   * @defaultValue `""`
   */
  id?: string;
  /**
   * What the run waits for.
   * @defaultValue `""`
   */
  description?: string;
  /** When it started to wait. */
  asked_at?: Moment | null;
  /** When the run stops waiting; null means never. */
  expires_at?: Moment | null;
  /**
   * The child run that waits; "" is the run of the result itself.
   * @defaultValue `""`
   */
  run_id?: string;
  /**
   * The name of the signal that the run waits for; "" if it is no signal.
   * @defaultValue `""`
   */
  signal?: string;
}

/** A question to the user. */
export interface PendingQuestion {
  kind: "pending_question";
  /**
   * The id that an answer names.
   * @defaultValue `""`
   */
  id?: string;
  /**
   * The text.
   * @defaultValue `""`
   */
  question?: string;
  /**
   * The answers to choose from; empty means free text.
   * @defaultValue `[]`
   */
  choices?: string[];
  /** JSON Schema of the answer, null for any value. */
  schema?: JsonObject | null;
  /** When it was first asked. */
  asked_at?: Moment | null;
  /** When the run stops waiting; null means never. */
  expires_at?: Moment | null;
  /**
   * The child run that asks; "" is the run of the result itself.
   * @defaultValue `""`
   */
  run_id?: string;
  /**
   * The stranger who asks, such as an MCP server; "" if the run itself asks. What a stranger's
   * question offers is not the user's own words.
   * @defaultValue `""`
   */
  source?: string;
}

/** Rules about tools, applied to every call. */
export interface Policy {
  /**
   * Only tools that match one of these rules may be called; null allows all. The Toolbox's own
   * `read_artifact` needs no rule.
   */
  allow?: string[] | null;
  /**
   * Tools that match one of these rules may not be called, even if `allow` matches.
   * @defaultValue `[]`
   */
  deny?: string[];
  /**
   * Tools that match one of these rules need approval, whatever they declare: `["effect:write"]`
   * requires approval for every writing call.
   * @defaultValue `[]`
   */
  ask?: string[];
  /**
   * What needs approval once untrusted content is in the context, whatever the tool declares. "ask"
   * (true): calls that may write, and reads that declare the network, since either may carry data
   * out. "values": the same calls, unless the user asked for such an act and each argument is
   * vouched for by what the user said or by what `@tool` declares. "off" (false): nothing.
   * @defaultValue `"ask"`
   */
  taint?: "ask" | "off" | "values" | boolean;
  /**
   * Whether tools that declare the network may be called.
   * @defaultValue `true`
   */
  network?: boolean;
  /**
   * Seconds until an unanswered approval expires and must be requested again, unless the tool sets
   * its own; null means never.
   */
  approval_expires_s?: number | null;
  /**
   * With "values", which `content` may be sent to anyone but the user: "said" only the user's own
   * words; "links" any words, but addresses, links, numbers and accounts only if the user said
   * them; "open" everything.
   * @defaultValue `"said"`
   */
  words?: "links" | "open" | "said";
  /**
   * The user's own addresses and account names.
   * @defaultValue `[]`
   */
  user?: string[];
  /**
   * Hosts that network reads may always reach, as named by an argument `target(format="url")`:
   * exact, including any non-default port.
   * @defaultValue `[]`
   */
  hosts?: string[];
  /**
   * What a run does if the effect of a call is still unknown after `verify`, unless the tool sets
   * its own: "tell" (inform the model), "ask" (park with a `PendingEffect`), "stop" (fail with
   * `effect_unknown`). null is "ask" for tools that declare `destructive`, and "tell" for all other
   * tools. Raises:
   */
  on_unknown?: "ask" | "stop" | "tell" | null;
  /**
   * How many different users must approve a call, by rule: `{"effect:destructive": 2}`. Tools that
   * match a rule need approval, as with `ask`. If several rules match, or the tool has a number of
   * its own, the largest counts.
   * @defaultValue `{}`
   */
  approvals?: { [key: string]: number };
}

/** A question was answered. */
export interface QuestionAnswered {
  kind: "question_answered";
  /** The version of the schema that it was written with; always written. */
  schema_version: number;
  /**
   * The run.
   * @defaultValue `""`
   */
  run_id?: string;
  /**
   * The attempt that it belongs to, from 1; 0 before the first.
   * @defaultValue `0`
   */
  attempt?: number;
  /** When it happened, UTC. */
  time?: Moment | null;
  /**
   * Position in the run's log, from 1; a delta repeats the `seq` of the durable event before it.
   * @defaultValue `0`
   */
  seq?: number;
  /**
   * 0 on durable events; 1, 2, ... on the deltas that follow one.
   * @defaultValue `0`
   */
  part?: number;
  /**
   * In a log, the fields whose values are meant as written, although they look omitted and would
   * otherwise be derived from earlier events; empty elsewhere.
   * @defaultValue `[]`
   */
  literal?: string[];
  /**
   * For an event of a child run, as a subscriber of an outer run gets it: the ids of the runs that
   * the child is nested in, starting with the subscribed one. Empty on a run's own events, and in
   * logs.
   * @defaultValue `[]`
   */
  path?: string[];
  /**
   * The question's id.
   * @defaultValue `""`
   */
  id?: string;
  /** The answer. */
  value?: Json;
  /**
   * How the effect of a `PendingEffect` was resolved, even if not by an answer to the question;
   * null for other questions.
   */
  settled?: Settlement | null;
}

/** The run asks the user a question, or waits for a result from another system. */
export interface QuestionAsked {
  kind: "question_asked";
  /** The version of the schema that it was written with; always written. */
  schema_version: number;
  /**
   * The run.
   * @defaultValue `""`
   */
  run_id?: string;
  /**
   * The attempt that it belongs to, from 1; 0 before the first.
   * @defaultValue `0`
   */
  attempt?: number;
  /** When it happened, UTC. */
  time?: Moment | null;
  /**
   * Position in the run's log, from 1; a delta repeats the `seq` of the durable event before it.
   * @defaultValue `0`
   */
  seq?: number;
  /**
   * 0 on durable events; 1, 2, ... on the deltas that follow one.
   * @defaultValue `0`
   */
  part?: number;
  /**
   * In a log, the fields whose values are meant as written, although they look omitted and would
   * otherwise be derived from earlier events; empty elsewhere.
   * @defaultValue `[]`
   */
  literal?: string[];
  /**
   * For an event of a child run, as a subscriber of an outer run gets it: the ids of the runs that
   * the child is nested in, starting with the subscribed one. Empty on a run's own events, and in
   * logs.
   * @defaultValue `[]`
   */
  path?: string[];
  /**
   * What the run waits for; logged again by each session that waits for it.
   * @defaultValue `{"kind": "pending_question"}`
   */
  pending?: PendingQuestion | PendingExternal | PendingEffect;
}

/** All rate-limit windows of one reply, and what follows from them. */
export interface RateLimitState {
  /** Whether a window is exhausted, or the reply was a rate_limit error. */
  limited: boolean;
  /** Whole seconds to wait, rounded up; null if unknown. */
  retry_after?: number | null;
  /**
   * The windows, in the order of the headers.
   * @defaultValue `[]`
   */
  windows?: RateLimitWindow[];
}

/** One limit that a provider counts against. */
export interface RateLimitWindow {
  /**
   * Such as "requests_per_minute", "tokens_per_day" or "requests".
   * @defaultValue `""`
   */
  name?: string;
  /**
   * What is counted: requests, tokens, input_tokens, output_tokens, or the provider's own word.
   */
  resource: Resource;
  /** The maximum that the window allows; null if not reported. */
  limit?: number | null;
  /** What is left of the limit; null if not reported. */
  remaining?: number | null;
  /** Whole seconds until the window is full again, rounded up; null if not reported. */
  resets_in?: number | null;
  /** The same moment in unix seconds. */
  reset_at?: number | null;
  /**
   * Whether the reset was estimated from the window's length.
   * @defaultValue `false`
   */
  estimated?: boolean;
}

/** What a model thought before it answered. */
export interface Reasoning {
  kind: "reasoning";
  /**
   * The thought or its summary, "" if the provider sent only the opaque form.
   * @defaultValue `""`
   */
  text?: string;
  /** The provider's opaque form or proof of the thought; sent back to it. */
  signature?: string | null;
  /**
   * The provider that signed the thought, which is sent back only to it.
   * @defaultValue `""`
   */
  provider?: string;
  /**
   * The provider's id of the thought, "" if none.
   * @defaultValue `""`
   */
  id?: string;
  /**
   * Whether the provider withheld the text and sent only the signature.
   * @defaultValue `false`
   */
  redacted?: boolean;
}

/** A piece of the model's thoughts. */
export interface ReasoningDelta {
  kind: "reasoning_delta";
  /** The version of the schema that it was written with; always written. */
  schema_version: number;
  /**
   * The run.
   * @defaultValue `""`
   */
  run_id?: string;
  /**
   * The attempt that it belongs to, from 1; 0 before the first.
   * @defaultValue `0`
   */
  attempt?: number;
  /** When it happened, UTC. */
  time?: Moment | null;
  /**
   * Position in the run's log, from 1; a delta repeats the `seq` of the durable event before it.
   * @defaultValue `0`
   */
  seq?: number;
  /**
   * 0 on durable events; 1, 2, ... on the deltas that follow one.
   * @defaultValue `0`
   */
  part?: number;
  /**
   * In a log, the fields whose values are meant as written, although they look omitted and would
   * otherwise be derived from earlier events; empty elsewhere.
   * @defaultValue `[]`
   */
  literal?: string[];
  /**
   * For an event of a child run, as a subscriber of an outer run gets it: the ids of the runs that
   * the child is nested in, starting with the subscribed one. Empty on a run's own events, and in
   * logs.
   * @defaultValue `[]`
   */
  path?: string[];
  /**
   * The piece.
   * @defaultValue `""`
   */
  text?: string;
}

/** The records in the results of a tool: `Record("contact", id="email", names=("name",))`. */
export interface Record {
  /**
   * A word of your choice, which `ref` repeats.
   * @defaultValue `""`
   */
  record_kind?: string;
  /**
   * The field that identifies it; "" if each text of a list is a record, as in a list of channel
   * names.
   * @defaultValue `"id"`
   */
  id?: string;
  /**
   * The fields that users call it by.
   * @defaultValue `[]`
   */
  names?: string[];
  /**
   * Whether your own system fills *id* and *names* even if the result is untrusted because of other
   * text in it, such as a list of events with text from strangers. A stranger may still have chosen
   * a name that the user says. Raises:
   * @defaultValue `false`
   */
  trusted?: boolean;
}

/** Who redacted the content of a run in its log, and when. */
export interface Redacted {
  /**
   * The user, "" if not given.
   * @defaultValue `""`
   */
  by?: string;
  /** When it was redacted. */
  at?: Moment | null;
}

/** One request to an agent: `Request("Where is order 7?")`. */
export interface Request {
  kind: "request";
  /** The message; a string becomes a user message. */
  message: string | Message;
  /** The version of the schema that it was written with; always written. */
  schema_version: number;
  /**
   * Variables set on the board before the engine starts; null means none.
   * @defaultValue `{}`
   */
  inputs?: JsonObject;
  /**
   * The caller's task, "" if none.
   * @defaultValue `""`
   */
  task_id?: string;
  /**
   * The conversation that this run belongs to, "" if none.
   * @defaultValue `""`
   */
  context_id?: string;
  /**
   * The id of the run; "" generates one.
   * @defaultValue `""`
   */
  run_id?: string;
  /** What the caller can handle. */
  config?: RequestConfig | null;
  /**
   * Free JSON from the caller; null means none.
   * @defaultValue `{}`
   */
  metadata?: JsonObject;
}

/** What the caller can handle. */
export interface RequestConfig {
  /**
   * Media types such as `text/plain` or `image/*`; empty accepts all. An artifact of another type
   * causes a warning.
   * @defaultValue `[]`
   */
  accepted_output_modes?: string[];
}

/** Digests of the parts of a model request; equal parts have equal digests in every run. */
export interface RequestDigests {
  /**
   * Digest of the instructions, "" if there are none.
   * @defaultValue `""`
   */
  instructions?: string;
  /**
   * Digest of the offered tools, "" if there are none.
   * @defaultValue `""`
   */
  tools?: string;
  /**
   * Digest of the settings and the output schema, "" if there are neither.
   * @defaultValue `""`
   */
  settings?: string;
  /**
   * Digest of all messages in order; the digest of the last one covers them.
   * @defaultValue `""`
   */
  messages?: string;
  /**
   * The number of messages.
   * @defaultValue `0`
   */
  count?: number;
  /**
   * One digest for each message that this request adds to the ones it shares with the run's
   * previous model call. Each covers all messages up to its own.
   * @defaultValue `[]`
   */
  added?: string[];
}

/** What a rate-limit window counts. Open. */
export type Resource =
  | "input_tokens"
  | "output_tokens"
  | "requests"
  | "tokens"
  | (string & {});

/** How failed model calls are retried. */
export interface Retry {
  /**
   * The maximum number of tries of one call, the first included; 1 or more.
   * @defaultValue `4`
   */
  max_tries?: number;
  /**
   * The longest wait between two tries, in seconds; null means 60, or 3,600 in a worker, which
   * needs no resources for a waiting run.
   */
  max_wait_s?: number | null;
  /**
   * The first wait in seconds; it doubles with every try.
   * @defaultValue `0.5`
   */
  base_s?: number;
}

/** The role of a message's speaker. Closed. */
export type Role =
  | "assistant"
  | "system"
  | "tool"
  | "user";

/** How many runs a journal has. */
export interface RunCounts {
  /**
   * The number of runs by status, without zeros.
   * @defaultValue `{}`
   */
  statuses?: { [key: string]: number };
  /**
   * The number of failed runs by error code.
   * @defaultValue `{}`
   */
  errors?: { [key: string]: number };
  /**
   * The cost by the day on which the runs started, newest first.
   * @defaultValue `[]`
   */
  cost_by_day?: DayCost[];
}

/** A call that changed something outside, or may have done so. */
export interface RunEffect {
  /**
   * The tool as the model named it, "" for a step of an engine that failed.
   * @defaultValue `""`
   */
  tool?: string;
  /** "applied" or "unknown". */
  state: Effect;
  /**
   * The run that made the call; its result has the record.
   * @defaultValue `""`
   */
  run_id?: string;
  /**
   * The model's id of the call, "" for a step.
   * @defaultValue `""`
   */
  call_id?: string;
  /**
   * The key of the step, or of the step that made the call; "" if none.
   * @defaultValue `""`
   */
  step?: string;
  /**
   * The runs that `run_id` is nested in, from the result's own run down. Empty for the run's own
   * calls and for the calls of a run that handed the request over to it.
   * @defaultValue `[]`
   */
  path?: string[];
  /** The id of the effect in the ledger; null if the tool declares no identity. */
  key?: string | null;
}

/** The identity of a run; the first argument of every hook. */
export interface RunInfo {
  /**
   * The agent of the run.
   * @defaultValue `""`
   */
  agent_id?: string;
  /**
   * The run.
   * @defaultValue `""`
   */
  run_id?: string;
  /**
   * The caller's task, "" if none.
   * @defaultValue `""`
   */
  task_id?: string;
  /**
   * The conversation, "" if none.
   * @defaultValue `""`
   */
  context_id?: string;
  /**
   * Free JSON from the caller, as a copy; it cannot override the other fields.
   * @defaultValue `{}`
   */
  attributes?: JsonObject;
  /**
   * Whether this is a later session of the run.
   * @defaultValue `false`
   */
  resumed?: boolean;
}

/** The run was asked to stop. */
export interface RunInterrupted {
  kind: "interrupted";
  /** The version of the schema that it was written with; always written. */
  schema_version: number;
  /**
   * The run.
   * @defaultValue `""`
   */
  run_id?: string;
  /**
   * The attempt that it belongs to, from 1; 0 before the first.
   * @defaultValue `0`
   */
  attempt?: number;
  /** When it happened, UTC. */
  time?: Moment | null;
  /**
   * Position in the run's log, from 1; a delta repeats the `seq` of the durable event before it.
   * @defaultValue `0`
   */
  seq?: number;
  /**
   * 0 on durable events; 1, 2, ... on the deltas that follow one.
   * @defaultValue `0`
   */
  part?: number;
  /**
   * In a log, the fields whose values are meant as written, although they look omitted and would
   * otherwise be derived from earlier events; empty elsewhere.
   * @defaultValue `[]`
   */
  literal?: string[];
  /**
   * For an event of a child run, as a subscriber of an outer run gets it: the ids of the runs that
   * the child is nested in, starting with the subscribed one. Empty on a run's own events, and in
   * logs.
   * @defaultValue `[]`
   */
  path?: string[];
  /**
   * The reason.
   * @defaultValue `{}`
   */
  interrupt?: Interrupt;
}

/** The last event of a session that released its run before the run ended or parked. */
export interface RunReleased {
  kind: "run_released";
  /** The version of the schema that it was written with; always written. */
  schema_version: number;
  /**
   * The run.
   * @defaultValue `""`
   */
  run_id?: string;
  /**
   * The attempt that it belongs to, from 1; 0 before the first.
   * @defaultValue `0`
   */
  attempt?: number;
  /** When it happened, UTC. */
  time?: Moment | null;
  /**
   * Position in the run's log, from 1; a delta repeats the `seq` of the durable event before it.
   * @defaultValue `0`
   */
  seq?: number;
  /**
   * 0 on durable events; 1, 2, ... on the deltas that follow one.
   * @defaultValue `0`
   */
  part?: number;
  /**
   * In a log, the fields whose values are meant as written, although they look omitted and would
   * otherwise be derived from earlier events; empty elsewhere.
   * @defaultValue `[]`
   */
  literal?: string[];
  /**
   * For an event of a child run, as a subscriber of an outer run gets it: the ids of the runs that
   * the child is nested in, starting with the subscribed one. Empty on a run's own events, and in
   * logs.
   * @defaultValue `[]`
   */
  path?: string[];
  /**
   * "drain": the worker shuts down; "due": the run waits until a moment; "outer": a child run whose
   * parent was released.
   * @defaultValue `"drain"`
   */
  reason?: "drain" | "due" | "outer";
  /**
   * When the run should be resumed; for a child run, the time until which its root run waits, null
   * if the root run does not wait.
   */
  at?: Moment | null;
}

/** A run that was parked, or whose process died, continues. */
export interface RunResumed {
  kind: "run_resumed";
  /** The version of the schema that it was written with; always written. */
  schema_version: number;
  /**
   * The run.
   * @defaultValue `""`
   */
  run_id?: string;
  /**
   * The attempt that it belongs to, from 1; 0 before the first.
   * @defaultValue `0`
   */
  attempt?: number;
  /** When it happened, UTC. */
  time?: Moment | null;
  /**
   * Position in the run's log, from 1; a delta repeats the `seq` of the durable event before it.
   * @defaultValue `0`
   */
  seq?: number;
  /**
   * 0 on durable events; 1, 2, ... on the deltas that follow one.
   * @defaultValue `0`
   */
  part?: number;
  /**
   * In a log, the fields whose values are meant as written, although they look omitted and would
   * otherwise be derived from earlier events; empty elsewhere.
   * @defaultValue `[]`
   */
  literal?: string[];
  /**
   * For an event of a child run, as a subscriber of an outer run gets it: the ids of the runs that
   * the child is nested in, starting with the subscribed one. Empty on a run's own events, and in
   * logs.
   * @defaultValue `[]`
   */
  path?: string[];
  /** The agent that continues it; its version may have changed. */
  agent?: AgentSpec | null;
  /**
   * The options of the run that can be logged.
   * @defaultValue `{}`
   */
  options?: JsonObject;
  /**
   * Ids of calls that had started and have no outcome.
   * @defaultValue `[]`
   */
  interrupted_calls?: string[];
}

/** The last event of a session that ends or parks the run: the result so far. */
export interface RunSettled {
  kind: "run_settled";
  /** The version of the schema that it was written with; always written. */
  schema_version: number;
  /**
   * The run.
   * @defaultValue `""`
   */
  run_id?: string;
  /**
   * The attempt that it belongs to, from 1; 0 before the first.
   * @defaultValue `0`
   */
  attempt?: number;
  /** When it happened, UTC. */
  time?: Moment | null;
  /**
   * Position in the run's log, from 1; a delta repeats the `seq` of the durable event before it.
   * @defaultValue `0`
   */
  seq?: number;
  /**
   * 0 on durable events; 1, 2, ... on the deltas that follow one.
   * @defaultValue `0`
   */
  part?: number;
  /**
   * In a log, the fields whose values are meant as written, although they look omitted and would
   * otherwise be derived from earlier events; empty elsewhere.
   * @defaultValue `[]`
   */
  literal?: string[];
  /**
   * For an event of a child run, as a subscriber of an outer run gets it: the ids of the runs that
   * the child is nested in, starting with the subscribed one. Empty on a run's own events, and in
   * logs.
   * @defaultValue `[]`
   */
  path?: string[];
  /** The result that the caller gets. */
  result: AgentResult;
  /**
   * In a log: the worst effect of the run and its child runs; "none" elsewhere.
   * @defaultValue `"none"`
   */
  effect?: Effect;
  /**
   * In a log: the run's own unanswered questions in the form shown to the user, each under the id
   * of the question; empty elsewhere.
   * @defaultValue `{}`
   */
  asks?: { [key: string]: Pending };
  /**
   * In a log: the start of its answer, 200 characters or fewer; "" elsewhere.
   * @defaultValue `""`
   */
  answer?: string;
  /**
   * In a log: the tools that it called or asks for, without duplicates, 20 or fewer.
   * @defaultValue `[]`
   */
  tools?: string[];
  /**
   * In a log: how many seconds its sessions took together; 0 elsewhere.
   * @defaultValue `0.0`
   */
  took_s?: number;
  /**
   * In a log: when the run continues although what it waits for has not arrived; null for never,
   * and elsewhere.
   */
  due_at?: Moment | null;
  /**
   * In a log: how often its sessions called each model and tool, 20 of each or fewer.
   * @defaultValue `[]`
   */
  calls?: CallCount[];
}

/** A run started. */
export interface RunStarted {
  kind: "run_started";
  /** The version of the schema that it was written with; always written. */
  schema_version: number;
  /**
   * The run.
   * @defaultValue `""`
   */
  run_id?: string;
  /**
   * The attempt that it belongs to, from 1; 0 before the first.
   * @defaultValue `0`
   */
  attempt?: number;
  /** When it happened, UTC. */
  time?: Moment | null;
  /**
   * Position in the run's log, from 1; a delta repeats the `seq` of the durable event before it.
   * @defaultValue `0`
   */
  seq?: number;
  /**
   * 0 on durable events; 1, 2, ... on the deltas that follow one.
   * @defaultValue `0`
   */
  part?: number;
  /**
   * In a log, the fields whose values are meant as written, although they look omitted and would
   * otherwise be derived from earlier events; empty elsewhere.
   * @defaultValue `[]`
   */
  literal?: string[];
  /**
   * For an event of a child run, as a subscriber of an outer run gets it: the ids of the runs that
   * the child is nested in, starting with the subscribed one. Empty on a run's own events, and in
   * logs.
   * @defaultValue `[]`
   */
  path?: string[];
  /**
   * The agent's spec.
   * @defaultValue `{"kind": "agent_spec", "schema_version": 1}`
   */
  agent?: AgentSpec;
  /**
   * The request.
   * @defaultValue `{"kind": "request", "message": {"kind": "message", "role": "user", "content":
   * ""}, "schema_version": 1}`
   */
  request?: Request;
  /**
   * The run that started it, "" for a root run.
   * @defaultValue `""`
   */
  parent_run_id?: string;
  /**
   * 0 for a root run.
   * @defaultValue `0`
   */
  depth?: number;
  /**
   * The options of the run that JSON can express, including the policy. "launch" has what the
   * command line needs to resume the run; "dependencies" is true if the run was given any. Never an
   * API key.
   * @defaultValue `{}`
   */
  options?: JsonObject;
  /**
   * Free JSON from the caller.
   * @defaultValue `{}`
   */
  attributes?: JsonObject;
  /** Who redacted the content of the run in its log; null if it was not redacted. */
  redacted?: Redacted | null;
}

/** A summary of one run in a journal. */
export interface RunSummary {
  /**
   * The run.
   * @defaultValue `""`
   */
  run_id?: string;
  /**
   * The agent of the run.
   * @defaultValue `""`
   */
  agent_id?: string;
  /**
   * The status of its last session; "running" until a session has settled; "queued" for a run that
   * was submitted and has not started.
   * @defaultValue `"running"`
   */
  status?: string;
  /** When it started. */
  started_at?: Moment | null;
  /** The time of the last event. */
  updated_at?: Moment | null;
  /**
   * How many durable events it has.
   * @defaultValue `0`
   */
  events?: number;
  /**
   * The text of the request, 200 characters or fewer.
   * @defaultValue `""`
   */
  request?: string;
  /**
   * The run that started it, "" for a root run.
   * @defaultValue `""`
   */
  parent_run_id?: string;
  /**
   * The conversation that it belongs to, "" if none.
   * @defaultValue `""`
   */
  context_id?: string;
  /**
   * The first run of its turn of the conversation: the run itself, unless it was handed over; "" if
   * it is not a turn.
   * @defaultValue `""`
   */
  turn?: string;
  /**
   * Whether its request may be handed over to a further run of the turn.
   * @defaultValue `false`
   */
  is_chained?: boolean;
  /**
   * How many turns of the conversation were committed with it; 0 if it was not.
   * @defaultValue `0`
   */
  revision?: number;
  /**
   * The usage of its sessions, child runs included; a session counts once it has ended.
   * @defaultValue `{}`
   */
  usage?: Usage;
  /** The cost of that usage; null if nothing had a price. */
  cost?: Cost | null;
  /**
   * The worst effect of its sessions and its child runs: "none", "applied" or "unknown"; a session
   * counts once it has ended.
   * @defaultValue `"none"`
   */
  effect?: Effect;
  /**
   * Why its last session did not complete, "" if it did.
   * @defaultValue `""`
   */
  error_code?: string;
  /**
   * Its user: `user` of the run's attributes, "" if they have none.
   * @defaultValue `""`
   */
  owner?: string;
  /**
   * `tenant` of the attributes.
   * @defaultValue `""`
   */
  tenant?: string;
  /**
   * The start of its answer, 200 characters or fewer; "" while it waits.
   * @defaultValue `""`
   */
  answer?: string;
  /**
   * Seconds in which its sessions worked, without the time between them; a session counts once it
   * has ended.
   * @defaultValue `0.0`
   */
  took_s?: number;
  /**
   * The tools that it called or waits to call, 20 or fewer; a session counts once it has ended.
   * @defaultValue `[]`
   */
  tools?: string[];
}

/** Something that went wrong without failing the run. */
export interface RunWarning {
  /** A word for it, such as "observer_failed". */
  code: string;
  /** One line. */
  message: string;
  /** Where it arose; an open word. */
  origin: Origin;
}

/** A reference to messages of a stored conversation, in place of the messages themselves. */
export interface SeedReference {
  /**
   * The conversation.
   * @defaultValue `""`
   */
  conversation?: string;
  /**
   * How many changes the conversation had had at that point.
   * @defaultValue `0`
   */
  revision?: number;
  /**
   * The messages' `digest_of_messages`; messages with another digest are refused.
   * @defaultValue `""`
   */
  digest?: string;
}

/** The output of a provider's own tool, such as a web search: its call, its result, or both. */
export interface ServerToolBlock {
  kind: "server_tool_block";
  /**
   * The block as the provider sent it; sent back unchanged.
   * @defaultValue `{}`
   */
  raw?: JsonObject;
  /**
   * The provider that sent the block, which is sent back only to it.
   * @defaultValue `""`
   */
  provider?: string;
}

/** How an unknown effect was resolved. */
export interface Settlement {
  /** What is known now: applied or none. */
  effect: Effect;
  /**
   * "verify", or the name of the user or service that found out.
   * @defaultValue `""`
   */
  by?: string;
  /** When it was found out; null if unknown. */
  at?: Moment | null;
  /**
   * What they saw, "" if there is no note.
   * @defaultValue `""`
   */
  note?: string;
}

/** One thing that an agent can do. */
export interface Skill {
  /**
   * Unique among the agent's skills.
   * @defaultValue `""`
   */
  id?: string;
  /**
   * A name to show to users.
   * @defaultValue `""`
   */
  name?: string;
  /**
   * What the skill is, for users and models.
   * @defaultValue `""`
   */
  description?: string;
  /**
   * Keywords for searches.
   * @defaultValue `[]`
   */
  tags?: string[];
  /**
   * Requests that it serves.
   * @defaultValue `[]`
   */
  examples?: string[];
  /**
   * Media types it accepts; empty means the default of the card.
   * @defaultValue `[]`
   */
  input_modes?: string[];
  /**
   * Media types it produces; empty means the default of the card.
   * @defaultValue `[]`
   */
  output_modes?: string[];
}

/** Every kind of value that stands alone. */
export type Standalone =
  | AgentResult
  | ModelResponse
  | Request
  | AgentCard
  | AgentSpec
  | ToolRecord
  | Checkpoint
  | Message
  | ToolCall
  | Artifact
  | ToolExecutionResult
  | ToolTimeout
  | ToolFailure
  | ToolDenied
  | ToolArtifactReference
  | PendingApproval
  | PendingQuestion
  | PendingExternal
  | PendingEffect
  | Approve
  | Deny
  | Edit
  | Answer
  | Text
  | Image
  | File
  | Audio
  | Data
  | Reasoning
  | ServerToolBlock
  | RunStarted
  | RunResumed
  | AttemptStarted
  | ModelStarted
  | ModelRetried
  | TextDelta
  | ReasoningDelta
  | ToolCallDelta
  | PartDelta
  | ModelReplied
  | ToolStarted
  | ToolStateSaved
  | ToolProgress
  | ToolSettled
  | ArtifactStored
  | ApprovalRequested
  | ApprovalAnswered
  | QuestionAsked
  | QuestionAnswered
  | BoardChanged
  | Compacted
  | StepStarted
  | StepSettled
  | UsageReported
  | Tainted
  | RunInterrupted
  | CheckpointSaved
  | HandoffEvent
  | Decided
  | AttemptEnded
  | Committed
  | Warned
  | Lagged
  | RunReleased
  | RunSettled;

/** How a run ended, or that it is parked. Closed. */
export type Status =
  | "aborted"
  | "canceled"
  | "completed"
  | "failed"
  | "input_required"
  | "interrupted";

/** A step ended. */
export interface StepSettled {
  kind: "step_settled";
  /** The version of the schema that it was written with; always written. */
  schema_version: number;
  /**
   * The run.
   * @defaultValue `""`
   */
  run_id?: string;
  /**
   * The attempt that it belongs to, from 1; 0 before the first.
   * @defaultValue `0`
   */
  attempt?: number;
  /** When it happened, UTC. */
  time?: Moment | null;
  /**
   * Position in the run's log, from 1; a delta repeats the `seq` of the durable event before it.
   * @defaultValue `0`
   */
  seq?: number;
  /**
   * 0 on durable events; 1, 2, ... on the deltas that follow one.
   * @defaultValue `0`
   */
  part?: number;
  /**
   * In a log, the fields whose values are meant as written, although they look omitted and would
   * otherwise be derived from earlier events; empty elsewhere.
   * @defaultValue `[]`
   */
  literal?: string[];
  /**
   * For an event of a child run, as a subscriber of an outer run gets it: the ids of the runs that
   * the child is nested in, starting with the subscribed one. Empty on a run's own events, and in
   * logs.
   * @defaultValue `[]`
   */
  path?: string[];
  /**
   * The step.
   * @defaultValue `""`
   */
  key?: string;
  /**
   * The effect that the step had.
   * @defaultValue `"applied"`
   */
  effect?: Effect;
  /** Its return value. */
  value?: Json;
  /** Why it failed, null if it did not. */
  error?: AgentError | null;
}

/** A step of an engine started: a node, a state, a `host.once`. */
export interface StepStarted {
  kind: "step_started";
  /** The version of the schema that it was written with; always written. */
  schema_version: number;
  /**
   * The run.
   * @defaultValue `""`
   */
  run_id?: string;
  /**
   * The attempt that it belongs to, from 1; 0 before the first.
   * @defaultValue `0`
   */
  attempt?: number;
  /** When it happened, UTC. */
  time?: Moment | null;
  /**
   * Position in the run's log, from 1; a delta repeats the `seq` of the durable event before it.
   * @defaultValue `0`
   */
  seq?: number;
  /**
   * 0 on durable events; 1, 2, ... on the deltas that follow one.
   * @defaultValue `0`
   */
  part?: number;
  /**
   * In a log, the fields whose values are meant as written, although they look omitted and would
   * otherwise be derived from earlier events; empty elsewhere.
   * @defaultValue `[]`
   */
  literal?: string[];
  /**
   * For an event of a child run, as a subscriber of an outer run gets it: the ids of the runs that
   * the child is nested in, starting with the subscribed one. Empty on a run's own events, and in
   * logs.
   * @defaultValue `[]`
   */
  path?: string[];
  /**
   * The step's key, unique in the run.
   * @defaultValue `""`
   */
  key?: string;
  /**
   * The effect that the step may have.
   * @defaultValue `"write"`
   */
  effect?: Effect;
}

/** What first brought untrusted content into a run. */
export interface TaintOrigin {
  /**
   * The tool that returned it, "the description of" a tool of an untrusted source, or "an earlier
   * run" if it came with the history.
   * @defaultValue `""`
   */
  source?: string;
  /**
   * The call of that tool, "" if it did not come from a call.
   * @defaultValue `""`
   */
  call_id?: string;
  /**
   * The child run or parent run that read it, "" for the run itself.
   * @defaultValue `""`
   */
  run_id?: string;
}

/** Untrusted content reached the run other than through its own tool calls. */
export interface Tainted {
  kind: "tainted";
  /** The version of the schema that it was written with; always written. */
  schema_version: number;
  /**
   * The run.
   * @defaultValue `""`
   */
  run_id?: string;
  /**
   * The attempt that it belongs to, from 1; 0 before the first.
   * @defaultValue `0`
   */
  attempt?: number;
  /** When it happened, UTC. */
  time?: Moment | null;
  /**
   * Position in the run's log, from 1; a delta repeats the `seq` of the durable event before it.
   * @defaultValue `0`
   */
  seq?: number;
  /**
   * 0 on durable events; 1, 2, ... on the deltas that follow one.
   * @defaultValue `0`
   */
  part?: number;
  /**
   * In a log, the fields whose values are meant as written, although they look omitted and would
   * otherwise be derived from earlier events; empty elsewhere.
   * @defaultValue `[]`
   */
  literal?: string[];
  /**
   * For an event of a child run, as a subscriber of an outer run gets it: the ids of the runs that
   * the child is nested in, starting with the subscribed one. Empty on a run's own events, and in
   * logs.
   * @defaultValue `[]`
   */
  path?: string[];
  /**
   * Where the content came from.
   * @defaultValue `{}`
   */
  origin?: TaintOrigin;
}

/** An accepted answer: the session that continues the run uses it. */
export interface Taken {
  /** The answer. */
  answer: AnyAnswer;
  /**
   * How many more users must approve the call before it can run.
   * @defaultValue `0`
   */
  missing?: number;
}

/** Plain or marked-up text. */
export interface Text {
  kind: "text";
  /** The text itself. */
  text: string;
  /**
   * "untrusted" if the text comes from an untrusted source, otherwise "".
   * @defaultValue `""`
   */
  trust?: string;
  /**
   * The sources that the provider cites, in its own form.
   * @defaultValue `[]`
   */
  citations?: JsonObject[];
  /** The provider's opaque proof of the reasoning behind the text; sent back to it. */
  signature?: string | null;
  /**
   * The provider of citations and signature, which are sent back only to it.
   * @defaultValue `""`
   */
  provider?: string;
}

/** A piece of the visible text. */
export interface TextDelta {
  kind: "text_delta";
  /** The version of the schema that it was written with; always written. */
  schema_version: number;
  /**
   * The run.
   * @defaultValue `""`
   */
  run_id?: string;
  /**
   * The attempt that it belongs to, from 1; 0 before the first.
   * @defaultValue `0`
   */
  attempt?: number;
  /** When it happened, UTC. */
  time?: Moment | null;
  /**
   * Position in the run's log, from 1; a delta repeats the `seq` of the durable event before it.
   * @defaultValue `0`
   */
  seq?: number;
  /**
   * 0 on durable events; 1, 2, ... on the deltas that follow one.
   * @defaultValue `0`
   */
  part?: number;
  /**
   * In a log, the fields whose values are meant as written, although they look omitted and would
   * otherwise be derived from earlier events; empty elsewhere.
   * @defaultValue `[]`
   */
  literal?: string[];
  /**
   * For an event of a child run, as a subscriber of an outer run gets it: the ids of the runs that
   * the child is nested in, starting with the subscribed one. Empty on a run's own events, and in
   * logs.
   * @defaultValue `[]`
   */
  path?: string[];
  /**
   * The piece.
   * @defaultValue `""`
   */
  text?: string;
}

/** The tool ran; its output was too large for a message and was stored. */
export interface ToolArtifactReference {
  kind: "tool_artifact_reference";
  /** The call that it answers. */
  call_id: string;
  /** The tool as the model named it. */
  tool_name: string;
  /** The equal call whose outcome this repeats; null if this call itself ran. */
  repeats?: EffectRef | null;
  /** How its unknown effect was resolved later, null if it was not. */
  settled?: Settlement | null;
  /**
   * The id for `read_artifact`.
   * @defaultValue `""`
   */
  artifact_id?: string;
  /**
   * What the output contains, in at most 200 characters.
   * @defaultValue `""`
   */
  summary?: string;
  /**
   * The size of the output in UTF-8.
   * @defaultValue `0`
   */
  size_bytes?: number;
  /** How long the tool ran. */
  elapsed_ms: number;
  /**
   * Whether an argument was changed to fit the schema.
   * @defaultValue `false`
   */
  was_coerced?: boolean;
  /** The effect of the call: applied, unless the tool only reads. */
  effect: Effect;
  /** A word for the outcome, null if there is none. */
  code?: ErrorCode | null;
}

/** One tool call, as the model requested it. */
export interface ToolCall {
  kind: "tool_call";
  /**
   * Identifies the call; unique in its run. The outcome repeats it. It is the provider's id, unless
   * that was used before.
   */
  id: string;
  /** The tool's name as the model wrote it. */
  name: string;
  /**
   * JSON text as received, or a mapping. null means no arguments. Any other JSON, and an object
   * with NaN or infinities, is kept as text, which a gate refuses.
   * @defaultValue `{}`
   */
  arguments?: string | JsonObject;
  /** The provider's opaque proof of the reasoning behind the call. */
  signature?: string | null;
  /**
   * The provider that signed the call; the signature is sent back only to it.
   * @defaultValue `""`
   */
  provider?: string;
  /**
   * The provider's id if it differs from `id`, otherwise "".
   * @defaultValue `""`
   */
  given_id?: string;
  /**
   * Whether the reply ended inside this call, or a filter cut it; it is never run then. Raises:
   * @defaultValue `false`
   */
  cut?: boolean;
}

/** A piece of a tool call that is being written. */
export interface ToolCallDelta {
  kind: "tool_call_delta";
  /** The version of the schema that it was written with; always written. */
  schema_version: number;
  /**
   * The run.
   * @defaultValue `""`
   */
  run_id?: string;
  /**
   * The attempt that it belongs to, from 1; 0 before the first.
   * @defaultValue `0`
   */
  attempt?: number;
  /** When it happened, UTC. */
  time?: Moment | null;
  /**
   * Position in the run's log, from 1; a delta repeats the `seq` of the durable event before it.
   * @defaultValue `0`
   */
  seq?: number;
  /**
   * 0 on durable events; 1, 2, ... on the deltas that follow one.
   * @defaultValue `0`
   */
  part?: number;
  /**
   * In a log, the fields whose values are meant as written, although they look omitted and would
   * otherwise be derived from earlier events; empty elsewhere.
   * @defaultValue `[]`
   */
  literal?: string[];
  /**
   * For an event of a child run, as a subscriber of an outer run gets it: the ids of the runs that
   * the child is nested in, starting with the subscribed one. Empty on a run's own events, and in
   * logs.
   * @defaultValue `[]`
   */
  path?: string[];
  /**
   * The position of the call in the reply, from 0.
   * @defaultValue `0`
   */
  index?: number;
  /**
   * The call's id, "" until it is known.
   * @defaultValue `""`
   */
  call_id?: string;
  /**
   * The tool's name, "" until it is known.
   * @defaultValue `""`
   */
  name?: string;
  /**
   * The piece of the JSON text.
   * @defaultValue `""`
   */
  arguments?: string;
}

/** A gate refused the call; the tool never started. */
export interface ToolDenied {
  kind: "tool_denied";
  /** The call that it answers. */
  call_id: string;
  /** The tool as the model named it. */
  tool_name: string;
  /** The earlier call that caused the denial, null if there is none. */
  repeats?: EffectRef | null;
  /** null. */
  settled?: Settlement | null;
  /** Which gate refused; an open word. */
  reason: DeniedReason;
  /**
   * The gate's explanation.
   * @defaultValue `""`
   */
  details?: string;
  /**
   * What to do instead, "" if there is no hint.
   * @defaultValue `""`
   */
  hint?: string;
  /** none. */
  effect: Effect;
  /** A word for the outcome, null if there is none. */
  code?: ErrorCode | null;
}

/** The tool ran, and its output fits in a message. */
export interface ToolExecutionResult {
  kind: "tool_execution_result";
  /** The call that it answers. */
  call_id: string;
  /** The tool as the model named it. */
  tool_name: string;
  /** The equal call whose outcome this repeats; null if this call itself ran. */
  repeats?: EffectRef | null;
  /** How its unknown effect was resolved later, null if it was not. */
  settled?: Settlement | null;
  /** What the tool returned; anything but a mapping is under "result". */
  output: JsonObject;
  /** How long the tool ran. */
  elapsed_ms: number;
  /**
   * Whether an argument was changed to fit the schema.
   * @defaultValue `false`
   */
  was_coerced?: boolean;
  /** The effect of the call: applied, unless the tool only reads. */
  effect: Effect;
  /** A word for the outcome, null if there is none. */
  code?: ErrorCode | null;
}

/** The tool raised, or returned a mapping with a truthy `error`. */
export interface ToolFailure {
  kind: "tool_failure";
  /** The call that it answers. */
  call_id: string;
  /** The tool as the model named it. */
  tool_name: string;
  /** The equal call whose outcome this repeats; null if this call itself ran. */
  repeats?: EffectRef | null;
  /** How its unknown effect was resolved, null if it was not. */
  settled?: Settlement | null;
  /** One line that says what went wrong; no traceback. */
  error: string;
  /** Whether the same call may be made again. */
  retryable: boolean;
  /** How long the tool ran. */
  elapsed_ms: number;
  /** Seconds to wait before a retry, null if the tool gave none. */
  retry_after_s?: number | null;
  /** The effect that the call had before it failed. */
  effect: Effect;
  /** The tool's own word, or interrupted, cancelled, unserializable_output. */
  code?: ErrorCode | null;
  /**
   * false if the work may continue, in an abandoned thread or in a process that may only be
   * suspended.
   * @defaultValue `true`
   */
  stopped?: boolean;
}

/** The outcome of a tool call. Closed. */
export type ToolOutcome =
  | ToolExecutionResult
  | ToolTimeout
  | ToolFailure
  | ToolDenied
  | ToolArtifactReference;

/** A tool reported its progress. */
export interface ToolProgress {
  kind: "tool_progress";
  /** The version of the schema that it was written with; always written. */
  schema_version: number;
  /**
   * The run.
   * @defaultValue `""`
   */
  run_id?: string;
  /**
   * The attempt that it belongs to, from 1; 0 before the first.
   * @defaultValue `0`
   */
  attempt?: number;
  /** When it happened, UTC. */
  time?: Moment | null;
  /**
   * Position in the run's log, from 1; a delta repeats the `seq` of the durable event before it.
   * @defaultValue `0`
   */
  seq?: number;
  /**
   * 0 on durable events; 1, 2, ... on the deltas that follow one.
   * @defaultValue `0`
   */
  part?: number;
  /**
   * In a log, the fields whose values are meant as written, although they look omitted and would
   * otherwise be derived from earlier events; empty elsewhere.
   * @defaultValue `[]`
   */
  literal?: string[];
  /**
   * For an event of a child run, as a subscriber of an outer run gets it: the ids of the runs that
   * the child is nested in, starting with the subscribed one. Empty on a run's own events, and in
   * logs.
   * @defaultValue `[]`
   */
  path?: string[];
  /**
   * The call.
   * @defaultValue `""`
   */
  call_id?: string;
  /**
   * The tool.
   * @defaultValue `""`
   */
  tool_name?: string;
  /**
   * Text for the user.
   * @defaultValue `""`
   */
  text?: string;
  /** Data for programs. */
  data?: Json;
}

/** All facts of one settled tool call. */
export interface ToolRecord {
  kind: "tool_record";
  /** The version of the schema that it was written with; always written. */
  schema_version: number;
  /**
   * The run that it belongs to.
   * @defaultValue `""`
   */
  run_id?: string;
  /**
   * The parent of that run, "" for a root run.
   * @defaultValue `""`
   */
  parent_run_id?: string;
  /**
   * The turn of the call, as given to `dispatch`.
   * @defaultValue `0`
   */
  turn?: number;
  /**
   * The model's id of the call.
   * @defaultValue `""`
   */
  call_id?: string;
  /**
   * The tool as the model named it.
   * @defaultValue `""`
   */
  tool_name?: string;
  /**
   * Digest of the tool's schema and description, "" for an unknown tool.
   * @defaultValue `""`
   */
  tool_version?: string;
  /**
   * The arguments as the model wrote them.
   * @defaultValue `{}`
   */
  arguments_given?: string | JsonObject;
  /** The arguments after coercion and defaults; null if they were refused. */
  arguments_validated?: JsonObject | null;
  /** The arguments that the tool got, after an edit; null if it did not start. */
  arguments_executed?: JsonObject | null;
  /**
   * The arguments that were changed to fit the schema.
   * @defaultValue `[]`
   */
  coercions?: Coercion[];
  /**
   * Paths of output values that JSON cannot express and that were replaced.
   * @defaultValue `[]`
   */
  lossy?: string[];
  /**
   * The gate that decided, "" if all gates passed the call.
   * @defaultValue `""`
   */
  gate?: string;
  /**
   * The verdicts of all gates, in order.
   * @defaultValue `[]`
   */
  trace?: GateVerdict[];
  /** Who approved or denied it, null if no approval was needed. */
  approval?: ApprovalRecord | null;
  /**
   * How often the tool was started.
   * @defaultValue `0`
   */
  attempts?: number;
  /**
   * How long the call was queued, without the time spent waiting for the user.
   * @defaultValue `0`
   */
  queue_ms?: number;
  /**
   * How long the tool ran.
   * @defaultValue `0`
   */
  run_ms?: number;
  /** The effect that the tool declares. */
  declared_effect?: Effect | null;
  /** The effect that the call had. */
  effect: Effect;
  /**
   * Size of the arguments as executed.
   * @defaultValue `0`
   */
  argument_bytes?: number;
  /**
   * Size of the text for the model.
   * @defaultValue `0`
   */
  output_bytes?: number;
  /**
   * The id of a stored large output, "" if it was not stored.
   * @defaultValue `""`
   */
  artifact_id?: string;
  /**
   * "async", "thread" or "process"; "" if the tool did not start.
   * @defaultValue `""`
   */
  mode?: string;
  /**
   * How many secrets were masked.
   * @defaultValue `0`
   */
  redactions?: number;
  /**
   * The tool's key for recognising a repeated call.
   * @defaultValue `""`
   */
  idempotency_key?: string;
  /** When the tool started, null if it did not. */
  started_at?: Moment | null;
  /**
   * "untrusted" if the outcome may contain text from untrusted sources, "trusted" if the tool
   * declares that its results are, otherwise "".
   * @defaultValue `""`
   */
  trust?: string;
  /**
   * The key of the step that made the call, "" if none.
   * @defaultValue `""`
   */
  step?: string;
  /**
   * What vouched for its values, if a policy judged them.
   * @defaultValue `[]`
   */
  vouched?: Voucher[];
  /**
   * If a policy judges values, a name for this write, independent of spelling; otherwise "".
   * @defaultValue `""`
   */
  act?: string;
  /**
   * The id of the effect that the call claimed, "" if none.
   * @defaultValue `""`
   */
  effect_id?: string;
  /**
   * Whether the tool lets a call that timed out without effect be repeated.
   * @defaultValue `true`
   */
  retries_timeouts?: boolean;
  /** The outcome. */
  outcome: ToolOutcome;
}

/** A call settled: its outcome is final. */
export interface ToolSettled {
  kind: "tool_settled";
  /** The version of the schema that it was written with; always written. */
  schema_version: number;
  /**
   * The run.
   * @defaultValue `""`
   */
  run_id?: string;
  /**
   * The attempt that it belongs to, from 1; 0 before the first.
   * @defaultValue `0`
   */
  attempt?: number;
  /** When it happened, UTC. */
  time?: Moment | null;
  /**
   * Position in the run's log, from 1; a delta repeats the `seq` of the durable event before it.
   * @defaultValue `0`
   */
  seq?: number;
  /**
   * 0 on durable events; 1, 2, ... on the deltas that follow one.
   * @defaultValue `0`
   */
  part?: number;
  /**
   * In a log, the fields whose values are meant as written, although they look omitted and would
   * otherwise be derived from earlier events; empty elsewhere.
   * @defaultValue `[]`
   */
  literal?: string[];
  /**
   * For an event of a child run, as a subscriber of an outer run gets it: the ids of the runs that
   * the child is nested in, starting with the subscribed one. Empty on a run's own events, and in
   * logs.
   * @defaultValue `[]`
   */
  path?: string[];
  /** All facts of the call. */
  record: ToolRecord;
}

/** A tool as a model sees it. */
export interface ToolSpec {
  /** The name that the model calls it by. */
  name: string;
  /**
   * What the tool does, for the model.
   * @defaultValue `""`
   */
  description?: string;
  /**
   * JSON Schema of the arguments, an object schema.
   * @defaultValue `{}`
   */
  parameters?: JsonObject;
  /** Whether the provider should enforce the schema; null is the provider's default. */
  strict?: boolean | null;
}

/** All gates passed the call; the tool is about to run. */
export interface ToolStarted {
  kind: "tool_started";
  /** The version of the schema that it was written with; always written. */
  schema_version: number;
  /**
   * The run.
   * @defaultValue `""`
   */
  run_id?: string;
  /**
   * The attempt that it belongs to, from 1; 0 before the first.
   * @defaultValue `0`
   */
  attempt?: number;
  /** When it happened, UTC. */
  time?: Moment | null;
  /**
   * Position in the run's log, from 1; a delta repeats the `seq` of the durable event before it.
   * @defaultValue `0`
   */
  seq?: number;
  /**
   * 0 on durable events; 1, 2, ... on the deltas that follow one.
   * @defaultValue `0`
   */
  part?: number;
  /**
   * In a log, the fields whose values are meant as written, although they look omitted and would
   * otherwise be derived from earlier events; empty elsewhere.
   * @defaultValue `[]`
   */
  literal?: string[];
  /**
   * For an event of a child run, as a subscriber of an outer run gets it: the ids of the runs that
   * the child is nested in, starting with the subscribed one. Empty on a run's own events, and in
   * logs.
   * @defaultValue `[]`
   */
  path?: string[];
  /**
   * The call as the model made it.
   * @defaultValue `{"kind": "tool_call", "id": "", "name": ""}`
   */
  call?: ToolCall;
  /**
   * The arguments that the tool gets; secrets are masked.
   * @defaultValue `{}`
   */
  arguments?: JsonObject;
  /**
   * The number that the caller of `dispatch` gave.
   * @defaultValue `0`
   */
  turn?: number;
  /**
   * The effect that the tool declares.
   * @defaultValue `"write"`
   */
  effect?: Effect;
  /**
   * Whether the tool declares that running it again is safe.
   * @defaultValue `false`
   */
  idempotent?: boolean;
  /**
   * Digest of the tool's schema and description.
   * @defaultValue `""`
   */
  tool_version?: string;
  /**
   * The tool's key for recognising a repeated call.
   * @defaultValue `""`
   */
  idempotency_key?: string;
  /**
   * The key of the step that made the call, "" if none.
   * @defaultValue `""`
   */
  step?: string;
  /** The identity of its effect, null if its tool declares none. */
  claim?: EffectClaim | null;
}

/** A tool saved what it needs to continue its call, also in a later session. */
export interface ToolStateSaved {
  kind: "tool_state_saved";
  /** The version of the schema that it was written with; always written. */
  schema_version: number;
  /**
   * The run.
   * @defaultValue `""`
   */
  run_id?: string;
  /**
   * The attempt that it belongs to, from 1; 0 before the first.
   * @defaultValue `0`
   */
  attempt?: number;
  /** When it happened, UTC. */
  time?: Moment | null;
  /**
   * Position in the run's log, from 1; a delta repeats the `seq` of the durable event before it.
   * @defaultValue `0`
   */
  seq?: number;
  /**
   * 0 on durable events; 1, 2, ... on the deltas that follow one.
   * @defaultValue `0`
   */
  part?: number;
  /**
   * In a log, the fields whose values are meant as written, although they look omitted and would
   * otherwise be derived from earlier events; empty elsewhere.
   * @defaultValue `[]`
   */
  literal?: string[];
  /**
   * For an event of a child run, as a subscriber of an outer run gets it: the ids of the runs that
   * the child is nested in, starting with the subscribed one. Empty on a run's own events, and in
   * logs.
   * @defaultValue `[]`
   */
  path?: string[];
  /**
   * The call.
   * @defaultValue `""`
   */
  call_id?: string;
  /**
   * The tool.
   * @defaultValue `""`
   */
  tool_name?: string;
  /**
   * The key of the call.
   * @defaultValue `""`
   */
  idempotency_key?: string;
  /** What the tool needs; null if an interrupted call must not be continued any more. */
  state?: Json;
}

/** The tool ran past its deadline. */
export interface ToolTimeout {
  kind: "tool_timeout";
  /** The call that it answers. */
  call_id: string;
  /** The tool as the model named it. */
  tool_name: string;
  /** The equal call whose outcome this repeats; null if this call itself ran. */
  repeats?: EffectRef | null;
  /** How its unknown effect was resolved, null if it was not. */
  settled?: Settlement | null;
  /**
   * Its deadline, in unix seconds.
   * @defaultValue `0.0`
   */
  deadline_s?: number;
  /**
   * How many seconds it was allowed.
   * @defaultValue `0.0`
   */
  timeout_s?: number;
  /** How long it had run when it was abandoned. */
  elapsed_ms: number;
  /** Whether the same call may be made again. */
  retryable: boolean;
  /**
   * Whether the work really ended; false if it continues in an abandoned thread.
   * @defaultValue `true`
   */
  stopped?: boolean;
  /** none if the tool never started, otherwise unknown if it may write. */
  effect: Effect;
  /** A word for the outcome, null if there is none. */
  code?: ErrorCode | null;
}

/** A part or an event of a kind that this version does not know, kept unchanged. */
export interface Unknown {
  kind: UnknownKind;
  [field: string]: Json;
}

/** Tokens of one or more model calls, in one convention for all providers. */
export interface Usage {
  /** ALL prompt tokens, cache reads and writes included; null if unknown. */
  input_tokens?: number | null;
  /** All generated tokens, reasoning included. */
  output_tokens?: number | null;
  /**
   * Their sum if both are known; for several calls it may be more, since some may have reported
   * their total only.
   */
  total_tokens?: number | null;
  /** The part of the input that was read from a cache. */
  cache_read_tokens?: number | null;
  /** The part of the input that was written to a cache. */
  cache_write_tokens?: number | null;
  /** The part of the output that was reasoning. */
  reasoning_tokens?: number | null;
  /** The part of the input that was audio. */
  input_audio_tokens?: number | null;
  /** The part of the output that was audio. */
  output_audio_tokens?: number | null;
  /**
   * How many model calls these figures cover.
   * @defaultValue `0`
   */
  api_calls?: number;
  /**
   * How many of these reported no usage.
   * @defaultValue `0`
   */
  unmeasured_calls?: number;
}

/** Usage of model calls that have no reply in the log. */
export interface UsageReported {
  kind: "usage_reported";
  /** The version of the schema that it was written with; always written. */
  schema_version: number;
  /**
   * The run.
   * @defaultValue `""`
   */
  run_id?: string;
  /**
   * The attempt that it belongs to, from 1; 0 before the first.
   * @defaultValue `0`
   */
  attempt?: number;
  /** When it happened, UTC. */
  time?: Moment | null;
  /**
   * Position in the run's log, from 1; a delta repeats the `seq` of the durable event before it.
   * @defaultValue `0`
   */
  seq?: number;
  /**
   * 0 on durable events; 1, 2, ... on the deltas that follow one.
   * @defaultValue `0`
   */
  part?: number;
  /**
   * In a log, the fields whose values are meant as written, although they look omitted and would
   * otherwise be derived from earlier events; empty elsewhere.
   * @defaultValue `[]`
   */
  literal?: string[];
  /**
   * For an event of a child run, as a subscriber of an outer run gets it: the ids of the runs that
   * the child is nested in, starting with the subscribed one. Empty on a run's own events, and in
   * logs.
   * @defaultValue `[]`
   */
  path?: string[];
  /**
   * The number of the engine's report in the attempt, from 1; 0 for a reply that the run stopped
   * reading.
   * @defaultValue `1`
   */
  number?: number;
  /**
   * The usage, and the reply as far as it is known.
   * @defaultValue `{"kind": "model_response", "schema_version": 1}`
   */
  response?: ModelResponse;
}

/** What vouches for a value of a call. */
export interface Voucher {
  /**
   * The argument, as a JSON pointer.
   * @defaultValue `""`
   */
  path?: string;
  /**
   * The first 16 hex digits of the SHA-256 of the value.
   * @defaultValue `""`
   */
  digest?: string;
  /**
   * "said" by the user; the schema's "default"; the "user" themselves; a trusted "record"; "made"
   * by a write of the run; a known "host"; a harmless "choice"; "free"; "links" or "open" by
   * `Policy.words`.
   * @defaultValue `""`
   */
  rule?: string;
  /**
   * Where the value was found: "request", "answer <id>", or "call <id> <JSON pointer>".
   * @defaultValue `""`
   */
  source?: string;
}

/** Something went wrong without failing the run. */
export interface Warned {
  kind: "warning";
  /** The version of the schema that it was written with; always written. */
  schema_version: number;
  /**
   * The run.
   * @defaultValue `""`
   */
  run_id?: string;
  /**
   * The attempt that it belongs to, from 1; 0 before the first.
   * @defaultValue `0`
   */
  attempt?: number;
  /** When it happened, UTC. */
  time?: Moment | null;
  /**
   * Position in the run's log, from 1; a delta repeats the `seq` of the durable event before it.
   * @defaultValue `0`
   */
  seq?: number;
  /**
   * 0 on durable events; 1, 2, ... on the deltas that follow one.
   * @defaultValue `0`
   */
  part?: number;
  /**
   * In a log, the fields whose values are meant as written, although they look omitted and would
   * otherwise be derived from earlier events; empty elsewhere.
   * @defaultValue `[]`
   */
  literal?: string[];
  /**
   * For an event of a child run, as a subscriber of an outer run gets it: the ids of the runs that
   * the child is nested in, starting with the subscribed one. Empty on a run's own events, and in
   * logs.
   * @defaultValue `[]`
   */
  path?: string[];
  /**
   * The warning.
   * @defaultValue `{"code": "", "message": "", "origin": "host"}`
   */
  warning?: RunWarning;
}
