// An upstream on Node's own server: early hints before every response, and a body only if it wants one.
const http = require("http");
const answer = (request, response) => {
  response.writeEarlyHints({ link: "</style.css>; rel=preload; as=style" });
  let length = 0;
  request.on("data", (part) => (length += part.length));
  request.on("end", () => response.end(`${request.method} ${length} ${request.headers.via ?? ""}`));
};
const server = http.createServer(answer);
server.on("checkContinue", (request, response) => {
  if (request.url === "/refuse") {
    response.writeHead(413, { "content-length": 0 }).end();
    return;
  }
  response.writeContinue();
  answer(request, response);
});
server.listen(Number(process.argv[2]), "127.0.0.1");
