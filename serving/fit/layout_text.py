"""A layout as people write it: `TP8`, `DP8+EP`, `PP2×TP8`, `TP8+DCP8`."""

import re

from serving.errors import ConfigurationError, Fault
from serving.fit.layout import Layout, VisionMode

ACCEPTED = "sizes such as TP8, DP8+EP, PP2xTP8 or TP8+DCP8, each named once"


def layout_from_text(text: str, vision_mode: VisionMode = "none") -> Layout:
    """The layout that `text` names, on one machine; raises ConfigurationError where it names none."""
    sizes: dict[str, int] = {}
    expert_parallel = False
    words = [word for word in re.split(r"[+×x*,\s]+", text.strip(), flags=re.IGNORECASE) if word]
    for word in words:
        found = re.fullmatch(r"(TP|PP|DP|DCP)(\d{1,4})", word.upper())
        if word.upper() == "EP" and not expert_parallel:
            expert_parallel = True
        elif found and found[1] not in sizes and int(found[2]) > 0:
            sizes[found[1]] = int(found[2])
        else:
            raise ConfigurationError([Fault("--layout", repr(text), ACCEPTED)], "the command line")
    if not sizes:
        raise ConfigurationError([Fault("--layout", repr(text), ACCEPTED)], "the command line")
    return Layout(
        tensor_parallel=sizes.get("TP", 1),
        pipeline_parallel=sizes.get("PP", 1),
        data_parallel=sizes.get("DP", 1),
        decode_context_parallel=sizes.get("DCP", 1),
        expert_parallel=expert_parallel,
        vision_mode=vision_mode,
    )
