"""Calls the function of a trigger in a unit test, without a cluster and without worker processes.

    from tailrace.trigger.testing import invoke

    def test_an_order_becomes_an_invoice():
        done = invoke(bill, b"order 1", key=b"customer-7")
        assert [(each.topic, each.key) for each in done.emitted] == [("invoices", b"customer-7")]

`FunctionUnderTest` keeps one context over several calls.
"""

from .invocation import FunctionUnderTest, Invocation, LogLine, event, invoke, invoke_async, invoke_batch

__all__ = ["FunctionUnderTest", "Invocation", "LogLine", "event", "invoke", "invoke_async", "invoke_batch"]
