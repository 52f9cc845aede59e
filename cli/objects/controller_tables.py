"""Formats the leader and follower controllers of an SPU as fields, tables and documents."""

from tailrace.cli.objects.spu_controllers import Controllers
from tailrace.cli.output.tables import table
from tailrace.client.sc_client import Document


def controller_fields(controllers: Controllers) -> list[tuple[str, object]]:
    """Formats the number of controllers, or the reason why they are unknown."""
    if isinstance(controllers, str):
        return [("Controllers", f"unknown: {controllers}")]
    return [
        ("Data directory", controllers.log_directory),
        ("Leader controllers", controllers.leader_controllers),
        ("Follower controllers", len(controllers.follower_controllers)),
    ]


def controller_tables(controllers: Controllers) -> list[str]:
    """Formats the SPUs that this SPU follows, and those that follow it; an empty table is left out."""
    if isinstance(controllers, str):
        return []
    tables = []
    if controllers.follower_controllers:
        rows = [
            (each.leader_id, each.replicas, _linked(each.is_linked), each.dialled_links)
            for each in controllers.follower_controllers
        ]
        tables.append(table(("FOLLOWS SPU", "REPLICAS", "LINKED", "LINKS MADE"), rows))
    if controllers.followers:
        followers = [
            (each.spu_id, each.replicas, _linked(each.is_linked), each.waiting_records)
            for each in controllers.followers
        ]
        tables.append(table(("FOLLOWED BY SPU", "REPLICAS", "LINKED", "WAITING RECORDS"), followers))
    return tables


def controllers_document(controllers: Controllers) -> Document:
    """Makes a document of an SPU's controllers."""
    if isinstance(controllers, str):
        return {"error": controllers}
    return {
        "logDirectory": controllers.log_directory,
        "leaderControllers": controllers.leader_controllers,
        "followerControllers": [
            {
                "leader": each.leader_id,
                "replicas": each.replicas,
                "isLinked": each.is_linked,
                "dialledLinks": each.dialled_links,
            }
            for each in controllers.follower_controllers
        ],
        "followers": [
            {
                "spuId": each.spu_id,
                "replicas": each.replicas,
                "isLinked": each.is_linked,
                "waitingRecords": each.waiting_records,
            }
            for each in controllers.followers
        ],
    }


def _linked(is_linked: bool) -> str:
    return "yes" if is_linked else "no"
