"""Serve the APIs of Hugging Face and Kaggle locally, for their Python packages."""

import base64
import contextlib
import hashlib
import http.server
import json
import re
import threading
from urllib.parse import unquote, urlsplit

COMMIT = "0123456789abcdef0123456789abcdef01234567"


class Hub:
    """A model on Hugging Face and Kaggle, with a log of the requests.

    Args:
        files: Dict of file contents by name, or `None` if the model does not exist.
    """

    def __init__(self, files=None):
        self.files = files
        self.refusal = None  # status code of all responses, if set
        self.asked = []  # method and path of each request
        self.fetched = []  # names of the files sent
        self.blobs = {}  # files uploaded to Kaggle, by token


class HubHandler(http.server.BaseHTTPRequestHandler):
    """Handle requests to `self.server.hub`."""

    protocol_version = "HTTP/1.1"

    def respond(self):
        """Read a request, and call the function for its address."""
        body = self.rfile.read(int(self.headers.get("Content-Length", 0)))
        address, hub = unquote(urlsplit(self.path).path), self.server.hub
        hub.asked.append(f"{self.command} {address}")
        if hub.refusal:
            return self.send(dict(error="refused", message="refused"), hub.refusal)
        for pattern, function in ADDRESSES.items():
            if found := re.fullmatch(pattern, address):
                return function(self, hub, body, *found.groups())
        return self.send(dict(error="no such address", message="no such address"), 404)

    do_GET = do_HEAD = do_POST = do_PUT = respond

    def send(self, content, status=200, **headers):
        """Send bytes, or an object as JSON."""
        kind = "application/octet-stream"
        if not isinstance(content, bytes):
            content, kind = json.dumps(content).encode(), "application/json"
        self.send_response(status)
        headers = {"Content-Type": kind, "Content-Length": str(len(content)), **headers}
        for name, value in headers.items():
            self.send_header(name.replace("_", "-"), value)
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(content)

    def send_file(self, name):
        """Send a file, or status 404 if it does not exist."""
        hub = self.server.hub
        if hub.files is None or name not in hub.files:
            code = "RepoNotFound" if hub.files is None else "EntryNotFound"
            return self.send(dict(error="absent", message="absent"), 404, X_Error_Code=code)
        if self.command != "HEAD":
            hub.fetched.append(name)
        tag = hashlib.sha256(hub.files[name]).hexdigest()
        return self.send(hub.files[name], ETag=f'"{tag}"', X_Repo_Commit=COMMIT)

    def log_message(self, *args):
        """Log nothing."""


def repository(handler, hub, body):
    if hub.files is None:
        return handler.send({"error": "Repository not found"}, 404, X_Error_Code="RepoNotFound")
    sizes = {name: len(content) for name, content in hub.files.items()}
    siblings = [dict(rfilename=name, size=size) for name, size in sizes.items()]
    return handler.send(dict(id="me/model", sha=COMMIT, siblings=siblings, private=False, tags=[]))


def tree(handler, hub, body):
    handler.send(
        [
            dict(type="file", path=name, size=len(content), oid=hashlib.sha1(content).hexdigest())
            for name, content in hub.files.items()
        ]
    )


def create_repository(handler, hub, body):
    hub.files = hub.files or {}
    handler.send(dict(url="https://huggingface.co/me/model", name="me/model"))


def upload_modes(handler, hub, body):
    names = [file["path"] for file in json.loads(body)["files"]]
    modes = [dict(path=name, uploadMode="regular", shouldIgnore=False) for name in names]
    handler.send(dict(files=modes))


def commit(handler, hub, body):
    for line in map(json.loads, body.splitlines()):
        if line["key"] == "file":
            hub.files[line["value"]["path"]] = base64.b64decode(line["value"]["content"])
    handler.send(dict(commitUrl="https://huggingface.co/me/model/commit/1", commitOid=COMMIT))


def kaggle_model(handler, hub, body):
    status = 404 if hub.files is None else 200
    handler.send(dict(versionNumber=7, code=status, message="no such model"), status)


def kaggle_file(handler, hub, body):
    assert json.loads(body)["versionNumber"] == 7
    handler.send_file(json.loads(body)["path"])


def kaggle_start(handler, hub, body):
    token = json.loads(body)["name"]
    url = f"http://{handler.headers['Host']}/blobs/{token}"
    handler.send(dict(token=token, createUrl=url))


def kaggle_blob(handler, hub, body, token):
    hub.blobs[token] = body
    handler.send({})


def kaggle_create(handler, hub, body):
    handler.send({})


def kaggle_instance(handler, hub, body):
    tokens = [file["token"] for file in json.loads(body)["body"]["files"]]
    hub.files = {token: hub.blobs[token] for token in tokens}
    handler.send({})


# Functions by the pattern of the address.
KAGGLE = "/api/v1/models.ModelApiService"
ADDRESSES = {
    r"/api/models/me/model(?:/revision/\w+)?": repository,
    r"/api/models/me/model/tree/\w+": tree,
    r"/me/model/resolve/\w+/(.+)": lambda handler, hub, body, name: handler.send_file(name),
    r"/api/repos/create": create_repository,
    r"/api/models/me/model/preupload/main": upload_modes,
    r"/api/models/me/model/commit/main": commit,
    rf"{KAGGLE}/GetModel(?:Instance)?": kaggle_model,
    rf"{KAGGLE}/DownloadModelInstanceVersion": kaggle_file,
    rf"{KAGGLE}/CreateModel": kaggle_create,
    rf"{KAGGLE}/CreateModelInstance": kaggle_instance,
    r"/api/v1/blobs.BlobApiService/StartBlobUpload": kaggle_start,
    r"/blobs/(.+)": kaggle_blob,
}


@contextlib.contextmanager
def serving(hub):
    """Run a server for `hub`, and yield its address."""
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), HubHandler) as server:
        server.hub, server.closing = hub, threading.Event()
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        try:
            yield f"http://127.0.0.1:{server.server_port}"
        finally:
            server.closing.set()
            server.shutdown()
            thread.join()
