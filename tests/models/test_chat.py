"""Chat templates: prompts as Hugging Face writes them, and programs of strangers that get nowhere."""

from __future__ import annotations

import contextlib
import random
import sys
import time
import tracemalloc
from collections.abc import Callable
from typing import Any

import pytest

from mlx_native_py import InvalidArgument
from mlx_native_py.models.chat import ChatTemplate
from mlx_native_py.models.chat.budget import TemplateLimits
from mlx_native_py.models.chat.sandbox import _environment, compiled, words_of
from mlx_native_py.models.chat.weight import weight_of

from .hostile_templates import BOMBS, GROW, LARGE_TEXT, WALKS

CHATML = (
    "{% for message in messages %}"
    "{{'<|im_start|>' + message['role'] + '\n' + message['content'] + '<|im_end|>' + '\n'}}"
    "{% endfor %}{% if add_generation_prompt %}{{ '<|im_start|>assistant\n' }}{% endif %}"
)
# In the manner of the larger templates: namespaces, slices, macros, loop controls, tools.
LARGE = """
{%- macro call(tool) %}<{{ tool.name }}>{{ tool.arguments | tojson }}{% endmacro %}
{%- set ns = namespace(last=-1, system='none') %}
{%- if messages[0].role == 'system' %}
    {%- set ns.system = messages[0].content | trim %}
    {%- set messages = messages[1:] %}
{%- endif %}
{{- bos_token ~ ns.system }}
{%- for tool in tools or [] %}
    {{- '\n' + (tool | tojson(indent=2)) }}
{%- endfor %}
{%- for message in messages %}
    {%- if message.role == 'tool' %}{% continue %}{% endif %}
    {%- if (message['role'] == 'user') != (loop.index0 % 2 == 0) %}
        {{- raise_exception('roles must alternate') }}
    {%- endif %}
    {%- generation %}
    {{- '[%s] ' % message.role + message.content.split('</think>')[-1].lstrip() }}
    {%- endgeneration %}
    {%- for tool in message.tool_calls or [] %}{{ call(tool) }}{% endfor %}
    {%- set ns.last = loop.index0 %}
{%- endfor %}
{{- '|' if loop is undefined and ns.last == messages | length - 1 else '!' }}
"""
USER = {"role": "user", "content": "Hi"}


def test_chatml() -> None:
    template = ChatTemplate(CHATML)
    assert template.render([USER]) == "<|im_start|>user\nHi<|im_end|>\n"
    assert template.render([USER], add_generation_prompt=True).endswith("<|im_start|>assistant\n")


def test_large() -> None:
    answer = {
        "role": "assistant",
        "content": "<think>x</think> Yes",
        "tool_calls": [{"name": "f", "arguments": {"ä": 1}}],
    }
    system = {"role": "system", "content": " Be. "}
    result = ChatTemplate(LARGE).render([system, USER, answer], bos_token="<s>", tools=[{"a": [1]}])
    assert result == '<s>Be.\n{\n  "a": [\n    1\n  ]\n}[user] Hi[assistant] Yes<f>{"ä": 1}|'


def test_refusal_of_the_template_is_told() -> None:
    with pytest.raises(InvalidArgument, match="roles must alternate"):
        ChatTemplate(LARGE).render([USER, USER])


def test_json_and_dates() -> None:
    assert ChatTemplate("{{ x | tojson }}").render([], x={"b": "<é>", "a": None}) == '{"b": "<é>", "a": null}'
    assert ChatTemplate("{{ strftime_now('%Y') }}").render([]) == time.strftime("%Y")


def test_format() -> None:
    assert ChatTemplate("{{ '{}-{a}'.format(1, a=x) }}").render([], x="é") == "1-é"


def test_text_of_lists_is_trimmed_and_searched() -> None:
    source = "{{ [' a '] | trim }}{{ 7 | trim }}{{ 'a/b/c'.rsplit('/', 1) | last }}"
    assert ChatTemplate(source).render([]) == "[' a ']7c"


def test_blocks_are_trimmed() -> None:
    assert ChatTemplate("a\n  {% if true %}\nb\n  {% endif %}\nc").render([]) == "a\nb\nc"


@pytest.mark.parametrize("content", ["{{ 1 + 1 }}", "{% for %}", "<|im_end|>"])
def test_messages_are_no_templates(content: str) -> None:
    assert content in ChatTemplate(CHATML).render([{"role": "user", "content": content}])


def test_messages_stay_as_they_are() -> None:
    messages: list[dict[str, Any]] = [dict(USER)]
    for attempt in ("messages.append(1)", "messages[0].update({})", "messages.clear()", "messages[0].pop('role')"):
        with pytest.raises(InvalidArgument, match="unsafe"):
            ChatTemplate("{{ " + attempt + " }}").render(messages)
    assert messages == [USER]


def test_a_long_chat_is_fine() -> None:
    messages = [{"role": role, "content": "word " * 200} for _ in range(500) for role in ("user", "assistant")]
    assert len(ChatTemplate(LARGE).render(messages, bos_token="")) > 1_000_000


def test_a_prompt_may_grow_in_a_variable_and_its_end_be_asked_for() -> None:
    messages = [{"role": "user", "content": "word " * 200} for _ in range(150)]
    grown = "{% set ns = namespace(out='') %}{% for m in messages %}{% set ns.out = ns.out ~ '<s>' ~ m.content %}"
    ends = " or ".join(f"ns.out.endswith('{end}')" for end in "<>!?")
    asked = "{% if not (" + ends + ") %}{% set ns.out = ns.out ~ '</s>' %}{% endif %}{% endfor %}{{ ns.out }}"
    assert len(ChatTemplate(grown + asked).render(messages)) == 150 * 1007


def test_a_call_in_a_loop_does_not_pay_for_the_variables_of_the_loop() -> None:
    trimmed = "{% for i in range(200) %}{% set c = messages[0].content %}{{ 'ax'.rstrip('x') ~ '{}'.format(i) }}"
    messages = [{"role": "user", "content": "word " * 20_000}]
    assert ChatTemplate(trimmed + "{% endfor %}").render(messages).startswith("a0a1")


@pytest.mark.parametrize("source", WALKS)
def test_there_is_no_way_out(source: str) -> None:
    try:
        result = ChatTemplate(source).render([USER])
    except InvalidArgument:
        return
    assert "class" not in result and "function" not in result and "root:" not in result and "method" not in result


QUICK = 0.1  # seconds that a bomb takes at most, with its compilation
SMALL = 16 << 20  # bytes
REFERENCE, REFERENCE_SECONDS = "x = [" + "a.b(c), " * 2000 + "]", 0.007


def least(act: Callable[[], object]) -> float:
    """Processor time, the least of some attempts, of a processor on which Python compiles REFERENCE in
    REFERENCE_SECONDS: others are slower, or busy."""
    taken: list[float] = []
    while not taken or (taken[-1] >= QUICK and len(taken) < 5):
        compiled.cache_clear()
        begin = time.thread_time()
        compile(REFERENCE, "reference", "exec")
        between = time.thread_time()
        act()
        taken.append((time.thread_time() - between) / (between - begin) * REFERENCE_SECONDS)
    compiled.cache_clear()
    return min(taken)


def quickest(source: str) -> float:
    """The time until it is refused."""

    def refused() -> None:
        with pytest.raises(InvalidArgument, match="the chat template"):
            ChatTemplate(source).render([USER])

    return least(refused)


@pytest.mark.parametrize("source", BOMBS, ids=lambda source: source[:60])
def test_bombs_do_not_go_off(source: str) -> None:
    compiled.cache_clear()
    assert quickest(source) < QUICK


@pytest.mark.parametrize("source", [each for each in BOMBS if each.startswith((GROW, LARGE_TEXT))])
def test_bombs_take_little_memory(source: str) -> None:
    tracemalloc.start()
    try:
        with pytest.raises(InvalidArgument):
            ChatTemplate(source).render([USER])
        assert tracemalloc.get_traced_memory()[1] < SMALL
    finally:
        tracemalloc.stop()


MANY = [
    ("", "{{x}}", ""),
    ("", "a{{x}}", ""),
    ("", "{% if x %}{% endif %}", ""),
    ("{% if x %}", "{% elif x %}", "{% endif %}"),
    ("", "{% set x = 1 %}", ""),
    ("", "{% set a.b = 1 %}", ""),
    ("", "{% set x %}{% endset %}", ""),
    ("", "{% for i in x if i %}{% else %}{% endfor %}", ""),
    ("", "{% macro f(a=1) %}{% endmacro %}", ""),
    ("", "{% call x() %}{% endcall %}", ""),
    ("", "{% filter upper %}{% endfilter %}", ""),
    ("", "{% generation %}{% endgeneration %}", ""),
    ("{{ [", "x,", "] }}"),
    ("{{ [", "N,", "] }}"),
    ("{{ [", "x~x,", "] }}"),
    ("{{ [", "x[1:2],", "] }}"),
    ("{{ [", "x.y['a'],", "] }}"),
    ("{{ [", "x(a=1) | d(1),", "] }}"),
    ("{{ [", "x if x else x,", "] }}"),
    ("{{ [", "not x in x is none,", "] }}"),
    ("{{ {", "'a': -1,", "} }}"),
    ("{{ f(", "x,", ") }}"),
    ("{{ x", "<x", " }}"),
]


def heaviest(before: str, part: str, after: str) -> str:
    """As many of them as a template may have."""

    def source(count: int) -> str:
        return before + "".join(part.replace("N", f"n{i}") for i in range(count)) + after

    def room(measure: Callable[[str], int], limit: int) -> int:
        few, more = measure(source(10)), measure(source(20))
        return 10 + (limit - few) * 10 // (more - few)

    limits = TemplateLimits()
    weight = room(lambda text: weight_of(_environment().parse(text)), limits.weight)
    return source(min(weight, room(words_of, limits.words), room(len, limits.source)))


@pytest.mark.parametrize(("before", "part", "after"), MANY, ids=[row[1] for row in MANY])
def test_the_heaviest_templates_compile_quickly_in_little_memory(before: str, part: str, after: str) -> None:
    source = heaviest(before, part, after)
    assert least(lambda: ChatTemplate(source)) < QUICK
    tracemalloc.start()
    try:
        ChatTemplate(source)
        assert tracemalloc.get_traced_memory()[1] < SMALL
    finally:
        tracemalloc.stop()


def test_a_heavy_template_is_refused_with_the_numbers() -> None:
    with pytest.raises(InvalidArgument, match="has 5996 weighted expressions and statements, more than 4000"):
        ChatTemplate("{{ [" + "x," * 1_498 + "] }}")
    assert ChatTemplate("{{ [" + "x," * 900 + "] }}", limits=TemplateLimits(steps=100_000)).render([], x=1)


@pytest.mark.full
def test_mutated_templates() -> None:
    rng, sources = random.Random(0), [CHATML, LARGE, *WALKS, *(each for each in BOMBS if len(each) < 3000)]
    for _ in range(5000):
        a, b = rng.choice(sources), rng.choice(sources)
        source = a[: rng.randrange(len(a) + 1)] + b[rng.randrange(len(b)) :]
        for _ in range(rng.randrange(4)):
            at = rng.randrange(len(source) + 1)
            source = source[:at] + rng.choice("{}%()[]'|*~+.x9 ") + source[at + rng.randrange(2) :]
        before = time.thread_time()
        with contextlib.suppress(InvalidArgument):
            ChatTemplate(source).render([USER])
        assert time.thread_time() - before < 0.5, source


@pytest.mark.parametrize("sign", ["~", "+"])
def test_prompt_in_one_variable(sign: str) -> None:
    """Each message copies what the prompt was before; there are models whose templates do so."""
    source = (
        "{% set ns = namespace(out='') %}{% for m in messages %}{% set ns.out = ns.out ~ m.role ~ ': ' %}"
        "{% set ns.out = ns.out ~ m.content %}{% set ns.out = ns.out ~ '<sep>' %}{% endfor %}{{ ns.out }}"
    ).replace("~", sign)
    messages = [{"role": "user", "content": "word " * 60}, {"role": "assistant", "content": "word " * 60}] * 50
    assert ChatTemplate(source).render(messages) == "".join(f"{m['role']}: {m['content']}<sep>" for m in messages)


def test_budget_is_for_one_prompt() -> None:
    template = ChatTemplate("{% for i in range(900) %}x{% endfor %}", limits=TemplateLimits(steps=3000))
    for _ in range(5):
        assert template.render([]) == "x" * 900


@pytest.mark.parametrize("source", ["{{", "{% for %}", "{{ x | no_such_filter }}", "{% endif %}"])
def test_broken_templates(source: str) -> None:
    with pytest.raises(InvalidArgument, match="does not compile"):
        ChatTemplate(source)


def test_undefined_names_fail_where_they_are_used() -> None:
    assert ChatTemplate("{{ nobody }}{% if nobody is defined %}x{% endif %}").render([]) == ""
    with pytest.raises(InvalidArgument, match="undefined"):
        ChatTemplate("{{ nobody.home.now }}").render([])


def test_recursion_limit_is_left_alone() -> None:
    before = sys.getrecursionlimit()
    with pytest.raises(InvalidArgument):
        ChatTemplate("{% macro f() %}{{ f() }}{% endmacro %}{{ f() }}").render([])
    assert sys.getrecursionlimit() == before
