"""Carries out the requests of the command line to list and change whole objects."""

from collections.abc import Callable

from tailrace.controller.objects.identities import new_topic_id
from tailrace.controller.objects.objects import Object, Spu, SpuGroup, Topic, Trigger
from tailrace.controller.state.local_store import LocalStore
from tailrace.controller.state.object_codec import key_of
from tailrace.controller.state.observed import Observed
from tailrace.controller.workflow.updaters import Provisioner
from tailrace.protocol.error_codes import ErrorCode, KafkaError
from tailrace.runtime.chance import Chance
from tailrace.runtime.logs import FilteringBoundLogger

from .admin_requests import AdminRequests
from .completion import CompletionConditions
from .object_planning import (
    check_kind,
    find_topic,
    list_objects,
    plan_creation,
    plan_removal,
    plan_update,
    read_object,
)
from .planned_changes import ChangeWriter, Condition, Deadlines, Planned, plan_each, result_or_raise

TIMEOUT_MS = 30_000
DECISION_MS_MAX = 2_000
"""How long the response to a request waits for the controllers' decision, even if it does not wait for the effect."""


class ObjectAdministration:
    """Carries out requests for objects. Every call raises KafkaError if the request is refused."""

    def __init__(
        self,
        administration: AdminRequests,
        writer: ChangeWriter,
        completion: CompletionConditions,
        local: LocalStore,
        observed: Observed,
        chance: Chance,
        logger: FilteringBoundLogger,
        provisioner: Provisioner,
    ) -> None:
        self._administration = administration
        self._writer = writer
        self._completion = completion
        self._local = local
        self._observed = observed
        self._chance = chance
        self._logger = logger
        self._provisioner = provisioner

    def list(self, kind: str, names: list[str] | None) -> list[tuple[str, Object]]:
        return list_objects(kind, names, self._local)

    async def create(self, kind: str, document: str, timeout_ms: int) -> Object:
        """Creates an object and returns it as it is when it has taken effect, or after the timeout.

        A topic that waits for SPUs has been created all the same. Only a caller that waits for it gets a timeout error.
        """
        wanted = read_object(kind, document)

        def plan(wanted: Object) -> Planned[Object]:
            self._check_group(wanted)
            return plan_creation(wanted, self._local, new_topic_id(self._chance.uuid))

        deadlines = Deadlines(timeout_ms)
        made = await self._write(wanted, plan, deadlines)
        self._logger.info("object_created", key=key_of(made))
        await self._writer.wait_for([self._is_decided(made)], [made], Deadlines(DECISION_MS_MAX))
        if timeout_ms > 0:
            (outcome,) = await self._writer.wait_for([self._has_taken_effect(made)], [made], deadlines)
            if isinstance(outcome, KafkaError):
                raise KafkaError(outcome.code, self._why_late(made, outcome))
        return self._newest(made)

    async def update(self, kind: str, document: str) -> Object:
        wanted = read_object(kind, document)

        def plan(wanted: Object) -> Planned[Object]:
            self._check_group(wanted)
            return plan_update(wanted, self._local, self._observed)

        updated = await self._write(wanted, plan, Deadlines(TIMEOUT_MS))
        self._logger.info("object_updated", key=key_of(updated))
        await self._writer.wait_for([self._is_settled(updated)], [updated], Deadlines(DECISION_MS_MAX))
        return self._newest(updated)

    async def delete(self, kind: str, name: str, *, force: bool) -> None:
        check_kind(kind)
        if kind == "topic":
            (deleted,) = await self._administration.delete_topics([find_topic(name, self._local).id])
            result_or_raise(deleted)
            return

        def plan(name: str) -> Planned[None]:
            return plan_removal(kind, name, self._local, force=force)

        (outcome,) = await self._writer.write([name], plan_each(plan), Deadlines(TIMEOUT_MS))
        result_or_raise(outcome)
        self._logger.info("object_deleted", kind=kind, name=name, force=force)

    async def undelete(self, name_or_id: str) -> Object:
        return await self._administration.undelete_topic(name_or_id)

    def _check_group(self, wanted: Object) -> None:
        """Raises KafkaError if the provisioner could not run the SPUs of this group as its template says."""
        if isinstance(wanted, SpuGroup):
            refusal = self._provisioner.refusal(wanted, self._local.spu_groups.get(wanted.name))
            if refusal is not None:
                raise KafkaError(ErrorCode.INVALID_REQUEST, refusal)

    async def _write(self, wanted: Object, plan: Callable[[Object], Planned[Object]], deadlines: Deadlines) -> Object:
        (outcome,) = await self._writer.write([wanted], plan_each(plan), deadlines)
        if isinstance(outcome, KafkaError):
            raise outcome
        return outcome

    def _newest(self, found: Object) -> Object:
        return self._local.objects.get(key_of(found), found)

    def _is_decided(self, made: Object) -> Condition | None:
        match made:
            case Topic():
                return self._completion.topic_decided(made.id)
            case SpuGroup():
                return self._completion.group_decided(made.name)
            case Trigger():
                return self._completion.trigger_decided(made.name)
            case _:
                return None

    def _is_settled(self, updated: Object) -> Condition | None:
        if isinstance(updated, Topic):
            return self._completion.topic_settled(updated.id, updated.spec.partitions)
        if isinstance(updated, Trigger):
            return self._completion.trigger_decided(updated.name)
        return None

    def _has_taken_effect(self, made: Object) -> Condition | None:
        match made:
            case Topic():
                return self._completion.topic_served(made.id, made.spec.partitions)
            case SpuGroup():
                return self._completion.group_running(made.name)
            case Spu():
                return self._completion.spu_online(made.spec.id)
            case _:
                return None

    def _why_late(self, made: Object, late: KafkaError) -> str:
        now = self._newest(made)
        if isinstance(now, Topic | SpuGroup | Spu) and now.status.reason:
            return f"{late.message}: {now.status.reason}"
        return late.message
