"""The process `permix`: Ctrl-C ends it, whatever the libraries do with what that raises."""

import os
import signal
import socket
import sys
import threading
import time
from collections.abc import Callable

STOPPED = 130  # what a shell says of a program that SIGINT ends
PATIENCE = 5.0  # seconds that Ctrl-C has to end the command as an error would


def end_with(main: Callable[[], int]) -> None:
    """Run the command, and end the process with the exit code that it returns.

    Ctrl-C raises `KeyboardInterrupt`, which libraries may catch, which Python drops where it frees
    objects, and which waits for code that is compiled or compiles. A second one ends the process
    at once, and so does time.
    """
    # In the background, as behind `nohup`, there is no Ctrl-C.
    if signal.getsignal(signal.SIGINT) is signal.default_int_handler:
        _heed()
    status = main()
    if status == STOPPED:
        os._exit(status)  # Libraries that were stopped in the middle may hang as they are unloaded.
    sys.exit(status)


def _heed():
    heard, told = socket.socketpair()
    told.setblocking(False)
    signal.set_wakeup_fd(told.detach(), warn_on_full_buffer=False)
    threading.Thread(target=_wait, args=(heard,), daemon=True).start()
    signal.signal(signal.SIGINT, _stop)
    sys.unraisablehook = _dropped


def _wait(heard):
    while heard.recv(1)[0] != signal.SIGINT:
        pass
    time.sleep(PATIENCE)
    _end()


def _stop(number, frame):
    signal.signal(signal.SIGINT, lambda number, frame: _end())
    raise KeyboardInterrupt


def _dropped(unraisable):
    if issubclass(unraisable.exc_type, KeyboardInterrupt):
        _end()
    sys.__unraisablehook__(unraisable)


def _end():
    os.write(2, b"permix: stopped\n")
    os._exit(STOPPED)
