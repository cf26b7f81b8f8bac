// Uses the server through ioredis and node-redis: clients.mjs PORT [TOKEN].
import assert from "node:assert/strict";
import { Redis } from "ioredis";
import { createClient } from "redis";

const [port, token] = [Number(process.argv[2]), process.argv[3] || undefined];

const io = new Redis({ port, password: token, connectionName: "io", maxRetriesPerRequest: 0 });
assert.equal(await io.ping(), "PONG");
assert.deepEqual(await io.call("CL.THROTTLE", "io", 1, 1, 60), [0, 2, 1, -1, 60]);
const decision = await io.call("TG.LIMIT", "io", "10/s burst 20", "COST", "5");
assert.deepEqual(decision.slice(0, 2), ["allowed", 1]);
assert.equal(decision[decision.indexOf("remaining") + 1], 15);
const piped = io.pipeline();
for (let i = 0; i < 500; i++) piped.call("CL.THROTTLE", "io-pipe", 9, 1, 3600);
const answers = (await piped.exec()).map(([error, answer]) => (assert.equal(error, null), answer[0]));
assert.equal(answers.filter((limited) => limited === 0).length, 10);
await assert.rejects(io.hgetall("x"), /unknown command 'hgetall'/i);
const transaction = await io.multi().call("CL.THROTTLE", "io-multi", 1, 1, 60).exists("io-multi").exec();
assert.deepEqual(transaction, [[null, [0, 2, 1, -1, 60]], [null, 1]]);
await io.quit();

for (const RESP of [2, 3]) {
  const client = createClient({ RESP, password: token, name: "node", socket: { port, host: "127.0.0.1", reconnectStrategy: false } });
  client.on("error", (error) => { throw error; });
  await client.connect();
  assert.equal(await client.ping(), "PONG");
  const key = `node-${RESP}`;
  assert.deepEqual(await client.sendCommand(["CL.THROTTLE", key, "1", "1", "60"]), [0, 2, 1, -1, 60]);
  const reply = await client.sendCommand(["TG.CHECK", "shop", "route", "POST /login", "ip", `198.51.100.${RESP}`]);
  if (RESP === 3) {
    const get = (name) => (reply instanceof Map ? reply.get(name) : reply[name]);
    assert.equal(get("allowed"), true);
    assert.equal(get("rule"), "login");
  } else {
    assert.deepEqual(reply.slice(0, 4), ["allowed", 1, "rule", "login"]);
  }
  const limited = await Promise.all(
    Array.from({ length: 200 }, () => client.sendCommand(["CL.THROTTLE", `${key}-pipe`, "9", "1", "3600"])),
  );
  assert.equal(limited.filter(([limited]) => limited === 0).length, 10);
  await client.close();
}
console.log("ok");
