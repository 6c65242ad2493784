"""The engine's command line: the only place that spells the flags and the environment that Dormouse passes.

Written for the version in `data/runtime.toml`; a test checks every flag and value against that version's own list.
Left at vLLM's defaults on purpose: prefix caching and chunked prefill are on, scheduling is asynchronous.
"""

from dataclasses import dataclass
from typing import Protocol

from serving.engine.defaults import generation_config, sampling_defaults
from serving.engine.extra_arguments import given_flags
from serving.engine.loading_arguments import loading_arguments, loading_environment
from serving.errors import ConfigurationError, Fault
from serving.fit.limits import EngineLimits
from serving.loading import LoadingPath, S3Source
from serving.profiles import ModelProfile
from serving.service_plan import ServicePlan

ENGINE_PORT = 8000
WEIGHTS_PATH = "/models"
CACHE_PATH = "/cache"
_IMAGE_FOLDER = "/vllm-workspace"
_ENCODINGS_FOLDER = "encodings"
# Fixed, because all machines of a replica must agree on them.
MASTER_PORT = 29501
_DATA_PARALLEL_PORT = 29550


class EngineLayout(Protocol):
    """How one model is laid out over GPUs; `vision_mode` is `data`, `weights` or `none`."""

    @property
    def tensor_parallel(self) -> int:
        """GPUs that share every layer."""
        ...

    @property
    def pipeline_parallel(self) -> int:
        """Stages that share the layers."""
        ...

    @property
    def data_parallel(self) -> int:
        """Ranks that each serve requests of their own."""
        ...

    @property
    def expert_parallel(self) -> bool:
        """Whether GPUs hold whole experts."""
        ...

    @property
    def decode_context_parallel(self) -> int:
        """Ranks over which the KV cache's tokens are spread."""
        ...

    @property
    def nodes(self) -> int:
        """Machines of the replica."""
        ...

    @property
    def vision_mode(self) -> str:
        """What becomes of the vision tower."""
        ...


@dataclass(frozen=True)
class Node:
    """One machine of a replica: its number, and the address of the first one."""

    rank: int = 0
    first_address: str = "127.0.0.1"


@dataclass(frozen=True)
class EngineOptions:
    """What a plan leaves open.

    - `layout`: None means tensor parallel over the plan's GPUs. `node`: which machine of the layout starts.
    - `extra`: the preset's and the user's own arguments, checked before (`extra_argument_faults`).
    - `s3`: the copy that a plan which streams from S3 reads; needed there and nowhere else.
    - `weights_path`: the folder that holds the models' folders. `image_path`: where vLLM's own templates lie.
    - `address`: where vLLM listens.
    """

    layout: EngineLayout | None = None
    node: Node = Node()
    extra: tuple[str, ...] = ()
    s3: S3Source | None = None
    weights_path: str = WEIGHTS_PATH
    image_path: str = _IMAGE_FOLDER
    address: str = "0.0.0.0"


def engine_arguments(model: ModelProfile, plan: ServicePlan, options: EngineOptions | None = None) -> list[str]:
    """The arguments after `vllm serve`: the weights' folder first, then flags in a fixed order, a user's own last.

    Raises ConfigurationError for a layout that vLLM cannot be told on several machines.
    """
    options = options or EngineOptions()
    limits = plan.memory.limits
    layout = options.layout
    return [
        _weights(model, plan, options),
        f"--served-model-name={model.served_name}",
        f"--host={options.address}",
        f"--port={ENGINE_PORT}",
        *([f"--tensor-parallel-size={plan.memory.tensor_parallel}"] if layout is None else layout_arguments(layout)),
        *([] if layout is None else node_arguments(layout, options.node)),
        *limit_arguments(limits),
        f"--shutdown-timeout={plan.drain_s}",
        *model_arguments(model, None if layout is None else layout.vision_mode),
        *_template_arguments(model, options),
        *loading_arguments(plan.loading, plan.memory.weights_bytes, options.extra),
        *_sampling_arguments(model, options.extra),
        *options.extra,
    ]


def limit_arguments(limits: EngineLimits) -> list[str]:
    """What the plan decides about memory, in the engine's words."""
    return [
        f"--max-model-len={limits.context_tokens}",
        f"--max-num-seqs={limits.max_sequences}",
        f"--max-num-batched-tokens={limits.max_batched_tokens}",
        f"--gpu-memory-utilization={limits.gpu_memory_utilization}",
        f"--kv-cache-dtype={limits.kv_cache_dtype}",
    ]


def calibration_arguments(
    folder: str,
    served_name: str,
    host: str,
    port: int,
    layout: EngineLayout,
    limits: EngineLimits,
    extra: tuple[str, ...] = (),
) -> list[str]:
    """The arguments of a start with random weights, whose only purpose is to be measured."""
    return [
        folder,
        f"--served-model-name={served_name}",
        f"--host={host}",
        f"--port={port}",
        "--load-format=dummy",
        *layout_arguments(layout),
        *limit_arguments(limits),
        *(["--enforce-eager"] if limits.enforce_eager else []),
        *([] if limits.custom_all_reduce else ["--disable-custom-all-reduce"]),
        *([] if limits.block_size is None else [f"--block-size={limits.block_size}"]),
        *extra,
    ]


def model_arguments(model: ModelProfile, vision_mode: str | None = None) -> list[str]:
    """What this model needs: its parsers, its vision tower in `vision_mode` (None: the profile's), its tokenizer."""
    arguments: list[str] = []
    if model.tool_call_parser:
        # Without the second flag vLLM refuses every request whose tool_choice is auto, which is the default.
        arguments += [f"--tool-call-parser={model.tool_call_parser}", "--enable-auto-tool-choice"]
    if model.reasoning_parser:
        arguments.append(f"--reasoning-parser={model.reasoning_parser}")
    if model.vision_parameters:
        mode = vision_mode or model.vision_mode
        arguments.append("--language-model-only" if mode == "none" else f"--mm-encoder-tp-mode={mode}")
    if model.tokenizer_mode != "auto":
        arguments.append(f"--tokenizer-mode={model.tokenizer_mode}")
    if model.trust_remote_code:
        arguments.append("--trust-remote-code")
    return arguments


def layout_arguments(layout: EngineLayout) -> list[str]:
    """The sizes of a layout; those that are 1 are left out, except tensor parallelism."""
    arguments = [f"--tensor-parallel-size={layout.tensor_parallel}"]
    if layout.pipeline_parallel > 1:
        arguments.append(f"--pipeline-parallel-size={layout.pipeline_parallel}")
    if layout.data_parallel > 1:
        arguments.append(f"--data-parallel-size={layout.data_parallel}")
    if layout.decode_context_parallel > 1:
        arguments.append(f"--decode-context-parallel-size={layout.decode_context_parallel}")
    if layout.expert_parallel:
        # Each rank then reads only its own experts from the disk, an eighth of the file on eight GPUs.
        arguments += ["--enable-expert-parallel", "--enable-ep-weight-filter"]
    return arguments


def node_arguments(layout: EngineLayout, node: Node) -> list[str]:
    """What one machine of several must know; nothing on a single one.

    Raises ConfigurationError where data parallel ranks do not lie on whole machines each.
    """
    if layout.nodes == 1:
        return []
    headless = ["--headless"] if node.rank else []
    if layout.data_parallel == 1:
        return [
            f"--nnodes={layout.nodes}",
            f"--node-rank={node.rank}",
            f"--master-addr={node.first_address}",
            f"--master-port={MASTER_PORT}",
            *headless,
        ]
    if layout.data_parallel % layout.nodes:
        raise ConfigurationError(
            [
                Fault(
                    "data parallel size",
                    f"{layout.data_parallel} over {layout.nodes} machines",
                    f"a multiple of {layout.nodes}, so that every rank lies on one machine; or data parallel size 1",
                )
            ],
            "the layout",
        )
    local = layout.data_parallel // layout.nodes
    first = [f"--data-parallel-start-rank={node.rank * local}"] if node.rank else []
    return [
        f"--data-parallel-size-local={local}",
        *first,
        f"--data-parallel-address={node.first_address}",
        f"--data-parallel-rpc-port={_DATA_PARALLEL_PORT}",
        *headless,
    ]


def engine_environment(plan: ServicePlan, s3: S3Source | None = None, cache_path: str = CACHE_PATH) -> dict[str, str]:
    """Environment of the vLLM process, without the API key; every cache lies below `cache_path`."""
    return {
        # The weights are on the volume; a missing file must fail at once, not start a download.
        "HF_HUB_OFFLINE": "1",
        "TRANSFORMERS_OFFLINE": "1",
        "HF_HOME": f"{cache_path}/huggingface",
        "VLLM_CACHE_ROOT": f"{cache_path}/vllm",
        "HUMMING_CACHE_DIR": f"{cache_path}/humming",
        "TRITON_CACHE_DIR": f"{cache_path}/triton",
        "TORCHINDUCTOR_CACHE_DIR": f"{cache_path}/inductor",
        "FLASHINFER_WORKSPACE_BASE": f"{cache_path}/flashinfer",
        # The engine's own patience is 600 s by default, shorter than a load from a slow volume.
        "VLLM_ENGINE_READY_TIMEOUT_S": str(plan.startup_window_s),
        "VLLM_NO_USAGE_STATS": "1",
        "DO_NOT_TRACK": "1",
        **loading_environment(plan.loading, s3, cache_path),
    }


def model_environment(model: ModelProfile, weights_path: str = WEIGHTS_PATH) -> dict[str, str]:
    """What this model's chat format needs beside `engine_environment`."""
    if not model.encodings:
        return {}
    return {"TIKTOKEN_ENCODINGS_BASE": f"{weights_path}/{model.name}/{_ENCODINGS_FOLDER}"}


def encoding_files(model: ModelProfile) -> tuple[str, ...]:
    """Files in the model's folder that its chat format reads at start and that its repository does not hold."""
    return tuple(f"{_ENCODINGS_FOLDER}/{name}" for name in model.encodings)


def start_notes(model: ModelProfile) -> tuple[str, ...]:
    """In words what must be done by hand before the first start; nothing where the model's own files do."""
    if not model.encodings:
        return ()
    files = ", ".join(model.encodings)
    return (
        (
            f"Before the first start, put {files} into {weights_folder(model)}/{_ENCODINGS_FOLDER} on the weight volume:"
            f" {model.title}'s chat format reads it, its repository does not hold it, and without it the server ends at start"
            " (docs/will-it-fit.md says from where)."
        ),
    )


def weights_folder(model: ModelProfile) -> str:
    """Where the model's files lie inside the pod."""
    return f"{WEIGHTS_PATH}/{model.name}"


def _weights(model: ModelProfile, plan: ServicePlan, options: EngineOptions) -> str:
    """The folder in the pod, or the address that the streamer reads; raises ConfigurationError where it is missing."""
    if plan.loading is not LoadingPath.S3_STREAMER:
        return f"{options.weights_path}/{model.name}"
    if options.s3 is None:
        raise ConfigurationError(
            [Fault("loading path", plan.loading, "a regional copy in S3 to stream from (weightsS3Copy: true)")],
            "the engine's arguments",
        )
    return options.s3.uri


def _template_arguments(model: ModelProfile, options: EngineOptions) -> list[str]:
    """The template of vLLM's image that the model's tool calls need, unless the user names one."""
    if not model.chat_template or "--chat-template" in given_flags(options.extra):
        return []
    return [f"--chat-template={options.image_path}/{model.chat_template}"]


def _sampling_arguments(model: ModelProfile, extra: tuple[str, ...]) -> list[str]:
    """The maker's sampling defaults, unless the user's own arguments decide them or the profile has none."""
    sampling = sampling_defaults(model)
    if sampling is None or given_flags(extra) & {"--override-generation-config", "--generation-config"}:
        return []
    return [f"--override-generation-config={generation_config(sampling)}"]
