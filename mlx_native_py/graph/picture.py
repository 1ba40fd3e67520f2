"""Pictures of a graph: text, Graphviz (DOT) and SVG."""

from __future__ import annotations

from collections.abc import Sequence
from html import escape

from ..hazards.ranges import BufferRange, Memory
from .order import Step
from .recording import Recording

__all__ = ["as_dot", "as_svg", "as_text"]

WIDTH, HEIGHT, GAP, RISE, MARGIN = 200, 58, 26, 64, 20
_STYLE = """<style>
text { font: 12px ui-monospace, monospace; fill: #222 } .small { font-size: 10px; fill: #666 }
.box { fill: #eef3fb; stroke: #4a6fa5 } .edge { stroke: #4a6fa5; fill: none; marker-end: url(#tip) }
.barrier { stroke: #c0392b; stroke-width: 2; stroke-dasharray: 6 4 } .why { font-size: 10px; fill: #c0392b }
.page { fill: #fff }
</style>
<defs><marker id="tip" viewBox="0 0 8 8" refX="8" refY="4" markerWidth="7" markerHeight="7" orient="auto">
<path d="M0 0 L8 4 L0 8 z" fill="#4a6fa5"/></marker></defs>"""


def as_text(graph: Recording) -> str:
    names = _names(graph)
    lines = [repr(graph)]
    for index, step in enumerate(graph.steps):
        if step.barrier and index:
            lines.append(f"      -- barrier: {_reason(step, names)}")
        node = step.node
        touched = [f"{what} {', '.join(_labels(ranges, names))}" for what, ranges in _touched(step) if ranges]
        launch = f"{'x'.join(map(str, node.launch.grid))} {node.dispatch_kind.value}"
        lines.append(f"{index:5} {node.pipeline.label}  {launch}  {'; '.join(touched)}")
    return "\n".join(lines)


def as_dot(graph: Recording) -> str:
    names, steps = _names(graph), graph.steps
    lines = ["digraph {", "  rankdir=TB; node [shape=box, fontname=monospace]; edge [fontname=monospace, fontsize=10];"]
    for row, group in enumerate(_groups(steps)):
        lines.append(
            f"  subgraph cluster_{row} {{ style=dashed; color=red; label={_quoted(_heading(steps, group, names))};"
        )
        lines += [f"    n{index} [label={_quoted(_title(steps[index], names))}];" for index in group]
        lines.append("  }")
    lines += [f"  n{a} -> n{b} [label={_quoted(name)}];" for a, b, name in _edges(steps, names)]
    return "\n".join([*lines, "}"])


def as_svg(graph: Recording) -> str:
    names, steps = _names(graph), graph.steps
    groups = _groups(steps)
    place = {
        index: (MARGIN + column * (WIDTH + GAP), MARGIN + row * (HEIGHT + RISE))
        for row, group in enumerate(groups)
        for column, index in enumerate(group)
    }
    width = 2 * MARGIN + max((len(group) for group in groups), default=1) * (WIDTH + GAP) - GAP
    height = 2 * MARGIN + max(len(groups), 1) * (HEIGHT + RISE) - RISE
    body = [f'<rect class="page" width="{width}" height="{height}"/>']
    for group in groups[1:]:
        body.append(_barrier_line(place[group[0]][1] - RISE // 2, width, _reason(steps[group[0]], names)))
    body += _arrows(place, _edges(steps, names))
    body += [_box(place[index], steps[index], names) for index in place]
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" width="{width}" height="{height}">\n'
        + "\n".join([_STYLE, *body])
        + "\n</svg>\n"
    )


def _box(at: tuple[int, int], step: Step, names: dict[Memory, str]) -> str:
    (x, y), node = at, step.node
    launch = f"{'x'.join(map(str, node.launch.grid))} {node.dispatch_kind.value}"
    return (
        f'<rect class="box" x="{x}" y="{y}" width="{WIDTH}" height="{HEIGHT}" rx="6"/>'
        f'<text x="{x + 10}" y="{y + 19}">{escape(_short(node.pipeline.label, 24))}</text>'
        f'<text class="small" x="{x + 10}" y="{y + 34}">{escape(_short(_flow(step, names), 31))}</text>'
        f'<text class="small" x="{x + 10}" y="{y + 49}">{escape(launch)}</text>'
    )


def _flow(step: Step, names: dict[Memory, str]) -> str:
    (_, reads), (_, writes) = _touched(step)
    return f"{', '.join(_labels(reads, names))} \u2192 {', '.join(_labels(writes, names))}"


def _arrows(place: dict[int, tuple[int, int]], edges: Sequence[tuple[int, int, str]]) -> list[str]:
    """Arrows that end at the same box arrive side by side."""
    arrows = []
    for target in dict.fromkeys(end for _, end, _ in edges):
        arriving = sorted((place[start], name) for start, end, name in edges if end == target)
        for number, (start, name) in enumerate(arriving, 1):
            x = place[target][0] + WIDTH * number // (len(arriving) + 1)
            arrows.append(_arrow(start, (x, place[target][1]), name))
    return arrows


def _arrow(start: tuple[int, int], end: tuple[int, int], name: str) -> str:
    x1, y1, (x2, y2) = start[0] + WIDTH // 2, start[1] + HEIGHT, end
    middle = (y1 + y2) // 2
    return (
        f'<path class="edge" d="M{x1} {y1} C{x1} {middle} {x2} {middle} {x2} {y2}"/>'
        f'<text class="small" x="{x2 + 6}" y="{y2 - 6}">{escape(_short(name, 20))}</text>'
    )


def _barrier_line(y: int, width: int, why: str) -> str:
    return (
        f'<line class="barrier" x1="6" x2="{width - 6}" y1="{y}" y2="{y}"/>'
        f'<text class="why" x="8" y="{y - 4}">{escape(_short(why, 60))}</text>'
    )


def _short(text: str, most: int) -> str:
    return text if len(text) <= most else text[: most - 1] + "…"


def _quoted(text: str) -> str:
    return '"' + text.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n") + '"'


def _groups(steps: Sequence[Step]) -> list[list[int]]:
    """The indices of the dispatches between two barriers."""
    groups: list[list[int]] = []
    for index, step in enumerate(steps):
        if step.barrier or not groups:
            groups.append([])
        groups[-1].append(index)
    return groups


def _title(step: Step, names: dict[Memory, str]) -> str:
    return f"{step.node.pipeline.label}\n{_flow(step, names)}"


def _heading(steps: Sequence[Step], group: Sequence[int], names: dict[Memory, str]) -> str:
    return f"barrier: {_reason(steps[group[0]], names)}" if group[0] else ""


def _reason(step: Step, names: dict[Memory, str]) -> str:
    if step.conflict is None:
        return "placed by hand"
    hazard = step.conflict.hazard
    return f"{hazard.kind.name} on {_label(hazard.allocation, hazard.start, names)}"


def _names(graph: Recording) -> dict[Memory, str]:
    """Names given in the graph, then labels, then t0, t1, ... for temporaries and b0, b1, ... for other buffers."""
    names = {buffer.allocation.memory: name for name, buffer in graph.names.items()}
    temporary = {each.memory for each in graph.temporaries}
    counts = {"t": 0, "b": 0}
    for node in graph.dispatches:
        for each in (*node.reads, *node.writes):
            memory = each.allocation
            if memory not in names and memory.label:
                names[memory] = memory.label
            elif memory not in names:
                letter = "t" if memory in temporary else "b"
                names[memory] = f"{letter}{counts[letter]}"
                counts[letter] += 1
    return names


def _touched(step: Step) -> tuple[tuple[str, Sequence[BufferRange]], ...]:
    return ("reads", step.node.reads), ("writes", step.node.writes)


def _labels(ranges: Sequence[BufferRange], names: dict[Memory, str]) -> list[str]:
    return list(dict.fromkeys(_label(each.allocation, each.start, names) for each in ranges))


def _label(memory: Memory, start: int, names: dict[Memory, str]) -> str:
    """The name of a memory, and the offset of the bytes in it."""
    offset = start - memory.address
    return f"{names[memory]}+{offset}" if offset else names[memory]


def _edges(steps: Sequence[Step], names: dict[Memory, str]) -> list[tuple[int, int, str]]:
    """Edges from the last writer of bytes to each dispatch that reads them."""
    edges: dict[tuple[int, int, str], None] = {}
    for index, step in enumerate(steps):
        for wanted in step.node.reads:
            for earlier in range(index - 1, -1, -1):
                if any(wanted.conflicts_with(each) for each in steps[earlier].node.writes):
                    edges[earlier, index, _label(wanted.allocation, wanted.start, names)] = None
                    break
    return list(edges)
