// Plays one run of pi's agent on a model of the simulator and prints the messages of its end.
// Arguments: the folder of the packages, the address of the model, the prompt.
import { pathToFileURL } from "node:url";

const [folder, baseUrl, prompt] = process.argv.slice(2);
const load = (name) => import(pathToFileURL(`${folder}/@mariozechner/${name}/dist/index.js`).href);
const { Agent } = await load("pi-agent-core");
const model = {
  id: "gpt-5",
  name: "Simulated",
  api: "openai-completions",
  provider: "openai",
  baseUrl,
  reasoning: false,
  input: ["text"],
  cost: { input: 0, output: 0, cacheRead: 0, cacheWrite: 0 },
  contextWindow: 100000,
  maxTokens: 1000,
};
const made = [];
const stock = {
  name: "stock",
  label: "Stock",
  description: "Say how many of an article there are.",
  parameters: { type: "object", properties: { x: { type: "number" } }, required: ["x"] },
  async execute(id, { x }) {
    made.push(x);
    if (x < 0 && made.length === 1) throw new Error("there is no such article");
    if (x === 0) agent.abort();
    return { content: [{ type: "text", text: `${x + 2} pieces` }], details: {} };
  },
};
const agent = new Agent({
  initialState: { systemPrompt: "Answer.", model, tools: [stock] },
  getApiKey: () => "no-key",
  maxRetries: 0,
});
await agent.prompt(prompt);
console.log(JSON.stringify({ messages: agent.state.messages, made }));
