// The page of `npn serve`: asks the server for the prediction of the row that the controls show, and draws it.

import { build, element } from "./controls.js";
import { drawCells, drawClasses, drawNumbers, drawParts, people, percent, steadyAxis } from "./drawing.js";

const LEVELS = [0.5, 0.8, 0.9, 0.95, 0.99];
const QUIET = 600; // milliseconds without a change before a screen reader hears the result

const byId = (id) => document.getElementById(id);
const model = await (await fetch("model")).json();
const { target, record, columns } = model;
const axis = target.classes ? null : steadyAxis(target);
const rowNow = build(byId("controls"), columns, ask);

let level = 0.9;
let asking = false; // a request is on its way
let again = false; // something has changed since
let order = columns.map((column) => column.name);
let last = null; // row and answer that are shown
let speaking;

introduce();
ask(true);
addEventListener("resize", () => last && draw(last.row, last.answer));

// One request at a time: while one is on its way, changes wait, and only the last of them is asked for.
async function ask(settled) {
  if (settled) ask.settled = true;
  if (asking) { again = true; return; }
  asking = true;
  byId("view").ariaBusy = "true";
  do {
    again = false;
    const row = rowNow(), sort = ask.settled;
    ask.settled = false;
    await show(row, sort);
  } while (again);
  asking = false;
  byId("view").ariaBusy = "false";
}

async function show(row, sort) {
  try {
    const answer = await post("explain", JSON.stringify(row), "application/json").then((response) => response.json());
    if (sort) order = sorted(answer.cells);
    last = { row, answer };
    draw(row, answer);
    byId("problem").textContent = answer.far ? `${answer.far} The prediction is unreliable.` : "";
    byId("view").classList.remove("stale");
  } catch (error) {
    byId("problem").textContent = error.message;
    byId("view").classList.add("stale");
  }
}

async function post(path, body, type) {
  const response = await fetch(`${path}?level=${level}`, { method: "POST", body, headers: { "Content-Type": type } })
    .catch(() => { throw new Error("The server does not answer."); });
  if (!response.ok) {
    const { error } = await response.json().catch(() => ({ error: `The server answers with status ${response.status}.` }));
    throw new Error(error);
  }
  return response;
}

function sorted(cells) {
  const most = (name) => Math.max(1e-300, ...cells.map((cell) => Math.abs(cell[name])));
  const [mean, spread] = [most("mean"), most("spread")];
  const weight = Object.fromEntries(cells.map((cell) => [cell.column, Math.abs(cell.mean) / mean + Math.abs(cell.spread) / spread]));
  return columns.map((column) => column.name).sort((a, b) => (weight[b] ?? -1) - (weight[a] ?? -1));
}

function draw(row, answer) {
  const words = target.classes ? drawClass(row, answer) : drawNumber(row, answer);
  byId("curl").textContent = `curl -d '${JSON.stringify(row).replaceAll("'", "'\\''")}' ${location.origin}/predict`;
  clearTimeout(speaking);
  speaking = setTimeout(() => { byId("spoken").textContent = words; }, QUIET);
}

function drawNumber(row, answer) {
  const inside = `${people(answer.low)} to ${people(answer.high)}`;
  byId("value").textContent = people(answer.mean);
  byId("range").replaceChildren(`${100 * level}% interval `, element("b", { id: "ends", text: inside }));
  const words = `${target.name}: ${people(answer.mean)}, ${100 * level}% interval ${inside}`;
  drawNumbers(byId("picture"), answer, target, axis(answer), words);
  const share = answer.noise ** 2 / (answer.noise ** 2 + answer.model ** 2) || 0;
  drawParts(byId("parts"), [
    { kind: "noise", name: "Noise", share, amount: `± ${people(answer.noise)} `, words: "rows with these same values differ by this much; more data would not change it." },
    { kind: "model", name: "Model", share: 1 - share, amount: `± ${people(answer.model)} `, words: "so far off the model itself may be; more rows like this one would reduce it." },
  ]);
  cells(row, answer, ["moves the prediction by", "changes its spread (std) by"]);
  return words;
}

function drawClass(row, answer) {
  const share = answer.probabilities[answer.best];
  byId("value").textContent = answer.best;
  byId("range").replaceChildren("probability ", element("b", { id: "ends", text: percent(share) }), `, uncertainty ${answer.uncertainty.toFixed(2)}`);
  drawClasses(byId("picture"), answer);
  drawParts(byId("parts"), [
    { kind: "noise", name: "Overlap", share: 1 - answer.model_share, amount: "", words: "rows with these same values are of different classes; more data would not change it." },
    { kind: "model", name: "Model", share: answer.model_share, amount: "", words: "the model has seen too few rows like this one; more of them would help." },
  ]);
  cells(row, answer, [`moves P(${answer.best}), in points, by`, "changes uncertainty, in points, by"], 100);
  return `${target.name}: ${answer.best}, probability ${percent(share)}`;
}

function cells(row, answer, heads, unit) {
  drawCells(byId("cells"), answer.cells, row, order, heads, unit);
  byId("cells").append(element("p", { class: "note", text: "Against the same row with that value missing; a bar to the left makes the prediction smaller, or more certain. Values that carry the same information share it." }));
}

function introduce() {
  document.title = `Predicting ${target.name}`;
  byId("title").textContent = `Predicting ${target.name}`;
  byId("lead").textContent = `Learnt from ${record.rows.toLocaleString("en")} rows of ${record.file}. Change a value, and see what it does to the prediction and to its uncertainty.`;
  byId("what").textContent = target.name;
  byId("warning").textContent = record.notes.join(" ");
  byId("warning").hidden = !record.is_worse;
  if (target.classes) byId("levels").hidden = byId("key").hidden = true;
  for (const one of LEVELS) {
    const input = element("input", { type: "radio", name: "level", value: one, checked: one === level });
    input.addEventListener("change", () => { level = one; ask(false); });
    byId("levels").append(element("label", {}, input, `${100 * one}%`));
  }
  const body = element("tbody");
  for (const [name, ours, baseline, wins] of record.figures) {
    const best = (which) => (wins === which ? "best" : "");
    body.append(element("tr", {}, element("th", { scope: "row", text: name }),
      element("td", { text: ours, class: best(true) }), element("td", { text: baseline, class: best(false) })));
  }
  const head = element("tr", {}, ...["", "model", "baseline"].map((text) => element("th", { scope: "col", text })));
  byId("record").replaceChildren(
    element("div", { class: "scroll" }, element("table", {}, element("thead", {}, head), body)),
    element("p", { class: "note", text: `On ${people(record.held_out)} rows that it was not trained on. The baseline predicts the same distribution for every row.` }));
  const drop = byId("drop");
  byId("file").addEventListener("change", (event) => table(event.target.files[0]));
  for (const name of ["dragover", "dragleave", "drop"]) {
    drop.addEventListener(name, (event) => { event.preventDefault(); drop.classList.toggle("over", name === "dragover"); });
  }
  drop.addEventListener("drop", (event) => table(event.dataTransfer.files[0]));
}

async function table(file) {
  if (!file) return;
  const [says, link] = [byId("file-says"), byId("download")];
  link.hidden = true;
  says.className = "";
  says.textContent = `Predicting ${file.name} …`;
  try {
    const blob = await (await post("predict", file, "text/csv")).blob();
    URL.revokeObjectURL(link.href);
    link.href = URL.createObjectURL(blob);
    link.download = `${file.name.replace(/\.[^.]*$/, "")}-predicted.csv`;
    link.hidden = false;
    says.textContent = `${file.name} is predicted, with ${100 * level}% intervals.`;
  } catch (error) {
    says.className = "problem";
    says.textContent = error.message;
  }
  byId("file").value = "";
}
