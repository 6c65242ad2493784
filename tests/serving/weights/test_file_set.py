from fnmatch import fnmatchcase

import pytest
from hypothesis import given
from hypothesis import strategies as st

from serving.profiles import known_models, load_model
from serving.weights.file_set import FileSet, RepositoryFile, index_faults, listing_faults, needed_files

KIMI = [
    ".gitattributes", "LICENSE", "README.md", "THIRD_PARTY_NOTICES.md", "chat_template.jinja", "config.json",
    "configuration_deepseek.py", "configuration_kimi_k25.py", "docs/deploy_guidance.md", "figures/demo.png",
    "generation_config.json", "kimi_k25_processor.py", "media_utils.py", "model.safetensors.index.json",
    "modeling_kimi_k25.py", "preprocessor_config.json", "tiktoken.model", "tokenization_kimi.py",
    "tokenizer_config.json", "tool_declaration_ts.py",
    *[f"model-{number:05d}-of-000064.safetensors" for number in range(1, 65)],
]  # fmt: skip


def chosen(paths: list[str]) -> FileSet:
    return needed_files([RepositoryFile(path, 100) for path in paths])


def test_kimi_s_repository_gives_what_vllm_reads_and_leaves_out_the_rest_with_reasons() -> None:
    found = chosen(KIMI)
    assert listing_faults(found, ["tiktoken.model", "*.py"]) == []
    assert set(found.left_out) == {
        ".gitattributes", "LICENSE", "README.md", "THIRD_PARTY_NOTICES.md", "docs/deploy_guidance.md", "figures/demo.png"
    }  # fmt: skip
    assert found.left_out["figures/demo.png"] == "a picture or a document"
    assert found.total_bytes == 100 * (len(KIMI) - 6)


@pytest.mark.parametrize("name", known_models())
def test_what_a_profile_names_is_never_left_out(name: str) -> None:
    files = load_model(name).files
    patterns = [*files.weights, *files.index, *files.config, *files.tokenizer, *files.code, *files.chat_template]
    paths = [pattern.replace("model-*", "model-00001-of-00001").replace("*", "modeling_x") for pattern in patterns]
    found = chosen(paths)
    assert found.left_out == {}
    assert listing_faults(found, patterns) == []
    assert all(any(fnmatchcase(file.path, pattern) for file in found.files) for pattern in patterns)


@pytest.mark.parametrize(
    ("path", "reason"),
    [
        ("pytorch_model-00001-of-00002.bin", "another format"),
        ("pytorch_model.bin.index.json", "index of weights that are left out"),
        ("kimi.Q4_K_M.gguf", "another format"),
        ("original/model.safetensors", "another layout"),
        ("metal/model.bin", "another format"),
        ("consolidated.safetensors", "in one file once more"),
        ("onnx/model.onnx", "another engine"),
        (".dormouse/verified.json", "hidden"),
        ("a/.cache/config.json", "hidden"),
        ("training.parquet", "nothing that vLLM reads"),
    ],
)
def test_doubles_of_the_weights_are_left_out(path: str, reason: str) -> None:
    assert reason in chosen(["model-00001-of-00001.safetensors", path]).left_out[path]


def test_consolidated_weights_are_taken_where_there_are_no_others() -> None:
    found = chosen(["consolidated.safetensors", "config.json", "tekken.json"])
    assert (listing_faults(found), len(found.files)) == ([], 3)


def test_every_missing_piece_is_named_at_once() -> None:
    paths = [
        path for path in KIMI if path not in ("tiktoken.model", "config.json", "model-00007-of-000064.safetensors")
    ]
    faults = {fault.key: str(fault) for fault in listing_faults(chosen(paths), ["tiktoken.model"])}
    assert set(faults) == {"config.json", "tokenizer", "tiktoken.model", "model-*.safetensors"}
    assert "shards 7 of 64 are missing" in faults["model-*.safetensors"]
    only_gguf = listing_faults(chosen(["model.gguf", "config.json", "tokenizer.json"]))
    assert [str(fault) for fault in only_gguf] == [
        "*.safetensors: got only .gguf in the repository; accepted: a repository with safetensors files"
    ]


def test_shards_may_be_counted_from_0() -> None:
    paths = ["config.json", "tokenizer.json", *[f"model-0000{number}-of-00003.safetensors" for number in range(3)]]
    assert listing_faults(chosen(paths)) == []


def test_an_index_is_checked_against_the_listing() -> None:
    found = chosen(KIMI)
    shards = {f"layer.{number}": f"model-{number:05d}-of-000064.safetensors" for number in range(1, 65)}
    index = "model.safetensors.index.json"
    assert found.indexes == (index,)
    assert index_faults(found, index, {"metadata": {"total_size": 6400}, "weight_map": shards}) == []
    (short,) = index_faults(found, index, {"metadata": {"total_size": 6401}, "weight_map": shards})
    assert "shards of 6,400 bytes; accepted: shards of at least the 6,401 bytes" in str(short)
    (missing,) = index_faults(found, index, {"weight_map": {**shards, "x": "model-00065-of-000064.safetensors"}})
    assert "not listed: model-00065-of-000064.safetensors" in str(missing)
    assert "no weight_map" in str(index_faults(found, index, ["no", "index"])[0])


@given(st.text(alphabet="abc/.\\\"\n $'", min_size=1, max_size=12))
def test_a_path_that_a_shell_or_a_folder_could_trip_over_is_a_fault(path: str) -> None:
    found = chosen([f"{path}.json", "config.json", "tokenizer.json", "model.safetensors"])
    refused = bool(listing_faults(found)) or bool(found.left_out)
    harmless = all(
        part and not part.startswith(".") and not set(part) & set("\\\"\n $'") for part in f"{path}.json".split("/")
    )
    assert refused or harmless
