// Makes concurrent decisions with the npm package `rate-limiter-flexible`, and prints the results.
//
// usage: flexible.mjs MODULES REDIS_URL POINTS SECONDS_OF_WINDOW KEYS_FILE all|SECONDS IN_FLIGHT

import { readFileSync } from 'node:fs';
import { createRequire } from 'node:module';
import { performance } from 'node:perf_hooks';

const [modules, url, points, duration, keysFile, amount, inFlight] = process.argv.slice(2);
const require = createRequire(modules + '/');
const Redis = require('ioredis');
const { RateLimiterRedis, RateLimiterRes } = require('rate-limiter-flexible');

const keys = readFileSync(keysFile, 'utf8').split('\n').filter((key) => key);
const storeClient = new Redis(url);
await new Promise((resolve) => storeClient.once('ready', resolve));
const limiter = new RateLimiterRedis({
  storeClient,
  points: Number(points),
  duration: Number(duration),
  keyPrefix: 'flexible',
});

const started = performance.now();
const end = started + Number(amount) * 1000;
let taken = 0;
/** Returns the next key, or undefined at the end. */
function next() {
  if (amount === 'all') return keys[taken++];
  return performance.now() < end ? keys[Math.floor(Math.random() * keys.length)] : undefined;
}

const took = [];
let allowed = 0;
async function caller() {
  for (let key = next(); key !== undefined; key = next()) {
    const before = performance.now();
    try {
      await limiter.consume(key);
      allowed += 1;
    } catch (refusal) {
      if (!(refusal instanceof RateLimiterRes)) throw refusal;
    }
    took.push(performance.now() - before);
  }
}
await Promise.all(Array.from({ length: Number(inFlight) }, caller));
const seconds = (performance.now() - started) / 1000;
storeClient.disconnect();

took.sort((a, b) => a - b);
const at = (share) => took[Math.floor(share * (took.length - 1))] * 1000;
const results = { decisions: took.length, allowed, seconds, p50_us: at(0.5), p99_us: at(0.99) };
console.log(JSON.stringify(results));
