// An upstream that counts, made of Node's own server. `/count` says how many came before.
const http = require("http");
let count = 0;
const server = http.createServer((request, response) => {
  if (request.url === "/count") return response.end(String(count));
  count += 1;
  request.on("error", () => {});
  request.resume().on("end", () => response.end("fine"));
});
// Reads as leniently as it can be told to.
server.on("clientError", (_, socket) => socket.destroy());
server.listen(Number(process.argv[2]), "127.0.0.1");
