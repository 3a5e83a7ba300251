"use strict";
// Asks every second and draws what it is told. Names and messages go into the page as text, never as markup.

const EVERY_MS = 1000;
// When an answer takes longer than this, nobody is there.
const PATIENCE_MS = 8000;
const MINUTE = 60;
// How many of the worst are drawn; the others are counted.
const CHAINS_MAX = 24, MISSING_MAX = 5, TASKS_MAX = 200;
const NODE = { width: 224, height: 42, gap: 10, between: 112 };

const by = (id) => document.getElementById(id);

function make(name, text, kind) {
  const element = document.createElement(name);
  if (text !== undefined) element.textContent = text;
  if (kind) element.className = kind;
  return element;
}

function drawn(name, attributes) {
  const element = document.createElementNS("http://www.w3.org/2000/svg", name);
  for (const [key, value] of Object.entries(attributes)) element.setAttribute(key, value);
  return element;
}

const count = new Intl.NumberFormat("en");
const number = (n) => count.format(n);
const plural = (n, one, many) => `${number(n)} ${n === 1 ? one : many}`;

function rate(n) {
  if (n === null) return "–";
  return n >= 100 ? number(Math.round(n)) : n.toFixed(1);
}

function span(ms) {
  if (ms === null || ms === undefined) return "–";
  if (ms < 1000) return `${ms} ms`;
  const s = ms / 1000;
  if (s < 60) return `${s.toFixed(1)} s`;
  if (s < 3600) return `${Math.floor(s / 60)} min ${Math.floor(s % 60)} s`;
  return `${Math.floor(s / 3600)} h ${Math.floor((s % 3600) / 60)} min`;
}

// What stands at an offset, or what a sender sent: `orders:0@9`, `orders:0, send 3 of …`.
function where(at) {
  const place = `${at.topic}:${at.partition}`;
  if (at.offset !== undefined) return `${place}@${at.offset}`;
  return `${place}, send ${at.sequence} of ${at.sender}`;
}

// ── rates: differences of counts between two answers ──

const past = new Map();

function rates(task, now) {
  const key = `${task.stage}/${task.partition}`;
  const known = past.get(key) ?? { at: null, line: [] };
  const seconds = known.at === null ? null : (now - known.at) / 1000;
  const per = (field) => {
    // A task that was opened anew counts from 0.
    if (seconds === null || seconds <= 0 || task[field] < known[field]) return null;
    return (task[field] - known[field]) / seconds;
  };
  const found = { received: per("received"), delivered: per("delivered"), steps: per("steps") };
  const line = [...known.line, found.delivered ?? 0].slice(-MINUTE);
  const { received, delivered, steps } = task;
  past.set(key, { at: now, line, received, delivered, steps, seen: now });
  return { ...found, line };
}

function forget(now) {
  for (const [key, known] of past) if (known.seen !== now) past.delete(key);
}

const sum = (values) => values.reduce((all, value) => all + value, 0);
const rateOf = (tasks, field) => {
  const known = tasks.map((task) => task.rates[field]).filter((value) => value !== null);
  return known.length === 0 ? null : sum(known);
};
const oldest = (tasks) => {
  const ages = tasks.flatMap((task) => task.inputs).map((input) => input.oldest_hold_ms).filter((age) => age !== null && age !== undefined);
  return ages.length === 0 ? null : Math.max(...ages);
};
const lag = (tasks) => sum(tasks.flatMap((task) => task.inputs).map((input) => input.lag));

function spark(line) {
  const svg = drawn("svg", { class: "spark", viewBox: `0 0 ${MINUTE - 1} 18`, preserveAspectRatio: "none", "aria-hidden": "true" });
  const top = Math.max(...line, 1);
  const points = line.map((value, i) => `${MINUTE - line.length + i},${(17 - (16 * value) / top).toFixed(2)}`);
  svg.append(drawn("polyline", { points: points.join(" ") }));
  return svg;
}

// ── stages ──

const ILL = ["refused", "failed"], UNWELL = ["retrying", "unchecked"], UNDER_WAY = ["restoring", "assigned"];
const mood = (state) => {
  if (ILL.includes(state)) return "ill";
  if (UNWELL.includes(state) || UNDER_WAY.includes(state)) return "warn";
  return state === "running" ? "good" : "faint";
};
const gravity = (state) => [ILL, UNWELL, UNDER_WAY].findIndex((states) => states.includes(state)) + 1 || 9;

function states(tasks) {
  const counts = new Map();
  for (const task of tasks) counts.set(task.state, (counts.get(task.state) ?? 0) + 1);
  const cell = document.createDocumentFragment();
  for (const [state, n] of [...counts].sort(([a], [b]) => gravity(a) - gravity(b))) {
    if (cell.childNodes.length > 0) cell.append(", ");
    cell.append(make("span", `${n} ${state}`, mood(state)));
  }
  return cell;
}

function row(kind, name, state, tasks, line) {
  const row = make("tr", undefined, kind);
  const cell = (content, kind) => {
    const cell = make("td", undefined, kind);
    cell.append(content);
    row.append(cell);
    return cell;
  };
  const failed = sum(tasks.map((task) => task.failed_steps));
  cell(name);
  cell(state);
  cell(rate(rateOf(tasks, "received")), "n");
  cell(rate(rateOf(tasks, "delivered")), "n");
  cell(spark(line));
  cell(rate(rateOf(tasks, "steps")), "n");
  cell(number(sum(tasks.map((task) => task.delivered))), "n");
  cell(number(sum(tasks.map((task) => task.held))), "n");
  cell(span(oldest(tasks)), "n");
  cell(number(lag(tasks)), "n");
  cell(number(failed), failed > 0 ? "n warn" : "n");
  return [row, cell];
}

function total(lines) {
  const length = Math.max(0, ...lines.map((line) => line.length));
  return Array.from({ length }, (_, i) => sum(lines.map((line) => line[line.length - length + i] ?? 0)));
}

function taskRows(task) {
  let said = task.state;
  if (task.restoring) said += `, ${number(task.restoring.left)} left`;
  if (task.attempt > 0) said += `, attempt ${task.attempt}`;
  const [main, cell] = row("task", `${task.stage}/${task.partition}`, make("span", said, mood(task.state)), [task], task.rates.line);
  const inputs = document.createDocumentFragment();
  for (const input of task.inputs) {
    const held = input.held > 0 ? `, ${number(input.held)} held` : "";
    inputs.append(make("span", `${input.topic}:${input.partition} at ${number(input.position)}${held}`));
  }
  cell(inputs, "inputs");
  if (!task.message && !task.refusal) return [main];
  const message = make("tr", undefined, "message");
  const said_at = make("td", [task.refusal, task.message].filter(Boolean).join(": "));
  said_at.colSpan = 12;
  message.append(said_at);
  return [main, message];
}

function showStages(report) {
  const rows = [];
  const stages = new Map();
  for (const task of report.tasks) {
    if (!stages.has(task.stage)) stages.set(task.stage, []);
    stages.get(task.stage).push(task);
  }
  // Those that have trouble first, when not all can be shown.
  const worst = [...report.tasks].sort((a, b) => gravity(a.state) - gravity(b.state) || b.held - a.held);
  const shown = new Set(worst.slice(0, TASKS_MAX));
  for (const [stage, tasks] of stages) {
    const [main, cell] = row("stage", stage, states(tasks), tasks, total(tasks.map((task) => task.rates.line)));
    cell("");
    rows.push(main, ...tasks.filter((task) => shown.has(task)).flatMap(taskRows));
  }
  by("stages").tBodies[0].replaceChildren(...rows);
  const rest = report.tasks.length - shown.size;
  by("stages-rest").textContent = rest > 0 ? `${plural(rest, "more task is", "more tasks are")} counted in the rows of their stages.` : "";
}

function showFigures(report) {
  const { tasks } = report;
  const running = tasks.filter((task) => task.state === "running").length;
  const ill = tasks.filter((task) => ILL.includes(task.state)).length;
  const age = oldest(tasks);
  const figures = [
    ["tasks running", `${running} of ${tasks.length}`, ill > 0 ? "ill" : running < tasks.length ? "warn" : ""],
    ["received/s", rate(rateOf(tasks, "received"))],
    ["delivered/s", rate(rateOf(tasks, "delivered"))],
    ["held", number(sum(tasks.map((task) => task.held)))],
    ["oldest hold", span(age), age >= 30000 ? "ill" : ""],
    ["lag", number(lag(tasks))],
    ["failed steps", number(sum(tasks.map((task) => task.failed_steps)))],
  ];
  by("figures").replaceChildren(...figures.map(([name, value, kind]) => {
    const figure = make("div");
    figure.append(make("dt", name), make("dd", value, kind));
    return figure;
  }));
}

// ── holds: from what is held, over what that waits for, to the record that is missing ──

// One chain for each head and each record that is missing for it; a head that only waits for its turn has none.
function chainsOf(holds) {
  const chains = [];
  for (const hold of holds) {
    const task = `${hold.stage}/${hold.partition}`;
    for (const missing of hold.missing) {
      const nodes = [hold, ...missing.path].map((at) => ({ task, at, key: `${task} ${where(at)}` }));
      nodes.push({ task, at: missing, key: `${task} ${where(missing)}`, missing: true });
      chains.push({ hold, task, nodes, end: where(missing), weight: hold.behind + 1, age: hold.age_ms, name: nodes[0].key });
    }
  }
  return chains;
}

// The longest wait first. What differs by less than a second is in the order of its name, or lines would change places with every answer.
const inOrder = new Intl.Collator("en", { numeric: true }).compare;
const worse = (a, b) => Math.floor(b.age / 1000) - Math.floor(a.age / 1000) || inOrder(a.name, b.name);

function groupsOf(chains) {
  const groups = new Map();
  for (const chain of chains) {
    const key = `${chain.task} ${chain.end}`;
    const group = groups.get(key) ?? { name: key, end: chain.end, task: chain.task, missing: chain.nodes.at(-1).at, chains: [], held: 0, age: 0 };
    group.chains.push(chain);
    group.held += chain.weight;
    group.age = Math.max(group.age, chain.hold.age_ms);
    groups.set(key, group);
  }
  for (const group of groups.values()) group.chains.sort(worse);
  return [...groups.values()].sort(worse);
}

function showMissing(groups) {
  const lines = groups.slice(0, MISSING_MAX).map((group) => {
    const line = make("li");
    line.dataset.topic = group.missing.topic;
    line.dataset.partition = group.missing.partition;
    if (group.missing.offset !== undefined) line.dataset.offset = group.missing.offset;
    line.append(make("span", group.end, "place"), " is missing at ", make("span", group.task, "place"),
      `: ${plural(group.held, "record waits", "records wait")} for it, for ${span(group.age)}`);
    return line;
  });
  by("missing").replaceChildren(...lines);
}

// Each node is as far from the right as its longest way to what is missing, so those stand in one column.
function layOut(chains) {
  const nodes = new Map();
  for (const chain of chains) {
    chain.nodes.forEach((node, i) => {
      const known = nodes.get(node.key) ?? { ...node, toEnd: 0 };
      known.toEnd = Math.max(known.toEnd, chain.nodes.length - 1 - i);
      if (i === 0) known.hold = chain.hold;
      nodes.set(node.key, known);
    });
  }
  const depth = Math.max(0, ...[...nodes.values()].map((node) => node.toEnd));
  const free = Array(depth + 1).fill(0);
  for (const chain of chains) {
    // A chain begins below all that is there in its columns, but for the nodes it shares.
    for (const { key } of chain.nodes) {
      const node = nodes.get(key);
      if (node.y !== undefined) continue;
      node.column = depth - node.toEnd;
      node.x = node.column * (NODE.width + NODE.between);
      node.y = free[node.column];
      free[node.column] += NODE.height + NODE.gap;
    }
  }
  // What several wait for stands at the middle of them, and never above what is before it in its column.
  for (let column = 1; column <= depth; column += 1) {
    let lowest = 0;
    for (const node of [...nodes.values()].filter((node) => node.column === column)) {
      const before = chains.flatMap((chain) => {
        const i = chain.nodes.findIndex(({ key }) => key === node.key);
        return i > 0 ? [nodes.get(chain.nodes[i - 1].key).y] : [];
      });
      const middle = (Math.min(...before) + Math.max(...before)) / 2;
      node.y = Math.max(lowest, before.length > 0 ? middle : node.y);
      lowest = node.y + NODE.height + NODE.gap;
    }
  }
  return nodes;
}

function codeOf(from, to) {
  const waits = from.hold?.waits ?? [];
  const wait = waits.find((wait) => wait.topic === to.at.topic && wait.partition === to.at.partition);
  return wait?.code.replace(/^vc-hold-/, "");
}

function showGraph(chains) {
  const graph = by("graph");
  if (chains.length === 0) return graph.replaceChildren();
  const nodes = layOut(chains);
  const all = [...nodes.values()];
  const width = Math.max(...all.map((node) => node.x)) + NODE.width;
  const height = Math.max(...all.map((node) => node.y)) + NODE.height;
  const svg = drawn("svg", { width, height: height + 4, "aria-hidden": "true" });
  const parts = [svg];
  const seen = new Set();
  for (const chain of chains) {
    for (let i = 0; i + 1 < chain.nodes.length; i += 1) {
      const [from, to] = [nodes.get(chain.nodes[i].key), nodes.get(chain.nodes[i + 1].key)];
      const edge = `${from.key} > ${to.key}`;
      if (seen.has(edge)) continue;
      seen.add(edge);
      const [x1, y1, x2, y2] = [from.x + NODE.width, from.y + NODE.height / 2, to.x, to.y + NODE.height / 2];
      const bend = (x2 - x1) / 2;
      const kind = to.missing ? "last" : "";
      svg.append(drawn("polygon", { class: kind, points: `${x2},${y2} ${x2 - 7},${y2 - 4} ${x2 - 7},${y2 + 4}` }));
      svg.append(drawn("path", { class: kind, d: `M${x1},${y1} C${x1 + bend},${y1} ${x2 - bend},${y2} ${x2},${y2}` }));
      const code = codeOf(from, to);
      if (code) {
        const label = make("span", code, "code");
        label.style.left = `${x1 + 7}px`;
        label.style.top = `${y1 - 15}px`;
        parts.push(label);
      }
    }
  }
  for (const node of all) {
    const box = make("div", undefined, node.missing ? "node missing" : "node");
    const { hold } = node;
    const said = node.missing ? "missing" : hold ? `${node.task} · ${span(hold.age_ms)}${hold.behind > 0 ? ` · ${number(hold.behind)} behind` : ""}` : node.task;
    box.append(make("span", where(node.at), "place"), make("small", said));
    box.title = `${where(node.at)}\n${said}`;
    Object.assign(box.style, { left: `${node.x}px`, top: `${node.y}px`, width: `${NODE.width}px`, height: `${NODE.height}px` });
    parts.push(box);
  }
  const { scrollTop, scrollLeft } = graph;
  graph.replaceChildren(...parts);
  graph.style.height = `${height + 6}px`;
  graph.scrollTop = scrollTop;
  graph.scrollLeft = scrollLeft;
}

function showHolds({ holds }) {
  const chains = chainsOf(holds);
  const groups = groupsOf(chains);
  const shown = groups.flatMap((group) => group.chains).slice(0, CHAINS_MAX);
  const held = sum(holds.map((hold) => hold.behind + 1));
  const turn = holds.filter((hold) => hold.missing.length === 0).length;
  let said = holds.length === 0 ? "Nothing is held." : `${plural(held, "record is", "records are")} held on ${plural(holds.length, "channel", "channels")}.`;
  if (turn > 0) said += ` ${plural(turn, "channel waits", "channels wait")} only for the next step.`;
  by("holds-said").textContent = said;
  by("holds-said").className = groups.length === 0 ? "faint" : "";
  showMissing(groups);
  showGraph(shown);
  const rest = [];
  if (groups.length > MISSING_MAX) rest.push(plural(groups.length - MISSING_MAX, "more record that is missing", "more records that are missing"));
  if (chains.length > shown.length) rest.push(plural(chains.length - shown.length, "more chain", "more chains"));
  by("holds-rest").textContent = rest.length > 0 ? `Those that wait longest are shown; ${rest.join(", ")}.` : "";
}

// ── asking ──

let heard = null;
// Which refresh was begun last, and which one is shown.
let asked = 0;

async function ask(path) {
  const answer = await fetch(path, { cache: "no-store", signal: AbortSignal.timeout(PATIENCE_MS) });
  if (!answer.ok) throw new Error((await answer.text()).trim());
  return answer.json();
}

function link(kind, text) {
  by("link").className = kind;
  by("link").textContent = text;
  document.body.classList.toggle("gone", kind === "gone");
}

async function refresh() {
  asked += 1;
  document.body.dataset.asked = asked;
  try {
    const [report, holds] = await Promise.all([ask("status"), ask("holds")]);
    const now = performance.now();
    for (const task of report.tasks) task.rates = rates(task, now);
    forget(now);
    heard = new Date();
    document.title = `${report.application} · Parsley`;
    by("application").textContent = report.application;
    by("host").textContent = `on the ${report.host} host`;
    showFigures(report);
    showHolds(holds);
    showStages(report);
    link("live", "live");
    document.body.dataset.shown = asked;
  } catch (error) {
    // The browser's own words for a server that is not there say little.
    const why = error instanceof TypeError || error.name === "TimeoutError" ? "" : `: ${error.message}`;
    const since = heard === null ? "no answer yet" : `no answer since ${heard.toLocaleTimeString("en-GB")}; what is shown is from then`;
    link("gone", since + why);
  }
  setTimeout(refresh, EVERY_MS);
}

refresh();
