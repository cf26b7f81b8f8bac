// Node's own client of HTTP/2: many requests at once; prints how many were answered with what.
const http2 = require("http2");
const [origin, count] = [process.argv[2], Number(process.argv[3])];
const client = http2.connect(origin);
const told = {};
const ask = (n) =>
  new Promise((done, fail) => {
    const stream = client.request({ ":method": "POST", ":path": `/${n}` });
    let status;
    stream.on("response", (head) => (status = head[":status"]));
    stream.on("error", fail);
    stream.resume().on("end", () => done((told[status] = (told[status] ?? 0) + 1)));
    stream.end("x".repeat(n));
  });
Promise.all(Array.from({ length: count }, (_, n) => ask(n)))
  .then(() => console.log(JSON.stringify(told)))
  .catch((error) => {
    console.error(error);
    process.exitCode = 1;
  })
  .finally(() => client.close());
