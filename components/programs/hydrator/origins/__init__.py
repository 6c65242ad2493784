"""Who has the files: the Hugging Face hub, ModelScope, S3."""

from components.programs.hydrator.listing import Origin
from components.programs.hydrator.origins.hugging_face import HuggingFace
from components.programs.hydrator.origins.model_scope import ModelScope
from components.programs.hydrator.origins.s3 import S3Origin
from components.programs.hydrator.s3.client import S3Client
from components.programs.hydrator.settings import Settings
from components.programs.hydrator.transport import Transport
from serving.weights.sources import SourceKind


def origin_of(settings: Settings, transport: Transport) -> Origin:
    """The origin of the settings' source."""
    source = settings.source
    assert source is not None, "the mode needs a source"
    if source.kind is SourceKind.S3:
        return S3Origin(source, S3Client(transport, settings.region, settings.s3_endpoint))
    if source.kind is SourceKind.MODEL_SCOPE:
        return ModelScope(source, settings.model_scope_endpoint, transport)
    return HuggingFace(source, settings.hub_endpoint, settings.token, transport)
