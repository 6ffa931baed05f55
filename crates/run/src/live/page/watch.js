"use strict";
// Shows the lines of crates/run/src/live/model.rs. Everything on the page follows from the scene and the samples
// up to the time that is shown.

const MOST_SAMPLES = 1500, MOST_NOTES = 500, LOG_LINES = 200;
const NAMES = "0123456789abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ";
const TOLD = [
  ["preempted", "took # from other tasks", "aggregator"],
  ["seized", "took over # that was idle", "aggregator"],
  ["evicted", "# evicted by other tasks", "partial sum"],
  ["collided", "# collided with another task", "packet"],
  ["reminded", "# fetched a partial sum", "reminder"],
  ["absent", "# found no partial sum", "reminder"],
  ["flushed", "# fetched a partial sum", "resend"],
  ["rejected", "# rejected", "packet"],
  ["malformed", "# malformed", "packet"],
];
// What is counted of jobs: the outcome, its heading, and what it is.
const COUNTED = {
  esa: [["preempted", "preempted", "Aggregators that it took from other tasks"],
    ["evicted", "evicted", "Partial sums of the job that other tasks evicted"],
    ["collided", "downgraded", "Packets that found another task's aggregator"],
    ["reminded", "reminded", "Reminders that fetched a partial sum"]],
  atp: [["seized", "taken over", "Idle aggregators that it took over from other tasks"],
    ["collided", "collided", "Packets that found another task's aggregator"],
    ["flushed", "flushed", "Resends that fetched a partial sum"]],
  segments: [["asynchronous", "turned back", "Packets for an aggregator that was busy with an earlier round"],
    ["repeated", "repeated", "Results for their sender, from the copy"]],
};
const MOST_TOLD = 4;

let scene = null, samples = [], notes = [], end = null, lost = false;
let following = true, playing = false, cursor = -1, playhead = 0, dirty = true, laid = null, shownAt = -2;

const $ = (id) => document.getElementById(id);
const make = (tag, attributes = {}, ...children) => fill(document.createElement(tag), attributes, children);
const draw = (tag, attributes = {}, ...children) =>
  fill(document.createElementNS("http://www.w3.org/2000/svg", tag), attributes, children);
function fill(node, attributes, children) {
  for (const [name, value] of Object.entries(attributes)) node.setAttribute(name, value);
  node.append(...children);
  return node;
}

// --- Numbers and colours -----------------------------------------------------------------------------

const time = (us) => us < 1e3 ? `${us.toFixed(0)} µs` : us < 1e6 ? `${(us / 1e3).toFixed(2)} ms`
  : us < 6e7 ? `${(us / 1e6).toFixed(2)} s` : `${Math.floor(us / 6e7)}:${((us % 6e7) / 1e6).toFixed(1).padStart(4, "0")} min`;
const count = (n) => n.toLocaleString("en-GB").replaceAll(",", "\u202f");
function short(n, unit) {
  for (const [size, prefix] of [[1e9, "G"], [1e6, "M"], [1e3, "k"]])
    if (n >= size) return `${(n / size).toFixed(n >= 100 * size ? 0 : 1)} ${prefix}${unit}`;
  return `${n.toFixed(0)} ${unit}`;
}
const style = getComputedStyle(document.documentElement);
const variable = (name) => style.getPropertyValue(name).trim();
let palette = {};
function readPalette() {
  palette = { jobs: [...Array(8).keys()].map((job) => variable(`--job-${job}`)) };
  for (const name of ["job-other", "free", "ink", "ground", "cold", "soft", "alarm", "rule", "quiet", "load-0", "load-1"]) palette[name] = variable(`--${name}`);
}
const colour = (job) => job >= 0 && job < palette.jobs.length ? palette.jobs[job] : palette["job-other"];
// How much of a job's colour a cell has, by its level.
const strength = (level) => 0.3 + 0.7 * Math.min(level, 11) / 11;
// Links: the busier, the more ink, and wider. Grey is no job's colour, nor that of a fault.
const heat = (share) => `color-mix(in srgb, ${palette["load-1"]} ${(100 * Math.max(0, Math.min(share, 1))).toFixed(0)}%, ${palette["load-0"]})`;

// --- Lines -------------------------------------------------------------------------------------------

function take(line) {
  if (line.kind === "scene") {
    if (line.version !== 1) return;
    scene = line; laid = null;
  } else if (line.kind === "sample") {
    samples.push(line);
    if (samples.length > MOST_SAMPLES) {
      const shown = samples[cursor]?.at_us;
      samples = samples.filter((_, i) => i % 2 === 0 || i === samples.length - 1);
      if (shown !== undefined) cursor = indexAt(shown);
    }
  } else if (line.kind === "note") {
    notes.push(line);
    if (notes.length > MOST_NOTES) notes.shift();
  } else if (line.kind === "end") {
    end = line;
  }
  dirty = true;
}

function connect() {
  const source = new EventSource("events");
  source.onopen = () => { scene = null; samples = []; notes = []; end = null; lost = false; cursor = -1; dirty = true; };
  source.onmessage = (message) => {
    take(JSON.parse(message.data));
    if (!end) return;
    source.close();
    if (fromAddress()) return;
    // What is over is shown from its begin, if it ran in another time than ours.
    if (following && scene?.clock === "virtual" && !document.hidden) play(true);
  };
  source.onerror = () => { if (!end) { lost = true; dirty = true; } };
}

// The last sample not after a time.
function indexAt(us) {
  let low = 0, high = samples.length;
  while (low < high) { const middle = (low + high) >> 1; if (samples[middle].at_us <= us) low = middle + 1; else high = middle; }
  return Math.max(0, low - 1);
}
// The sample with which a sample's rates are computed.
const before = (index) => samples[Math.max(0, index - 5)];
const counts = (sample, job, outcome) =>
  sample.switches.reduce((sum, it) => sum + (it.counts[job]?.[outcome] ?? 0), 0);

// --- Time --------------------------------------------------------------------------------------------

function show(index, follow = false) {
  following = follow; cursor = index; dirty = true;
  playhead = samples[index]?.at_us ?? 0;
}
// An address that ends in #at=MICROSECONDS shows that time.
function fromAddress() {
  const at = /^#at=(\d+)$/.exec(location.hash);
  if (at && samples.length) { playing = false; show(indexAt(Number(at[1]))); }
  return at !== null;
}
function play(on) {
  playing = on;
  if (on) {
    following = false;
    if (cursor < 0 || cursor >= samples.length - 1) { cursor = 0; playhead = samples[0]?.at_us ?? 0; }
  }
  dirty = true;
}
function speed() {
  const chosen = $("speed").value, all = (samples.at(-1)?.at_us ?? 0) - (samples[0]?.at_us ?? 0);
  return chosen.startsWith("all") ? all / (1000 * Number(chosen.slice(3))) : 1000 * Number(chosen);
}
let last = performance.now();
function tick() {
  const at = performance.now(), passed = at - last;
  last = at;
  if (playing && samples.length) {
    playhead += passed * speed();
    const index = indexAt(playhead);
    if (index !== cursor) { cursor = index; dirty = true; }
    if (index === samples.length - 1) { playing = false; following = !end; dirty = true; }
  } else if (following && samples.length && cursor !== samples.length - 1) {
    cursor = samples.length - 1; playhead = samples[cursor].at_us; dirty = true;
  }
  if (dirty && !document.hidden) { dirty = false; render(); }
}

// --- Everything --------------------------------------------------------------------------------------

function render() {
  const state = $("state");
  const past = cursor < samples.length - 1;
  const is = end && (past || playing) ? "past" : end ? (end.failure ? "failed" : "over") : lost ? "lost" : scene ? "live" : "wait";
  state.dataset.is = is;
  const begun = scene && samples.length;
  state.textContent = { failed: `failed: ${end?.failure}`, over: "over", past: playing ? "replay" : "looking back", lost: "connection lost", live: begun ? "running" : "preparing …", wait: "preparing …" }[is];
  document.querySelector("main").hidden = !begun;
  $("clock").hidden = !begun;
  if (!begun) renderFindings(null);
  $("play").textContent = playing ? "❚❚" : "▶";
  $("play").setAttribute("aria-label", playing ? "Pause" : "Play");
  $("live").setAttribute("aria-pressed", String(following));
  if (!scene) return;
  if (!laid) layOut();
  const sample = samples[cursor];
  document.body.dataset.samples = samples.length;
  document.body.dataset.cursor = cursor;
  if (!sample) return;
  $("seek").max = samples.length - 1;
  $("seek").value = cursor;
  $("seek").setAttribute("aria-valuetext", time(sample.at_us));
  $("now").textContent = time(sample.at_us) + (scene.clock === "virtual" ? " virtual" : "");
  renderFindings(sample);
  renderOccupancy();
  renderLinks(sample);
  renderPools(sample);
  renderJobs(sample);
  renderWorkers(sample);
  renderLog();
  shownAt = cursor;
}

// What is wrong, by the rules of crates/run/src/findings.rs.
function renderFindings(sample) {
  const list = $("findings");
  const item = (kind, text) => make("li", { class: kind }, text);
  if (!sample) {
    list.replaceChildren(...end ? [] : [item("wait", "The switches get their programs and tables. The view begins with the first sample.")]);
    return;
  }
  const found = sample.findings ?? [];
  const name = ({ job }) => job === null || job === undefined ? "" : `${scene.jobs[job]?.name ?? "?"}: `;
  const lines = found.length ? found.map((it) => `${name(it)}${it.text}`) : [];
  const kind = lines.length ? "wrong" : "none";
  if (list.dataset.shown === lines.join("\n") && list.firstChild?.className === kind) return;
  list.dataset.shown = lines.join("\n");
  // Of switches that run elsewhere, too little is known to say so.
  const nothing = scene.fabric === "attached" ? [] : [item("none", "nothing wrong was found")];
  list.replaceChildren(...lines.length ? lines.map((line) => item("wrong", line)) : nothing);
}
// The finding about a worker or a link, if there is one.
const findingOf = (sample, job, worker) => (sample.findings ?? []).find((it) => it.job === job && (it.workers ?? []).includes(worker));
const lossOf = (sample, link, way) => (sample.findings ?? []).some((it) => it.link === link && it.ways?.[way]);

const swatch = (job) => { const it = make("i", { class: "swatch" }); it.style.background = colour(job); return it; };

function layOut() {
  laid = { wires: [], hosts: [], pools: [], rows: [], workers: [] };
  readPalette();
  document.title = `${scene.name} – Tributary`;
  $("title").textContent = scene.name;
  const where = { memory: "threads of one process", netns: "network namespaces", sim: "simulated", attached: "running switches" };
  $("about").textContent = `${scene.protocol.toUpperCase()} · ${where[scene.fabric] ?? scene.fabric}`;
  layOutTopology();
  layOutPools();
  layOutJobs();
  layOutWorkers();
  shownAt = -2;
}

// --- Topology ----------------------------------------------------------------------------------------

// Hosts in groups that are drawn as one: each alone, if there is room.
function groups() {
  const role = scene.hosts.map(() => ({ job: -1, kind: "host" }));
  scene.jobs.forEach((job, number) => {
    if (job.server !== null) role[job.server] = { job: role[job.server].kind === "server" ? -1 : number, kind: "server" };
    if (job.agent !== null && role[job.agent].kind === "host") role[job.agent] = { job: number, kind: "agent" };
    for (const host of job.workers) role[host] = { job: number, kind: "worker" };
  });
  const at = scene.hosts.map(() => -1), wire = scene.hosts.map(() => -1);
  scene.links.forEach(({ ends }, link) => ends.forEach((end, side) => {
    if ("host" in end && "switch" in ends[1 - side]) { at[end.host] = ends[1 - side].switch; wire[end.host] = link; }
  }));
  const found = new Map(), alone = scene.hosts.length <= 48;
  scene.hosts.forEach(({ name }, host) => {
    if (at[host] < 0) return;
    const { job, kind } = role[host], key = alone ? host : `${at[host]} ${job} ${kind}`;
    if (!found.has(key)) found.set(key, { name, job, kind, at: at[host], hosts: [], wires: [] });
    found.get(key).hosts.push(host);
    found.get(key).wires.push(wire[host]);
  });
  return [...found.values()];
}

function layOutTopology() {
  const svg = $("topology"), all = groups();
  svg.replaceChildren();
  const workers = scene.switches.map((_, id) => all.filter((it) => it.at === id && it.kind !== "server" && it.kind !== "agent"));
  const servers = scene.switches.map((_, id) => all.filter((it) => it.at === id && (it.kind === "server" || it.kind === "agent")));
  const ids = scene.switches.map((_, id) => id), any = ids.some((id) => workers[id].length);
  const leaves = ids.filter((id) => any ? workers[id].length : servers[id].length);
  const spines = ids.filter((id) => !leaves.includes(id));
  // Hosts hang in rows below their switch, servers above it.
  const perRow = Math.max(4, Math.ceil(14 / Math.max(1, leaves.length)));
  const widthOf = (id) => Math.max(2, Math.min(perRow, workers[id].length), servers[id].length);
  const step = 62, gap = 34;
  const width = Math.max(420, leaves.reduce((sum, id) => sum + widthOf(id) * step + gap, 0));
  const rows = Math.max(1, ...leaves.map((id) => Math.ceil(workers[id].length / perRow)));
  const crowned = spines.some((id) => servers[id].length), spineY = crowned ? 106 : 24;
  const top = spines.length ? spineY + 16 : 0, serverY = 36 + top, switchY = serverY + 96, workerY = switchY + 104;
  const height = workerY + (rows - 1) * 58 + 44;
  svg.setAttribute("viewBox", `0 0 ${width} ${height}`);
  const place = [], wires = draw("g"), nodes = draw("g"), marks = draw("g");
  let x = (width - leaves.reduce((sum, id) => sum + widthOf(id) * step + gap, 0)) / 2;
  for (const id of leaves) {
    const own = widthOf(id) * step + gap;
    place[id] = [x + own / 2, switchY];
    x += own;
  }
  spines.forEach((id, i) => { place[id] = [width * (i + 1) / (spines.length + 1), spineY]; });
  const addWire = (from, to, links, flipped) => {
    const [dx, dy] = [to[0] - from[0], to[1] - from[1]], length = Math.hypot(dx, dy) || 1;
    const off = [-dy / length * 3.2, dx / length * 3.2];
    const lines = [0, 1].map((way) => {
      const sign = way ? 1 : -1;
      return draw("line", { class: "wire", x1: from[0] + sign * off[0], y1: from[1] + sign * off[1],
        x2: to[0] + sign * off[0], y2: to[1] + sign * off[1] }, draw("title"));
    });
    const cross = draw("g", { visibility: "hidden" });
    const [cx, cy] = [from[0] + 0.5 * dx, from[1] + 0.5 * dy];
    const lost = draw("text", { class: "lost", x: cx + 9, y: cy + 16, visibility: "hidden" });
    marks.append(lost);
    cross.append(draw("line", { class: "drop", x1: cx - 5, y1: cy - 5, x2: cx + 5, y2: cy + 5 }),
      draw("line", { class: "drop", x1: cx - 5, y1: cy + 5, x2: cx + 5, y2: cy - 5 }),
      draw("text", { class: "dropped", x: cx + 9, y: cy + 4 }));
    wires.append(...lines);
    marks.append(cross);
    laid.wires.push({ links, lines, cross, lost, flipped });
  };
  scene.links.forEach(({ ends }, link) => {
    if ("switch" in ends[0] && "switch" in ends[1]) {
      const [from, to] = ends.map((end) => place[end.switch]);
      if (from && to) addWire(from, to, [link], [false]);
    }
  });
  const flips = (links) => links.map((link) => "switch" in scene.links[link].ends[0]);
  for (const id of ids) {
    const [sx, sy] = place[id];
    const put = (list, y, down) => list.forEach((group, i) => {
      // Rows of equal length, each shifted, so that no link crosses a host.
      const many = down ? Math.ceil(list.length / perRow) : 1, each = Math.ceil(list.length / many), row = Math.floor(i / each);
      const hx = sx + (i - row * each - (each - 1) / 2 + (many > 1 ? (row % 2 ? 0.25 : -0.25) : 0)) * step, hy = y + row * 58;
      addWire([hx, hy], [sx, sy], group.wires, flips(group.wires));
      const shape = group.kind === "worker" || group.kind === "host"
        ? draw("circle", { class: "host", cx: hx, cy: hy, r: group.hosts.length > 1 ? 15 : 12 })
        : draw("rect", { class: "host", x: hx - 12, y: hy - 12, width: 24, height: 24, rx: 3 });
      shape.style.fill = colour(group.job);
      const label = group.hosts.length > 1 ? `${group.hosts.length} ${group.kind}s` : group.name;
      const halo = draw("circle", { class: "late", cx: hx, cy: hy, r: group.hosts.length > 1 ? 19 : 16, visibility: "hidden" });
      const name = draw("text", { x: hx, y: down ? hy + 28 : hy - 18, "text-anchor": "middle" }, label);
      laid.hosts.push({ ...group, halo, text: name });
      const about = group.job >= 0 ? `${group.kind} of ${scene.jobs[group.job].name}` : group.kind === "server" ? "server of several jobs" : group.kind;
      nodes.append(draw("g", {}, draw("title", {}, `${label}: ${about}`), shape, halo, name));
    });
    put(workers[id], workerY, true);
    put(servers[id], leaves.includes(id) ? serverY : 30, false);
  }
  scene.switches.forEach(({ name, pool }, id) => {
    const [sx, sy] = place[id];
    nodes.append(draw("g", {}, draw("title", {}, `switch ${name}: ${pool} aggregators`),
      draw("rect", { class: "switch", x: sx - 34, y: sy - 17, width: 68, height: 34, rx: 5 }),
      draw("text", { x: sx, y: sy + 4, "text-anchor": "middle" }, name)));
  });
  svg.append(wires, nodes, marks);
  const rated = scene.links.some((link) => link.rate);
  const ramp = make("span", { class: "ramp" }, ...[0, 0.2, 0.4, 0.6, 0.8, 1].map((share) => {
    const it = make("i"); it.style.background = heat(share); return it; }));
  const key = $("load-key");
  key.replaceChildren();
  if (scene.links.length) key.append(
    make("span", {}, "load of each direction", make("span", {}, rated ? "0 %" : "0", ramp, make("span", { id: "load-top" }, rated ? "100 % of the link's rate" : ""))),
    make("span", {}, "● worker  ■ parameter server or reminder agent"), make("span", {}, "✕ frames dropped at a full queue"), make("span", {}, lossySample(), "loses more frames than others"),
    make("span", {}, lateSample(), "the job waits for this worker"));
}

const lossySample = () => draw("svg", { width: 34, height: 8, viewBox: "0 0 34 8" }, draw("line", { class: "wire lossy", x1: 2, y1: 4, x2: 32, y2: 4, "stroke-width": 3 }));
const lateSample = () => draw("svg", { width: 16, height: 16, viewBox: "0 0 16 16" }, draw("circle", { class: "late", cx: 8, cy: 8, r: 6 }));

function renderLinks(sample) {
  const late = new Set((sample.findings ?? []).flatMap((it) => (it.workers ?? []).map((worker) => scene.jobs[it.job]?.workers[worker])));
  for (const { hosts, halo, text } of laid.hosts) {
    const is = hosts.some((host) => late.has(host));
    halo.setAttribute("visibility", is ? "visible" : "hidden");
    text.setAttribute("class", is ? "late-name" : "");
  }
  const old = before(cursor), seconds = Math.max(1, sample.at_us - old.at_us) / 1e6;
  const load = (link, way) => {
    const [now, then] = [sample.links[link], old.links[link]];
    if (!now || !then) return [0, 0];
    return [8 * Math.max(0, now.bytes[way] - then.bytes[way]) / seconds, now.drops[way] - then.drops[way]];
  };
  // Without rates, the busiest link of all times is the measure.
  laid.busiest ??= { until: 0, most: 1 };
  for (; laid.busiest.until < samples.length; laid.busiest.until++) {
    const i = laid.busiest.until, [now, then] = [samples[i], before(i)];
    const span = (now.at_us - then.at_us) / 1e6;
    if (span > 0) now.links.forEach((it, link) => [0, 1].forEach((way) => {
      const more = 8 * (it.bytes[way] - (then.links[link]?.bytes[way] ?? 0)) / span;
      laid.busiest.most = Math.max(laid.busiest.most, more);
    }));
  }
  const rated = scene.links.some((link) => link.rate);
  if (!rated && $("load-top")) $("load-top").textContent = `${short(laid.busiest.most, "bit/s")}, the most of this run`;
  for (const { links, lines, cross, lost, flipped } of laid.wires) {
    let dropped = 0;
    const shares = [];
    lines.forEach((line, way) => {
      let [most, share] = [0, 0];
      const lossy = links.some((link, i) => lossOf(sample, link, flipped[i] ? 1 - way : way));
      if (lossy) shares.push(way);
      links.forEach((link, i) => {
        const [bits, drops] = load(link, flipped[i] ? 1 - way : way);
        dropped += drops;
        most = Math.max(most, bits);
        share = Math.max(share, bits / (scene.links[link].rate ?? laid.busiest.most));
      });
      line.classList.toggle("lossy", lossy);
      line.style.stroke = lossy ? "" : heat(share);
      line.style.strokeWidth = (lossy ? 2.6 : 1.2) + (lossy ? 1.4 : 4.2) * Math.min(1, share);
      line.firstChild.textContent = `${short(most, "bit/s")}, ${(100 * share).toFixed(0)} %`;
    });
    const loss = (sample.findings ?? []).find((it) => links.includes(it.link));
    lost.setAttribute("visibility", shares.length ? "visible" : "hidden");
    lost.textContent = shares.length ? /loses (.*%)/.exec(loss?.text ?? "")?.[1] ?? "loss" : "";
    cross.setAttribute("visibility", dropped > 0 ? "visible" : "hidden");
    cross.lastChild.textContent = dropped > 0 ? count(dropped) : "";
  }
}

// --- Heat map ----------------------------------------------------------------------------------------

function layOutPools() {
  const pools = $("pools");
  pools.replaceChildren();
  laid.pools = scene.switches.map(({ name, pool, cells }) => {
    const text = make("p"), canvas = make("canvas", { role: "img", "aria-label": `Aggregators of ${name}` });
    if (!cells) canvas.hidden = true;
    pools.append(make("div", { class: "pool" }, text, canvas));
    return { text, canvas, name, pool, cells };
  });
  const key = $("pool-key");
  key.replaceChildren(...scene.jobs.slice(0, 8).map(({ name }, job) => make("span", {}, swatch(job), name)));
  if (scene.jobs.length > 8) key.append(make("span", {}, swatch(-1), `${scene.jobs.length - 8} other jobs`));
  const ramp = make("span", { class: "ramp" }, ...[0, 3, 5, 7, 9, 11].map((level) => {
    const it = make("i"); it.style.background = `color-mix(in srgb, ${colour(0)} ${100 * strength(level)}%, ${palette.free})`; return it; }));
  const free = make("i", { class: "swatch" }), taken = make("i", { class: "swatch" });
  free.style.background = palette.free;
  taken.style.background = colour(0);
  taken.style.outline = `2px solid ${palette.ink}`;
  taken.style.outlineOffset = "-1px";
  key.append(make("span", {}, free, "free"),
    make("span", {}, "held for 10 µs", ramp, "1 s"),
    make("span", {}, taken, "another job held it just before"));
}

function renderPools(sample) {
  laid.pools.forEach(({ text, canvas, name, pool, cells }, id) => {
    const now = sample.switches[id];
    text.replaceChildren(make("b", {}, name), cells === 0 ? " does not let its registers be read"
      : ` ${now ? now.held.reduce((sum, it) => sum + it, 0) : 0} of ${cells} held` + (cells < pool ? `, one cell for every ${Math.round(pool / cells)} of ${count(pool)} aggregators` : ""));
    if (!now || !cells) return;
    canvas.setAttribute("aria-label", `Aggregators of ${name}: ${now.held.reduce((sum, it) => sum + it, 0)} of ${cells} held`);
    const scale = devicePixelRatio || 1, width = Math.max(120, canvas.clientWidth || 480);
    const many = Math.max(1, laid.pools.filter((it) => it.cells).length);
    const room = Math.max(60, 300 / many);
    // The largest cells that fit.
    let size = Math.min(60, Math.floor(width / 8));
    while (size > 4 && Math.ceil(cells / Math.floor(width / size)) * size > room) size--;
    const rows = Math.ceil(cells / Math.min(cells, Math.floor(width / size))), columns = Math.ceil(cells / rows), space = size > 9 ? 2 : 1;
    if (canvas.width !== Math.round(width * scale) || canvas.height !== Math.round(rows * size * scale)) {
      canvas.width = Math.round(width * scale); canvas.height = Math.round(rows * size * scale);
      canvas.style.height = `${rows * size}px`;
    }
    const to = canvas.getContext("2d");
    to.setTransform(scale, 0, 0, scale, 0, 0);
    to.clearRect(0, 0, width, rows * size);
    for (let cell = 0; cell < cells; cell++) {
      const name = now.cells[2 * cell] ?? ".", letter = now.cells[2 * cell + 1] ?? ".";
      const [x, y] = [(cell % columns) * size, Math.floor(cell / columns) * size];
      to.globalAlpha = 1;
      to.fillStyle = palette.free;
      to.fillRect(x, y, size - space, size - space);
      if (name === ".") continue;
      to.globalAlpha = strength(letter.toLowerCase().charCodeAt(0) - 97);
      to.fillStyle = colour(NAMES.indexOf(name));
      to.fillRect(x, y, size - space, size - space);
      if (letter !== letter.toLowerCase()) {
        to.globalAlpha = 1;
        to.strokeStyle = palette.ink;
        to.lineWidth = size > 9 ? 2 : 1;
        to.strokeRect(x + 1, y + 1, size - space - 2, size - space - 2);
      }
    }
  });
}

// Who held how much of the memory, over all times, and when aggregators were preempted.
function renderOccupancy() {
  const canvas = $("occupancy"), scale = devicePixelRatio || 1, [width, height] = [canvas.clientWidth, canvas.clientHeight];
  if (!width || samples.length === 0) return;
  if (canvas.width !== Math.round(width * scale)) { canvas.width = Math.round(width * scale); canvas.height = Math.round(height * scale); }
  const to = canvas.getContext("2d");
  to.setTransform(scale, 0, 0, scale, 0, 0);
  to.clearRect(0, 0, width, height);
  const cells = scene.switches.reduce((sum, it) => sum + it.cells, 0), tall = height - 7;
  const at = (index) => samples.length > 1 ? 1.5 + (width - 3) * index / (samples.length - 1) : 0;
  to.fillStyle = palette.quiet;
  to.fillRect(0, 0, width, tall);
  const sums = samples.map(() => 0);
  if (cells) for (let job = 0; job < scene.jobs.length; job++) {
    to.fillStyle = colour(job);
    to.beginPath();
    sums.forEach((sum, i) => to.lineTo(at(i), tall - tall * sum / cells));
    samples.forEach((sample, i) => { sums[i] += sample.switches.reduce((sum, it) => sum + (it.held[job] ?? 0), 0); });
    for (let i = sums.length - 1; i >= 0; i--) to.lineTo(at(i), tall - tall * sums[i] / cells);
    to.fill();
  }
  const taken = (sample, outcomes = ["preempted", "seized"]) => scene.jobs.reduce((sum, _, job) => sum + outcomes.reduce((all, it) => all + counts(sample, job, it), 0), 0);
  let last = 0, any = false;
  to.fillStyle = palette.ink;
  samples.forEach((sample, i) => {
    const now = taken(sample);
    if (now > last) { to.fillRect(at(i) - 0.5, tall + 1, 1, 6); any = true; }
    last = now;
  });
  $("occupancy-key").textContent = cells ? `aggregators held, by job, over time${any ? `; ticks: ${taken(samples.at(-1), ["preempted"]) ? "preemptions" : "idle aggregators taken over"}` : ""}` : "time";
}

// --- Jobs and workers --------------------------------------------------------------------------------

function bar(job) {
  const inner = make("i"), outer = make("span", { class: "bar" }, inner);
  inner.style.background = colour(job);
  return [outer, inner];
}

function layOutJobs() {
  const body = $("jobs");
  body.replaceChildren();
  laid.counted = COUNTED[scene.protocol] ?? COUNTED.segments;
  const columns = [["job"], ["rounds", "Of the job's slowest worker"], ["completed in switch", "Fragments whose sum left a switch complete, and these per second"],
    ["held", "Aggregators of all switches that the job holds"], ...laid.counted.map(([, heading, title]) => [heading, title]),
    ["sent again", "Packets that its workers have sent again"]];
  $("jobs-head").replaceChildren(...columns.map(([heading, title]) => make("th", { scope: "col", ...title ? { title } : {} }, heading)));
  laid.rows = scene.jobs.map(({ name }, job) => {
    const [outer, inner] = bar(job), words = make("span"), speed = make("td", { "data-name": "completed in switch" }), held = make("td", { "data-name": "held" });
    const cells = laid.counted.map(([, heading]) => make("td", { "data-name": heading })), again = make("td", { "data-name": "sent again" });
    body.append(make("tr", {}, make("td", {}, swatch(job), " ", name), make("td", {}, outer, words), speed, held, ...cells, again));
    return { inner, words, speed, held, cells, again };
  });
}

function renderJobs(sample) {
  const old = before(cursor), seconds = Math.max(1, sample.at_us - old.at_us) / 1e6;
  const jumped = shownAt !== cursor - 1;
  laid.rows.forEach(({ inner, words, speed, held, cells, again }, job) => {
    const workers = sample.jobs[job]?.workers ?? [], rounds = scene.jobs[job].rounds;
    const slowest = workers.length ? Math.min(...workers.map((it) => it.rounds)) : null;
    const share = rounds && slowest !== null ? slowest / rounds : 0;
    inner.style.width = `${100 * share}%`;
    words.textContent = sample.jobs[job]?.over ? `${slowest ?? ""}${rounds ? ` of ${count(rounds)}` : ""} · over`
      : slowest === null ? "not known" : rounds ? `${count(slowest)} of ${count(rounds)}` : count(slowest);
    const completed = counts(sample, job, "completed");
    speed.replaceChildren(count(completed), " ",
      make("small", {}, short((completed - counts(old, job, "completed")) / seconds, "/s")));
    held.textContent = count(sample.switches.reduce((sum, it) => sum + (it.held[job] ?? 0), 0));
    laid.counted.forEach(([outcome], i) => {
      const text = count(counts(sample, job, outcome));
      cells[i].classList.toggle("flash", !jumped && cells[i].textContent !== text);
      cells[i].textContent = text;
    });
    // Of switches that run elsewhere, the workers are not known.
    again.textContent = count(Math.max(workers.reduce((sum, it) => sum + (it.resent ?? 0), 0), counts(sample, job, "resent")));
  });
}

function layOutWorkers() {
  const rows = [];
  const body = make("tbody");
  scene.jobs.forEach((job, number) => {
    // Of very many workers, those that are behind are shown.
    const room = Math.min(job.workers.length, Math.max(4, Math.floor(64 / scene.jobs.length)));
    for (let i = 0; i < room; i++) {
      const [outer, inner] = bar(number), name = make("td"), behind = make("td"), late = make("td"), again = make("td"), awaited = make("td");
      body.append(make("tr", {}, name, make("td", {}, outer), behind, late, again, awaited));
      rows.push({ number, i, room, name, inner, behind, late, again, awaited });
    }
  });
  laid.workers = rows;
  const head = ["worker", "rounds", "behind", "late", "sent again", "awaited"].map((text) => make("th", { scope: "col" }, text));
  $("workers").replaceChildren(make("table", {}, make("thead", {}, make("tr", {}, ...head)), body));
}

function renderWorkers(sample) {
  const orders = scene.jobs.map((job, number) => {
    const workers = sample.jobs[number]?.workers ?? [], all = job.workers.map((_, i) => i);
    const room = laid.workers.find((row) => row.number === number)?.room ?? 0;
    const lag = (i) => (workers[i]?.rounds ?? 0) * 1e6 - (workers[i]?.late_us ?? 0) - (findingOf(sample, number, i) ? 1e12 : 0);
    return all.length <= room ? all : all.sort((a, b) => lag(a) - lag(b)).slice(0, room);
  });
  for (const { number, i, name, inner, behind, late, again, awaited } of laid.workers) {
    const job = scene.jobs[number], worker = orders[number][i], all = sample.jobs[number]?.workers ?? [];
    name.replaceChildren(swatch(number), ` ${scene.hosts[job.workers[worker]]?.name ?? `worker ${worker}`} `, make("small", {}, job.name));
    const own = all[worker];
    if (!own) { for (const cell of [behind, late, again, awaited]) cell.textContent = "–"; continue; }
    const first = Math.max(...all.map((it) => it.rounds));
    const most = job.rounds ?? Math.max(1, first);
    inner.style.width = `${100 * Math.min(1, own.rounds / most)}%`;
    behind.textContent = first - own.rounds;
    late.textContent = own.late_us >= 50 ? `${(own.late_us / 1e3).toFixed(1)} ms` : "–";
    again.textContent = count(own.resent ?? 0);
    awaited.textContent = own.awaited ?? 0;
    const wrong = findingOf(sample, number, worker) !== undefined;
    for (const cell of [name, late]) cell.classList.toggle("late", wrong);
  }
}

// --- Events ------------------------------------------------------------------------------------------

function told(words, unit, n) {
  return words.replace("#", `${count(n)} ${unit}${n === 1 ? "" : "s"}`);
}

// What happened between two samples, newest last.
function happenings(from, to) {
  const found = [];
  to.switches.forEach((it, id) => it.counts.forEach((now, job) => {
    const old = from.switches[id]?.counts[job] ?? {};
    for (const [outcome, words, unit] of TOLD) {
      const more = (now[outcome] ?? 0) - (old[outcome] ?? 0);
      if (more > 0) found.push({ at: to.at_us, job, text: `${scene.jobs[job]?.name ?? "?"} at ${scene.switches[id]?.name ?? "?"}: ${told(words, unit, more)}` });
    }
  }));
  to.jobs.forEach((now, job) => {
    const again = now.workers.map((it, worker) => [(it.resent ?? 0) - (from.jobs[job]?.workers[worker]?.resent ?? 0), worker]);
    const most = again.filter(([more]) => more > 0).sort((a, b) => b[0] - a[0]);
    for (const [more, worker] of most.slice(0, MOST_TOLD)) {
      const name = scene.hosts[scene.jobs[job]?.workers[worker]]?.name ?? `worker ${worker}`;
      found.push({ at: to.at_us, job, text: `${name} of ${scene.jobs[job]?.name ?? "?"}: ${told("sent # again", "packet", more)}` });
    }
    const rest = most.slice(MOST_TOLD).reduce((sum, [more]) => sum + more, 0);
    if (rest) found.push({ at: to.at_us, job, text: `${most.length - MOST_TOLD} other workers of ${scene.jobs[job]?.name ?? "?"}: ${told("sent # again", "packet", rest)}` });
  });
  to.links.forEach((now, link) => [0, 1].forEach((way) => {
    const names = scene.links[link].ends.map((end) => "host" in end ? scene.hosts[end.host].name : scene.switches[end.switch].name);
    const tell = (more, words) => {
      if (more > 0) found.push({ at: to.at_us, job: null, weight: "warning", text: `${names[way]} to ${names[1 - way]}: ${told(words, "frame", more)}` });
    };
    tell(now.drops[way] - (from.links[link]?.drops[way] ?? 0), "# dropped at a full queue");
    tell((now.lost?.[way] ?? 0) - (from.links[link]?.lost?.[way] ?? 0), "# lost");
  }));
  return found;
}

function renderLog() {
  const now = samples[cursor].at_us, lines = [];
  for (let i = cursor; i > 0 && lines.length < LOG_LINES; i--) lines.push(...happenings(samples[i - 1], samples[i]).reverse());
  const heard = notes.filter((note) => note.at_us <= now || cursor === samples.length - 1)
    .map(({ at_us, job, text, weight }) => ({ at: at_us, job, text, weight }));
  lines.push(...heard.slice(-LOG_LINES));
  lines.sort((a, b) => b.at - a.at);
  $("log").replaceChildren(...lines.slice(0, LOG_LINES).map(({ at, job, text, weight }) => {
    const words = make("span", { class: weight ?? "info" });
    if (job !== null) words.append(swatch(job), " ");
    words.append(text);
    return make("li", {}, make("time", {}, time(at)), words);
  }));
}

// --- Controls ----------------------------------------------------------------------------------------

$("seek").addEventListener("input", () => { playing = false; show(Number($("seek").value)); });
$("play").addEventListener("click", () => play(!playing));
$("live").addEventListener("click", () => { playing = false; show(samples.length - 1, true); });
document.addEventListener("keydown", (event) => {
  if (event.ctrlKey || event.altKey || event.metaKey || event.target.closest("select, button, input")) return;
  const step = { ArrowLeft: -1, ArrowRight: 1, PageUp: -20, PageDown: 20 }[event.key];
  if (event.target.closest("ol") && event.key.startsWith("Page")) return;
  if (step) { playing = false; show(Math.max(0, Math.min(samples.length - 1, cursor + step))); }
  else if (event.key === " ") play(!playing);
  else if (event.key === "Home") { playing = false; show(0); }
  else if (event.key === "End") { playing = false; show(samples.length - 1, true); }
  else return;
  event.preventDefault();
});
addEventListener("hashchange", fromAddress);
addEventListener("resize", () => { dirty = true; });
matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => { laid = null; dirty = true; });
readPalette();
connect();
setInterval(tick, 40);
addEventListener("visibilitychange", () => { dirty = true; });
