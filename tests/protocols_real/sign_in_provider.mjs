// An OpenID provider that others wrote, where people sign in with any password:
// node sign_in_provider.mjs PACKAGES PORT SITE... prints its address. A line of its input, such as
// "ann ops readers", sets the groups of an account.
import { generateKeyPairSync } from "node:crypto";
import { createServer } from "node:http";
import { createRequire } from "node:module";
import { createInterface } from "node:readline";
import { pathToFileURL } from "node:url";

const [packages, port, ...sites] = process.argv.slice(2);
const place = createRequire(`${packages}/`).resolve("oidc-provider");
const { default: Provider } = await import(pathToFileURL(place).href);
const groups = new Map();
const issuer = `http://127.0.0.1:${port}`;
const key = generateKeyPairSync("rsa", { modulusLength: 2048 }).privateKey.export({ format: "jwk" });
const client = {
  client_id: "console",
  client_secret: "of-the-console",
  grant_types: ["authorization_code"],
  response_types: ["code"],
  redirect_uris: sites.map((site) => `${site}/sign-in/callback`),
  post_logout_redirect_uris: sites.map((site) => `${site}/`),
  backchannel_logout_uri: `${sites[0]}/sign-in/back-channel`,
};
const provider = new Provider(issuer, {
  clients: [client],
  jwks: { keys: [{ ...key, alg: "RS256", use: "sig" }] },
  claims: { openid: ["sub"], profile: ["name", "groups"], email: ["email"] },
  // By default it sends nothing to addresses of this machine.
  fetch: (url, { dispatcher, ...options }) => fetch(url, options),
  pkce: { required: () => true },
  features: {
    devInteractions: { enabled: true },
    rpInitiatedLogout: { enabled: true },
    backchannelLogout: { enabled: true },
  },
  findAccount: (_, id) => ({
    accountId: id,
    claims: async () => ({ sub: id, name: `${id} of the shop`, groups: groups.get(id) ?? [] }),
  }),
});
const server = createServer(provider.callback());
await new Promise((done) => server.listen(Number(port), "127.0.0.1", done));
console.log(issuer);
for await (const line of createInterface({ input: process.stdin })) {
  const [name, ...theirs] = line.split(" ");
  groups.set(name, theirs);
  console.log("ok");
}
