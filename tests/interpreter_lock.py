"""Whether a call lets other threads run while it computes."""

import sys
import threading
import time

#: until a call that never lets go is given up, seconds
PATIENCE_S = 30


def lets_others_run(call) -> bool:
    """Whether another thread sees a call under way, which is repeated until one does.

    Python hands a thread's turn on when the thread lets go, or after an interval: here never. So
    nobody can see the call under way unless the call itself lets go of the interpreter, however
    busy the processors are.
    """
    interval_s = sys.getswitchinterval()
    under_way, seen = threading.Event(), threading.Event()

    def work():
        deadline_s = time.monotonic() + PATIENCE_S
        while not seen.is_set() and time.monotonic() < deadline_s:
            under_way.set()
            call()
            under_way.clear()

    thread = threading.Thread(target=work)
    sys.setswitchinterval(1e6)
    try:
        thread.start()
        while thread.is_alive() and not seen.is_set():
            if under_way.is_set():
                seen.set()
            time.sleep(0)
        thread.join()
    finally:
        sys.setswitchinterval(interval_s)
    return seen.is_set()
