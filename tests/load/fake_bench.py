#!/usr/bin/env python3
"""A program that stands in for `vllm bench serve`: takes its arguments, makes figures up, writes its result file.

Simulated: FAKE_BENCH names a folder; `plan.json` in it says what to do, and every call is noted in `calls.jsonl`.
"""

import itertools
import json
import os
import sys
import time
from pathlib import Path

folder = Path(os.environ["FAKE_BENCH"])
plan = json.loads((folder / "plan.json").read_text())
words = sys.argv[1:]
with (folder / "calls.jsonl").open("a") as calls:
    calls.write(json.dumps({"argv": words, "key": os.environ.get("OPENAI_API_KEY"), "pid": os.getpid()}) + "\n")
flags = dict(itertools.pairwise(words))
level = float(flags.get("--max-concurrency") or flags["--request-rate"])
if "exit" in plan:
    print("Traceback (most recent call last):")
    print(plan["says"])
    sys.exit(plan["exit"])
if level in plan.get("hang", []):
    print(" 25%|## | 2/8 [00:01<00:03,  1.80it/s]", end="\r", flush=True)
    time.sleep(60)
requests = int(flags["--num-prompts"])
failed = requests if plan.get("failing") else 0
rate = plan["throughput"][str(int(level))]
latency = {"ttft": plan["ttft"][str(int(level))], "tpot": 20.0, "itl": 21.0, "e2el": 900.0}
result = {
    "completed": requests - failed, "failed": failed, "duration": 8.0, "request_throughput": rate / 256,
    "output_throughput": rate, "total_token_throughput": rate * 5, "total_input_tokens": 1024 * requests,
    "total_output_tokens": 256 * requests,
    **{f"p{rank}_{name}_ms": value * rank / 95 for name, value in latency.items() for rank in (50, 90, 95, 99)},
}  # fmt: skip
(Path(flags["--result-dir"]) / flags["--result-filename"]).write_text(json.dumps(result))
