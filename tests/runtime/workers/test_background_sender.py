import threading

from tailrace.runtime.workers.background_sender import BackgroundSender


def test_the_thread_sends_after_each_wake_and_under_the_lock() -> None:
    sender = BackgroundSender()
    sent = threading.Semaphore(0)
    held: list[bool] = []

    def send() -> None:
        held.append(sender.lock.locked())
        sent.release()

    sender.start(send)
    for count in 1, 2:
        sender.wake()
        assert sent.acquire(timeout=30)
        assert held == [True] * count
