// Pictures of one prediction: its distribution with the interval, the parts of its uncertainty, what each value does.

import { element } from "./controls.js";

const SVG = "http://www.w3.org/2000/svg";
const MOST_CLASSES = 8;

export function people(value, digits = 4) {
  if (value === null || !Number.isFinite(value)) return "–";
  const size = Math.abs(value);
  if (size >= 1e15 || (size > 0 && size < 1e-6)) return value.toExponential(2);
  const rounding = size >= 1e4 ? { maximumFractionDigits: 0 } : { maximumSignificantDigits: digits };
  return new Intl.NumberFormat("en", { ...rounding, useGrouping: size >= 1e4 }).format(value + 0).replace("-", "−");
}

export const percent = (share) => `${(100 * share).toFixed(share > 0 && share < 0.0995 ? 1 : 0)}%`;

// A change, to a hundredth of the largest one beside it, and with as many digits.
function signed(value, most) {
  const digits = 2 - Math.floor(Math.log10(most)), unit = 10 ** -digits;
  const rounded = Math.round(value / unit) * unit || 0;
  if (digits < 0 || digits > 6) return (rounded > 0 ? "+" : "") + people(rounded, 3);
  return (rounded > 0 ? "+" : "") + rounded.toFixed(digits).replace("-", "−");
}

function node(tag, attributes, text) {
  const made = document.createElementNS(SVG, tag);
  for (const [name, value] of Object.entries(attributes)) made.setAttribute(name, value);
  if (text !== undefined) made.textContent = text;
  return made;
}

function ticks(low, high, most) {
  const raw = (high - low) / most, power = 10 ** Math.floor(Math.log10(raw));
  const step = [1, 2, 5, 10].map((k) => k * power).find((one) => one >= raw);
  const found = [];
  for (let k = Math.ceil(low / step); k * step <= high + 1e-9 * step; k += 1) found.push(k * step || 0);
  return found;
}

// The axis stays where it is while values change, so that the eye sees the prediction move; it grows where it must.
export function steadyAxis(target) {
  let [low, high] = target.axis;
  if (target.whole) [low, high] = [low - 0.5, high + 0.5]; // a bar stands to both sides of its number
  return ({ low: a, high: b, mean }) => {
    const least = Math.min(a, mean), most = Math.max(b, mean);
    if (Number.isFinite(least) && least < low) low = least - 0.1 * (high - least);
    if (Number.isFinite(most) && most > high) high = most + 0.1 * (most - low);
    return [low, high];
  };
}

export function drawNumbers(place, answer, target, [low, high], words) {
  const width = Math.max(place.clientWidth, 260), height = width < 520 ? 150 : 268;
  const floor = height - 42, top = 10, left = 6, right = width - 6;
  const x = (value) => left + ((value - low) / (high - low)) * (right - left);
  const { shape } = answer, everyone = target.everyone;
  const peak = Math.max(...shape.y, shape.zero ? 0 : 1e-300);
  const y = (value) => floor - (value / peak) * (floor - top);
  const svg = node("svg", { viewBox: `0 0 ${width} ${height}`, role: "img", "aria-label": words });

  for (const tick of ticks(low, high, width < 520 ? 4 : 8)) {
    const anchor = x(tick) < left + 24 ? "start" : x(tick) > right - 24 ? "end" : "middle";
    svg.append(node("line", { class: "axis", x1: x(tick), x2: x(tick), y1: floor, y2: floor + 5 }));
    svg.append(node("text", { x: x(tick), y: height - 2, "text-anchor": anchor }, people(tick)));
  }
  svg.append(node("line", { class: "axis", x1: left, x2: right, y1: floor, y2: floor }));

  const clip = node("clipPath", { id: "inside" });
  clip.append(node("rect", { x: left, y: 0, width: right - left, height }));
  svg.append(clip);
  const area = node("g", { "clip-path": "url(#inside)" });
  svg.append(area);
  if (shape.kind === "counts") drawCounts(area, shape, answer, x, y, floor);
  else drawDensity(area, shape, answer, x, y, floor);
  if (shape.zero > 0.0005) drawZero(area, shape.zero, x, floor, top);
  if (everyone.y.length) area.append(node("path", { class: "everyone", d: path(everyone, x, y) }));

  const [a, b, m] = [answer.low, answer.high, answer.mean].map((value) => x(Math.min(Math.max(value ?? high, low), high)));
  const below = floor + 13;
  svg.append(node("line", { class: "span", id: "interval", x1: a, x2: b, y1: below, y2: below }));
  svg.append(node("line", { class: "middle", x1: m, x2: m, y1: top, y2: below }));
  svg.append(node("circle", { class: "dot", cx: m, cy: below, r: 4.5 }));
  place.replaceChildren(svg);
}

const path = ({ x: xs, y: ys }, x, y) => xs.map((value, i) => `${i ? "L" : "M"}${x(value).toFixed(1)} ${Math.max(y(ys[i]), -9).toFixed(1)}`).join("");

function drawDensity(area, shape, { low, high }, x, y, floor) {
  if (!shape.x.length) return;
  const part = (from, to) => {
    const some = { x: [], y: [] };
    shape.x.forEach((value, i) => { if (value >= from && value <= to) { some.x.push(value); some.y.push(shape.y[i]); } });
    return some.x.length > 1 ? `${path(some, x, y)}L${x(some.x.at(-1))} ${floor}L${x(some.x[0])} ${floor}Z` : "";
  };
  area.append(node("path", { class: "outside", d: part(-Infinity, Infinity) }));
  area.append(node("path", { class: "inside", d: part(low, high ?? Infinity) }));
  area.append(node("path", { class: "curve", d: path(shape, x, y) }));
}

function drawCounts(area, shape, { low, high }, x, y, floor) {
  const width = Math.max(1, Math.min(26, (x(1) - x(0)) * 0.78));
  shape.x.forEach((value, i) => {
    const kind = value >= low && value <= high ? "inside" : "outside";
    area.append(node("rect", { class: kind, x: x(value) - width / 2, y: y(shape.y[i]), width, height: Math.max(0, floor - y(shape.y[i])), rx: 1.5 }));
  });
}

// A probability of exactly zero is no density: a pillar, as high as it is likely.
function drawZero(area, probability, x, floor, top) {
  const height = probability * (floor - top);
  area.append(node("rect", { class: "inside", x: x(0) - 5, y: floor - height, width: 10, height, rx: 2 }));
  area.append(node("text", { x: x(0) + 10, y: Math.min(floor - 6, floor - height + 12) }, `${percent(probability)} at 0`));
}

export function drawClasses(place, { probabilities, best }) {
  const all = Object.entries(probabilities);
  const shown = all.length <= MOST_CLASSES ? all : all.toSorted((a, b) => b[1] - a[1]).slice(0, MOST_CLASSES);
  const rest = 1 - shown.reduce((sum, [, share]) => sum + share, 0);
  const list = element("ul", { class: "bars" });
  for (const [name, share] of all.length > shown.length ? [...shown, [`${all.length - shown.length} others`, rest]] : shown) {
    const fill = element("div", { class: "fill" });
    fill.style.width = percent(share);
    list.append(element("li", { class: name === best ? "best" : "" },
      element("span", { class: "name", text: name, title: name }), element("div", { class: "rail" }, fill),
      element("span", { class: "number", text: percent(share) })));
  }
  place.replaceChildren(list);
}

export function drawParts(place, parts) {
  const stack = element("div", { class: "stack", "aria-hidden": "true" });
  const list = element("dl", { class: "parts" });
  for (const { kind, name, share, amount, words } of parts) {
    const bar = element("span", { class: kind });
    bar.style.flexGrow = Math.max(share, 0.001);
    stack.append(bar);
    const term = element("dt", { text: `${name}: ${percent(share)}` });
    term.style.setProperty("--part", `var(--${kind})`);
    list.append(element("div", {}, term, element("dd", {}, element("b", { text: amount }), words)));
  }
  place.replaceChildren(stack, list);
}

// Bars to both sides, for the prediction and for its uncertainty; `order` is that of the rows.
export function drawCells(place, cells, row, order, heads, unit = 1) {
  const text = (value, most) => signed(unit * value, unit * most);
  const widest = (name) => Math.max(1e-12, ...cells.map((cell) => Math.abs(cell[name])));
  const most = { mean: widest("mean"), spread: widest("spread") };
  const by = Object.fromEntries(cells.map((cell) => [cell.column, cell]));
  const body = element("tbody");
  for (const name of order) {
    const cell = by[name], value = row[name];
    const shown = value === null ? "missing" : typeof value === "number" ? people(value) : value;
    const line = element("tr", {}, element("th", { scope: "row" }, `${name} = `, element("b", { text: shown })));
    if (cell) {
      line.append(effect(cell.mean, most.mean, cell.mean > 0 ? "up" : "down", text(cell.mean, most.mean)));
      const narrower = cell.spread < 0;
      line.append(effect(cell.spread, most.spread, narrower ? "narrower" : "wider", text(cell.spread, most.spread)));
    } else line.append(element("td", { text: "–" }), element("td", { text: "–" }));
    body.append(line);
  }
  const head = element("tr", {}, ...["Value", ...heads].map((words) => element("th", { scope: "col", text: words })));
  place.replaceChildren(element("table", {}, element("thead", {}, head), body));
}

function effect(value, most, kind, text) {
  const fill = element("div", { class: `fill ${kind}` });
  const size = (50 * Math.abs(value)) / most;
  fill.style.width = `${size}%`;
  fill.style.left = `${value < 0 ? 50 - size : 50}%`;
  return element("td", {}, element("div", { class: "effect" },
    element("div", { class: "rail", "aria-hidden": "true" }, fill), element("span", { text })));
}
