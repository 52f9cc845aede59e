"""ApiVersions, versions 0–4: what the server answers, made from its table of APIs.

It is the first request of every client. A version that the server does not know gets UNSUPPORTED_VERSION in a response
of version 0, which lists only this API, so that a newer client can ask again in a version that the server knows. From
v3 on, a client names its software, which metrics and logs then show.

v3 and later have feature levels. v3 cannot express a level that begins at zero, so that such features are left out, as
in Kafka.
"""

import re
from collections.abc import Mapping

from tailrace.protocol.apis import FEATURES, Api, ApiKey
from tailrace.protocol.error_codes import ErrorCode
from tailrace.protocol.messages.api_versions import (
    ApiVersion,
    ApiVersionsRequest,
    ApiVersionsResponse,
    FinalizedFeatureKey,
    SupportedFeatureKey,
)
from tailrace.server.host import Host
from tailrace.server.request_context import RequestContext

SOFTWARE_NAME_FROM = 3
LEVEL_ZERO_FROM = 4
FEATURES_EPOCH = 0
"""The epoch of the feature levels. It never rises, because the levels cannot be changed."""
_SOFTWARE = re.compile(r"[A-Za-z0-9](?:[A-Za-z0-9.-]*[A-Za-z0-9])?")
_SOFTWARE_CHARACTERS_MAX = 64


def handle(host: Host, context: RequestContext, request: ApiVersionsRequest) -> ApiVersionsResponse:
    if context.api_version >= SOFTWARE_NAME_FROM:
        name, version = request.client_software_name, request.client_software_version
        if not _SOFTWARE.fullmatch(name) or not _SOFTWARE.fullmatch(version):
            return ApiVersionsResponse(error_code=ErrorCode.INVALID_REQUEST)
        context.client.software_name = name[:_SOFTWARE_CHARACTERS_MAX]
        context.client.software_version = version[:_SOFTWARE_CHARACTERS_MAX]
    return ApiVersionsResponse(
        api_keys=[_advertised(api) for api in host.apis.values()],
        supported_features=[
            SupportedFeatureKey(each.name, each.min_level, each.max_level)
            for each in FEATURES
            if each.min_level > 0 or context.api_version >= LEVEL_ZERO_FROM
        ],
        finalized_features_epoch=FEATURES_EPOCH,
        finalized_features=[
            FinalizedFeatureKey(each.name, each.finalized_level, each.finalized_level) for each in FEATURES
        ],
    )


def refuse_version(apis: Mapping[int, Api]) -> ApiVersionsResponse:
    """Makes the response to a version that is not in the table."""
    return ApiVersionsResponse(
        error_code=ErrorCode.UNSUPPORTED_VERSION, api_keys=[_advertised(apis[ApiKey.API_VERSIONS])]
    )


def _advertised(api: Api) -> ApiVersion:
    return ApiVersion(api_key=api.key, min_version=api.min_version_advertised, max_version=api.max_version)
