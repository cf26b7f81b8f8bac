// Makes tokens with jose: the first argument is the time of issue. Prints keys and tokens as JSON.
import { SignJWT, exportJWK, exportSPKI, generateKeyPair } from "jose";

const now = Number(process.argv[2]);
const jwks = { keys: [] };
const tokens = {};
let pem = "";
for (const alg of ["RS256", "PS256", "ES256", "ES384", "EdDSA"]) {
  const { publicKey, privateKey } = await generateKeyPair(alg, { extractable: true });
  jwks.keys.push({ ...(await exportJWK(publicKey)), kid: alg, alg, use: "sig" });
  pem += (await exportSPKI(publicKey)) + "\n";
  tokens[alg] = await new SignJWT({ plan: "pro", org: { id: 7 } })
    .setProtectedHeader({ alg, kid: alg })
    .setSubject("ann")
    .setIssuer("https://id.example")
    .setAudience("api")
    .setIssuedAt(now)
    .setExpirationTime(now + 600)
    .sign(privateKey);
}
const secret = new Uint8Array(32).fill(7);
jwks.keys.push({ kty: "oct", k: Buffer.from(secret).toString("base64url"), kid: "HS256" });
tokens.HS256 = await new SignJWT({ plan: "pro" })
  .setProtectedHeader({ alg: "HS256", kid: "HS256" })
  .setSubject("ann")
  .setIssuer("https://id.example")
  .setAudience("api")
  .setExpirationTime(now + 600)
  .sign(secret);
console.log(JSON.stringify({ jwks, pem, tokens }));
