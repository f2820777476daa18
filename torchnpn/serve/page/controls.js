// One control for each column of the model: a slider, a choice or a date, each with a switch for "missing".

import { people } from "./drawing.js";

const MOST_CHIPS = 5;
const DAY = 86400000;

export function element(tag, attributes = {}, ...children) {
  const made = document.createElement(tag);
  for (const [name, value] of Object.entries(attributes)) {
    if (name === "class") made.className = value;
    else if (name === "text") made.textContent = value;
    else if (value !== false && value !== null) made.setAttribute(name, value === true ? "" : value);
  }
  made.append(...children);
  return made;
}

// Controls for the columns, in a form; returns a function that gives the row as it stands.
export function build(form, columns, changed) {
  const controls = columns.map((column, i) => control(column, `c${i}`, changed));
  for (const one of controls) form.append(one.box);
  form.addEventListener("reset", (event) => {
    event.preventDefault();
    for (const one of controls) one.reset();
    changed(true);
  });
  form.addEventListener("submit", (event) => event.preventDefault());
  return () => Object.fromEntries(controls.map((one) => [one.name, one.value()]));
}

function control(column, id, changed) {
  const kind = { number, category, date, time }[column.kind](column, id, changed);
  const missing = element("input", { type: "checkbox", role: "switch", id: `${id}-missing` });
  const label = element("label", { class: "switch" }, missing, element("span", { text: "missing" }));
  label.append(element("span", { class: "unseen", text: `: ${column.name}` }));
  const top = element("div", { class: "top" }, element("span", { class: "name", id: `${id}-name`, text: column.name }));
  if (!column.required) top.append(label);
  const box = element("div", { class: "column", role: "group", "aria-labelledby": `${id}-name` }, top, ...kind.below);
  const show = () => {
    box.classList.toggle("is-missing", missing.checked);
    for (const input of kind.inputs) input.disabled = missing.checked;
  };
  missing.addEventListener("change", () => { show(); changed(true); });
  for (const input of kind.inputs) {
    input.addEventListener("input", () => changed(false));
    input.addEventListener("change", () => changed(true));
  }
  const reset = () => { missing.checked = false; kind.set(column.usual); show(); };
  reset();
  return { box, name: column.name, value: () => (missing.checked ? null : kind.get()), reset };
}

function number(column, id) {
  const low = Math.min(column.low, column.usual), high = Math.max(column.high, column.usual);
  const entry = element("input", { type: "number", step: "any", "aria-labelledby": `${id}-name`, id });
  const slider = element("input", {
    type: "range", min: low, max: high, step: column.step, "aria-labelledby": `${id}-name`, id: `${id}-slider`,
  });
  slider.addEventListener("input", () => { entry.value = rounded(snapped(slider, column.step)); });
  entry.addEventListener("input", () => { slider.value = entry.value; });
  return {
    inputs: [slider, entry], below: line(slider, entry, people(low), people(high)),
    get: () => (entry.value === "" ? null : Number(entry.value)),
    set: (value) => { entry.value = rounded(value); slider.value = value; },
  };
}

// A slider with its ends below it, and an entry beside it.
function line(slider, entry, low, high) {
  const ends = element("div", { class: "low-high", "aria-hidden": "true" }, element("span", { text: low }), element("span", { text: high }));
  return [element("div", { class: "line field" }, element("div", {}, slider, ends), entry)];
}

// Sliders count their steps from the least value; people want round numbers, and the two ends.
function snapped(slider, step) {
  const value = Number(slider.value), low = Number(slider.min), high = Number(slider.max);
  if (value - low < step / 2) return low;
  if (high - value < step / 2) return high;
  return Math.min(high, Math.max(low, Math.round(value / step) * step));
}

const rounded = (value) => String(Number(Number(value).toPrecision(12)));

function category(column, id) {
  if (column.values.length > MOST_CHIPS) {
    const select = element("select", { "aria-labelledby": `${id}-name`, id });
    for (const value of column.values) select.append(element("option", { value, text: value || "(empty)" }));
    return {
      inputs: [select], below: [element("div", { class: "field" }, select)],
      get: () => select.value, set: (value) => { select.value = value; },
    };
  }
  const chips = element("div", { class: "chips field", role: "radiogroup", "aria-labelledby": `${id}-name` });
  const inputs = column.values.map((value) => {
    const input = element("input", { type: "radio", name: id, value });
    chips.append(element("label", {}, input, element("span", { text: value || "(empty)" })));
    return input;
  });
  return {
    inputs, below: [chips],
    get: () => inputs.find((input) => input.checked).value,
    set: (value) => { for (const input of inputs) input.checked = input.value === value; },
  };
}

function date(column, id) {
  const days = (text) => Math.round(Date.parse(`${text}T00:00Z`) / DAY);
  const text = (day) => new Date(day * DAY).toISOString().slice(0, 10);
  const entry = element("input", { type: "date", "aria-labelledby": `${id}-name`, id });
  const slider = element("input", {
    type: "range", min: days(column.low), max: days(column.high), step: 1, "aria-labelledby": `${id}-name`, id: `${id}-slider`,
  });
  const speak = () => slider.setAttribute("aria-valuetext", entry.value);
  slider.addEventListener("input", () => { entry.value = text(Number(slider.value)); speak(); });
  entry.addEventListener("input", () => { if (entry.value) slider.value = days(entry.value); speak(); });
  return {
    inputs: [slider, entry], below: line(slider, entry, column.low, column.high),
    get: () => (entry.value ? entry.value + (column.zone ? "T00:00Z" : "") : null),
    set: (value) => { entry.value = value; slider.value = days(value); speak(); },
  };
}

function time(column, id) {
  const entry = element("input", { type: "time", "aria-labelledby": `${id}-name`, id });
  return { inputs: [entry], below: [element("div", { class: "field" }, entry)], get: () => entry.value || null, set: (value) => { entry.value = value; } };
}
