"""A Flask application that reports how it read a request, and as a plain WSGI application would."""
import sys
from http.cookies import CookieError, SimpleCookie
from urllib.parse import parse_qs

from flask import Flask, request
from werkzeug.serving import WSGIRequestHandler, run_simple

METHODS = ["GET", "POST", "PUT", "PATCH", "DELETE"]
app = Flask(__name__)


def report(route, param=None):
    try:
        cookies = SimpleCookie(request.environ.get("HTTP_COOKIE", ""))
    except CookieError:
        cookies = {}
    session = cookies["session"].value if "session" in cookies else None
    query = parse_qs(request.environ.get("QUERY_STRING", ""))
    return {
        "route": route,
        "method": request.method,
        "header": request.environ.get("HTTP_X_API_KEY"),
        "cookie": session,
        "query": query["k"][-1] if "k" in query else None,
        "param": param,
    }


@app.route("/login", methods=METHODS)
def login():
    return report("login")


@app.route("/search/<path:term>", methods=METHODS)
def search(term):
    return report("search", term)


@app.route("/admin/<path:rest>", methods=METHODS)
def admin(rest):
    return report("admin")


@app.errorhandler(404)
def other(error):
    return report("other")


class Handler(WSGIRequestHandler):
    protocol_version = "HTTP/1.1"

    def log(self, *args):
        pass


run_simple("127.0.0.1", int(sys.argv[1]), app, threaded=True, request_handler=Handler)
