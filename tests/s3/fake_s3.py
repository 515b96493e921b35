#!/usr/bin/python3
"""A small S3 server for tests: objects in memory, signatures checked, faults on request.

usage: fake_s3.py [--anonymous] [--tls CERT KEY]
Prints "PORT" once it listens on 127.0.0.1, and ends when its standard input does.

Key AKTEST, secret "secret/TEST+key", region us-east-1, buckets `data` and `other`.

Faults are set by PUT /_faults with a JSON list; each is used up as it strikes:
  {"method": "GET", "key": "data/x", "kind": KIND, "times": 1, ...}
`method`, `key` and `query` (a part of it) are optional. Kinds:
  status       answers `status` with `code`, and Retry-After when `retry_after` is given, or as the
               date in `retry_in` seconds
  reset        breaks the connection after `bytes` of the body
  short        ends the connection in good order after `bytes`, with the whole length announced
  stall        stops after `bytes` and says nothing for `seconds`
  wrong_range  answers a Content-Range that is off by one
  flip         changes one byte of the body that is sent
  no_ranges    ignores Range
  late_error   200 and an <Error> document for completing an upload
  redirect     307 to `location`
  cut_xml      half of the document
  delay        waits `seconds` first, then goes on as usual
GET /_log answers the requests so far, one "METHOD PATH?QUERY STATUS" a line.
"""

import base64
import datetime
import hashlib
import hmac
import json
import socket
import ssl
import struct
import sys
import threading
import time
import urllib.parse
import xml.sax.saxutils
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

KEY, SECRET, REGION = "AKTEST", "secret/TEST+key", "us-east-1"
ANONYMOUS = "--anonymous" in sys.argv
PAGE = 100  # keys in one answer to a listing, so that few files make several pages
UPLOADS_PAGE = 2  # the same of uploads and of parts

lock = threading.Lock()
buckets = {"data": {}, "other": {}}
uploads = {}
begun = {}  # by upload: "BUCKET/KEY" and when
faults = []
log = []


def crc32c_table():
    table = []
    for i in range(256):
        c = i
        for _ in range(8):
            c = (c >> 1) ^ (0x82F63B78 if c & 1 else 0)
        table.append(c)
    return table


TABLE = crc32c_table()


def crc32c(data):
    c = 0xFFFFFFFF
    for byte in data:
        c = TABLE[(c ^ byte) & 255] ^ (c >> 8)
    return base64.b64encode(struct.pack(">I", c ^ 0xFFFFFFFF)).decode()


def stamp_of(when):
    return time.strftime("%Y-%m-%dT%H:%M:%S.000Z", time.gmtime(when))


def sign(key, text):
    return hmac.new(key, text.encode(), hashlib.sha256).digest()


def escape(text):
    return xml.sax.saxutils.escape(text, {'"': "&quot;"})


class Refused(Exception):
    def __init__(self, status, code, extra=""):
        super().__init__(code)
        self.status, self.code, self.extra = status, code, extra


class Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True
    wbufsize = 65536

    def log_message(self, *_):
        pass

    # --- signatures ---

    def canonical_query(self):
        query = self.path.partition("?")[2]
        items = []
        for part in query.split("&"):
            if part:
                name, _, value = part.partition("=")
                items.append((urllib.parse.quote(urllib.parse.unquote(name), safe="-_.~"),
                              urllib.parse.quote(urllib.parse.unquote(value), safe="-_.~")))
        return "&".join(f"{n}={v}" for n, v in sorted(items))

    def check_signature(self, body):
        auth = self.headers.get("Authorization", "")
        if not auth:
            if ANONYMOUS:
                return
            raise Refused(403, "AccessDenied")
        scheme, _, rest = auth.partition(" ")
        fields = dict(part.strip().split("=", 1) for part in rest.split(","))
        access, date, region, service, kind = fields["Credential"].rsplit("/", 4)
        if scheme != "AWS4-HMAC-SHA256" or (service, kind) != ("s3", "aws4_request"):
            raise Refused(400, "InvalidRequest")
        if region != REGION:
            raise Refused(400, "AuthorizationHeaderMalformed", f"<Region>{REGION}</Region>")
        if access != KEY:
            raise Refused(403, "InvalidAccessKeyId", f"<AWSAccessKeyId>{access}</AWSAccessKeyId>")
        names = fields["SignedHeaders"].split(";")
        for needed in ("host", "x-amz-date", "x-amz-content-sha256"):
            if needed not in names:
                raise Refused(403, "SignatureDoesNotMatch")
        canonical = "".join(
            f"{n}:{' '.join((self.headers.get(n) or '').split())}\n" for n in sorted(names))
        payload = self.headers.get("x-amz-content-sha256", "")
        if payload != "UNSIGNED-PAYLOAD" and payload != hashlib.sha256(body).hexdigest():
            raise Refused(400, "XAmzContentSHA256Mismatch")
        # What the key is after decoding, encoded as the rule says: a client that encodes otherwise
        # signs another text.
        path = urllib.parse.quote(urllib.parse.unquote_to_bytes(self.path.partition("?")[0]),
                                  safe="-_.~/")
        request = "\n".join([self.command, path, self.canonical_query(), canonical,
                             ";".join(sorted(names)), payload])
        stamp = self.headers.get("x-amz-date", "")
        text = "\n".join([scheme, stamp, f"{date}/{region}/s3/aws4_request",
                          hashlib.sha256(request.encode()).hexdigest()])
        key = sign(("AWS4" + SECRET).encode(), date)
        for part in (region, "s3", "aws4_request"):
            key = sign(key, part)
        if not hmac.compare_digest(sign(key, text).hex(), fields["Signature"]):
            raise Refused(403, "SignatureDoesNotMatch",
                          f"<StringToSign>{escape(text)}</StringToSign>")
        sent = datetime.datetime.strptime(stamp, "%Y%m%dT%H%M%SZ")
        if abs((sent - datetime.datetime.utcnow()).total_seconds()) > 900:
            raise Refused(403, "RequestTimeTooSkewed")

    # --- answers ---

    def answer(self, status, body=b"", headers=(), fault=None):
        if not self.path.startswith("/_"):
            with lock:
                log.append(f"{self.command} {self.path} {status}")
        kind = (fault or {}).get("kind")
        if kind == "flip" and body:
            body = body[:-1] + bytes([body[-1] ^ 1])
        if kind == "cut_xml":
            body = body[:len(body) // 2]
        self.send_response(status)
        for name, value in headers:
            self.send_header(name, value)
        if status != 204:
            self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        if self.command == "HEAD":
            return
        if kind in ("reset", "short", "stall"):
            self.wfile.write(body[:fault.get("bytes", 0)])
            self.wfile.flush()
            if kind == "stall":
                time.sleep(fault.get("seconds", 1))
            self.close_connection = True
            if kind == "reset":
                self.connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER,
                                           struct.pack("ii", 1, 0))
                self.connection.close()
            else:
                self.connection.shutdown(socket.SHUT_RDWR)
            return
        self.wfile.write(body)
        self.wfile.flush()

    def refuse(self, status, code, extra="", headers=()):
        body = (f'<?xml version="1.0" encoding="UTF-8"?><Error><Code>{code}</Code>'
                f"<Message>the test server says {code}</Message>{extra}</Error>").encode()
        self.answer(status, b"" if self.command == "HEAD" else body,
                    [("Content-Type", "application/xml"), *headers])

    def take_fault(self, key):
        with lock:
            for fault in faults:
                if fault.get("method", self.command) == self.command and \
                        fault.get("key", key) == key and fault.get("query", "") in self.path:
                    fault["times"] = fault.get("times", 1) - 1
                    if fault["times"] <= 0:
                        faults.remove(fault)
                    return fault
        return None

    def handle_any(self):
        length = int(self.headers.get("Content-Length") or 0)
        body = self.rfile.read(length)
        if self.path == "/_faults":
            with lock:
                faults[:] = json.loads(body)
                log.clear()
            return self.answer(200)
        if self.path == "/_log":
            with lock:
                text = "\n".join(log) + "\n"
            return self.answer(200, text.encode())
        path, _, query = self.path.partition("?")
        name = urllib.parse.unquote(path[1:])
        try:
            self.check_signature(body)
            self.query = dict(urllib.parse.parse_qsl(query, keep_blank_values=True))
            fault = self.take_fault(name)
            kind = (fault or {}).get("kind")
            if kind == "delay":
                time.sleep(fault["seconds"])
            if kind == "status":
                headers = [("Retry-After", str(fault["retry_after"]))] \
                    if "retry_after" in fault else []
                if "retry_in" in fault:
                    until = self.date_time_string(int(time.time()) + fault["retry_in"])
                    headers = [("Retry-After", until)]
                return self.refuse(fault["status"], fault.get("code", "SlowDown"), "", headers)
            if kind == "redirect":
                return self.refuse(307, "TemporaryRedirect", "",
                                   [("Location", fault["location"] + self.path)])
            bucket, _, key = name.partition("/")
            if bucket == "elsewhere":
                raise Refused(301, "PermanentRedirect", "<Region>eu-west-3</Region>")
            if bucket == "forbidden":
                raise Refused(403, "AccessDenied")
            if bucket not in buckets:
                raise Refused(404, "NoSuchBucket")
            self.serve(buckets[bucket], key, body, fault)
        except Refused as refusal:
            self.refuse(refusal.status, refusal.code, refusal.extra)

    do_GET = do_HEAD = do_PUT = do_POST = do_DELETE = handle_any

    def serve(self, objects, key, body, fault):
        if self.command == "POST":
            return self.serve_upload(objects, key, body, fault)
        if self.command == "PUT":
            return self.put(objects, key, body, fault)
        if self.command == "DELETE":
            with lock:
                uploads.pop(self.query.get("uploadId"), None)
                if "uploadId" not in self.query:
                    objects.pop(key, None)
            return self.answer(204)
        if "uploads" in self.query:
            return self.list_uploads(fault)
        if "uploadId" in self.query:
            return self.list_parts(fault)
        if not key:
            return self.list(objects, fault)
        with lock:
            found = objects.get(key)
        if found is None:
            raise Refused(404, "NoSuchKey")
        self.get(found, fault)

    def check_body(self, body):
        given = self.headers.get("Content-MD5")
        if given and base64.b64decode(given) != hashlib.md5(body).digest():
            raise Refused(400, "BadDigest")
        given = self.headers.get("x-amz-checksum-crc32c")
        # In Python the sum is slow; long bodies have their MD5.
        if given and len(body) <= 1 << 16 and given != crc32c(body):
            raise Refused(400, "BadDigest")
        return given

    def put(self, objects, key, body, fault):
        if fault and fault["kind"] == "flip" and body:
            body = body[:-1] + bytes([body[-1] ^ 1])
        crc = self.check_body(body)
        if key.endswith(".plain"):
            crc = None  # as servers that keep no checksum
        etag = f'"{hashlib.md5(body).hexdigest()}"'
        with lock:
            if "uploadId" in self.query:
                upload = uploads.get(self.query["uploadId"])
                if upload is None:
                    raise Refused(404, "NoSuchUpload")
                upload[int(self.query["partNumber"])] = (etag, body)
            else:
                objects[key] = (body, etag, time.time(), crc)
        self.answer(200, b"", [("ETag", etag)], fault)

    def serve_upload(self, objects, key, body, fault):
        if "uploads" in self.query:
            with lock:
                upload = f"up+{len(uploads)}/{time.monotonic_ns()}="
                uploads[upload] = {}
                begun[upload] = (urllib.parse.unquote(self.path.partition("?")[0][1:]), time.time())
            text = (f"<InitiateMultipartUploadResult><UploadId>{upload}</UploadId>"
                    "</InitiateMultipartUploadResult>")
            return self.answer(200, text.encode(), (), fault)
        if fault and fault["kind"] == "late_error":
            text = "<Error><Code>InternalError</Code><Message>too late</Message></Error>"
            return self.answer(200, text.encode())
        with lock:
            parts = uploads.pop(self.query.get("uploadId"), None)
            if parts is None:
                raise Refused(404, "NoSuchUpload")
            numbers = sorted(parts)
            asked = body.decode().count("<Part>")
            if len(numbers) != asked or any(len(parts[n][1]) < 5 << 20 for n in numbers[:-1]):
                raise Refused(400, "EntityTooSmall")
            whole = b"".join(parts[n][1] for n in numbers)
            sums = b"".join(hashlib.md5(parts[n][1]).digest() for n in numbers)
            etag = f'"{hashlib.md5(sums).hexdigest()}-{len(numbers)}"'
            objects[key] = (whole, etag, time.time(), None)
        text = (f"<CompleteMultipartUploadResult><ETag>{escape(etag)}</ETag>"
                "</CompleteMultipartUploadResult>")
        self.answer(200, text.encode(), (), fault)

    def list(self, objects, fault):
        prefix = self.query.get("prefix", "")
        with lock:
            keys = sorted((k for k in objects if k.startswith(prefix)), key=str.encode)
            after = self.query.get("continuation-token", "")
            keys = [k for k in keys if not after or k > after]
            page = keys[:PAGE]
            rows = ""
            for k in page:
                content, etag, when, _ = objects[k]
                stamp = stamp_of(when)
                shown = urllib.parse.quote_plus(k, safe="/") if "encoding-type" in self.query \
                    else escape(k)
                rows += (f"<Contents><Key>{shown}</Key><LastModified>{stamp}</LastModified>"
                         f"<ETag>{escape(etag)}</ETag><Size>{len(content)}</Size></Contents>")
        more = len(keys) > len(page)
        token = f"<NextContinuationToken>{escape(page[-1])}</NextContinuationToken>" if more else ""
        encoding = "<EncodingType>url</EncodingType>" if "encoding-type" in self.query else ""
        text = (f'<?xml version="1.0" encoding="UTF-8"?><ListBucketResult>{rows}{encoding}'
                f"<IsTruncated>{'true' if more else 'false'}</IsTruncated>{token}"
                "</ListBucketResult>")
        self.answer(200, text.encode(), [("Content-Type", "application/xml")], fault)

    def list_uploads(self, fault):
        bucket = urllib.parse.unquote(self.path.partition("?")[0][1:]).rstrip("/")
        prefix = f"{bucket}/{self.query.get('prefix', '')}"
        after = (self.query.get("key-marker", ""), self.query.get("upload-id-marker", ""))
        with lock:
            all_of_them = sorted((begun[u][0].partition("/")[2], u, begun[u][1]) for u in uploads
                                 if begun[u][0].startswith(prefix))
        rest = [one for one in all_of_them if one[:2] > after]
        page, more = rest[:UPLOADS_PAGE], len(rest) > UPLOADS_PAGE
        rows = "".join(
            f"<Upload><Key>{urllib.parse.quote_plus(k, safe='/')}</Key><UploadId>{u}</UploadId>"
            f"<Initiated>{stamp_of(when)}</Initiated></Upload>" for k, u, when in page)
        following = ""
        if more:
            following = (f"<NextKeyMarker>{urllib.parse.quote_plus(page[-1][0], safe='/')}"
                         f"</NextKeyMarker><NextUploadIdMarker>{page[-1][1]}</NextUploadIdMarker>")
        text = (f"<ListMultipartUploadsResult><EncodingType>url</EncodingType>{rows}{following}"
                f"<IsTruncated>{'true' if more else 'false'}</IsTruncated>"
                "</ListMultipartUploadsResult>")
        self.answer(200, text.encode(), [("Content-Type", "application/xml")], fault)

    def list_parts(self, fault):
        after = int(self.query.get("part-number-marker", 0))
        with lock:
            parts = uploads.get(self.query["uploadId"])
            if parts is None:
                raise Refused(404, "NoSuchUpload")
            rest = [(n, len(parts[n][1])) for n in sorted(parts) if n > after]
        page, more = rest[:UPLOADS_PAGE], len(rest) > UPLOADS_PAGE
        rows = "".join(f"<Part><PartNumber>{n}</PartNumber><Size>{size}</Size>"
                       f"<LastModified>{stamp_of(time.time())}</LastModified></Part>"
                       for n, size in page)
        following = f"<NextPartNumberMarker>{page[-1][0]}</NextPartNumberMarker>" if more else ""
        text = (f"<ListPartsResult>{rows}{following}<IsTruncated>{'true' if more else 'false'}"
                "</IsTruncated></ListPartsResult>")
        self.answer(200, text.encode(), [("Content-Type", "application/xml")], fault)

    def get(self, found, fault):
        content, etag, when, crc = found
        headers = [("ETag", etag), ("Last-Modified", self.date_time_string(int(when)))]
        match = self.headers.get("If-Match")
        if match and match != etag:
            raise Refused(412, "PreconditionFailed")
        wanted = self.headers.get("Range")
        if fault and fault["kind"] == "no_ranges":
            wanted = None
        if not wanted:
            if crc and self.headers.get("x-amz-checksum-mode") == "ENABLED":
                headers.append(("x-amz-checksum-crc32c", crc))
            return self.answer(200, content, headers, fault)
        first, _, last = wanted.removeprefix("bytes=").partition("-")
        first, last = int(first), min(int(last), len(content) - 1)
        if first >= len(content):
            return self.refuse(416, "InvalidRange")
        shift = 1 if fault and fault["kind"] == "wrong_range" else 0
        told = f"bytes {first + shift}-{last + shift}/{len(content) + shift}"
        headers.append(("Content-Range", told))
        self.answer(206, content[first:last + 1], headers, fault)


class Server(ThreadingHTTPServer):
    daemon_threads = True
    request_queue_size = 1024

    def handle_error(self, request, address):
        pass  # a client that goes away in mid-answer is part of the tests


def main():
    server = Server(("127.0.0.1", 0), Handler)
    if "--tls" in sys.argv:
        at = sys.argv.index("--tls")
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(sys.argv[at + 1], sys.argv[at + 2])
        server.socket = context.wrap_socket(server.socket, server_side=True)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    print(server.server_address[1], flush=True)
    sys.stdin.read()


main()
