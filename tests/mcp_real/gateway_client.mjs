// A client of the protocol's TypeScript SDK: node gateway_client.mjs PACKAGES COMMAND...
// It makes the calls of the gateway's example, and prints what it got as one line of JSON.
const [packages, command, ...args] = process.argv.slice(2);
const sdk = `${packages}/@modelcontextprotocol/sdk/dist/esm`;
const { Client } = await import(`${sdk}/client/index.js`);
const { StdioClientTransport } = await import(`${sdk}/client/stdio.js`);
const { ElicitRequestSchema, ListRootsRequestSchema } = await import(`${sdk}/types.js`);

const asked = [];
const client = new Client(
  { name: "unchanged", version: "1" },
  { capabilities: { elicitation: {}, sampling: {}, roots: {} } },
);
client.setRequestHandler(ElicitRequestSchema, ({ params }) => {
  asked.push(params.message);
  return { action: "accept", content: { decision: "approve" } };
});
client.setRequestHandler(ListRootsRequestSchema, () => ({ roots: [] }));
await client.connect(new StdioClientTransport({ command, args, stderr: "inherit" }));

const progress = [];
const call = async (name, given) => {
  const onprogress = ({ progress: done, total }) => progress.push([done, total]);
  const result = await client.callTool({ name, arguments: given }, undefined, { onprogress });
  return [result.isError === true, result.content.map((one) => one.text ?? one.type).join("\n")];
};
const got = {
  server: client.getServerVersion().name,
  tools: (await client.listTools()).tools.map((one) => one.name),
  sum: await call("get-sum", { a: 2, b: 3 }),
  echoed: await call("echo", { message: "hello" }),
  again: await call("echo", { message: "hello" }),
  denied: await call("echo", { message: "my password" }),
  long: await call("echo", { message: "a message of many words" }),
  slow: await call("trigger-long-running-operation", { duration: 0.2, steps: 2 }),
  resources: (await client.listResources()).resources.length,
  prompts: (await client.listPrompts()).prompts.length,
};
await client.close();
console.log(JSON.stringify({ ...got, asked, progress }));
