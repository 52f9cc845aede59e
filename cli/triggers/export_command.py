"""`tailrace trigger export NAME`: prints a deployed trigger as a file in Nuclio's shape, from which it can be deployed.

The file has every setting, and the source of the function inside. An access key is not printed: the file refers to the
environment variable in which Nuclio has it.
"""

import argparse
import base64
import os

import yaml
from msgspec.structs import replace

from tailrace.cli.options.sc_options import Command, say, show_documents
from tailrace.client.sc_client import Document, ScClient
from tailrace.client.server_connection import UnreachableError
from tailrace.trigger.config.function_document import function_document
from tailrace.trigger.config.trigger_settings import TriggerConfigError
from tailrace.trigger.config.trigger_yaml import GENERATED_KEY, KEY_VARIABLE
from tailrace.trigger.functions.deployed_function import KIND, DeployedFunction, read_deployed

from .trigger_commands import name_option

_NAME = "trigger export"
_OTHER_MODULE = "main"
"""The name of the module if the name of its file cannot be one."""


async def _export(client: ScClient, arguments: argparse.Namespace) -> None:
    (stored,) = await client.list_objects(KIND, [arguments.name])
    try:
        deployed = read_deployed(stored)
    except TriggerConfigError as error:
        raise UnreachableError(f"the SC sent a trigger that this version cannot read: {error}") from error
    if deployed.config.access_key is not None:
        say(_NAME, f"the access key is not in the file: set {KEY_VARIABLE} where you deploy it")
    document = exported(deployed)
    show_documents(arguments, document, lambda: yaml.safe_dump(document, sort_keys=False, width=120).rstrip("\n"))


def exported(deployed: DeployedFunction) -> Document:
    """Returns the document of a deployed trigger, with its source and without its access key."""
    config, source = deployed.config, deployed.source
    if config.access_key is not None:
        config = replace(config, access_key=GENERATED_KEY)
    stem = os.path.splitext(os.path.basename(source.path))[0]
    module = stem if stem.replace("-", "_").isidentifier() else _OTHER_MODULE
    document = function_document(config, f"{module}:{source.handler or 'handler'}")
    document["spec"]["build"] = {"functionSourceCode": base64.b64encode((source.source or "").encode()).decode()}
    return document


COMMANDS = {"export": Command(_NAME, name_option, _export)}
