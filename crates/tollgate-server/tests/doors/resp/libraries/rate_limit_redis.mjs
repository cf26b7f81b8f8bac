// Uses rate-limit-redis in several versions: rate_limit_redis.mjs PORT. Prints what the store returns.
import { Redis } from "ioredis";

const client = new Redis({ port: Number(process.argv[2]), maxRetriesPerRequest: 0 });
const print = (...what) => console.log(JSON.stringify(what));

for (const name of ["rate-limit-redis", "rate-limit-redis-5", "rate-limit-redis-4"]) {
  const module = await import(name);
  const RedisStore = module.RedisStore ?? module.default;
  for (const resetExpiryOnChange of name === "rate-limit-redis" ? [undefined] : [false, true]) {
    const options = { sendCommand: (...args) => client.call(...args), prefix: `${name}:${resetExpiryOnChange}:` };
    if (resetExpiryOnChange !== undefined) options.resetExpiryOnChange = resetExpiryOnChange;
    const store = new RedisStore(options);
    const windowMs = 60_000;
    await store.init({ windowMs });
    const show = ({ totalHits, resetTime }) => {
      const left = resetTime.getTime() - Date.now();
      return [totalHits, left > windowMs - 5_000 && left <= windowMs];
    };
    print(name, "first", show(await store.increment("a")));
    for (let i = 0; i < 5; i++) print(name, i, show(await store.increment("a")));
    await store.decrement("a");
    print(name, "get", show(await store.get("a")));
    print(name, "other", show(await store.increment("b")));
    await store.resetKey("a");
    const none = await store.get("a");
    print(name, "reset", Number.isNaN(none.totalHits) || none.totalHits, none.resetTime.getTime() <= Date.now());
    print(name, "again", show(await store.increment("a")));
    await client.set(`${options.prefix}c`, 41);
    print(name, "no expiry", show(await store.increment("c")));
    // The script is loaded again after the server forgot it.
    await client.script("FLUSH");
    print(name, "flushed", show(await store.increment("a")));
  }
}

// The middleware itself, on requests that need no server.
const { rateLimit } = await import("express-rate-limit");
const { RedisStore } = await import("rate-limit-redis");
const store = new RedisStore({ sendCommand: (...args) => client.call(...args), prefix: "middleware:" });
const limiter = rateLimit({ windowMs: 60_000, limit: 3, standardHeaders: "draft-8", legacyHeaders: false, store });
for (let i = 0; i < 5; i++) {
  const headers = {};
  const response = {
    headersSent: false,
    writableEnded: false,
    statusCode: 200,
    setHeader: (name, value) => (headers[name.toLowerCase()] = value),
    append: (name, value) => (headers[name.toLowerCase()] = value),
    status(code) { this.statusCode = code; return this; },
    send() { return this; },
    on() {},
  };
  let passed = false;
  await limiter({ ip: "192.0.2.1", app: { get: () => false }, headers: {}, socket: {} }, response, () => (passed = true));
  print("middleware", i, passed, response.statusCode, headers["ratelimit"]?.replace(/t=\d+/, ""));
}
await client.quit();
