"""Lines of real starts: vLLM 0.26.0 on an H200 (Qwen3-32B at utilisation 0.99, Kimi's TP8 rank) and 0.32 on a CPU."""

QWEN = """\
(EngineCore pid=5322) INFO 11-29 15:29:46 [core.py:116] Initializing a V1 LLM engine (v0.26.0) with config: model='/m'
(EngineCore pid=5322) INFO 11-29 15:29:48 [cuda.py:482] Using FLASH_ATTN attention backend out of potential backends: ['FLASH_ATTN', 'TRITON_ATTN', 'FLEX_ATTENTION'].
(EngineCore pid=5322) INFO 11-29 15:29:50 [model_runner.py:305] Model loading took 61.03 GiB and 2.321611 seconds
(EngineCore pid=5322) INFO 11-29 15:30:32 [monitor.py:53] torch.compile took 42.12 s in total
(EngineCore pid=5322) INFO 11-29 15:30:36 [gpu_worker.py:560] Available KV cache memory: 75.54 GiB
(EngineCore pid=5322) INFO 11-29 15:30:36 [kv_cache_utils.py:2177] GPU KV cache size: 309,392 tokens
(EngineCore pid=5322) INFO 11-29 15:30:36 [kv_cache_utils.py:2178] Maximum concurrency for 40,960 tokens per request: 7.55x
(EngineCore pid=5322) INFO 11-29 15:30:47 [model_runner.py:747] Graph capturing finished in 11 secs, took 1.30 GiB
(EngineCore pid=5322) INFO 11-29 15:30:47 [gpu_worker.py:857] Free memory on device (139.29/139.8 GiB) on startup. Desired GPU memory utilization is (0.99, 138.4 GiB). Actual usage is 61.03 GiB for weight, 1.61 GiB for peak activation, 0.22 GiB for non-torch memory, and 1.3 GiB for CUDAGraph memory.
(EngineCore pid=5322) INFO 11-29 15:31:05 [core.py:340] init engine (profile, create kv cache, warmup model) took 75.47 s (compilation: 42.12 s)
"""

TWO_RANKS = """\
(Worker_TP0 pid=1) INFO 11-29 13:25:44 [int_wna16.py:206] Using 'MARLIN' WNA16 MoE backend.
(Worker_TP0 pid=1) INFO 11-29 13:25:47 [gpu_model_runner.py:5347] Model loading took 71.1 GiB memory and 3.641943 seconds
(Worker_TP1 pid=2) INFO 11-29 13:25:48 [gpu_model_runner.py:5347] Model loading took 71.12 GiB memory and 4.5 seconds
(Worker_TP0 pid=1) INFO 11-29 13:27:44 [gpu_worker.py:560] Available KV cache memory: 53.7 GiB
(Worker_TP1 pid=2) INFO 11-29 13:27:44 [gpu_worker.py:560] Available KV cache memory: 53.69 GiB
(EngineCore pid=3) INFO 11-29 13:27:45 [kv_cache_utils.py:2327] GPU KV cache size: 1,640,896 tokens, Maximum concurrency for 262,144 tokens per request: 6.26x
(Worker_TP0 pid=1) INFO 11-29 13:28:20 [gpu_model_runner.py:6845] Graph capturing finished in 35 secs, took 1.37 GiB
(Worker_TP0 pid=1) INFO 11-29 13:28:20 [gpu_worker.py:794] CUDA graph pool memory: 1.37 GiB (actual), 1.04 GiB (estimated), difference: 0.33 GiB (24.1%).
(Worker_TP0 pid=1) INFO 11-29 13:28:20 [gpu_worker.py:857] Free memory on device (137.86/139.8 GiB) on startup. Actual usage is 71.3 GiB for consumed memory (weights + non-torch), 2.6 GiB for peak activation, and 1.37 GiB for CUDAGraph memory.
"""

ON_CPU = """\
(EngineCore pid=7413) INFO 11-29 12:35:47 [core.py:133] Initializing a V1 LLM engine (v0.32.0) with config: model='m/k2'
(EngineCore pid=7413) INFO 11-29 12:35:47 [cpu.py:175] Using CPU_MLA backend.
(EngineCore pid=7413) INFO 11-29 12:35:48 [cpu_worker.py:260] Explicitly set (1.0/11.09) GiB for KV cache on node 0.
(EngineCore pid=7413) INFO 11-29 12:35:48 [kv_cache_utils.py:2327] CPU KV cache size: 466,032 tokens, Maximum concurrency for 2,048 tokens per request: 227.55x
(EngineCore pid=7413) INFO 11-29 12:35:48 [core.py:402] init engine (profile, create kv cache, warmup model) took 0.21 s
"""

OUT_OF_MEMORY = """\
(EngineCore pid=851) ERROR 11-29 13:27:45 [core.py:1330] EngineCore failed to start.
(EngineCore pid=851) ERROR 11-29 13:27:45 [core.py:1330] torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 1.31 GiB.
RuntimeError: Engine core initialization failed. See root cause above. Failed core proc(s): {}
"""
