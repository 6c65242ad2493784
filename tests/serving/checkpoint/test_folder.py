"""Real files in a folder: headers give the bytes, and broken files are named."""

import json
import math
import struct

import pytest

from serving.checkpoint.loader import model_from_config, model_from_folder
from serving.checkpoint.report import bytes_by_kind
from serving.checkpoint.safetensors import TYPE_BITS
from serving.checkpoint.stored import stored_names, stored_parts
from serving.checkpoint.weights import Kind
from serving.errors import ConfigurationError
from tests.serving.checkpoint.configs import SMALL_DENSE, SMALL_GPT_OSS, SMALL_INT4, SMALL_LATENT


def write_file(path, tensors):
    """A safetensors file of `tensors`: name -> (type, shape)."""
    header, end = {"__metadata__": {"format": "pt"}}, 0
    for name, (word, shape) in tensors.items():
        size = math.prod(shape) * TYPE_BITS[word] // 8
        header[name] = {"dtype": word, "shape": shape, "data_offsets": [end, end + size]}
        end += size
    raw = json.dumps(header).encode()
    path.write_bytes(struct.pack("<Q", len(raw)) + raw + bytes(end))


def tensors_of(config, plain="BF16"):
    words = {16: plain, 32: "F32", 8: "F8_E4M3", 4: "U8"}
    found = {}
    for tensor in model_from_config("m", config, source="test").tensors:
        for part in stored_parts(tensor):
            word = words[tensor.storage.bits] if part.role == "weight" else "U8"
            for name in stored_names(tensor, part.suffix):
                found[name] = (word, [part.total_bytes * 8 // TYPE_BITS[word if word != plain else "BF16"]])
                if part.role == "scale" and tensor.storage.scale_bytes > 1:
                    scale = {2: "BF16", 4: "F32"}[tensor.storage.scale_bytes]
                    found[name] = (scale, [part.total_bytes // tensor.storage.scale_bytes])
                if part.suffix == ".weight_shape":
                    found[name] = ("I32", [2])
    return found


def write_folder(path, config, tensors, shards=1):
    (path / "config.json").write_text(json.dumps(config))
    names = list(tensors)
    files = [f"model-{n + 1:05d}-of-{shards:05d}.safetensors" for n in range(shards)]
    for number, file in enumerate(files):
        write_file(path / file, {name: tensors[name] for name in names[number::shards]})
    return files


@pytest.mark.parametrize("config", [SMALL_DENSE, SMALL_LATENT, SMALL_INT4, SMALL_GPT_OSS])
def test_the_files_bytes_are_the_models(tmp_path, config):
    expected = model_from_config("m", config, source="test")
    files = write_folder(tmp_path, config, tensors_of(config), shards=3)

    model = model_from_folder(tmp_path)

    headers = sum(8 + struct.unpack("<Q", (tmp_path / file).read_bytes()[:8])[0] for file in files)
    assert model.total_bytes == sum((tmp_path / file).stat().st_size for file in files) - headers
    assert bytes_by_kind(model) == bytes_by_kind(expected)
    assert model.source.endswith("headers of 3 files")


def test_types_in_the_files_win_over_the_config(tmp_path):
    tensors = tensors_of(SMALL_DENSE)
    tensors["model.norm.weight"] = ("F32", [64])
    tensors["model.layers.0.self_attn.q_norm.weight"] = ("F32", [16])
    tensors["model.layers.1.self_attn.q_norm.weight"] = ("F32", [16])
    write_folder(tmp_path, SMALL_DENSE, tensors)
    plain = bytes_by_kind(model_from_config("m", SMALL_DENSE, source="test"))
    found = bytes_by_kind(model_from_folder(tmp_path))
    assert found[Kind.NORMS] - plain[Kind.NORMS] == 64 * 2
    assert found[Kind.ATTENTION] - plain[Kind.ATTENTION] == 2 * 16 * 2


def test_scales_and_shapes_of_another_width(tmp_path):
    tensors = tensors_of(SMALL_INT4)
    for name, (word, shape) in list(tensors.items()):
        if name.endswith("weight_scale"):
            tensors[name] = ("F32", shape)
        elif name.endswith("weight_shape"):
            tensors[name] = ("I64", [2])
        else:
            tensors[name] = (word, shape)
    write_folder(tmp_path, SMALL_INT4, tensors)
    model = model_from_folder(tmp_path)
    assert model.total_bytes == sum(math.prod(shape) * TYPE_BITS[word] // 8 for word, shape in tensors.values())


def test_scales_of_fp8_blocks_in_bf16(tmp_path):
    tensors = tensors_of(SMALL_LATENT)
    for name, (_, shape) in list(tensors.items()):
        if name.endswith("weight_scale_inv"):
            tensors[name] = ("BF16", shape)
    write_folder(tmp_path, SMALL_LATENT, tensors)
    model = model_from_folder(tmp_path)
    assert model.total_bytes == sum(math.prod(shape) * TYPE_BITS[word] // 8 for word, shape in tensors.values())
    assert model.total_bytes < model_from_config("m", SMALL_LATENT, source="test").total_bytes


def test_rotary_tables_in_the_files(tmp_path):
    tensors = tensors_of(SMALL_INT4)
    before = sum(math.prod(shape) * TYPE_BITS[word] // 8 for word, shape in tensors.values())
    for layer in range(2):
        tensors[f"model.layers.{layer}.self_attn.rotary_emb.inv_freq"] = ("F32", [64])
    write_folder(tmp_path, SMALL_INT4, tensors)
    assert model_from_folder(tmp_path).total_bytes == before + 2 * 256


def broken(tmp_path, config=SMALL_DENSE):
    with pytest.raises(ConfigurationError) as raised:
        model_from_folder(tmp_path)
    return str(raised.value)


def test_another_shape_is_named_with_both_sizes(tmp_path):
    tensors = tensors_of(SMALL_DENSE)
    tensors["model.layers.1.self_attn.k_proj.weight"] = ("BF16", [31, 64])
    write_folder(tmp_path, SMALL_DENSE, tensors)
    said = broken(tmp_path)
    assert "model.layers.1.self_attn.k_proj.weight: got 3,968 bytes, BF16 [31, 64]" in said
    assert "4,096 bytes: 32 × 64 as bf16" in said


@pytest.mark.parametrize(
    ("spoil", "said"),
    [
        (lambda raw: raw[:5], "5 bytes, of which the header alone claims"),
        (lambda raw: raw[:100], "100 bytes, of which the header alone claims"),
        (lambda raw: raw[:-1], "bytes of weights, cut off"),
        (lambda raw: raw + b"x", "bytes of weights, too long"),
        (lambda raw: b"", "0 bytes"),
        (lambda raw: b"\xff" * 64, "of which the header alone claims 18,446,744,073,709,551,615"),
        (lambda raw: b"version https://git-lfs.github.com/spec/v1\noid sha256:4d7a\nsize 99\n", "a Git LFS pointer"),
        (lambda raw: struct.pack("<Q", 4) + b"nope", "a header that is no JSON"),
        (lambda raw: struct.pack("<Q", 2) + b"[]", "a header that is []"),
        (lambda raw: struct.pack("<Q", 9) + b'{"a": {}}', "a of type null"),
        (lambda raw: raw.replace(b"BF16", b"BF17", 1), "of type BF17"),
        (lambda raw: raw.replace(b"[128, 64]", b"[128, 65]", 1), "16,640 bytes, as BF16 of [128, 65] has"),
    ],
)
def test_a_broken_file_is_named(tmp_path, spoil, said):
    tensors = tensors_of(SMALL_DENSE)
    tensors["lm_head.weight"] = ("BF16", [128, 64])
    (file,) = write_folder(tmp_path, SMALL_DENSE, tensors)
    (tmp_path / file).write_bytes(spoil((tmp_path / file).read_bytes()))
    found = broken(tmp_path)
    assert file in found
    assert said in found


def test_missing_files_are_named_with_and_without_an_index(tmp_path):
    tensors = tensors_of(SMALL_DENSE)
    files = write_folder(tmp_path, SMALL_DENSE, tensors, shards=3)
    (tmp_path / files[1]).unlink()
    assert f"without 1 of 3 files: {files[1]}" in broken(tmp_path)
    (tmp_path / files[0]).unlink()
    index = {"weight_map": {name: files[n % 3] for n, name in enumerate(tensors)}}
    (tmp_path / "model.safetensors.index.json").write_text(json.dumps(index))
    assert f"without 2 of 3 files: {files[0]}, {files[1]}" in broken(tmp_path)


def test_an_index_that_promises_more_than_the_files_hold(tmp_path):
    tensors = tensors_of(SMALL_DENSE)
    (file,) = write_folder(tmp_path, SMALL_DENSE, tensors)
    index = {"weight_map": dict.fromkeys([*tensors, "model.extra.weight"], file)}
    (tmp_path / "model.safetensors.index.json").write_text(json.dumps(index))
    assert "1 tensors that no file holds, such as model.extra.weight" in broken(tmp_path)


def test_an_empty_folder(tmp_path):
    (tmp_path / "config.json").write_text(json.dumps(SMALL_DENSE))
    assert "a folder without *.safetensors" in broken(tmp_path)
