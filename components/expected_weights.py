"""What a server's volumes have to hold before it starts, read from a component's arguments."""

from components._inputs import Arguments
from serving.errors import ConfigurationError
from serving.profiles import known_models, load_model
from serving.weights.sources import WeightSource, parse_source


def expected_source(given: Arguments) -> WeightSource | None:
    """The source by `model`, `weights_source` and `weights_revision`; None for any proven weights of the model.

    A source that cannot be read is noted in `given`.
    """
    text, model = given.optional_text("weights_source"), given.optional_text("model")
    if text is None or model not in known_models():
        return None
    try:
        return parse_source(text, load_model(model).repository, given.optional_text("weights_revision") or "")
    except ConfigurationError as wrong:
        given.fault("weights_source", "; ".join(str(fault) for fault in wrong.faults))
        return None
