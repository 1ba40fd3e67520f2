"use strict";
const data = JSON.parse(document.getElementById("data").textContent);
const $ = (id) => document.getElementById(id);
// Asking for a style is slow, so each is asked for once a theme.
let styles = {};
const css = (name) => (styles[name] ??= getComputedStyle(document.documentElement).getPropertyValue(name).trim());
const make = (tag, text, cls) => {
  const node = document.createElement(tag);
  if (text !== undefined) node.textContent = text;
  if (cls) node.className = cls;
  return node;
};
const us = (ns) => {
  const size = Math.abs(ns);
  return size >= 1e9 ? (ns / 1e9).toFixed(2) + " s" : size >= 1e6 ? (ns / 1e6).toFixed(2) + " ms"
    : size >= 1e3 ? (ns / 1e3).toFixed(1) + " µs" : ns.toFixed(0) + " ns";
};
const bytes = (n) => {
  const units = ["B", "KiB", "MiB", "GiB", "TiB"];
  const at = n < 1 ? 0 : Math.min(4, Math.floor(Math.log2(n) / 10));
  return (n / 1024 ** at).toFixed(at ? 1 : 0) + " " + units[at];
};
const plain = (n, digits) => (n === null || n === undefined ? "" : n.toLocaleString("en", { maximumFractionDigits: digits }));
// A name keeps its hue in every picture; lightness follows the theme.
const hues = new Map();
const hue = (name) => {
  if (!hues.has(name)) hues.set(name, (hues.size * 137.5 + 205) % 360);
  return hues.get(name);
};
const colour = (name) => `hsl(${hue(name).toFixed(0)} ${css("--rich")} ${css("--light")})`;
let wanted = "";
const matches = (text) => !wanted || text.toLowerCase().includes(wanted);

// Theme: the system's, until somebody chooses.
const system = matchMedia("(prefers-color-scheme: dark)");
const dark = () => document.documentElement.dataset.theme === "dark";
const setTheme = (isDark) => {
  document.documentElement.dataset.theme = isDark ? "dark" : "light";
  styles = {};
  drawAll();
};
$("theme").onclick = () => setTheme(!dark());
system.addEventListener("change", (event) => setTheme(event.matches));

const tip = $("tip");
const showTip = (event, text) => {
  tip.hidden = !text;
  if (!text) return;
  tip.textContent = text;
  tip.style.left = Math.min(event.clientX + 14, innerWidth - tip.offsetWidth - 8) + "px";
  tip.style.top = Math.min(event.clientY + 14, innerHeight - tip.offsetHeight - 8) + "px";
};

// Timeline
const timeline = (() => {
  const canvas = $("timeline"), pen = canvas.getContext("2d");
  const ROW = 20, HEAD = 22, SIDE = 150;
  const rows = [];
  for (const track of data.tracks) {
    const depth = Math.max(...track.spans.map((span) => span.lane)) + 1;
    track.first = rows.length;
    for (let lane = 0; lane < depth; lane++) rows.push({ name: lane ? "" : track.name, spans: [] });
    for (const span of track.spans) rows[track.first + span.lane].spans.push(span);
  }
  const all = rows.flatMap((row) => row.spans);
  const low = Math.min(0, ...[all.reduce((least, span) => Math.min(least, span.start), Infinity)].filter(isFinite));
  const high = all.reduce((most, span) => Math.max(most, span.end), low + 1);
  const view = { start: low, end: high, drawn: 0 };
  const x = (ns) => SIDE + ((ns - view.start) / (view.end - view.start)) * (canvas.clientWidth - SIDE);
  const when = (px) => view.start + ((px - SIDE) / (canvas.clientWidth - SIDE)) * (view.end - view.start);

  const scale = (width) => {
    const rough = ((view.end - view.start) / (width - SIDE)) * 110;
    const power = 10 ** Math.floor(Math.log10(rough));
    const step = [1, 2, 5, 10].map((n) => n * power).find((n) => n >= rough);
    pen.fillStyle = css("--dim");
    pen.strokeStyle = css("--line");
    for (let at = Math.ceil(view.start / step) * step; at < view.end; at += step) {
      pen.beginPath(); pen.moveTo(x(at), HEAD - 4); pen.lineTo(x(at), canvas.clientHeight); pen.stroke();
      pen.fillText(us(at), x(at) + 3, 12);
    }
  };
  const firstEndingAfter = (spans, ns) => {
    let from = 0, to = spans.length;
    while (from < to) {
      const middle = (from + to) >> 1;
      if (spans[middle].end < ns) from = middle + 1; else to = middle;
    }
    return from;
  };
  const drawRow = (row, top, width) => {
    let last = -1;
    for (let at = firstEndingAfter(row.spans, view.start); at < row.spans.length; at++) {
      const span = row.spans[at];
      if (span.start > view.end) break;
      const left = Math.max(SIDE, x(span.start)), right = Math.min(width, x(span.end));
      // What is thinner than a pixel is drawn once for all that share it.
      if (right - left < 1 && Math.floor(left) === last && !span.marked) continue;
      last = Math.floor(left);
      view.drawn++;
      pen.globalAlpha = matches(span.text) ? 1 : 0.15;
      pen.fillStyle = colour(span.name);
      pen.fillRect(left, top + 1, Math.max(1, right - left - 0.5), ROW - 3);
      if (right - left > 40) {
        pen.fillStyle = css("--on-colour");
        pen.fillText(span.name, left + 4, top + 13, right - left - 8);
      }
    }
    pen.globalAlpha = 1;
  };
  const arrows = () => {
    pen.strokeStyle = css("--bad"); pen.globalAlpha = 0.55;
    let count = 0;
    for (const barrier of data.barriers) {
      const from = barrier.from && data.byId[barrier.from], to = data.byId[barrier.to];
      if (!from || !to || to.start < view.start || from.end > view.end || x(to.start) - x(from.end) < -1) continue;
      if (x(to.end) - x(from.start) < 12 || ++count > 400) continue;
      const y = HEAD + (from.row + 1) * ROW - 4, middle = (x(from.end) + x(to.start)) / 2;
      pen.beginPath(); pen.moveTo(x(from.end) - 2, y - 6);
      pen.quadraticCurveTo(middle, y + 9, x(to.start) + 1, y - 6); pen.stroke();
    }
    pen.globalAlpha = 1;
  };
  data.byId = {};
  rows.forEach((row, number) => {
    row.spans.sort((a, b) => a.start - b.start);
    for (const span of row.spans) { span.row = number; if (span.id) data.byId[span.id] = span; }
  });

  const draw = () => {
    const ratio = devicePixelRatio || 1, width = canvas.clientWidth, height = HEAD + rows.length * ROW + 4;
    canvas.style.height = height + "px";
    if (canvas.width !== width * ratio || canvas.height !== height * ratio) {
      canvas.width = width * ratio; canvas.height = height * ratio;
    }
    pen.setTransform(ratio, 0, 0, ratio, 0, 0);
    pen.clearRect(0, 0, width, height);
    pen.font = "11px system-ui, sans-serif";
    view.drawn = 0;
    scale(width);
    rows.forEach((row, number) => drawRow(row, HEAD + number * ROW, width));
    arrows();
    pen.fillStyle = css("--card"); pen.fillRect(0, 0, SIDE, height);
    pen.fillStyle = css("--ink");
    rows.forEach((row, number) => pen.fillText(row.name, 2, HEAD + number * ROW + 13, SIDE - 10));
  };
  const show = (start, end) => {
    const least = 200, span = Math.min(Math.max(end - start, least), high - low);
    view.start = Math.min(Math.max(start, low), high - span);
    view.end = view.start + span;
    draw();
  };
  const at = (event) => {
    const box = canvas.getBoundingClientRect(), px = event.clientX - box.left;
    const row = rows[Math.floor((event.clientY - box.top - HEAD) / ROW)];
    if (!row || px < SIDE) return null;
    const ns = when(px), slack = (view.end - view.start) / (canvas.clientWidth - SIDE);
    for (let n = firstEndingAfter(row.spans, ns - slack); n < row.spans.length && row.spans[n].start <= ns + slack; n++) {
      if (row.spans[n].end >= ns - slack) return row.spans[n];
    }
    return null;
  };
  canvas.addEventListener("wheel", (event) => {
    event.preventDefault();
    const ns = when(event.clientX - canvas.getBoundingClientRect().left), factor = Math.exp(event.deltaY * 0.002);
    show(ns - (ns - view.start) * factor, ns + (view.end - ns) * factor);
  }, { passive: false });
  let dragged = null;
  canvas.addEventListener("pointerdown", (event) => { dragged = event.clientX; canvas.setPointerCapture(event.pointerId); });
  canvas.addEventListener("pointerup", () => { dragged = null; });
  canvas.addEventListener("pointermove", (event) => {
    if (dragged !== null) {
      const moved = ((event.clientX - dragged) / (canvas.clientWidth - SIDE)) * (view.end - view.start);
      dragged = event.clientX;
      show(view.start - moved, view.end - moved);
      return;
    }
    const span = at(event);
    showTip(event, span && describe(span));
  });
  canvas.addEventListener("pointerleave", () => showTip(null, ""));
  canvas.addEventListener("click", (event) => { const span = at(event); $("detail").textContent = span ? describe(span) : ""; });
  canvas.addEventListener("dblclick", () => show(low, high));
  canvas.addEventListener("keydown", (event) => {
    const step = (view.end - view.start) * 0.2;
    const moves = { ArrowLeft: [-step, -step], ArrowRight: [step, step], "+": [step, -step], "-": [-step, step] };
    if (moves[event.key]) { event.preventDefault(); show(view.start + moves[event.key][0], view.end + moves[event.key][1]); }
  });
  const describe = (span) => [`${span.name}: ${us(span.end - span.start)}`, ...span.more].join("\n");
  return { draw, show, view };
})();

// Tables: columns are [title, key, how to show it, whether it is a word]
const grid = (home, columns, rows, order) => {
  const draw = () => {
    const table = make("table"), head = make("tr"), body = make("tbody");
    columns.forEach(([title, key, , word], number) => {
      const cell = make("th", title, word ? "word" : "");
      if (order.key === key) cell.setAttribute("aria-sort", order.down ? "descending" : "ascending");
      cell.onclick = () => {
        order.down = order.key === key ? !order.down : !word;
        order.key = key;
        draw();
      };
      cell.dataset.column = number;
      head.append(cell);
    });
    const shown = rows.filter((row) => matches(row.text ?? row.name));
    if (order.key) {
      const value = (row) => row[order.key] ?? -Infinity;
      shown.sort((a, b) => (value(a) < value(b) ? -1 : value(a) > value(b) ? 1 : 0) * (order.down ? -1 : 1));
    }
    for (const row of shown.slice(0, 2000)) {
      const line = make("tr");
      for (const [, key, show, word] of columns) {
        const cell = make("td", show ? show(row[key], row) : row[key], word ? "word" : "");
        if (key === "share") {
          const bar = make("span", "", "bar");
          bar.style.width = (row.share * 60).toFixed(1) + "px";
          cell.append(bar);
        }
        if (key === "verdict") cell.classList.add(row.verdict.replaceAll(" ", "-"));
        line.append(cell);
      }
      if (row.show) line.onclick = row.show;
      body.append(line);
    }
    const top = make("thead");
    top.append(head);
    table.append(top, body);
    home.replaceChildren(table);
  };
  draw();
  return draw;
};
const indented = (name, row) => "\u2003".repeat(row.depth) + name;
const COLUMNS = [
  ["name", "name", indented, true], ["calls", "calls", (n, row) => plain(n, 0) + (row.warm_up ? " *" : "")],
  ["GPU", "gpu_ns", us], ["mean", "mean_ns", us], ["share", "share", (n) => (n * 100).toFixed(1) + " %"],
  ["GB/s", "gbps", (n) => plain(n, 2)], ["GFLOP/s", "gflops", (n) => plain(n, 2)],
  ["of peak", "peak", (n) => (n === null ? "" : (n * 100).toFixed(0) + " %")], ["barriers", "barriers", (n) => n || ""],
  ["gaps", "gap_ns", (n) => (n ? us(n) : "")], ["encode", "encode_ns", us], ["times are", "how", null, true],
];
let redrawTable = () => {};
const showTable = (by) => {
  for (const tab of $("tabs").children) tab.setAttribute("aria-selected", tab.textContent === by);
  redrawTable = grid($("table"), COLUMNS, data.rows[by], { key: by === "region" ? "" : "gpu_ns", down: true });
};
for (const by of Object.keys(data.rows)) {
  const tab = make("button", by);
  tab.type = "button";
  tab.onclick = () => showTable(by);
  $("tabs").append(tab);
}

let redrawChanges = () => {};
if (data.changes) {
  $("comparison").hidden = false;
  redrawChanges = grid($("changes"), [
    ["name", "name", null, true], ["before", "before_ns", us], ["after", "after_ns", us],
    ["change", "ratio", (n) => (n === null ? "" : (n > 0 ? "+" : "") + (n * 100).toFixed(1) + " %")],
    ["noise", "noise_ns", (n) => (n === null ? "" : us(n))], ["calls", "count", null], ["verdict", "verdict", null, true],
  ], data.changes, { key: "" });
}

// Barriers
$("barrier-count").textContent = `${data.barriers.length.toLocaleString("en")}, and what each waits for`;
for (const barrier of data.barriers) {
  barrier.show = () => {
    const to = data.byId[barrier.to] || barrier, from = data.byId[barrier.from] || to, room = (to.end - from.start) * 0.5;
    timeline.show(from.start - room, to.end + room);
    $("timeline").scrollIntoView();
  };
}
const redrawBarriers = grid($("barriers"), [
  ["waits", "waits", null, true], ["for", "for", null, true], ["hazard", "hazard", (h) => h || "by hand", true],
  ["bytes", "nbytes", (n) => (n ? bytes(n) : "")], ["memory", "memory", null, true], ["in", "label", null, true],
], data.barriers, { key: "" });

// Treemap: regions, and kernels inside them, squarified
const treemap = () => {
  const home = $("treemap");
  home.replaceChildren();
  const box = { x: 0, y: 0, w: home.clientWidth, h: home.clientHeight };
  const groups = data.tree.map((group) => ({ ...group, leaves: group.leaves.filter((leaf) => matches(group.name + " " + leaf.name)) }))
    .map((group) => ({ ...group, size: group.leaves.reduce((sum, leaf) => sum + leaf.size, 0) })).filter((group) => group.size > 0);
  const total = groups.reduce((sum, group) => sum + group.size, 0);
  for (const [group, part] of squares(groups, box)) {
    if (groups.length > 1) place(home, group.name, part, "region", `${group.name}\n${us(group.size)}`);
    const inner = groups.length > 1 ? { x: part.x + 2, y: part.y + 16, w: part.w - 4, h: part.h - 18 } : part;
    if (inner.w < 4 || inner.h < 4) continue;
    for (const [leaf, spot] of squares(group.leaves, inner)) {
      const text = `${leaf.name}\n${group.name}\n${us(leaf.size)}, ${((leaf.size / total) * 100).toFixed(1)} %`;
      place(home, leaf.name, spot, "", text).style.background = colour(leaf.name);
    }
  }
};
const place = (home, name, part, cls, text) => {
  const node = make("div", part.w > 30 && part.h > 13 ? name : "", cls);
  Object.assign(node.style, { left: part.x + "px", top: part.y + "px", width: part.w + "px", height: part.h + "px" });
  if (!node.textContent) node.style.padding = 0;
  node.onpointermove = (event) => showTip(event, text);
  node.onpointerleave = () => showTip(null, "");
  home.append(node);
  return node;
};
const squares = (items, box) => {
  const left = [...items].sort((a, b) => b.size - a.size), found = [];
  let sum = left.reduce((total, item) => total + item.size, 0);
  let { x, y, w, h } = box;
  while (left.length) {
    const short = Math.min(w, h), scale = (w * h) / sum;
    let row = [], area = 0, worst = Infinity;
    while (left.length) {
      const next = area + left[0].size * scale;
      const sizes = [...row, left[0]].map((item) => item.size * scale);
      const ratio = Math.max((short ** 2 * Math.max(...sizes)) / next ** 2, next ** 2 / (short ** 2 * Math.min(...sizes)));
      if (ratio > worst && row.length) break;
      worst = ratio; area = next; row.push(left.shift());
    }
    const thick = area / short;
    let along = 0;
    for (const item of row) {
      const length = (item.size * scale) / thick;
      found.push([item, w >= h ? { x, y: y + along, w: thick, h: length } : { x: x + along, y, w: length, h: thick }]);
      along += length; sum -= item.size;
    }
    if (w >= h) { x += thick; w -= thick; } else { y += thick; h -= thick; }
  }
  return found;
};

// Pictures in SVG
const svg = (home, height) => {
  const node = document.createElementNS("http://www.w3.org/2000/svg", "svg");
  node.setAttribute("viewBox", `0 0 ${home.clientWidth} ${height}`);
  home.replaceChildren(node);
  return (tag, facts, text) => {
    const part = document.createElementNS("http://www.w3.org/2000/svg", tag);
    for (const [name, value] of Object.entries(facts)) part.setAttribute(name, value);
    if (text !== undefined) part.textContent = text;
    node.append(part);
    return part;
  };
};
const roofline = () => {
  const home = $("roofline"), width = home.clientWidth, H = 300, L = 58, B = 34;
  const points = data.points.filter((point) => matches(point.name));
  if (!data.peaks || !data.points.length) {
    home.replaceChildren(make("p", data.peaks ? "No kernel has a time and tracked bytes." : "No peaks were measured.", "note"));
    return;
  }
  const add = svg(home, H), { bandwidth, flops } = data.peaks, ridge = flops / bandwidth;
  const xs = [...points.map((point) => point.intensity), ridge], ys = [...points.map((point) => point.rate), flops / 1e9];
  const floor = (n) => Math.floor(Math.log10(n) - 0.2), roof = (n) => Math.ceil(Math.log10(n) + 0.2);
  const x0 = floor(Math.min(...xs)), x1 = roof(Math.max(...xs)), y0 = floor(Math.min(...ys)), y1 = roof(Math.max(...ys));
  const px = (n) => L + ((Math.log10(n) - x0) / (x1 - x0)) * (width - L - 14);
  const py = (n) => H - B - ((Math.log10(n) - y0) / (y1 - y0)) * (H - B - 12);
  for (let n = x0; n <= x1; n++) {
    add("line", { class: "axis", x1: px(10 ** n), x2: px(10 ** n), y1: 12, y2: H - B });
    add("text", { x: px(10 ** n), y: H - B + 14, "text-anchor": "middle" }, n < -2 || n > 3 ? `1e${n}` : 10 ** n);
  }
  for (let n = y0; n <= y1; n++) {
    add("line", { class: "axis", x1: L, x2: width - 14, y1: py(10 ** n), y2: py(10 ** n) });
    add("text", { x: L - 6, y: py(10 ** n) + 4, "text-anchor": "end" }, n < -2 || n > 3 ? `1e${n}` : 10 ** n);
  }
  const reach = Math.max(10 ** x0, (10 ** y0 * 1e9) / bandwidth), far = 10 ** x1;
  add("polyline", { class: "roof", points: [[reach, (reach * bandwidth) / 1e9], [ridge, flops / 1e9], [far, flops / 1e9]]
    .map(([a, b]) => `${px(a)},${py(b)}`).join(" ") });
  add("text", { x: width - 18, y: py(flops / 1e9) - 6, "text-anchor": "end" }, `${plain(flops / 1e9, 0)} GFLOP/s`);
  add("text", { x: px(ridge) - 8, y: py(flops / 1e9) - 6, "text-anchor": "end" }, `${plain(bandwidth / 1e9, 1)} GB/s`);
  add("text", { x: (L + width) / 2, y: H - 4, "text-anchor": "middle" }, "floating-point operations per byte");
  add("text", { x: 4, y: 4 }, "GFLOP/s");
  for (const point of points) {
    const dot = add("circle", { class: "point", cx: px(point.intensity), cy: py(point.rate), r: 4 + 10 * Math.sqrt(point.share), fill: colour(point.name) });
    dot.onpointermove = (event) => showTip(event, `${point.name}\n${plain(point.rate, 2)} GFLOP/s, ${plain(point.gbps, 2)} GB/s\n${(point.share * 100).toFixed(1)} % of the time`);
    dot.onpointerleave = () => showTip(null, "");
  }
  if (data.bars.length) bars(home, width);
};
const bars = (home, width) => {
  // Kernels whose arithmetic is not known have a bandwidth all the same.
  home.append(make("p", "GB/s of kernels whose arithmetic is not known, against the measured copy", "note"));
  for (const bar of data.bars.filter((each) => matches(each.name)).slice(0, 8)) {
    const line = make("div", "", "note");
    line.style.cssText = "display:flex;gap:8px;margin:2px 0;min-height:0";
    const fill = make("span");
    const share = Math.min(1.2, (bar.gbps * 1e9) / data.peaks.bandwidth);
    fill.style.cssText = `width:${share * width * 0.35}px;background:${colour(bar.name)};border-radius:2px`;
    line.append(make("span", bar.name), fill, make("span", plain(bar.gbps, 2) + " GB/s"));
    line.firstChild.style.cssText = "width:42%;overflow:hidden;text-overflow:ellipsis;white-space:nowrap;text-align:right";
    home.append(line);
  }
};
const memory = () => {
  const home = $("memory"), points = data.memory, width = home.clientWidth, H = 300, L = 70, B = 26;
  if (!points.length) return;
  const add = svg(home, H), first = points[0][0], last = Math.max(first + 1, points[points.length - 1][0]);
  const most = Math.max(...points.map((point) => point[1]), 1) * 1.1;
  const px = (ns) => L + ((ns - first) / (last - first)) * (width - L - 10), py = (n) => H - B - (n / most) * (H - B - 12);
  for (let n = 0; n <= 4; n++) {
    add("line", { class: "axis", x1: L, x2: width - 10, y1: py((most * n) / 4), y2: py((most * n) / 4) });
    add("text", { x: L - 6, y: py((most * n) / 4) + 4, "text-anchor": "end" }, bytes((most * n) / 4));
  }
  const steps = points.flatMap(([ns, n], at) => (at ? [[ns, points[at - 1][1]], [ns, n]] : [[ns, n]]));
  const line = steps.map(([ns, n]) => `${px(ns).toFixed(1)},${py(n).toFixed(1)}`).join(" ");
  add("polygon", { class: "area", points: `${px(first)},${H - B} ${line} ${px(last)},${H - B}` });
  add("polyline", { class: "roof", points: line });
  add("text", { x: L, y: H - 8 }, us(first));
  add("text", { x: width - 10, y: H - 8, "text-anchor": "end" }, us(last));
};

const drawAll = () => { timeline.draw(); treemap(); roofline(); memory(); };
const refilter = () => { redrawTable(); redrawBarriers(); redrawChanges(); timeline.draw(); treemap(); roofline(); };
$("filter").addEventListener("input", () => { wanted = $("filter").value.trim().toLowerCase(); refilter(); });
addEventListener("resize", drawAll);
$("title").textContent = data.title;
$("summary").textContent = data.summary;
$("notes").textContent = data.notes.join("\n");
showTable("kernel");
setTheme(system.matches);
document.documentElement.dataset.ready = performance.now().toFixed(0);
