// Asks a server once by pi-ai and prints the AssistantMessage that comes of it.
// Arguments: the package's entry file, the API, the server's address, "abort" to give up at once.
import { pathToFileURL } from "node:url";

const [entry, api, baseUrl, how] = process.argv.slice(2);
const { complete } = await import(pathToFileURL(entry).href);
const price = { input: 3, output: 15, cacheRead: 0.3, cacheWrite: 3.75 };
const model = {
  id: "test-model",
  name: "Test",
  api,
  provider: api.startsWith("anthropic") ? "anthropic" : "openai",
  baseUrl,
  reasoning: false,
  input: ["text"],
  cost: price,
  contextWindow: 100000,
  maxTokens: 1000,
};
const tool = {
  name: "add",
  description: "Add two numbers",
  parameters: { type: "object", properties: { x: { type: "number" } } },
};
const context = {
  messages: [{ role: "user", content: "Add", timestamp: Date.now() }],
  tools: [tool],
};
const signal = how === "abort" ? AbortSignal.abort() : undefined;
const options = { apiKey: "no-key", maxRetries: 0, signal };
console.log(JSON.stringify(await complete(model, context, options)));
