#!/usr/bin/python3
"""ILLNESS: the network is too slow.

A loader thread fetches objects by HTTP, one after the other over one connection, from a server that
sends at most 16 MB/s. A step needs one object of 512 kB: training waits for bytes that no disk is
to blame for. Begin the server first, in another terminal: slow_network.py --serve 8765
THE RIGHT DIAGNOSIS: slow-network, fetch stall most of the time.
THE CURE: more connections, a copy nearby, or a better link.
"""

import http.client
import http.server
import queue
import threading
import time

import training

OBJECT_BYTES = 512 * 1000
PIECE_BYTES = 32 * 1000
SERVER_BYTES_PER_SECOND = 16e6
STEP_SECONDS = 0.004


class Objects(http.server.BaseHTTPRequestHandler):
    """GET /anything: one object, at the set rate."""

    protocol_version = "HTTP/1.1"

    def do_GET(self):  # the base class wants this name
        self.send_response(200)
        self.send_header("Content-Length", str(OBJECT_BYTES))
        self.end_headers()
        due = time.monotonic()
        for _ in range(OBJECT_BYTES // PIECE_BYTES):
            self.wfile.write(bytes(PIECE_BYTES))
            due += PIECE_BYTES / SERVER_BYTES_PER_SECOND
            time.sleep(max(0.0, due - time.monotonic()))

    def log_message(self, *_):
        pass


def load(server, batches, ended):
    connection = http.client.HTTPConnection(server)
    turn = 0
    while not ended.is_set():
        making = training.Making()
        connection.request("GET", f"/bucket/object-{turn}")
        batch = connection.getresponse().read()
        making.did("fetch")
        turn += 1
        batches.put((batch, making.all))
    connection.close()


def train(options):
    batches, ended = queue.Queue(maxsize=2), threading.Event()
    loader = threading.Thread(target=load, args=(options.server, batches, ended))
    loader.start()
    clock = training.OwnClock(options.seconds)
    while clock.next_step():
        batch, making = batches.get()
        clock.waited_for(making)
        training.train_step(batch, STEP_SECONDS)
        clock.did("compute")
    ended.set()
    while loader.is_alive():
        while not batches.empty():
            batches.get()
        loader.join(0.01)
    clock.print("slow_network")


def main():
    options = training.arguments(
        __doc__, ("--server", {"default": "127.0.0.1:8765", "help": "HOST:PORT of the objects"}),
        ("--serve", {"type": int, "metavar": "PORT", "help": "be that server (0: any free port)"}))
    if options.serve is not None:
        with http.server.ThreadingHTTPServer(("127.0.0.1", options.serve), Objects) as server:
            print(f"serving on port {server.server_address[1]}", flush=True)
            server.serve_forever()
    elif not options.make_data:
        train(options)


if __name__ == "__main__":
    main()
