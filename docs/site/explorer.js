// Sort the table of presets by a click on a column, and plot the scores on a data set.

const [WIDTH, HEIGHT, LEFT, BOTTOM, MARGIN] = [720, 380, 64, 44, 12];
const [DATA, METRIC, SCORE, PARAMETERS] = [1, 2, 3, 4]; // columns; those that follow are ratios

const table = document.querySelector("article table");
const heads = [...table.tHead.rows[0].cells];
const names = heads.map((head) => head.textContent.trim());
const rows = [...table.tBodies[0].rows];
const text = (row, column) => row.cells[column].textContent.trim();
const number = (row, column) => parseFloat(text(row, column).replaceAll(",", "")); // NaN for words

function sort(column) {
  const sign = heads[column].ariaSort === "ascending" ? -1 : 1;
  heads.forEach((head) => head.removeAttribute("aria-sort"));
  heads[column].ariaSort = sign === 1 ? "ascending" : "descending";
  rows.sort((a, b) => {
    const [x, y] = [a, b].map((row) => number(row, column));
    const words = sign * text(a, column).localeCompare(text(b, column));
    return isNaN(x) || isNaN(y) ? isNaN(x) - isNaN(y) || words : sign * (x - y);
  });
  table.tBodies[0].append(...rows);
}

function svg(name, attributes, ...children) {
  const made = document.createElementNS("http://www.w3.org/2000/svg", name);
  Object.entries(attributes).forEach(([key, value]) => made.setAttribute(key, value));
  made.append(...children);
  return made;
}

// Round values around those of an axis, and a function from a value to its place.
function scale(values, start, end) {
  const [low, high] = [Math.min(...values), Math.max(...values)];
  const rough = (high - low || high) / 4;
  const power = 10 ** Math.floor(Math.log10(rough));
  const step = power * [1, 2, 5, 10].find((factor) => factor * power >= rough);
  const first = Math.floor(low / step);
  const count = Math.max(Math.ceil(high / step) - first, 1);
  const ticks = Array.from({ length: count + 1 }, (_, index) => (first + index) * step);
  const place = (value) => start + ((end - start) * (value - ticks[0])) / (count * step);
  return { ticks, place };
}

const short = (value) =>
  value.toLocaleString("en", { notation: "compact", maximumSignificantDigits: 4 });

function point(row, axis, x, y) {
  const name = text(row, 0);
  const title = `${name}: ${text(row, METRIC)} ${text(row, SCORE)}, ${names[axis]} ${text(row, axis)}`;
  const side = x < WIDTH / 2 ? { x: x + 9, "text-anchor": "start" } : { x: x - 9, "text-anchor": "end" };
  return svg(
    "a", { href: row.querySelector("a").href },
    svg("title", {}, title),
    svg("circle", { cx: x, cy: y, r: 5 }),
    svg("text", { ...side, y: y + 4 }, name),
  );
}

function draw() {
  const axis = Number(columns.value);
  const those = rows.filter((row) => text(row, DATA) === data.value);
  const shown = those.filter((row) => !isNaN(number(row, axis)));
  caption.textContent = `${shown.length} of ${those.length} models are measured.`;
  plot.replaceChildren();
  if (!shown.length) return;
  const [right, bottom] = [WIDTH - MARGIN, HEIGHT - BOTTOM];
  const [x, y] = [
    scale(shown.map((row) => number(row, axis)), LEFT, right),
    scale(shown.map((row) => number(row, SCORE)), bottom, MARGIN),
  ];
  plot.append(
    ...y.ticks.flatMap((tick) => [
      svg("line", { x1: LEFT, x2: right, y1: y.place(tick), y2: y.place(tick) }),
      svg("text", { x: LEFT - 6, y: y.place(tick) + 4, "text-anchor": "end" }, short(tick)),
    ]),
    ...x.ticks.map((tick) =>
      svg("text", { x: x.place(tick), y: bottom + 18, "text-anchor": "middle" }, short(tick)),
    ),
    svg("text", { x: (LEFT + right) / 2, y: HEIGHT - 6, "text-anchor": "middle" }, names[axis]),
    svg("text", { transform: `translate(14 ${bottom / 2}) rotate(-90)` }, text(shown[0], METRIC)),
    ...shown.map((row) => point(row, axis, x.place(number(row, axis)), y.place(number(row, SCORE)))),
  );
}

function choice(label, options) {
  const select = document.createElement("select");
  select.append(...options.map(([value, name]) => new Option(name, value)));
  select.addEventListener("change", draw);
  const made = document.createElement("label");
  made.append(`${label} `, select);
  explorer.append(made);
  return select;
}

heads.forEach((head, column) => {
  const button = document.createElement("button");
  button.append(...head.childNodes);
  button.addEventListener("click", () => sort(column));
  head.append(button);
});
const explorer = document.getElementById("explorer");
const data = choice("Data", [...new Set(rows.map((row) => text(row, DATA)))].map((name) => [name, name]));
const columns = choice("Score against", names.map((name, index) => [index, name]).slice(PARAMETERS));
const plot = svg("svg", { viewBox: `0 0 ${WIDTH} ${HEIGHT}`, role: "group" });
const caption = document.createElement("p");
explorer.append(plot, caption);
draw();
