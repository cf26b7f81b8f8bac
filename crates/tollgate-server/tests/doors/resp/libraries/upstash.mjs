// Uses @upstash/ratelimit through ioredis: upstash.mjs PORT VERSION. Prints what the limiter returns.
import { Redis } from "ioredis";

const client = new Redis({ port: Number(process.argv[2]), maxRetriesPerRequest: 0 });
const { Ratelimit } = await import(process.argv[3]);
const print = (...what) => console.log(JSON.stringify(what));

// The library talks to Upstash over HTTP; this is its client interface over the Redis protocol.
const redis = {
  evalsha: (sha1, keys, args) => client.evalsha(sha1, keys.length, ...keys, ...args),
  eval: (script, keys, args) => client.eval(script, keys.length, ...keys, ...args),
  get: (key) => client.get(key),
  set: (key, value) => client.set(key, value),
  del: (...keys) => client.del(...keys),
};
// Far in the future, so that no test run meets the end of a window.
let now = 4_000_000_000_000;
Date.now = () => now;

const limiters = {
  fixed: Ratelimit.fixedWindow(5, "60 s"),
  sliding: Ratelimit.slidingWindow(5, "60 s"),
  bucket: Ratelimit.tokenBucket(2, "10 s", 6),
};
for (const [name, limiter] of Object.entries(limiters)) {
  const ratelimit = new Ratelimit({ redis, limiter, prefix: name, ephemeralCache: false, analytics: false });
  const show = ({ success, limit, remaining, reset }) => [success, limit, remaining, reset];
  print(name, "left", await ratelimit.getRemaining("a"));
  for (const rate of [1, 2, 1, 1, 1, 1, -1, 3]) {
    print(name, rate, show(await ratelimit.limit("a", { rate })), await ratelimit.getRemaining("a"));
  }
  now += 25_000;
  for (let i = 0; i < 6; i++) print(name, "later", show(await ratelimit.limit("a")));
  now += 60_000;
  print(name, "next", show(await ratelimit.limit("a")), await ratelimit.getRemaining("a"));
  await ratelimit.resetUsedTokens("a");
  print(name, "reset", await ratelimit.getRemaining("a"));
}
await client.quit();
