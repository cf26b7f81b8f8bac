// Uses rate-limiter-flexible: rate_limiter_flexible.mjs PORT. Prints what the limiter returns.
import { Redis } from "ioredis";
import flexible from "rate-limiter-flexible";

const { RateLimiterRedis, BurstyRateLimiter } = flexible;
const client = new Redis({ port: Number(process.argv[2]), maxRetriesPerRequest: 0 });
const print = (...what) => console.log(JSON.stringify(what));
const show = (result, duration) =>
  result && [
    result.consumedPoints,
    result.remainingPoints,
    result.isFirstInDuration,
    duration === 0 ? result.msBeforeNext : result.msBeforeNext > duration * 1000 - 5000 && result.msBeforeNext <= duration * 1000,
  ];
const attempt = async (call, duration) => {
  try {
    const result = await call();
    return ["passed", typeof result === "object" ? show(result, duration) : result];
  } catch (error) {
    if (error instanceof Error) return ["error", error.message];
    return ["refused", show(error, duration)];
  }
};

const limiter = new RateLimiterRedis({ storeClient: client, points: 5, duration: 60, keyPrefix: "plain" });
for (let i = 0; i < 7; i++) print("consume", await attempt(() => limiter.consume("a", i === 2 ? 2 : 1), 60));
print("get", await attempt(() => limiter.get("a"), 60));
print("penalty", await attempt(() => limiter.penalty("a", 2), 60));
print("reward", await attempt(() => limiter.reward("a", 3), 60));
print("block", await attempt(() => limiter.block("a", 30), 30));
print("blocked", await attempt(() => limiter.consume("a"), 30));
print("delete", await attempt(() => limiter.delete("a")), await attempt(() => limiter.delete("a")));
print("get none", await attempt(() => limiter.get("a"), 60));
print("set", await attempt(() => limiter.set("a", 4, 20), 20));
print("after set", await attempt(() => limiter.consume("a"), 20), await attempt(() => limiter.consume("a"), 20));

const forever = new RateLimiterRedis({ storeClient: client, points: 2, duration: 0, keyPrefix: "forever" });
for (let i = 0; i < 3; i++) print("forever", await attempt(() => forever.consume("a"), 0));
print("forever get", await attempt(() => forever.get("a"), 0));

const blocking = new RateLimiterRedis({ storeClient: client, points: 1, duration: 60, blockDuration: 100, keyPrefix: "blocking" });
for (let i = 0; i < 3; i++) print("blocking", (await attempt(() => blocking.consume("a"), 100))[0]);

const bursty = new BurstyRateLimiter(
  new RateLimiterRedis({ storeClient: client, points: 2, duration: 60, keyPrefix: "bursty" }),
  new RateLimiterRedis({ storeClient: client, points: 3, duration: 120, keyPrefix: "burst" }),
);
for (let i = 0; i < 7; i++) print("bursty", (await attempt(() => bursty.consume("a"), 60))[0]);
await client.quit();
