// What a compiler has to refuse; a line that it lets through is an error itself.
import type { AgentError, AgentResult, Budget, Part, Status, Unknown } from "../../schema/upshot.js";

// @ts-expect-error a closed list has no other words
export const status: Status = "finished";

// An open list has, and is a string to whoever reads it.
export const error: AgentError = {
  code: "tomorrows_code",
  message: "",
  retryable: false,
  origin: "model",
};
export const code: string = error.code;

// @ts-expect-error what is always written is there
export const bare: AgentResult = { kind: "agent_result", schema_version: 1 };

// @ts-expect-error a text is no amount of money
export const budget: Budget = { max_cost_usd: "0.50" };

// @ts-expect-error nobody makes a kind that nobody knows
export const made: Unknown = { kind: "moon_rose" };

export function textOf(part: Part): string {
  // @ts-expect-error not every part has a text
  const text: string = part.text;
  return part.kind === "text" ? part.text : text;
}

export function shown(part: Part): string {
  switch (part.kind) {
    case "text":
      return part.text;
    default: {
      // @ts-expect-error images and others are not handled
      const unknown: Unknown = part;
      return unknown.kind;
    }
  }
}
