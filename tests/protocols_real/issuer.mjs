// An OpenID provider that others wrote: node issuer.mjs PACKAGES RESOURCE; prints its address.
import { generateKeyPairSync } from "node:crypto";
import { createServer } from "node:http";
import { createRequire } from "node:module";
import { pathToFileURL } from "node:url";

const [packages, resource] = process.argv.slice(2);
const place = createRequire(`${packages}/`).resolve("oidc-provider");
const { default: Provider } = await import(pathToFileURL(place).href);
const server = createServer((request, response) => provider.callback()(request, response));
await new Promise((done) => server.listen(0, "127.0.0.1", done));
const issuer = `http://127.0.0.1:${server.address().port}`;
const key = generateKeyPairSync("rsa", { modulusLength: 2048 }).privateKey.export({ format: "jwk" });
const client = {
  client_id: "desk",
  client_secret: "of-the-desk",
  grant_types: ["client_credentials"],
  redirect_uris: [],
  response_types: [],
};
const provider = new Provider(issuer, {
  clients: [client],
  jwks: { keys: [{ ...key, alg: "RS256", use: "sig" }] },
  scopes: ["refunds"],
  features: {
    clientCredentials: { enabled: true },
    devInteractions: { enabled: false },
    resourceIndicators: {
      enabled: true,
      getResourceServerInfo: () => ({
        scope: "refunds",
        audience: resource,
        accessTokenFormat: "jwt",
        accessTokenTTL: 300,
      }),
    },
  },
});
console.log(issuer);
