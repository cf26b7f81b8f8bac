// An Express application that reports how it read a request.
const express = require('express');
const cookies = require('cookie-parser');
const app = express();
app.use(cookies());
const report = (route) => (request, response) => response.json({
  route,
  method: request.method,
  header: request.get('x-api-key') ?? null,
  cookie: request.cookies.session ?? null,
  query: [request.query.k ?? null].flat().pop(),
  param: request.params.term ?? null,
});
app.all('/login', report('login'));
app.all('/search/:term', report('search'));
app.all('/admin/*rest', report('admin'));
app.use(report('other'));
app.listen(Number(process.argv[2]), '127.0.0.1');
