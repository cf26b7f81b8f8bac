"""An upstream that counts, made of Python's own server. `/count` says how many came before."""

import sys
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer


class Counting(BaseHTTPRequestHandler):
    count = 0

    def answer(self):
        if self.path == "/count":
            text = str(Counting.count)
        else:
            Counting.count += 1
            self.rfile.read(int(self.headers.get("content-length", 0)))
            text = "fine"
        self.send_response(200)
        self.send_header("content-length", str(len(text)))
        self.end_headers()
        self.wfile.write(text.encode())

    def __getattr__(self, name):
        if name.startswith("do_"):
            return self.answer
        raise AttributeError(name)

    def log_message(self, *_):
        pass


ThreadingHTTPServer(("127.0.0.1", int(sys.argv[1])), Counting).serve_forever()
