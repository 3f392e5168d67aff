// A game is a list of steps. Without this script all are there to read; with it, one at a time.
for (const list of document.querySelectorAll("ol.steps")) {
  const steps = [...list.children];
  let at = 0;
  const bar = document.createElement("div");
  bar.className = "turns";
  const where = document.createElement("span");
  where.setAttribute("aria-live", "polite");
  const show = (to) => {
    at = Math.max(0, Math.min(steps.length - 1, to));
    steps.forEach((step, k) => { step.hidden = k !== at; });
    where.textContent = `step ${at + 1} of ${steps.length}`;
  };
  const button = (sign, name, to) => {
    const made = document.createElement("button");
    made.type = "button";
    made.textContent = sign;
    made.setAttribute("aria-label", name);
    made.addEventListener("click", () => show(to()));
    return made;
  };
  bar.append(
    button("|◀", "first step", () => 0),
    button("◀", "step back", () => at - 1),
    button("▶", "step on", () => at + 1),
    button("▶|", "last step", () => steps.length - 1),
    where,
  );
  list.before(bar);
  show(0);
}
