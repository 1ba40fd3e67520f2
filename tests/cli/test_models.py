"""Models from the command line: text, JSON, profiles, vectors, and what is in a file."""

from __future__ import annotations

import io
import json
import signal
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace

import gguf
import numpy as np
import pytest

from mlx_native_py.bench import decode, decode_peers
from mlx_native_py.cli import main as cli
from mlx_native_py.models import generate, load, prompt_ids
from mlx_native_py.models.tiny import write_tiny

pytestmark = pytest.mark.soft
Captured = pytest.CaptureFixture[str]


@pytest.fixture(scope="module")
def llama(tmp_path_factory: pytest.TempPathFactory) -> str:
    return str(write_tiny(tmp_path_factory.mktemp("llama")))


@pytest.fixture(scope="module")
def bert(tmp_path_factory: pytest.TempPathFactory) -> str:
    return str(write_tiny(tmp_path_factory.mktemp("bert"), "bert"))


def test_generate(llama: str, capsys: Captured) -> None:
    assert cli.main(["generate", "Hi", "--raw", "--model", llama, "--max-tokens", "6"]) == 0
    out, err = capsys.readouterr()
    assert out == generate(*load(llama), "Hi", max_tokens=6) + "\n"
    assert "generation: 6 tokens" in err and "ended by: length" in err


def test_generate_as_json(llama: str, capsys: Captured) -> None:
    arguments = [
        "generate",
        "Hi",
        "--raw",
        "--model",
        llama,
        "--max-tokens",
        "6",
        "--json",
        "--temp",
        "1",
        "--seed",
        "5",
    ]
    assert cli.main(arguments) == 0
    parsed = json.loads(capsys.readouterr().out)
    assert list(parsed) == ["prompt_ids", "ids", "text", "prompt_tps", "generation_tps"]
    model, tokenizer = load(llama)
    assert parsed["prompt_ids"] == tokenizer.encode("Hi") and len(parsed["ids"]) == 6
    assert parsed["text"] == generate(model, tokenizer, "Hi", max_tokens=6, temperature=1.0, seed=5)
    assert parsed["prompt_tps"] > 0 and parsed["generation_tps"] > 0


def test_every_option_of_sampling_counts(llama: str, capsys: Captured) -> None:
    first = ["generate", "Hi", "--model", llama, "--json", "--max-tokens", "12", "--temperature", "3"]
    options = [[], ["--top-k", "1"], ["--top-p", "0.01"], ["--min-p", "0.9"], ["--repetition-penalty", "9"]]
    texts = []
    for more in [*options, ["--seed", "9"]]:
        assert cli.main([*first, *more]) == 0
        texts.append(str(json.loads(capsys.readouterr().out)["ids"]))
    assert all(text != texts[0] for text in texts[1:])
    assert texts[1] == texts[2]


def test_chat_and_standard_input(llama: str, capsys: Captured, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "stdin", io.StringIO("Hi"))
    assert cli.main(["generate", "-", "--chat", "--model", llama, "--max-tokens", "1", "--json"]) == 0
    expected = prompt_ids(load(llama)[1], [{"role": "user", "content": "Hi"}])
    assert json.loads(capsys.readouterr().out)["prompt_ids"] == expected


def chat_ids(model: str, *words: str) -> list[int]:
    roles = ("user",) if len(words) == 1 else ("system", "user")
    messages = [{"role": role, "content": text} for role, text in zip(roles, words, strict=True)]
    return prompt_ids(load(model)[1], messages)


def test_a_model_with_a_chat_template_is_asked(llama: str, tmp_path: Path, capsys: Captured) -> None:
    more = ["--max-tokens", "1", "--json", "--model", llama]
    for arguments, wanted in (
        (["Hi"], chat_ids(llama, "Hi")),
        (["--prompt", "Hi"], chat_ids(llama, "Hi")),
        (["-p", "Hi", "--system-prompt", "Be brief."], chat_ids(llama, "Be brief.", "Hi")),
        (["Hi", "--raw"], load(llama)[1].encode("Hi")),
    ):
        assert cli.main(["generate", *arguments, *more]) == 0
        assert json.loads(capsys.readouterr().out)["prompt_ids"] == wanted
    plain = write_tiny(tmp_path)
    (plain / "tokenizer_config.json").unlink()
    assert cli.main(["generate", "Hi", "--max-tokens", "1", "--json", "--model", str(plain)]) == 0
    assert json.loads(capsys.readouterr().out)["prompt_ids"] == load(plain)[1].encode("Hi")


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ([], "give one prompt"),
        (["Hi", "--prompt", "Hi"], "give one prompt"),
        (["Hi", "--raw", "--system-prompt", "x"], "use one of them"),
    ],
)
def test_prompts_that_contradict(llama: str, capsys: Captured, arguments: list[str], words: str) -> None:
    assert cli.main(["generate", *arguments, "--model", llama]) == 1
    assert words in capsys.readouterr().err


def test_embed_reads_standard_input(bert: str, capsys: Captured, monkeypatch: pytest.MonkeyPatch) -> None:
    assert cli.main(["embed", "a cat", "--model", bert, "--json"]) == 0
    wanted = json.loads(capsys.readouterr().out)
    monkeypatch.setattr(sys, "stdin", io.StringIO("a cat"))
    assert cli.main(["embed", "-", "--model", bert, "--json"]) == 0
    assert json.loads(capsys.readouterr().out) == wanted
    monkeypatch.setattr(sys, "stdin", io.StringIO("\n"))
    assert cli.main(["embed", "-", "--model", bert]) == 1
    assert "standard input contains no text" in capsys.readouterr().err


def test_files_are_what_their_bytes_say(llama: str, tmp_path: Path, capsys: Captured) -> None:
    (weights,) = Path(llama).glob("*.safetensors")
    assert cli.main(["generate", "Hi", "--max-tokens", "1", "--json", "--model", str(weights)]) == 0
    assert json.loads(capsys.readouterr().out)["prompt_ids"] == chat_ids(llama, "Hi")
    for data, words in (
        (weights.read_bytes(), "is safetensors, which needs config.json"),
        (b"PK\x03\x04 and so on", "a zip archive, such as PyTorch's"),
        (b"version https://git-lfs.github.com/spec/v1", "a Git LFS pointer"),
        (b"what is this", "nothing known: it begins with b'what'"),
        (b"<!DOCTYPE html>", "a web page"),
        (b"\n<!doctype html>", "a web page"),
    ):
        (tmp_path / "model.gguf").write_bytes(data)
        assert cli.main(["generate", "Hi", "--model", str(tmp_path / "model.gguf")]) == 1
        assert words in capsys.readouterr().err


def test_profile(llama: str, capsys: Captured) -> None:
    assert cli.main(["generate", "Hello", "--model", llama, "--max-tokens", "3", "--profile"]) == 0
    lines = capsys.readouterr().out.splitlines()
    tables = {line.split()[0]: line.split() for line in lines if "simulated" in line}
    assert tables["decode"][1] == "3*" and tables["prefill"][1] == "1*"
    assert any("matmul" in name for name in tables)
    assert cli.main(["generate", "Hello", "--model", llama, "--max-tokens", "3", "--profile", "--json"]) == 0
    out, err = capsys.readouterr()
    assert len(json.loads(out)["ids"]) == 3 and "dispatches" in err


def test_embed(bert: str, capsys: Captured) -> None:
    assert cli.main(["embed", "a cat", "a hat", "--model", bert]) == 0
    rows = np.array([line.split() for line in capsys.readouterr().out.splitlines()], np.float32)
    assert cli.main(["embed", "a cat", "a hat", "--model", bert, "--json"]) == 0
    np.testing.assert_allclose(json.loads(capsys.readouterr().out), rows, atol=1e-6)
    assert rows.shape == (2, 64)


def test_mistakes_are_said_plainly(llama: str, bert: str, tmp_path: Path, capsys: Captured) -> None:
    (tmp_path / "broken.gguf").write_bytes(b"GGUF")
    (tmp_path / "other.gguf").write_bytes(b"hello")
    for arguments, words in (
        (["generate", "Hi", "--model", "nowhere"], "no model 'nowhere'"),
        (["generate", "Hi", "--model", bert], "cannot generate text"),
        (["embed", "Hi", "--model", llama], "has no embeddings"),
        (["generate", "Hi", "--model", llama, "--max-tokens", "0"], "max_tokens is 0"),
        (["generate", "Hi", "--model", str(tmp_path)], "config.json"),
        (["info", str(tmp_path / "broken.gguf")], "version"),
        (["info", str(tmp_path / "none.gguf")], "no model"),
        (["info", str(tmp_path / "other.gguf")], "expected b'GGUF', got b'hell'"),
    ):
        assert cli.main(arguments) == 1, arguments
        err = capsys.readouterr().err
        assert err.startswith("mlx-native: ") and words in err and "Traceback" not in err


def test_info_of_a_folder(llama: str, capsys: Captured) -> None:
    assert cli.main(["info", llama, "--tensors"]) == 0
    out = capsys.readouterr().out
    rows = {line.split()[0]: line.split() for line in out.splitlines() if line}
    assert rows["architecture"][1] == "llama" and rows["tensors"][1] == "20"
    assert rows["f32"][1] == "20" and rows["num_hidden_layers"][1] == "2"
    assert rows["model.layers.1.mlp.down_proj.weight"][1:5] == ["f32", "64", "x", "96"]


def test_info_of_a_gguf_file(tmp_path: Path, capsys: Captured) -> None:
    path = tmp_path / "some.gguf"
    writer = gguf.GGUFWriter(path, "strange")
    writer.add_string("general.name", "a\x1b[31mname")
    writer.add_token_list([f"t{n}" for n in range(1000)])
    kind = gguf.GGMLQuantizationType.Q4_0
    packed = gguf.quants.quantize(np.ones((4, 64), np.float32), kind)
    writer.add_tensor("a.weight", packed, raw_dtype=kind)
    writer.add_tensor("b.weight", np.ones(8, np.float16))
    for write in (writer.write_header_to_file, writer.write_kv_data_to_file, writer.write_tensors_to_file):
        write()
    writer.close()
    assert cli.main(["info", str(path)]) == 0
    out = capsys.readouterr().out
    rows = {line.split()[0]: line.split() for line in out.splitlines() if line}
    assert rows["architecture"][1] == "strange" and rows["Q4_0"][1:3] == ["1", "256"] and rows["f16"][1] == "1"
    assert "\x1b" not in out and "(1,000)" in out


def test_an_interrupt_is_no_traceback(llama: str, capsys: Captured, monkeypatch: pytest.MonkeyPatch) -> None:
    def interrupted(*_: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr("mlx_native_py.models.decoder.Decoder.step", interrupted)
    assert cli.main(["generate", "Hi", "--model", llama]) == 130
    assert capsys.readouterr().err == "\nmlx-native: stopped\n"


def test_ctrl_c_stops_the_process(tmp_path: Path) -> None:
    endless = write_tiny(tmp_path)
    config = json.loads((endless / "config.json").read_text())
    (endless / "config.json").write_text(json.dumps({**config, "eos_token_id": None}))
    (endless / "tokenizer_config.json").unlink()
    command = [sys.executable, "-m", "mlx_native_py", "generate", "Hi", "--model", str(endless)]
    command += ["--max-tokens", "1000000"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as process:
        try:
            assert process.stdout is not None and process.stdout.read(8)
            process.send_signal(signal.SIGINT)
            _, err = process.communicate(timeout=60)
        finally:
            process.kill()
    assert process.returncode == 130
    assert b"Traceback" not in err and b"stopped" in err


def test_bench_decode(llama: str, capsys: Captured) -> None:
    short = ["bench", "decode", "--model", llama, "--warm", "1", "--prompt", "16"]
    assert cli.main([*short, "--tokens", "3", "--json"]) == 0
    ours, numpy, llama_cpp = json.loads(capsys.readouterr().out)["rows"]
    assert ours["command_buffers_per_token"] <= 3 and ours["messages_per_token"] <= 60
    assert ours["dispatches_per_token"] > 0 and ours["prompt_tokens_per_s"] > 0 and ours["first_token_ms"] > 0
    assert ours["gb_per_s"] > 0 and ours["bandwidth_share"] > 0
    assert numpy["same_tokens"] == 4 and numpy["tokens_per_s"] > 0
    assert llama_cpp["engine"] == "llama-cpp-python"
    assert cli.main([*short, "--tokens", "2"]) == 0
    assert "tokens/s" in capsys.readouterr().out


def test_bench_takes_llama_cpp_where_it_is(monkeypatch: pytest.MonkeyPatch) -> None:
    class Llama:
        """Counts on from the last token."""

        def __init__(self, path: str, **_: object) -> None:
            assert path == "some.gguf"

        def reset(self) -> None:
            self.seen: list[int] = []

        def eval(self, tokens: list[int]) -> None:
            self.seen += tokens

        def sample(self, **_: object) -> int:
            return self.seen[-1] + 1

    monkeypatch.setitem(sys.modules, "llama_cpp", SimpleNamespace(Llama=Llama))
    engine = decode_peers.LlamaCpp("some.gguf", 64)
    step = engine.begin([1, 2])
    assert [step(), step()] == [3, 4]
    row, _ = decode._measured(engine, [1, 2], [1, 2, 3, 4], 1, 3, [3, 4, 9, 9])
    assert (row.same_tokens, row.tokens) == (2, 3) and row.tokens_per_s and row.prompt_tokens_per_s
