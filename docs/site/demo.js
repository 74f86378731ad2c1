// Label a picture in the browser, and show where the values of a token came from.

import * as ort from "./ort.wasm.bundle.min.mjs";

const TOP = 5;
const here = (name) => new URL(name, import.meta.url).href;
const element = (id) => document.getElementById(id);

ort.env.wasm.wasmPaths = { wasm: here("ort-wasm-simd-threaded.wasm") };
ort.env.wasm.numThreads = 1; // more need headers that a plain server of files does not send

const model = await (await fetch(here("model.json"))).json();
const session = await ort.InferenceSession.create(here("model.onnx"));
const tokens = model.side ** 2;
let answer; // logits, before, after: what the model said of the picture that is shown
let token = 0; // the one that is pointed at

// A picture as people see it, on white: uint8, (1, height, width, 3).
async function read(blob) {
  const bitmap = await createImageBitmap(blob, { colorSpaceConversion: "none" });
  const { width, height } = bitmap;
  const canvas = element("picture");
  Object.assign(canvas, { width, height });
  const context = canvas.getContext("2d", { willReadFrequently: true });
  context.fillStyle = "white";
  context.fillRect(0, 0, width, height);
  context.drawImage(bitmap, 0, 0);
  const rgba = context.getImageData(0, 0, width, height).data;
  const rgb = rgba.filter((_, index) => index % 4 < 3);
  return new ort.Tensor("uint8", new Uint8Array(rgb.buffer), [1, height, width, 3]);
}

function softmax(logits) {
  const largest = Math.max(...logits);
  const powers = Array.from(logits, (logit) => Math.exp(logit - largest));
  const sum = powers.reduce((a, b) => a + b);
  return powers.map((power) => power / sum);
}

function showLabels() {
  const best = softmax(answer.logits.data)
    .map((probability, index) => ({ probability, label: model.labels[index] }))
    .sort((a, b) => b.probability - a.probability)
    .slice(0, TOP);
  element("labels").replaceChildren(
    ...best.map(({ probability, label }) => {
      const row = document.createElement("li");
      row.textContent = `${(100 * probability).toFixed(2)} %  ${label}`;
      row.style.setProperty("--share", probability);
      return row;
    }),
  );
}

// The values of a channel before or after the mixer of a layer, one per token.
function values(which, layer, channel) {
  const start = layer * tokens * model.channels + channel;
  return Array.from({ length: tokens }, (_, n) => answer[which].data[start + n * model.channels]);
}

// How many channels of a token each place gave. Of equal values the first goes to the first.
function sources(layer, token) {
  const counts = new Array(tokens).fill(0);
  for (let channel = 0; channel < model.channels; channel++) {
    const before = values("before", layer, channel);
    const after = values("after", layer, channel);
    const value = after[token];
    let earlier = after.slice(0, token).filter((other) => other === value).length;
    const place = before.findIndex((other) => other === value && earlier-- === 0);
    if (place >= 0) counts[place]++;
  }
  return counts;
}

function showSources() {
  const layer = Number(element("layer").value);
  const counts = sources(layer, token);
  const most = Math.max(...counts);
  const places = counts.filter((count) => count > 0).length;
  [...element("tokens").children].forEach((patch, index) => {
    patch.dataset.weight = counts[index];
    patch.title = `${counts[index]} of ${model.channels} channels`;
    patch.style.setProperty("--heat", counts[index] / most);
    patch.setAttribute("aria-pressed", index === token);
  });
  element("layer-number").textContent = `${layer + 1} of ${model.layers}`;
  element("sources").textContent =
    `The ${model.channels} channels of the framed patch hold values from ${places} patches.`;
}

async function label(blob) {
  element("demo").dataset.state = "busy";
  element("message").textContent = "";
  try {
    answer = await session.run({ images: await read(blob) });
    showLabels();
    showSources();
    element("demo").dataset.state = "ready";
  } catch (error) {
    element("message").textContent = `The browser cannot read this picture. (${error.message})`;
    element("demo").dataset.state = "failed";
  }
}

// One picture after the other: a session answers one question at a time.
let last = Promise.resolve();
const show = (blob) => (last = last.then(() => label(blob)));
const showExample = async (url) => show(await (await fetch(url)).blob());

function makePatch(_, index) {
  const patch = document.createElement("button");
  const point = () => {
    token = index;
    if (answer) showSources();
  };
  patch.addEventListener("pointerenter", point);
  patch.addEventListener("focus", point);
  patch.addEventListener("click", point);
  patch.ariaLabel = `patch ${index + 1}`;
  return patch;
}

function makeExample(name) {
  const button = document.createElement("button");
  const picture = document.createElement("img");
  picture.src = here(name);
  picture.alt = name;
  button.append(picture);
  button.addEventListener("click", () => showExample(picture.src));
  return button;
}

element("tokens").style.setProperty("--side", model.side);
element("tokens").append(...Array.from({ length: tokens }, makePatch));
element("layer").max = model.layers - 1;
element("layer").addEventListener("input", showSources);
element("examples").append(...model.pictures.map(makeExample));
element("file").addEventListener("change", ({ target }) => target.files[0] && show(target.files[0]));
element("demo").addEventListener("dragover", (event) => event.preventDefault());
element("demo").addEventListener("drop", (event) => {
  event.preventDefault();
  const [file] = event.dataTransfer.files;
  if (file) show(file);
});
await showExample(here(model.pictures[0]));
