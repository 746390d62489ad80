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
   * Whether it calls back.
   * @defaultValue `false`
   */
  push_notifications?: boolean;
  /**
   * Whether it tells past states.
   * @defaultValue `false`
   */
  state_transition_history?: boolean;
}

/** An agent's business card; address, version and keys belong to serving. */
export interface AgentCard {
  kind: "agent_card";
  /** The version of the form it was written in; always written. */
  schema_version: number;
  /**
   * For people.
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
   * Media types it takes.
   * @defaultValue `["text/plain"]`
   */
  default_input_modes?: string[];
  /**
   * Media types it gives.
   * @defaultValue `["text/plain"]`
   */
  default_output_modes?: string[];
  /**
   * What it can do when served.
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
   * The original exception's class, or the provider's own word; "" if none.
   * @defaultValue `""`
   */
  type?: string;
  /** The HTTP status, null where there was none. */
  status_code?: number | null;
  /** Whether the same request may succeed later. */
  retryable: boolean;
  /** Seconds to wait at least before that; null where nothing says so. */
  retry_after_s?: number | null;
  /**
   * The provider's own code, "" if none.
   * @defaultValue `""`
   */
  provider_code?: string;
  /** Where it arose; an open word. */
  origin: Origin;
  /**
   * Facts by name, such as dimension, limit and used of a spent budget.
   * @defaultValue `{}`
   */
  details?: JsonObject;
}

/** The view itself, JSON all through. */
export interface AgentExecutionResult {
  /** The answer as text, structured output as compact JSON; null unless it succeeded. */
  content: string | null;
  /** The whole conversation, in upshot's form; what was seeded too while it is known. */
  messages: JsonObject[];
  /** Tools that ran, each once, in the order of their first run; absent if none did. */
  toolsUsed?: string[];
  /** How it went. */
  metadata: ExecutionMetadata;
  /** Whether there is no error. */
  success: boolean;
  /** "code: message"; present only where success is false. */
  error?: string;
}

/** What came of a run. It can be read like a mapping, as the flat contract has it. */
export interface AgentResult {
  kind: "agent_result";
  /** The version of the form it was written in; always written. */
  schema_version: number;
  /** completed, interrupted, canceled, failed, aborted or input_required. */
  status: Status;
  /** The typed answer: the board variable `output` if set, else content. */
  output?: Json;
  /** Text of the last assistant message on the main channel; null where there is none. */
  content?: string | null;
  /**
   * What the run produced on the main channel, in order; what was seeded is not among them. Other
   * channels are artifacts, where they are asked for.
   * @defaultValue `[]`
   */
  messages?: Message[];
  /**
   * One for every settled call, in the order of settling.
   * @defaultValue `[]`
   */
  tool_outcomes?: ToolOutcome[];
  /**
   * The same calls with all their facts, in the same order.
   * @defaultValue `[]`
   */
  tool_records?: ToolRecord[];
  /**
   * What was produced beside the answer.
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
  /** Money for them, null where none had a price. */
  cost?: Cost | null;
  /** Of the last model call; null where unknown. */
  finish_reason?: FinishReason | null;
  /** What went wrong; present exactly when status is not completed. */
  error?: AgentError | null;
  /** Of the last reply that carried one. */
  rate_limit?: RateLimitState | null;
  /**
   * provider, model, request_id, raw_headers, finish_raw of the last reply.
   * @defaultValue `{}`
   */
  provider_data?: JsonObject;
  /**
   * Of an interrupt.
   * @defaultValue `""`
   */
  cause?: InterruptCause;
  /**
   * Of an interrupt.
   * @defaultValue `""`
   */
  detail?: string;
  /** Whether its messages count for the conversation. */
  committed: boolean;
  /**
   * How many engine passes it took.
   * @defaultValue `1`
   */
  attempts?: number;
  /**
   * The deciders' facts, such as finalize_reason and handoff.
   * @defaultValue `{}`
   */
  state?: JsonObject;
  /** To whom the request was handed over, null if it was not. */
  handoff?: HandoffEvent | null;
  /**
   * One line an attempt.
   * @defaultValue `[]`
   */
  attempt_log?: AttemptLine[];
  /**
   * What went wrong without failing the run.
   * @defaultValue `[]`
   */
  warnings?: RunWarning[];
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
   * The agent that worked on it.
   * @defaultValue `""`
   */
  agent_id?: string;
  /** When it began, UTC; null where not measured. */
  started_at?: Moment | null;
  /** started_at + duration_ms. */
  ended_at?: Moment | null;
  /**
   * Milliseconds from started_at until this result; of a resumed run also those in which it waited,
   * or nobody worked on it.
   * @defaultValue `0`
   */
  duration_ms?: number;
  /**
   * Free JSON of the caller and of hooks.
   * @defaultValue `{}`
   */
  metadata?: JsonObject;
  /** In process only: `raw`, `last_board`, `seeded`. */
  local?: null;
}

/** An agent as data: what it has is named, and found again at the run. */
export interface AgentSpec {
  kind: "agent_spec";
  /** The version of the form it was written in; always written. */
  schema_version: number;
  /**
   * The agent's id.
   * @defaultValue `""`
   */
  id?: string;
  /**
   * For people, "" for the id.
   * @defaultValue `""`
   */
  name?: string;
  /**
   * "provider:name", "" where none is set.
   * @defaultValue `""`
   */
  model?: string;
  /** The text; null where there is none or a function makes it. */
  instructions?: string | null;
  /** Names of its tools in order; null is none of its own and no limit set by it. */
  tools?: string[] | null;
  /** JSON Schema of its output, null for text. */
  output_schema?: JsonObject | null;
  /**
   * Ids of the agents it may hand over to.
   * @defaultValue `[]`
   */
  handoffs?: string[];
  /**
   * The engine's class name, "" for the default.
   * @defaultValue `""`
   */
  engine?: string;
  /** What it says of itself. */
  card?: AgentCard | null;
  /** Its limits. */
  budget?: Budget | null;
  /** How its model is asked. */
  settings?: ModelSettings | null;
  /**
   * How failed model calls are tried again; null is not at all.
   * @defaultValue `{}`
   */
  retry?: Retry | null;
  /**
   * Fields of the agent that have no form in names and were left out, among instructions,
   * output_type, observers and deciders. A spec without any but observers runs; to run it without
   * the others too, set this to ().
   * @defaultValue `[]`
   */
  omitted?: string[];
}

/** The answer to a question, or a result from outside. */
export interface Answer {
  kind: "answer";
  /** The question's id. */
  id: string;
  /** The answer. */
  value?: Json;
  /**
   * Who says so, "" where unknown. Raises:
   * @defaultValue `""`
   */
  by?: string;
}

/** What the user answers. */
export type AnyAnswer =
  | Approve
  | Deny
  | Edit
  | Answer;

/** Somebody answered for a call. */
export interface ApprovalAnswered {
  kind: "approval_answered";
  /** The version of the form it was written in; always written. */
  schema_version: number;
  /**
   * The run that it is of.
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
   * Place in the run's log, from 1; a delta has that of the durable event before it.
   * @defaultValue `0`
   */
  seq?: number;
  /**
   * 0 on durable events; 1, 2, ... on the deltas that follow one.
   * @defaultValue `0`
   */
  part?: number;
  /**
   * In a log, the fields that are as they stand there, though they look as if they had been left
   * out, to be derived from earlier events; empty elsewhere.
   * @defaultValue `[]`
   */
  literal?: string[];
  /** Approve, Deny or Edit. */
  answer: AnyAnswer;
  /**
   * Which arguments and version it was about.
   * @defaultValue `""`
   */
  digest?: string;
}

/** Who let a call run, or did not. */
export interface ApprovalRecord {
  /**
   * "approved", "denied", "edited" or "always".
   * @defaultValue `""`
   */
  decision?: string;
  /**
   * Who answered, "" where unknown.
   * @defaultValue `""`
   */
  by?: string;
  /** When. */
  at?: Moment | null;
  /**
   * SHA-256 over the final arguments and the tool's version.
   * @defaultValue `""`
   */
  digest?: string;
  /**
   * What was said with it.
   * @defaultValue `""`
   */
  reason?: string;
  /**
   * How far it holds: "tool", "arguments", or "" for the one call.
   * @defaultValue `""`
   */
  scope?: string;
}

/** A call waits for somebody's word. */
export interface ApprovalRequested {
  kind: "approval_requested";
  /** The version of the form it was written in; always written. */
  schema_version: number;
  /**
   * The run that it is of.
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
   * Place in the run's log, from 1; a delta has that of the durable event before it.
   * @defaultValue `0`
   */
  seq?: number;
  /**
   * 0 on durable events; 1, 2, ... on the deltas that follow one.
   * @defaultValue `0`
   */
  part?: number;
  /**
   * In a log, the fields that are as they stand there, though they look as if they had been left
   * out, to be derived from earlier events; empty elsewhere.
   * @defaultValue `[]`
   */
  literal?: string[];
  /**
   * What is asked.
   * @defaultValue `{"kind": "pending_approval"}`
   */
  pending?: PendingApproval;
}

/** Let the call run. */
export interface Approve {
  kind: "approve";
  /** The call that was asked about. */
  call_id: string;
  /**
   * Let later calls run too, within: "" for this one only, "tool" for the tool, "arguments" for the
   * same arguments.
   * @defaultValue `""`
   */
  always?: "" | "arguments" | "tool";
  /**
   * Who says so, "" where unknown. Raises:
   * @defaultValue `""`
   */
  by?: string;
}

/** What a run produced beside its answer. */
export interface Artifact {
  kind: "artifact";
  /** The channel it was harvested from, or the tool that made it. */
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
  /** The version of the form it was written in; always written. */
  schema_version: number;
  /**
   * The run that it is of.
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
   * Place in the run's log, from 1; a delta has that of the durable event before it.
   * @defaultValue `0`
   */
  seq?: number;
  /**
   * 0 on durable events; 1, 2, ... on the deltas that follow one.
   * @defaultValue `0`
   */
  part?: number;
  /**
   * In a log, the fields that are as they stand there, though they look as if they had been left
   * out, to be derived from earlier events; empty elsewhere.
   * @defaultValue `[]`
   */
  literal?: string[];
  /**
   * The call that it came from.
   * @defaultValue `""`
   */
  call_id?: string;
  /**
   * Where it is and what it is.
   * @defaultValue `{"kind": "file"}`
   */
  artifact?: File;
}

/** The engine is done with an attempt. */
export interface AttemptEnded {
  kind: "attempt_ended";
  /** The version of the form it was written in; always written. */
  schema_version: number;
  /**
   * The run that it is of.
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
   * Place in the run's log, from 1; a delta has that of the durable event before it.
   * @defaultValue `0`
   */
  seq?: number;
  /**
   * 0 on durable events; 1, 2, ... on the deltas that follow one.
   * @defaultValue `0`
   */
  part?: number;
  /**
   * In a log, the fields that are as they stand there, though they look as if they had been left
   * out, to be derived from earlier events; empty elsewhere.
   * @defaultValue `[]`
   */
  literal?: string[];
  /**
   * How it went.
   * @defaultValue `{"status": "completed"}`
   */
  line?: AttemptLine;
  /**
   * The deciders' facts so far.
   * @defaultValue `{}`
   */
  state?: JsonObject;
}

/** One attempt in short, also one that was discarded. */
export interface AttemptLine {
  /**
   * Its number, from 1.
   * @defaultValue `1`
   */
  attempt?: number;
  /** How it ended. */
  status: Status;
  /** Why, null if it completed. */
  error?: AgentError | null;
  /**
   * Tokens of its model calls.
   * @defaultValue `{}`
   */
  usage?: Usage;
  /** Money of its model calls. */
  cost?: Cost | null;
  /** Its answer, kept although it may have been discarded. */
  content?: string | null;
  /**
   * Why it was done again, "" if it was not.
   * @defaultValue `""`
   */
  revise_reason?: string;
  /**
   * What the next attempt was told.
   * @defaultValue `""`
   */
  feedback?: string;
}

/** The engine is started on a fresh board. */
export interface AttemptStarted {
  kind: "attempt_started";
  /** The version of the form it was written in; always written. */
  schema_version: number;
  /**
   * The run that it is of.
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
   * Place in the run's log, from 1; a delta has that of the durable event before it.
   * @defaultValue `0`
   */
  seq?: number;
  /**
   * 0 on durable events; 1, 2, ... on the deltas that follow one.
   * @defaultValue `0`
   */
  part?: number;
  /**
   * In a log, the fields that are as they stand there, though they look as if they had been left
   * out, to be derived from earlier events; empty elsewhere.
   * @defaultValue `[]`
   */
  literal?: string[];
  /**
   * What the decider that asked for this attempt wants changed, "" for the first.
   * @defaultValue `""`
   */
  feedback?: string;
}

/** Sound, by address, by its bytes, or by the provider's id. */
export interface Audio {
  kind: "audio";
  /**
   * Where it can be fetched; "" if it cannot.
   * @defaultValue `""`
   */
  url?: string;
  /** The bytes (base64 in JSON), null where they are elsewhere. */
  data?: Base64 | null;
  /**
   * Such as "audio/wav".
   * @defaultValue `""`
   */
  media_type?: string;
  /**
   * The provider's id of it, "" if none.
   * @defaultValue `""`
   */
  id?: string;
  /**
   * What is said in it, "" where unknown.
   * @defaultValue `""`
   */
  transcript?: string;
}

/** Bytes as base64. */
export type Base64 = string;

/** Messages were appended or variables set. */
export interface BoardChanged {
  kind: "board_changed";
  /** The version of the form it was written in; always written. */
  schema_version: number;
  /**
   * The run that it is of.
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
   * Place in the run's log, from 1; a delta has that of the durable event before it.
   * @defaultValue `0`
   */
  seq?: number;
  /**
   * 0 on durable events; 1, 2, ... on the deltas that follow one.
   * @defaultValue `0`
   */
  part?: number;
  /**
   * In a log, the fields that are as they stand there, though they look as if they had been left
   * out, to be derived from earlier events; empty elsewhere.
   * @defaultValue `[]`
   */
  literal?: string[];
  /**
   * Where the messages went.
   * @defaultValue `"main"`
   */
  channel?: string;
  /**
   * What was appended, in order.
   * @defaultValue `[]`
   */
  messages?: Message[];
  /**
   * What was set.
   * @defaultValue `{}`
   */
  variables?: JsonObject;
  /**
   * Whether this is what the board was started with.
   * @defaultValue `false`
   */
  seeded?: boolean;
  /**
   * In a log, instead of the messages: the events, by `seq`, whose replies and outcomes were
   * appended; empty elsewhere.
   * @defaultValue `[]`
   */
  refs?: number[];
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
   * How many messages of each channel were there before the engine started.
   * @defaultValue `{}`
   */
  seeded?: { [key: string]: number };
}

/** Limits of a run; null is no limit. */
export interface Budget {
  /** Seconds from the start until the run fails with timeout. */
  deadline_s?: number | null;
  /** The same, but for the time in which people are asked. */
  working_s?: number | null;
  /**
   * The most model calls of an engine, and steps of a machine or graph.
   * @defaultValue `50`
   */
  max_turns?: number | null;
  /** The most tool calls in all. */
  max_tool_calls?: number | null;
  /** The most calls of one tool. */
  max_calls_per_tool?: number | null;
  /** The most tool calls that are denied; then all others are. */
  max_denials?: number | null;
  /** The most tokens of all model calls, children included. */
  max_tokens?: number | null;
  /** The most money, in US dollars. */
  max_cost_usd?: Money | null;
  /**
   * How deep runs may start runs; the root has depth 0.
   * @defaultValue `8`
   */
  max_depth?: number | null;
  /**
   * Seconds for a tool that names no timeout of its own.
   * @defaultValue `45`
   */
  tool_timeout_s?: number | null;
  /**
   * "refuse" makes a cost limit on a model without a price misuse at the start; "allow" lets its
   * calls run uncounted.
   * @defaultValue `"refuse"`
   */
  unpriced?: "allow" | "refuse";
}

/** A point of a run to go on from. */
export interface Checkpoint {
  kind: "checkpoint";
  /** The run that it is of. */
  exec_id: string;
  /** The engine's name for the point. */
  step: string;
  /**
   * The board at that point; of a Board that is given, its snapshot is taken.
   * @defaultValue `{}`
   */
  board?: BoardSnapshot;
  /** The version of the form it was written in; always written. */
  schema_version: number;
  /**
   * How many steps the engine had made.
   * @defaultValue `0`
   */
  iteration?: number;
  /** What the engine needs besides. */
  payload?: Json;
  /**
   * The run's attributes.
   * @defaultValue `{}`
   */
  attributes?: JsonObject;
  /** When it was taken. */
  timestamp?: Moment | null;
  /** When the run started first; kept over resumes. */
  original_started_at?: Moment | null;
  /** The form of the payload; written, and checked when read. */
  spec_version: string;
}

/** A point of the log got a name; its board is folded from the log. */
export interface CheckpointSaved {
  kind: "checkpoint_saved";
  /** The version of the form it was written in; always written. */
  schema_version: number;
  /**
   * The run that it is of.
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
   * Place in the run's log, from 1; a delta has that of the durable event before it.
   * @defaultValue `0`
   */
  seq?: number;
  /**
   * 0 on durable events; 1, 2, ... on the deltas that follow one.
   * @defaultValue `0`
   */
  part?: number;
  /**
   * In a log, the fields that are as they stand there, though they look as if they had been left
   * out, to be derived from earlier events; empty elsewhere.
   * @defaultValue `[]`
   */
  literal?: string[];
  /**
   * The name.
   * @defaultValue `""`
   */
  step?: string;
  /**
   * How many steps the engine had made.
   * @defaultValue `0`
   */
  iteration?: number;
  /** What the engine needs besides the board. */
  payload?: Json;
}

/** One argument that was changed to fit its schema. */
export interface Coercion {
  /**
   * Where, as a JSON pointer.
   * @defaultValue `""`
   */
  path?: string;
  /**
   * Which safe rule did it, such as "integer".
   * @defaultValue `""`
   */
  rule?: string;
  /** The value as the model gave it. */
  before?: Json;
  /** The value that the tool got. */
  after?: Json;
}

/** The disposition of the run is settled. */
export interface Committed {
  kind: "committed";
  /** The version of the form it was written in; always written. */
  schema_version: number;
  /**
   * The run that it is of.
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
   * Place in the run's log, from 1; a delta has that of the durable event before it.
   * @defaultValue `0`
   */
  seq?: number;
  /**
   * 0 on durable events; 1, 2, ... on the deltas that follow one.
   * @defaultValue `0`
   */
  part?: number;
  /**
   * In a log, the fields that are as they stand there, though they look as if they had been left
   * out, to be derived from earlier events; empty elsewhere.
   * @defaultValue `[]`
   */
  literal?: string[];
  /**
   * Whether its messages count for the conversation.
   * @defaultValue `true`
   */
  committed?: boolean;
  /**
   * Why not, "" if they do.
   * @defaultValue `""`
   */
  reason?: string;
}

/** Money for one or more model calls. */
export interface Cost {
  /** For the uncached part of the prompt; null where unknown. */
  input?: Money | null;
  /** For the output, reasoning included. */
  output?: Money | null;
  /** For prompt tokens that were read from a cache. */
  cache_read?: Money | null;
  /** For prompt tokens that were written to a cache. */
  cache_write?: Money | null;
  /** Anything else that was charged, such as a fee a request. */
  other?: Money | null;
  /** The exact sum of the parts, where parts are known. */
  total?: Money | null;
  /** ISO 4217. */
  currency: string;
  /** false where the provider itself reported the amount. */
  estimated: boolean;
  /**
   * Where the price is from, such as "genai-prices" or "reported".
   * @defaultValue `""`
   */
  source?: string;
  /** The date of the price table, null where unknown. */
  priced_on?: Day | null;
  /**
   * Calls that are not in these figures, since they had no price.
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
   * "application/json" unless it is something more exact.
   * @defaultValue `"application/json"`
   */
  media_type?: string;
}

/** A day: RFC 3339, such as "2026-03-01". */
export type Day = string;

/** A decider said its word. */
export interface Decided {
  kind: "decided";
  /** The version of the form it was written in; always written. */
  schema_version: number;
  /**
   * The run that it is of.
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
   * Place in the run's log, from 1; a delta has that of the durable event before it.
   * @defaultValue `0`
   */
  seq?: number;
  /**
   * 0 on durable events; 1, 2, ... on the deltas that follow one.
   * @defaultValue `0`
   */
  part?: number;
  /**
   * In a log, the fields that are as they stand there, though they look as if they had been left
   * out, to be derived from earlier events; empty elsewhere.
   * @defaultValue `[]`
   */
  literal?: string[];
  /**
   * Its class name.
   * @defaultValue `""`
   */
  decider?: string;
  /**
   * The word.
   * @defaultValue `{"verdict": "accept"}`
   */
  decision?: FinalizeDecision;
}

/** Which gate refused a tool call. Open. */
export type DeniedReason =
  | "blocked"
  | "budget"
  | "cancelled"
  | "circuit_open"
  | "deadline"
  | "duplicate"
  | "policy"
  | "pre_hook"
  | "rate_limited"
  | "superseded"
  | "unknown_tool"
  | "validation"
  | "write_denied"
  | (string & {});

/** Do not run the call; final for the same tool and arguments. */
export interface Deny {
  kind: "deny";
  /** The call that was asked about. */
  call_id: string;
  /**
   * What the model is told.
   * @defaultValue `""`
   */
  reason?: string;
  /**
   * Who says so, "" where unknown. Raises:
   * @defaultValue `""`
   */
  by?: string;
}

/** Run the call with other arguments; they are validated like the first ones. */
export interface Edit {
  kind: "edit";
  /** The call that was asked about. */
  call_id: string;
  /**
   * All arguments, not only the changed ones.
   * @defaultValue `{}`
   */
  arguments?: JsonObject;
  /**
   * Who says so, "" where unknown. Raises:
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

/** What went wrong. The first eight are the contract's, the rest upshot's own. Open. */
export type ErrorCode =
  | "auth_error"
  | "budget_exceeded"
  | "canceled"
  | "conflict"
  | "content_filter"
  | "context_length"
  | "dead_end"
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
  | "server_error"
  | "timeout"
  | (string & {});

/** Everything that a run's log and its subscribers get. */
export type Event =
  | RunStarted
  | RunResumed
  | AttemptStarted
  | ModelStarted
  | ModelRetried
  | TextDelta
  | ReasoningDelta
  | ToolCallDelta
  | ModelReplied
  | ToolStarted
  | ToolProgress
  | ToolSettled
  | ArtifactStored
  | ApprovalRequested
  | ApprovalAnswered
  | QuestionAsked
  | QuestionAnswered
  | BoardChanged
  | StepStarted
  | StepSettled
  | UsageReported
  | RunInterrupted
  | CheckpointSaved
  | HandoffEvent
  | Decided
  | AttemptEnded
  | Committed
  | Warned
  | Lagged
  | RunSettled
  | Unknown;

/** What is known of how a run went; what is unknown is not there. */
export interface ExecutionMetadata {
  /** Milliseconds. */
  executionTime: number;
  /** RFC 3339 in UTC, to the millisecond. */
  startTime?: string;
  /** startTime and executionTime. */
  endTime?: string;
  /** All tokens of all model calls. */
  tokensUsed?: number;
  /** Of all model calls, in the result's currency. */
  cost?: number;
  /** The model of the last call. */
  model?: string;
  /** Its provider. */
  provider?: string;
  /** Why the last call stopped. */
  finishReason?: string;
  /** How the run ended; there unless it completed. */
  status?: string;
  /** The run. */
  runId?: string;
  /** The agent. */
  agentId?: string;
  /** Text that came before a failure. */
  partialContent?: string;
  /** What went wrong without failing the run, each with code, message and origin. */
  warnings?: JsonObject[];
  /** What a parked run waits for. */
  pending?: JsonObject[];
}

/** A document, by address, by its bytes, or by the id it is stored under. */
export interface File {
  kind: "file";
  /**
   * Its file name, "" if it has none.
   * @defaultValue `""`
   */
  name?: string;
  /**
   * Where it can be fetched; "" if it cannot.
   * @defaultValue `""`
   */
  url?: string;
  /** The bytes (base64 in JSON), null where they are elsewhere. */
  data?: Base64 | null;
  /**
   * Such as "application/pdf".
   * @defaultValue `""`
   */
  media_type?: string;
  /**
   * Under which it is stored: in the run's artifact store, or by the provider.
   * @defaultValue `""`
   */
  id?: string;
  /**
   * Its size, 0 where unknown.
   * @defaultValue `0`
   */
  size_bytes?: number;
  /**
   * Hex digest of the bytes, "" where unknown.
   * @defaultValue `""`
   */
  sha256?: string;
  /** How many lines its text has, null where it is no text. */
  lines?: number | null;
  /**
   * At most 200 characters that say what is in it.
   * @defaultValue `""`
   */
  summary?: string;
}

/** One decider's word; made by its four constructors. */
export interface FinalizeDecision {
  /** What shall be done. Any discard wins, then any revise. */
  verdict: "accept" | "discard" | "keep_partial" | "revise";
  /**
   * Why; the first one given is kept as `state["finalize_reason"]`, and that of the word that holds
   * in `Committed.reason` and `AttemptLine.revise_reason`.
   * @defaultValue `""`
   */
  reason?: string;
  /**
   * What the next attempt is told, for revise.
   * @defaultValue `""`
   */
  feedback?: string;
  /**
   * Facts that are merged into the result's `state`.
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
  | "stop"
  | "tool_use";

/** What one gate said of a call. */
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
   * Why, "" if there is nothing to say.
   * @defaultValue `""`
   */
  detail?: string;
}

/** The model handed the request over. */
export interface HandoffEvent {
  kind: "handoff";
  /** The version of the form it was written in; always written. */
  schema_version: number;
  /**
   * The run that it is of.
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
   * Place in the run's log, from 1; a delta has that of the durable event before it.
   * @defaultValue `0`
   */
  seq?: number;
  /**
   * 0 on durable events; 1, 2, ... on the deltas that follow one.
   * @defaultValue `0`
   */
  part?: number;
  /**
   * In a log, the fields that are as they stand there, though they look as if they had been left
   * out, to be derived from earlier events; empty elsewhere.
   * @defaultValue `[]`
   */
  literal?: string[];
  /**
   * To whom.
   * @defaultValue `""`
   */
  to_agent_id?: string;
  /**
   * The tool by which it said so.
   * @defaultValue `""`
   */
  tool_name?: string;
  /**
   * The call by which it said so.
   * @defaultValue `""`
   */
  call_id?: string;
  /**
   * Why, in the model's words.
   * @defaultValue `""`
   */
  reason?: string;
  /**
   * What the receiver shall know, in the model's words.
   * @defaultValue `""`
   */
  note?: string;
}

/** A picture, by address or by its bytes. */
export interface Image {
  kind: "image";
  /**
   * Where it can be fetched; "" where the bytes are here.
   * @defaultValue `""`
   */
  url?: string;
  /** The bytes (base64 in JSON), null where only the address is known. */
  data?: Base64 | null;
  /**
   * Such as "image/png".
   * @defaultValue `""`
   */
  media_type?: string;
  /**
   * How closely the model shall look: "low", "high", "auto" or "".
   * @defaultValue `""`
   */
  detail?: string;
}

/** Why a run shall stop. */
export interface Interrupt {
  /**
   * user_cancel, user_input, host_shutdown, deadline, custom, or a word of your own.
   * @defaultValue `""`
   */
  cause?: InterruptCause;
  /**
   * What else is to be said.
   * @defaultValue `""`
   */
  detail?: string;
}

/** Why a run was interrupted. Open; "" where nobody said. */
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

/** A slow watcher missed deltas; durable events are never left out. */
export interface Lagged {
  kind: "lagged";
  /** The version of the form it was written in; always written. */
  schema_version: number;
  /**
   * The run that it is of.
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
   * Place in the run's log, from 1; a delta has that of the durable event before it.
   * @defaultValue `0`
   */
  seq?: number;
  /**
   * 0 on durable events; 1, 2, ... on the deltas that follow one.
   * @defaultValue `0`
   */
  part?: number;
  /**
   * In a log, the fields that are as they stand there, though they look as if they had been left
   * out, to be derived from earlier events; empty elsewhere.
   * @defaultValue `[]`
   */
  literal?: string[];
  /**
   * How many.
   * @defaultValue `0`
   */
  missed?: number;
}

/** One message of a conversation: `Message("user", "Hello")`. */
export interface Message {
  kind: "message";
  /** Who speaks; tool output always has the role tool. */
  role: Role;
  /** Text, or parts in order, the calls of an assistant among them. */
  content: string | Part[];
  /** Which call a tool message answers, null for other roles. */
  tool_call_id?: string | null;
  /**
   * The tool's name on a tool message, else a speaker's name; "" if none.
   * @defaultValue `""`
   */
  name?: string;
  /**
   * Whether the provider paused this reply, and goes on with it when it is sent back.
   * @defaultValue `false`
   */
  paused?: boolean;
  /**
   * Free JSON; it is not sent to a model.
   * @defaultValue `{}`
   */
  metadata?: JsonObject;
}

/** A model call ended, well or not. */
export interface ModelReplied {
  kind: "model_replied";
  /** The version of the form it was written in; always written. */
  schema_version: number;
  /**
   * The run that it is of.
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
   * Place in the run's log, from 1; a delta has that of the durable event before it.
   * @defaultValue `0`
   */
  seq?: number;
  /**
   * 0 on durable events; 1, 2, ... on the deltas that follow one.
   * @defaultValue `0`
   */
  part?: number;
  /**
   * In a log, the fields that are as they stand there, though they look as if they had been left
   * out, to be derived from earlier events; empty elsewhere.
   * @defaultValue `[]`
   */
  literal?: string[];
  /**
   * "provider:name".
   * @defaultValue `""`
   */
  model?: string;
  /**
   * Which turn of the attempt.
   * @defaultValue `0`
   */
  turn?: number;
  /**
   * How many tries it took.
   * @defaultValue `1`
   */
  tries?: number;
  /**
   * What came of the last one.
   * @defaultValue `{"kind": "model_response", "schema_version": 1}`
   */
  response?: ModelResponse;
  /**
   * As in `ModelStarted`.
   * @defaultValue `""`
   */
  purpose?: string;
}

/** What came of one model call: an answer, calls, or an error as a value. */
export interface ModelResponse {
  kind: "model_response";
  /** The version of the form it was written in; always written. */
  schema_version: number;
  /**
   * Thoughts, text, calls and blocks of the provider's own tools, in the order in which they came.
   * @defaultValue `[]`
   */
  parts?: Part[];
  /** The answer read as JSON where a schema was asked for, else null. */
  output?: Json;
  /** Why it would not answer, null if it did. */
  refusal?: string | null;
  /**
   * Tokens; falsy where the provider told none.
   * @defaultValue `{}`
   */
  usage?: Usage;
  /** Money, null where the price is unknown. */
  cost?: Cost | null;
  /** Why it stopped; null while it was not over, or unknown. */
  finish_reason?: FinishReason | null;
  /**
   * Whether the provider paused, and goes on when the reply is sent back to it.
   * @defaultValue `false`
   */
  paused?: boolean;
  /** What went wrong, null if nothing did. */
  error?: AgentError | null;
  /** The provider's windows, null where it told none. */
  rate_limit?: RateLimitState | null;
  /**
   * provider, model, request_id, raw_headers, finish_raw, and what else it sent.
   * @defaultValue `{}`
   */
  provider_data?: JsonObject;
  /**
   * From the request to the last byte, 0 where it was not measured.
   * @defaultValue `0`
   */
  duration_ms?: number;
  /** In process only: `raw`, the reply as it came. */
  local?: null;
}

/** A model call failed and will be tried again. */
export interface ModelRetried {
  kind: "model_retried";
  /** The version of the form it was written in; always written. */
  schema_version: number;
  /**
   * The run that it is of.
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
   * Place in the run's log, from 1; a delta has that of the durable event before it.
   * @defaultValue `0`
   */
  seq?: number;
  /**
   * 0 on durable events; 1, 2, ... on the deltas that follow one.
   * @defaultValue `0`
   */
  part?: number;
  /**
   * In a log, the fields that are as they stand there, though they look as if they had been left
   * out, to be derived from earlier events; empty elsewhere.
   * @defaultValue `[]`
   */
  literal?: string[];
  /**
   * "provider:name".
   * @defaultValue `""`
   */
  model?: string;
  /**
   * Which turn of the attempt.
   * @defaultValue `0`
   */
  turn?: number;
  /**
   * How many tries have failed.
   * @defaultValue `0`
   */
  tries?: number;
  /**
   * Seconds until the next one.
   * @defaultValue `0.0`
   */
  wait_s?: number;
  /**
   * What came of the failed one, usage and windows included.
   * @defaultValue `{"kind": "model_response", "schema_version": 1}`
   */
  response?: ModelResponse;
}

/** What a model call may be told; null leaves it to the provider. */
export interface ModelSettings {
  /** Usually from 0 to 2. */
  temperature?: number | null;
  /** From 0 to 1. */
  top_p?: number | null;
  /** The most tokens to generate, reasoning included. */
  max_tokens?: number | null;
  /** Texts at which the model stops. */
  stop?: string[] | null;
  /** For providers that can repeat a sample. */
  seed?: number | null;
  /** "auto", "none", "required", or the name of one tool. */
  tool_choice?: string | null;
  /** Whether one reply may ask for several calls. */
  parallel_tool_calls?: boolean | null;
  /** An effort, or the number of tokens to think with; 0 or "none" is off. */
  reasoning?: "high" | "low" | "medium" | "minimal" | "none" | "xhigh" | number | null;
  /** Whether to mark the stable prefix for the provider's prompt cache. */
  cache?: boolean | null;
  /**
   * Fields of the provider's own, put into the request body as they are.
   * @defaultValue `{}`
   */
  extra?: JsonObject;
}

/** A model is about to be called. */
export interface ModelStarted {
  kind: "model_started";
  /** The version of the form it was written in; always written. */
  schema_version: number;
  /**
   * The run that it is of.
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
   * Place in the run's log, from 1; a delta has that of the durable event before it.
   * @defaultValue `0`
   */
  seq?: number;
  /**
   * 0 on durable events; 1, 2, ... on the deltas that follow one.
   * @defaultValue `0`
   */
  part?: number;
  /**
   * In a log, the fields that are as they stand there, though they look as if they had been left
   * out, to be derived from earlier events; empty elsewhere.
   * @defaultValue `[]`
   */
  literal?: string[];
  /**
   * "provider:name".
   * @defaultValue `""`
   */
  model?: string;
  /**
   * Which turn of the attempt, from 1.
   * @defaultValue `0`
   */
  turn?: number;
  /**
   * How many messages are sent.
   * @defaultValue `0`
   */
  messages?: number;
  /**
   * "repair" for one that corrects the arguments of a call; "" for the engine's.
   * @defaultValue `""`
   */
  purpose?: string;
  /**
   * The key of the `host.once` in whose body it is asked, "" for none.
   * @defaultValue `""`
   */
  step?: string;
}

/** A moment: RFC 3339 in UTC, such as "2026-03-01T12:00:00Z". */
export type Moment = string;

/** An amount in the currency that stands beside it, else in US dollars. */
export type Money = number;

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

/** What a parked run waits for. */
export type Pending =
  | PendingApproval
  | PendingQuestion
  | PendingExternal;

/** A tool call that waits for somebody's word. */
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
   * What it would be called with, validated; secrets are masked.
   * @defaultValue `{}`
   */
  arguments?: JsonObject;
  /**
   * What the tool says it may do.
   * @defaultValue `"write"`
   */
  effect?: Effect;
  /**
   * SHA-256 over the arguments and the tool's version; an answer is bound to it.
   * @defaultValue `""`
   */
  digest?: string;
  /**
   * Why somebody is asked, "" if by rule.
   * @defaultValue `""`
   */
  reason?: string;
  /** When it was asked first. */
  asked_at?: Moment | null;
  /** After this moment it must be asked anew; null is never. */
  expires_at?: Moment | null;
  /**
   * The run inside the one it is a result of that asks; "" is that one itself.
   * @defaultValue `""`
   */
  run_id?: string;
}

/** A result that somebody else will deliver. */
export interface PendingExternal {
  kind: "pending_external";
  /**
   * What an answer names.
   * @defaultValue `""`
   */
  id?: string;
  /**
   * What is waited for.
   * @defaultValue `""`
   */
  description?: string;
  /** Since when. */
  asked_at?: Moment | null;
  /** After this moment it is no longer waited for; null is never. */
  expires_at?: Moment | null;
  /**
   * The run inside the one it is a result of that asks; "" is that one itself.
   * @defaultValue `""`
   */
  run_id?: string;
}

/** A question to a person. */
export interface PendingQuestion {
  kind: "pending_question";
  /**
   * What an answer names.
   * @defaultValue `""`
   */
  id?: string;
  /**
   * The text.
   * @defaultValue `""`
   */
  question?: string;
  /**
   * The answers to choose from; empty is free text.
   * @defaultValue `[]`
   */
  choices?: string[];
  /** JSON Schema of the answer, null for any value. */
  schema?: JsonObject | null;
  /** When it was asked first. */
  asked_at?: Moment | null;
  /** After this moment it is no longer waited for; null is never. */
  expires_at?: Moment | null;
  /**
   * The run inside the one it is a result of that asks; "" is that one itself.
   * @defaultValue `""`
   */
  run_id?: string;
}

/** Rules on tools, held at every call. */
export interface Policy {
  /**
   * Only tools that one of these rules fits may be called; null is all. The Toolbox's own
   * `read_artifact` needs no rule.
   */
  allow?: string[] | null;
  /**
   * Tools that one of these rules fits may not be called, whatever `allow` says.
   * @defaultValue `[]`
   */
  deny?: string[];
  /**
   * Whether calls that may write need approval once an untrusted result is in the context, whatever
   * the tool declares.
   * @defaultValue `false`
   */
  taint?: boolean;
  /**
   * Whether tools that declare the network may be called.
   * @defaultValue `true`
   */
  network?: boolean;
  /**
   * Seconds after which an unanswered approval has to be asked anew, unless the tool has its own;
   * null is never. Raises:
   */
  approval_expires_s?: number | null;
}

/** A question has its answer. */
export interface QuestionAnswered {
  kind: "question_answered";
  /** The version of the form it was written in; always written. */
  schema_version: number;
  /**
   * The run that it is of.
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
   * Place in the run's log, from 1; a delta has that of the durable event before it.
   * @defaultValue `0`
   */
  seq?: number;
  /**
   * 0 on durable events; 1, 2, ... on the deltas that follow one.
   * @defaultValue `0`
   */
  part?: number;
  /**
   * In a log, the fields that are as they stand there, though they look as if they had been left
   * out, to be derived from earlier events; empty elsewhere.
   * @defaultValue `[]`
   */
  literal?: string[];
  /**
   * The question's id.
   * @defaultValue `""`
   */
  id?: string;
  /** The answer. */
  value?: Json;
}

/** A person is asked. */
export interface QuestionAsked {
  kind: "question_asked";
  /** The version of the form it was written in; always written. */
  schema_version: number;
  /**
   * The run that it is of.
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
   * Place in the run's log, from 1; a delta has that of the durable event before it.
   * @defaultValue `0`
   */
  seq?: number;
  /**
   * 0 on durable events; 1, 2, ... on the deltas that follow one.
   * @defaultValue `0`
   */
  part?: number;
  /**
   * In a log, the fields that are as they stand there, though they look as if they had been left
   * out, to be derived from earlier events; empty elsewhere.
   * @defaultValue `[]`
   */
  literal?: string[];
  /**
   * The question.
   * @defaultValue `{"kind": "pending_question"}`
   */
  pending?: PendingQuestion;
}

/** All windows of one reply, and what they mean together. */
export interface RateLimitState {
  /** true if a window is exhausted, or the reply was a rate_limit error. */
  limited: boolean;
  /** Whole seconds to wait, rounded up; null where nothing says so. */
  retry_after?: number | null;
  /**
   * In the order in which the headers named them.
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
   * What is counted: requests, tokens, input_tokens, output_tokens, or as the provider names it.
   */
  resource: Resource;
  /** The most that the window allows; null where not told. */
  limit?: number | null;
  /** What is left of it; null where not told. */
  remaining?: number | null;
  /** Whole seconds until it is full again, rounded up; null where not told. */
  resets_in?: number | null;
  /** The same as a moment, unix seconds. */
  reset_at?: number | null;
  /**
   * true where the reset was concluded from the window's length.
   * @defaultValue `false`
   */
  estimated?: boolean;
}

/** What a model thought before it spoke. */
export interface Reasoning {
  kind: "reasoning";
  /**
   * The thought or its summary, "" where only the opaque form was sent.
   * @defaultValue `""`
   */
  text?: string;
  /** The provider's opaque form or proof of it, to be sent back. */
  signature?: string | null;
  /**
   * Whose signature it is; it is dropped for any other provider.
   * @defaultValue `""`
   */
  provider?: string;
  /**
   * The provider's id of it, "" if none.
   * @defaultValue `""`
   */
  id?: string;
  /**
   * Whether the signature stands for text that was withheld.
   * @defaultValue `false`
   */
  redacted?: boolean;
}

/** A piece of what the model thinks. */
export interface ReasoningDelta {
  kind: "reasoning_delta";
  /** The version of the form it was written in; always written. */
  schema_version: number;
  /**
   * The run that it is of.
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
   * Place in the run's log, from 1; a delta has that of the durable event before it.
   * @defaultValue `0`
   */
  seq?: number;
  /**
   * 0 on durable events; 1, 2, ... on the deltas that follow one.
   * @defaultValue `0`
   */
  part?: number;
  /**
   * In a log, the fields that are as they stand there, though they look as if they had been left
   * out, to be derived from earlier events; empty elsewhere.
   * @defaultValue `[]`
   */
  literal?: string[];
  /**
   * The piece.
   * @defaultValue `""`
   */
  text?: string;
}

/** One request to an agent: `Request("Where is order 7?")`. */
export interface Request {
  kind: "request";
  /** The message; a string becomes one of role user. */
  message: string | Message;
  /** The version of the form it was written in; always written. */
  schema_version: number;
  /**
   * Variables put on the board before the engine starts; null is none.
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
   * The id that the run shall have; "" mints one.
   * @defaultValue `""`
   */
  run_id?: string;
  /** What the caller can take. */
  config?: RequestConfig | null;
  /**
   * Free JSON of the caller; null is none.
   * @defaultValue `{}`
   */
  metadata?: JsonObject;
}

/** What the caller can take. */
export interface RequestConfig {
  /**
   * Media types, `image/*` among them; empty takes all. An artifact of another type is told in a
   * warning.
   * @defaultValue `[]`
   */
  accepted_output_modes?: string[];
}

/** What a rate-limit window counts. Open. */
export type Resource =
  | "input_tokens"
  | "output_tokens"
  | "requests"
  | "tokens"
  | (string & {});

/** How often and how patiently a failed model call is tried again. */
export interface Retry {
  /**
   * The most tries of one call, the first included; at least 1.
   * @defaultValue `4`
   */
  max_tries?: number;
  /**
   * The longest wait between two tries, in seconds.
   * @defaultValue `60`
   */
  max_wait_s?: number;
  /**
   * The first wait in seconds; it doubles with every try.
   * @defaultValue `0.5`
   */
  base_s?: number;
}

/** Who speaks in a message. Closed. */
export type Role =
  | "assistant"
  | "system"
  | "tool"
  | "user";

/** The identity of a run; the first argument of every hook. */
export interface RunInfo {
  /**
   * The agent that works on it.
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
}

/** Somebody wants the run to stop. */
export interface RunInterrupted {
  kind: "interrupted";
  /** The version of the form it was written in; always written. */
  schema_version: number;
  /**
   * The run that it is of.
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
   * Place in the run's log, from 1; a delta has that of the durable event before it.
   * @defaultValue `0`
   */
  seq?: number;
  /**
   * 0 on durable events; 1, 2, ... on the deltas that follow one.
   * @defaultValue `0`
   */
  part?: number;
  /**
   * In a log, the fields that are as they stand there, though they look as if they had been left
   * out, to be derived from earlier events; empty elsewhere.
   * @defaultValue `[]`
   */
  literal?: string[];
  /**
   * Who and why.
   * @defaultValue `{}`
   */
  interrupt?: Interrupt;
}

/** A run that was parked, or whose process died, goes on. */
export interface RunResumed {
  kind: "run_resumed";
  /** The version of the form it was written in; always written. */
  schema_version: number;
  /**
   * The run that it is of.
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
   * Place in the run's log, from 1; a delta has that of the durable event before it.
   * @defaultValue `0`
   */
  seq?: number;
  /**
   * 0 on durable events; 1, 2, ... on the deltas that follow one.
   * @defaultValue `0`
   */
  part?: number;
  /**
   * In a log, the fields that are as they stand there, though they look as if they had been left
   * out, to be derived from earlier events; empty elsewhere.
   * @defaultValue `[]`
   */
  literal?: string[];
  /**
   * What people answered, in the order given.
   * @defaultValue `[]`
   */
  answers?: AnyAnswer[];
  /** The agent that goes on with it; its version may have changed. */
  agent?: AgentSpec | null;
  /**
   * Its options as far as they can be logged.
   * @defaultValue `{}`
   */
  options?: JsonObject;
  /**
   * Calls that had started and have no outcome.
   * @defaultValue `[]`
   */
  interrupted_calls?: string[];
}

/** The last event of a session: what came of the run so far. */
export interface RunSettled {
  kind: "run_settled";
  /** The version of the form it was written in; always written. */
  schema_version: number;
  /**
   * The run that it is of.
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
   * Place in the run's log, from 1; a delta has that of the durable event before it.
   * @defaultValue `0`
   */
  seq?: number;
  /**
   * 0 on durable events; 1, 2, ... on the deltas that follow one.
   * @defaultValue `0`
   */
  part?: number;
  /**
   * In a log, the fields that are as they stand there, though they look as if they had been left
   * out, to be derived from earlier events; empty elsewhere.
   * @defaultValue `[]`
   */
  literal?: string[];
  /** The very result that the caller gets. */
  result: AgentResult;
}

/** A run began. */
export interface RunStarted {
  kind: "run_started";
  /** The version of the form it was written in; always written. */
  schema_version: number;
  /**
   * The run that it is of.
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
   * Place in the run's log, from 1; a delta has that of the durable event before it.
   * @defaultValue `0`
   */
  seq?: number;
  /**
   * 0 on durable events; 1, 2, ... on the deltas that follow one.
   * @defaultValue `0`
   */
  part?: number;
  /**
   * In a log, the fields that are as they stand there, though they look as if they had been left
   * out, to be derived from earlier events; empty elsewhere.
   * @defaultValue `[]`
   */
  literal?: string[];
  /**
   * The agent, in names only.
   * @defaultValue `{"kind": "agent_spec", "schema_version": 1}`
   */
  agent?: AgentSpec;
  /**
   * What was asked.
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
   * The options of the call that are JSON, and under "launch" what a command line needs to resume
   * it; never a key.
   * @defaultValue `{}`
   */
  options?: JsonObject;
  /**
   * Free JSON of the caller.
   * @defaultValue `{}`
   */
  attributes?: JsonObject;
}

/** One run of a journal in short. */
export interface RunSummary {
  /**
   * The run.
   * @defaultValue `""`
   */
  run_id?: string;
  /**
   * Who worked on it.
   * @defaultValue `""`
   */
  agent_id?: string;
  /**
   * Of its last session; "running" while none has settled.
   * @defaultValue `"running"`
   */
  status?: string;
  /** When it began. */
  started_at?: Moment | null;
  /** Time of the last event. */
  updated_at?: Moment | null;
  /**
   * How many durable events it has.
   * @defaultValue `0`
   */
  events?: number;
  /**
   * The text that was asked, at most 200 characters.
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

/** What a provider's own tool did, such as a web search: its call, its result, or both. */
export interface ServerToolBlock {
  kind: "server_tool_block";
  /**
   * The block as the provider sent it, and as it is sent back.
   * @defaultValue `{}`
   */
  raw?: JsonObject;
  /**
   * Whose block it is; it is left out for any other provider.
   * @defaultValue `""`
   */
  provider?: string;
}

/** One thing that an agent can do. */
export interface Skill {
  /**
   * Unique among the agent's skills.
   * @defaultValue `""`
   */
  id?: string;
  /**
   * For people.
   * @defaultValue `""`
   */
  name?: string;
  /**
   * For people and models.
   * @defaultValue `""`
   */
  description?: string;
  /**
   * Words to find it by.
   * @defaultValue `[]`
   */
  tags?: string[];
  /**
   * Requests that it serves.
   * @defaultValue `[]`
   */
  examples?: string[];
  /**
   * Media types it takes; empty is the card's.
   * @defaultValue `[]`
   */
  input_modes?: string[];
  /**
   * Media types it gives; empty is the card's.
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
  | ModelReplied
  | ToolStarted
  | ToolProgress
  | ToolSettled
  | ArtifactStored
  | ApprovalRequested
  | ApprovalAnswered
  | QuestionAsked
  | QuestionAnswered
  | BoardChanged
  | StepStarted
  | StepSettled
  | UsageReported
  | RunInterrupted
  | CheckpointSaved
  | HandoffEvent
  | Decided
  | AttemptEnded
  | Committed
  | Warned
  | Lagged
  | RunSettled;

/** How a run ended, or that it waits. Closed. */
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
  /** The version of the form it was written in; always written. */
  schema_version: number;
  /**
   * The run that it is of.
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
   * Place in the run's log, from 1; a delta has that of the durable event before it.
   * @defaultValue `0`
   */
  seq?: number;
  /**
   * 0 on durable events; 1, 2, ... on the deltas that follow one.
   * @defaultValue `0`
   */
  part?: number;
  /**
   * In a log, the fields that are as they stand there, though they look as if they had been left
   * out, to be derived from earlier events; empty elsewhere.
   * @defaultValue `[]`
   */
  literal?: string[];
  /**
   * The step.
   * @defaultValue `""`
   */
  key?: string;
  /**
   * What came of it outside.
   * @defaultValue `"applied"`
   */
  effect?: Effect;
  /** What it gave. */
  value?: Json;
  /** Why it failed, null if it did not. */
  error?: AgentError | null;
}

/** A step of an engine began: a node, a state, a `host.once`. */
export interface StepStarted {
  kind: "step_started";
  /** The version of the form it was written in; always written. */
  schema_version: number;
  /**
   * The run that it is of.
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
   * Place in the run's log, from 1; a delta has that of the durable event before it.
   * @defaultValue `0`
   */
  seq?: number;
  /**
   * 0 on durable events; 1, 2, ... on the deltas that follow one.
   * @defaultValue `0`
   */
  part?: number;
  /**
   * In a log, the fields that are as they stand there, though they look as if they had been left
   * out, to be derived from earlier events; empty elsewhere.
   * @defaultValue `[]`
   */
  literal?: string[];
  /**
   * Unique in the run.
   * @defaultValue `""`
   */
  key?: string;
  /**
   * What it may do.
   * @defaultValue `"write"`
   */
  effect?: Effect;
}

/** Plain or marked-up text. */
export interface Text {
  kind: "text";
  /** The text itself. */
  text: string;
  /**
   * Where it comes from, as far as that matters: "untrusted" or "".
   * @defaultValue `""`
   */
  trust?: string;
  /**
   * The sources that the provider names for it, in its own form.
   * @defaultValue `[]`
   */
  citations?: JsonObject[];
  /** The provider's opaque proof of the reasoning behind it, to be sent back. */
  signature?: string | null;
  /**
   * Whose citations and signature these are; no other provider is sent them.
   * @defaultValue `""`
   */
  provider?: string;
}

/** A piece of the visible text. */
export interface TextDelta {
  kind: "text_delta";
  /** The version of the form it was written in; always written. */
  schema_version: number;
  /**
   * The run that it is of.
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
   * Place in the run's log, from 1; a delta has that of the durable event before it.
   * @defaultValue `0`
   */
  seq?: number;
  /**
   * 0 on durable events; 1, 2, ... on the deltas that follow one.
   * @defaultValue `0`
   */
  part?: number;
  /**
   * In a log, the fields that are as they stand there, though they look as if they had been left
   * out, to be derived from earlier events; empty elsewhere.
   * @defaultValue `[]`
   */
  literal?: string[];
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
  /**
   * Under which `read_artifact` finds it.
   * @defaultValue `""`
   */
  artifact_id?: string;
  /**
   * What is in it, at most 200 characters.
   * @defaultValue `""`
   */
  summary?: string;
  /**
   * Its size in UTF-8.
   * @defaultValue `0`
   */
  size_bytes?: number;
  /** How long the body ran. */
  elapsed_ms: number;
  /**
   * Whether an argument was changed to fit the schema.
   * @defaultValue `false`
   */
  was_coerced?: boolean;
  /** What it did outside: applied, unless the tool only reads. */
  effect: Effect;
  /** A word for it where there is one. */
  code?: ErrorCode | null;
}

/** One call of a tool, as the model asked for it. */
export interface ToolCall {
  kind: "tool_call";
  /** The provider's id of the call; the outcome names it again. */
  id: string;
  /** The tool's name as the model wrote it. */
  name: string;
  /**
   * JSON text as it came, or a mapping. null counts as no arguments; other JSON, and what JSON has
   * no number for, is kept as text, which the tool's gate refuses.
   * @defaultValue `{}`
   */
  arguments?: string | JsonObject;
  /** The provider's opaque proof of the reasoning behind the call. */
  signature?: string | null;
  /**
   * Whose signature it is; it is dropped for any other provider.
   * @defaultValue `""`
   */
  provider?: string;
}

/** A piece of a tool call that is being written. */
export interface ToolCallDelta {
  kind: "tool_call_delta";
  /** The version of the form it was written in; always written. */
  schema_version: number;
  /**
   * The run that it is of.
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
   * Place in the run's log, from 1; a delta has that of the durable event before it.
   * @defaultValue `0`
   */
  seq?: number;
  /**
   * 0 on durable events; 1, 2, ... on the deltas that follow one.
   * @defaultValue `0`
   */
  part?: number;
  /**
   * In a log, the fields that are as they stand there, though they look as if they had been left
   * out, to be derived from earlier events; empty elsewhere.
   * @defaultValue `[]`
   */
  literal?: string[];
  /**
   * Which call of the reply, from 0.
   * @defaultValue `0`
   */
  index?: number;
  /**
   * Its id, "" until it is known.
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

/** A gate refused; the body never started. */
export interface ToolDenied {
  kind: "tool_denied";
  /** The call that it answers. */
  call_id: string;
  /** The tool as the model named it. */
  tool_name: string;
  /** Which gate refused; an open word. */
  reason: DeniedReason;
  /**
   * What it said.
   * @defaultValue `""`
   */
  details?: string;
  /**
   * What to do instead, "" if there is nothing to say.
   * @defaultValue `""`
   */
  hint?: string;
  /** none. */
  effect: Effect;
  /** A word for it where there is one. */
  code?: ErrorCode | null;
}

/** The tool ran, and its output fits into a message. */
export interface ToolExecutionResult {
  kind: "tool_execution_result";
  /** The call that it answers. */
  call_id: string;
  /** The tool as the model named it. */
  tool_name: string;
  /** What it returned; what was no mapping stands under "result". */
  output: JsonObject;
  /** How long the body ran. */
  elapsed_ms: number;
  /**
   * Whether an argument was changed to fit the schema.
   * @defaultValue `false`
   */
  was_coerced?: boolean;
  /** What it did outside: applied, unless the tool only reads. */
  effect: Effect;
  /** A word for it where there is one. */
  code?: ErrorCode | null;
}

/** The tool raised, or returned a mapping with a truthy `error`. */
export interface ToolFailure {
  kind: "tool_failure";
  /** The call that it answers. */
  call_id: string;
  /** The tool as the model named it. */
  tool_name: string;
  /** One line that says what went wrong; no traceback. */
  error: string;
  /** Whether the same call may be made again. */
  retryable: boolean;
  /** How long the body ran. */
  elapsed_ms: number;
  /** Seconds to wait before that, null where the tool did not say. */
  retry_after_s?: number | null;
  /** What it did outside before it failed. */
  effect: Effect;
  /** The tool's own word, or interrupted, cancelled, unserializable_output. */
  code?: ErrorCode | null;
}

/** What came of a tool call. Closed. */
export type ToolOutcome =
  | ToolExecutionResult
  | ToolTimeout
  | ToolFailure
  | ToolDenied
  | ToolArtifactReference;

/** A tool tells how far it is. */
export interface ToolProgress {
  kind: "tool_progress";
  /** The version of the form it was written in; always written. */
  schema_version: number;
  /**
   * The run that it is of.
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
   * Place in the run's log, from 1; a delta has that of the durable event before it.
   * @defaultValue `0`
   */
  seq?: number;
  /**
   * 0 on durable events; 1, 2, ... on the deltas that follow one.
   * @defaultValue `0`
   */
  part?: number;
  /**
   * In a log, the fields that are as they stand there, though they look as if they had been left
   * out, to be derived from earlier events; empty elsewhere.
   * @defaultValue `[]`
   */
  literal?: string[];
  /**
   * The call.
   * @defaultValue `""`
   */
  call_id?: string;
  /**
   * For people.
   * @defaultValue `""`
   */
  text?: string;
  /** For programs. */
  data?: Json;
}

/** All facts of one settled tool call. */
export interface ToolRecord {
  kind: "tool_record";
  /** The version of the form it was written in; always written. */
  schema_version: number;
  /**
   * The run that it belongs to.
   * @defaultValue `""`
   */
  run_id?: string;
  /**
   * That run's parent, "" for a root run.
   * @defaultValue `""`
   */
  parent_run_id?: string;
  /**
   * Which turn asked for it, as the caller of `dispatch` labelled it.
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
   * As the model wrote them.
   * @defaultValue `{}`
   */
  arguments_given?: string | JsonObject;
  /** After coercion and defaults; null where they were refused. */
  arguments_validated?: JsonObject | null;
  /** As the body got them, after an edit; null where it did not start. */
  arguments_executed?: JsonObject | null;
  /**
   * What was changed.
   * @defaultValue `[]`
   */
  coercions?: Coercion[];
  /**
   * Paths of output values that JSON cannot hold and that were replaced.
   * @defaultValue `[]`
   */
  lossy?: string[];
  /**
   * The gate that decided, "" where all let it pass.
   * @defaultValue `""`
   */
  gate?: string;
  /**
   * Every gate that was asked, in order.
   * @defaultValue `[]`
   */
  trace?: GateVerdict[];
  /** Who let it run, null where nobody was asked. */
  approval?: ApprovalRecord | null;
  /**
   * How often the body was started.
   * @defaultValue `0`
   */
  attempts?: number;
  /**
   * How long it waited for its turn, people's time excluded.
   * @defaultValue `0`
   */
  queue_ms?: number;
  /**
   * How long the body ran.
   * @defaultValue `0`
   */
  run_ms?: number;
  /** What the tool says it may do. */
  declared_effect?: Effect | null;
  /** What came of it outside. */
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
   * Where a large output is stored, "" if it is not.
   * @defaultValue `""`
   */
  artifact_id?: string;
  /**
   * "async", "thread" or "process"; "" where it did not start.
   * @defaultValue `""`
   */
  mode?: string;
  /**
   * How many secrets were masked.
   * @defaultValue `0`
   */
  redactions?: number;
  /**
   * What the tool was given to recognise a repetition.
   * @defaultValue `""`
   */
  idempotency_key?: string;
  /** When the body started, null where it did not. */
  started_at?: Moment | null;
  /**
   * "untrusted" where the outcome may hold words of strangers, else "".
   * @defaultValue `""`
   */
  trust?: string;
  /** What came of the call. */
  outcome: ToolOutcome;
}

/** A call has its outcome. */
export interface ToolSettled {
  kind: "tool_settled";
  /** The version of the form it was written in; always written. */
  schema_version: number;
  /**
   * The run that it is of.
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
   * Place in the run's log, from 1; a delta has that of the durable event before it.
   * @defaultValue `0`
   */
  seq?: number;
  /**
   * 0 on durable events; 1, 2, ... on the deltas that follow one.
   * @defaultValue `0`
   */
  part?: number;
  /**
   * In a log, the fields that are as they stand there, though they look as if they had been left
   * out, to be derived from earlier events; empty elsewhere.
   * @defaultValue `[]`
   */
  literal?: string[];
  /** All facts of it. */
  record: ToolRecord;
}

/** A tool as it is offered to a model. */
export interface ToolSpec {
  /** What the model calls it by. */
  name: string;
  /**
   * What it does, for the model.
   * @defaultValue `""`
   */
  description?: string;
  /**
   * JSON Schema of the arguments, an object schema.
   * @defaultValue `{}`
   */
  parameters?: JsonObject;
  /** Whether the provider shall hold the model to the schema; null is its default. */
  strict?: boolean | null;
}

/** All gates let the call pass; its body is about to run. */
export interface ToolStarted {
  kind: "tool_started";
  /** The version of the form it was written in; always written. */
  schema_version: number;
  /**
   * The run that it is of.
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
   * Place in the run's log, from 1; a delta has that of the durable event before it.
   * @defaultValue `0`
   */
  seq?: number;
  /**
   * 0 on durable events; 1, 2, ... on the deltas that follow one.
   * @defaultValue `0`
   */
  part?: number;
  /**
   * In a log, the fields that are as they stand there, though they look as if they had been left
   * out, to be derived from earlier events; empty elsewhere.
   * @defaultValue `[]`
   */
  literal?: string[];
  /**
   * The call as the model made it.
   * @defaultValue `{"kind": "tool_call", "id": "", "name": ""}`
   */
  call?: ToolCall;
  /**
   * What the body gets; secrets are masked.
   * @defaultValue `{}`
   */
  arguments?: JsonObject;
  /**
   * The label that the caller of `dispatch` gave.
   * @defaultValue `0`
   */
  turn?: number;
  /**
   * What the tool says it may do.
   * @defaultValue `"write"`
   */
  effect?: Effect;
  /**
   * Whether the tool says that running it again is safe.
   * @defaultValue `false`
   */
  idempotent?: boolean;
  /**
   * Digest of the tool's schema and description.
   * @defaultValue `""`
   */
  tool_version?: string;
  /**
   * What the tool is given to recognise a repetition.
   * @defaultValue `""`
   */
  idempotency_key?: string;
}

/** The tool ran past its deadline. */
export interface ToolTimeout {
  kind: "tool_timeout";
  /** The call that it answers. */
  call_id: string;
  /** The tool as the model named it. */
  tool_name: string;
  /**
   * The moment at which its time was over, unix seconds.
   * @defaultValue `0.0`
   */
  deadline_s?: number;
  /**
   * How many seconds it was allowed.
   * @defaultValue `0.0`
   */
  timeout_s?: number;
  /** How long it had run when it was given up. */
  elapsed_ms: number;
  /** Whether the same call may be made again. */
  retryable: boolean;
  /**
   * Whether the work really ended, or goes on in an abandoned thread.
   * @defaultValue `true`
   */
  stopped?: boolean;
  /** none where the body never started, else unknown for what may write. */
  effect: Effect;
  /** A word for it where there is one. */
  code?: ErrorCode | null;
}

/** A part or an event of a kind that this version does not know, kept as it came. */
export interface Unknown {
  kind: UnknownKind;
  [field: string]: Json;
}

/** Tokens of one or more model calls, in one convention for all providers. */
export interface Usage {
  /** ALL prompt tokens, cache reads and writes included; null where unknown. */
  input_tokens?: number | null;
  /** All generated tokens, reasoning included. */
  output_tokens?: number | null;
  /**
   * Their sum, whenever both are known; of several calls it may be more, since some of them may
   * have told no more than their total.
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
   * How many model calls these figures are of.
   * @defaultValue `0`
   */
  api_calls?: number;
  /**
   * How many of them came without usage.
   * @defaultValue `0`
   */
  unmeasured_calls?: number;
}

/** An engine told what it used by ways of its own. */
export interface UsageReported {
  kind: "usage_reported";
  /** The version of the form it was written in; always written. */
  schema_version: number;
  /**
   * The run that it is of.
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
   * Place in the run's log, from 1; a delta has that of the durable event before it.
   * @defaultValue `0`
   */
  seq?: number;
  /**
   * 0 on durable events; 1, 2, ... on the deltas that follow one.
   * @defaultValue `0`
   */
  part?: number;
  /**
   * In a log, the fields that are as they stand there, though they look as if they had been left
   * out, to be derived from earlier events; empty elsewhere.
   * @defaultValue `[]`
   */
  literal?: string[];
  /**
   * Which report of the attempt it is, from 1.
   * @defaultValue `1`
   */
  number?: number;
  /**
   * What was used and what came of it, as far as the engine told.
   * @defaultValue `{"kind": "model_response", "schema_version": 1}`
   */
  response?: ModelResponse;
}

/** Something went wrong that does not fail the run. */
export interface Warned {
  kind: "warning";
  /** The version of the form it was written in; always written. */
  schema_version: number;
  /**
   * The run that it is of.
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
   * Place in the run's log, from 1; a delta has that of the durable event before it.
   * @defaultValue `0`
   */
  seq?: number;
  /**
   * 0 on durable events; 1, 2, ... on the deltas that follow one.
   * @defaultValue `0`
   */
  part?: number;
  /**
   * In a log, the fields that are as they stand there, though they look as if they had been left
   * out, to be derived from earlier events; empty elsewhere.
   * @defaultValue `[]`
   */
  literal?: string[];
  /**
   * What.
   * @defaultValue `{"code": "", "message": "", "origin": "host"}`
   */
  warning?: RunWarning;
}
