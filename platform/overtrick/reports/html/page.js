"use strict";

function makeButton(sign, name, onClick) {
  const button = document.createElement("button");
  button.type = "button";
  button.textContent = sign;
  button.title = name;
  button.setAttribute("aria-label", name);
  button.addEventListener("click", onClick);
  return button;
}

// A game is a list of steps. Without this script all steps can be read; with it, one at a time.
function showStepByStep(list) {
  const steps = [...list.children];
  let current = 0;
  const bar = document.createElement("div");
  bar.className = "turns";
  const position = document.createElement("span");
  position.setAttribute("aria-live", "polite");
  const show = (step) => {
    current = Math.max(0, Math.min(steps.length - 1, step));
    steps.forEach((each, k) => { each.hidden = k !== current; });
    position.textContent = `step ${current + 1} of ${steps.length}`;
  };
  bar.append(
    makeButton("|◀", "first step", () => show(0)),
    makeButton("◀", "step back", () => show(current - 1)),
    makeButton("▶", "step on", () => show(current + 1)),
    makeButton("▶|", "last step", () => show(steps.length - 1)),
    position,
  );
  list.before(bar);
  show(0);
}

function formatNumber(value) {
  const whole = Math.abs(value) >= 1000;
  return whole ? Math.round(value).toLocaleString("en") : `${Number(value.toPrecision(3))}`;
}

// A curve can be enlarged; a horizontal drag zooms into a range; the pointer shows single values.
function makeZoomable(figure) {
  const chart = figure.querySelector("svg");
  const plot = chart.querySelector("svg");
  const scale = plot.viewBox.baseVal.width;
  const drawn = [...plot.querySelector("polyline").points];
  const values = chart.dataset.points.split(" ").map((pair) => pair.split(",").map(Number));
  const points = drawn.map(({ x, y }, k) => ({ x, y, iteration: values[k][0], value: values[k][1] }));
  const [low, high] = chart.dataset.y.split(" ").map(Number);
  const first = points[0].iteration;
  const last = points[points.length - 1].iteration;
  const toIteration = (x) => Math.floor(first + (x / scale) * (last - first));
  const toValue = (y) => high - (y / scale) * (high - low);
  const xLabels = [...chart.querySelectorAll("text.x")];
  const yLabels = [...chart.querySelectorAll("text.y")];
  const reading = document.createElement("p");
  reading.className = "reading";

  const show = (left, right) => {
    const inside = points.filter(({ x }) => x >= left && x <= right).map(({ y }) => y);
    const whole = left === 0 && right === scale;
    let top = whole || !inside.length ? 0 : Math.min(...inside);
    let bottom = whole || !inside.length ? scale : Math.max(...inside);
    if (bottom === top) { top -= 1; bottom += 1; }
    plot.setAttribute("viewBox", `${left} ${top} ${right - left} ${bottom - top}`);
    xLabels.forEach((label, k) => {
      label.textContent = toIteration(left + (k / 2) * (right - left)).toLocaleString("en");
    });
    yLabels.forEach((label, k) => {
      label.textContent = formatNumber(toValue(bottom - (k / 2) * (bottom - top)));
    });
    back.hidden = whole;
  };
  const back = makeButton("↺", "show the whole curve", () => show(0, scale));
  const enlarge = makeButton("⤢", "enlarge or shrink the curve", () => figure.classList.toggle("large"));
  const bar = document.createElement("div");
  bar.className = "turns";
  bar.append(enlarge, back, reading);
  figure.append(bar);
  back.hidden = true;

  const position = (event) => {
    const box = chart.getBoundingClientRect();
    const view = plot.viewBox.baseVal;
    const x = ((event.clientX - box.left) / box.width) * chart.viewBox.baseVal.width;
    const share = (x - plot.x.baseVal.value) / plot.width.baseVal.value;
    return view.x + Math.max(0, Math.min(1, share)) * view.width;
  };
  let start = null;
  chart.addEventListener("pointerdown", (event) => {
    if (event.button !== 0) return;
    chart.setPointerCapture(event.pointerId); // the drag may end outside the chart
    start = position(event);
  });
  chart.addEventListener("pointermove", (event) => {
    const x = position(event);
    const nearest = points.reduce((a, b) => (Math.abs(b.x - x) < Math.abs(a.x - x) ? b : a));
    const iteration = nearest.iteration.toLocaleString("en");
    reading.textContent = `iteration ${iteration}: ${nearest.value}`;
  });
  chart.addEventListener("pointercancel", () => { start = null; }); // the page is scrolled
  chart.addEventListener("pointerup", (event) => {
    if (start === null) return;
    const [left, right] = [start, position(event)].sort((a, b) => a - b);
    start = null;
    if (right - left > 0.02 * plot.viewBox.baseVal.width) show(left, right);
  });
  chart.addEventListener("dblclick", () => show(0, scale));
}

document.querySelectorAll("ol.steps").forEach(showStepByStep);
document.querySelectorAll("figure.curve").forEach(makeZoomable);
