"""`mlx-native generate`: generates text from a prompt."""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Iterator
from itertools import chain
from typing import Any

from ..distributed import Group, init
from ..errors import InvalidArgument
from .ranks import ranks_profiled, text_of_first_rank

__all__ = ["MODEL", "options", "run"]

MODEL = "a path, smollm2, minilm, or OWNER/NAME on the Hugging Face hub (default: %(default)s)"

_PROGRESS_EVERY = 64  # prompt tokens between progress updates
_SAMPLING = {
    "temperature": (float, 0.0, "how freely to choose; 0 takes the likeliest token"),
    "top_p": (float, 1.0, "choose among the likeliest tokens that have this share together"),
    "top_k": (int, 0, "choose among so many of the likeliest tokens; 0 is all"),
    "min_p": (float, 0.0, "leave out what is less likely than this share of the likeliest"),
    "repetition_penalty": (float, 1.0, "how unlikely tokens become that were used lately; 1 changes nothing"),
    "seed": (int, 0, "of the random numbers"),
}


def options(command: argparse.ArgumentParser) -> None:
    command.add_argument("prompt", nargs="?", help="a message, or a text to go on with; - reads standard input")
    command.add_argument("--prompt", "-p", dest="prompt_option", metavar="PROMPT", help="the same as an option")
    command.add_argument("--system-prompt", metavar="TEXT", help="what the model is told before the message")
    command.add_argument("--model", default="smollm2", help=MODEL)
    way = command.add_mutually_exclusive_group()
    way.add_argument("--tensor-parallel", action="store_true", help="divide every layer among the ranks of mpiexec")
    way.add_argument("--pipeline-parallel", action="store_true", help="divide the layers among the ranks of mpiexec")
    command.add_argument("--max-tokens", type=int, default=100, help="the most tokens to write (default: 100)")
    for name, (kind, default, meaning) in _SAMPLING.items():
        flags = [f"--{name.replace('_', '-')}", *(["--temp"] if name == "temperature" else [])]
        command.add_argument(*flags, type=kind, default=default, help=f"{meaning} (default: {default})")
    form = command.add_mutually_exclusive_group()
    form.add_argument(
        "--chat", action="store_true", help="the prompt is a message (the default, where the model has a chat template)"
    )
    form.add_argument("--raw", action="store_true", help="go on with the prompt as it is, without the chat template")
    command.add_argument("--stop", action="append", default=[], metavar="TEXT", help="end before this text")
    command.add_argument("--json", action="store_true", help="print tokens, text and speeds as JSON, when all is done")
    command.add_argument(
        "--profile", action="store_true", help="then print the times of command buffers, dispatches and ranks"
    )
    command.add_argument("--trace", metavar="FILE", help="write a trace, of all ranks, for Perfetto and speedscope")


def run(chosen: argparse.Namespace) -> int:
    """Prints text as it is generated, or all of it as JSON; only rank 0 prints."""
    from ..models import prompt_ids

    group, text, model, tokenizer = _opened(chosen)
    tokens = prompt_ids(tokenizer, _messages(chosen, tokenizer, text), most=model.config.max_positions)
    speaks = group.rank == 0
    out = sys.stderr if chosen.json else sys.stdout
    with ranks_profiled(chosen, group, out):
        responses = []
        for each in _streamed(chosen, model, tokenizer, tokens):
            responses.append(each)
            if speaks and not chosen.json:
                print(each.text, end="", flush=True)
        if speaks and not chosen.json:
            print()
    if speaks:
        _print_end(chosen.json, tokens, responses)
    return 0


def _messages(chosen: argparse.Namespace, tokenizer: Any, text: str) -> Any:
    """The prompt as chat messages if the model has a chat template; otherwise, or with `--raw`, unchanged."""
    if chosen.raw and chosen.system_prompt is not None:
        raise InvalidArgument("--system-prompt needs chat messages, which --raw disables; use one of them")
    if chosen.raw or (tokenizer.chat_template is None and not chosen.chat and chosen.system_prompt is None):
        return text
    system = [] if chosen.system_prompt is None else [{"role": "system", "content": chosen.system_prompt}]
    return [*system, {"role": "user", "content": text}]


def _prompt(chosen: argparse.Namespace, group: Group) -> str:
    if (chosen.prompt is None) == (chosen.prompt_option is None):
        raise InvalidArgument("give one prompt, as an argument or with --prompt; - reads standard input")
    given: str = chosen.prompt if chosen.prompt_option is None else chosen.prompt_option
    return text_of_first_rank(group, sys.stdin.read) if given == "-" else given


def _opened(chosen: argparse.Namespace) -> tuple[Group, str, Any, Any]:
    """The ranks, the prompt, the model and its tokenizer."""
    from ..models import Tokenizer, load, model_path

    if not (chosen.tensor_parallel or chosen.pipeline_parallel):
        alone = Group(None, 0.0)
        return (alone, _prompt(chosen, alone), *load(chosen.model, prepare=True))
    from ..parallel import load_pipeline_parallel, load_tensor_parallel

    group, path = init(), model_path(chosen.model)
    text = _prompt(chosen, group)
    group.agree("the prompt", text)
    model = (load_tensor_parallel if chosen.tensor_parallel else load_pipeline_parallel)(path, group=group)
    return group, text, model, Tokenizer.of_model(path, model.metadata)


def _print_end(as_json: bool, tokens: list[int], responses: list[Any]) -> None:
    last = responses[-1]
    if as_json:
        answer = {
            "prompt_ids": tokens,
            "ids": [each.token for each in responses],
            "text": "".join(each.text for each in responses),
            "prompt_tps": last.prompt_tps,
            "generation_tps": last.generation_tps,
        }
        print(json.dumps(answer))
    else:
        _print_speeds(last)


def _streamed(chosen: argparse.Namespace, model: Any, tokenizer: Any, tokens: list[int]) -> Iterator[Any]:
    """Shows the progress of the prompt until the first token arrives."""
    from ..models import stream_generate
    from ..models.progress import progress

    options = {name: getattr(chosen, name) for name in _SAMPLING}
    options |= {"max_tokens": chosen.max_tokens, "stop": chosen.stop, "prefill_step_size": _PROGRESS_EVERY}
    with progress("reading the prompt") as report:
        report(0, len(tokens))
        responses = stream_generate(model, tokenizer, tokens, progress=report, **options)
        first = next(responses)
    return chain([first], responses)


def _print_speeds(last: Any) -> None:
    for name in ("prompt", "generation"):
        count, speed = getattr(last, f"{name}_tokens"), getattr(last, f"{name}_tps")
        print(f"{name}: {count} tokens, {speed:.1f} tokens/s", file=sys.stderr)
    print(f"memory: {last.peak_memory:.3f} GB, ended by: {last.finish_reason}", file=sys.stderr)
