"""The engine's command line: the only place that spells vLLM's flags and environment.

Written for the version in `data/runtime.toml`; a test checks every flag against that version's own list.
"""

from serving.profiles import ModelProfile
from serving.service_plan import ServicePlan

ENGINE_PORT = 8000
WEIGHTS_PATH = "/models"
CACHE_PATH = "/cache"


def engine_arguments(model: ModelProfile, plan: ServicePlan) -> list[str]:
    """The arguments after `vllm serve`: the weights' folder first, then flags, in a fixed order."""
    limits = plan.memory.limits
    arguments = [
        weights_folder(model),
        f"--served-model-name={model.served_name}",
        "--host=0.0.0.0",
        f"--port={ENGINE_PORT}",
        f"--tensor-parallel-size={plan.memory.tensor_parallel}",
        f"--max-model-len={limits.context_tokens}",
        f"--max-num-seqs={limits.max_sequences}",
        f"--max-num-batched-tokens={limits.max_batched_tokens}",
        f"--gpu-memory-utilization={limits.gpu_memory_utilization}",
        f"--kv-cache-dtype={limits.kv_cache_dtype}",
        f"--shutdown-timeout={plan.drain_s}",
        f"--tool-call-parser={model.tool_call_parser}",
        "--enable-auto-tool-choice",
        f"--reasoning-parser={model.reasoning_parser}",
    ]
    if model.vision_parameters:
        arguments.append(f"--mm-encoder-tp-mode={model.vision_mode}")
    if model.trust_remote_code:
        arguments.append("--trust-remote-code")
    return arguments


def engine_environment(plan: ServicePlan) -> dict[str, str]:
    """Environment of the vLLM container, without the API key; every cache lies on the weight volume."""
    return {
        # The weights are on the volume; a missing file must fail at once, not start a download.
        "HF_HUB_OFFLINE": "1",
        "TRANSFORMERS_OFFLINE": "1",
        "HF_HOME": f"{CACHE_PATH}/huggingface",
        "VLLM_CACHE_ROOT": f"{CACHE_PATH}/vllm",
        "HUMMING_CACHE_DIR": f"{CACHE_PATH}/humming",
        "TRITON_CACHE_DIR": f"{CACHE_PATH}/triton",
        "TORCHINDUCTOR_CACHE_DIR": f"{CACHE_PATH}/inductor",
        "FLASHINFER_WORKSPACE_BASE": f"{CACHE_PATH}/flashinfer",
        # The engine's own patience is 600 s by default, shorter than a load from a slow volume.
        "VLLM_ENGINE_READY_TIMEOUT_S": str(plan.startup_window_s),
        "VLLM_NO_USAGE_STATS": "1",
        "DO_NOT_TRACK": "1",
    }


def weights_folder(model: ModelProfile) -> str:
    """Where the model's files lie inside the pod."""
    return f"{WEIGHTS_PATH}/{model.name}"
