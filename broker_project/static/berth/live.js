// The live page: asks for the numbers every two seconds and redraws what changed. While nobody looks, it does not ask.
"use strict";

const EVERY_MS = 2000;
const PATIENCE_MS = 15000;
const MOST_REASONS = 8; // accounts
const KEPT = 90; // points of the small curves: three minutes
const root = document.getElementById("berth-live");
const stateLine = document.getElementById("berth-live-state");
const curves = new Map(); // pool id → {depth: [], throughput: []}

function element(tag, classes, text) {
  const made = document.createElement(tag);
  if (classes) made.className = classes;
  if (text !== undefined) made.textContent = text;
  return made;
}

function whole(number) {
  return Math.round(number).toLocaleString("en-US");
}

function seconds(value) {
  if (value < 1) return "under 1 s";
  if (value < 120) return `${Math.round(value)} s`;
  if (value < 7200) return `${Math.round(value / 60)} min`;
  return `${Math.round(value / 3600)} h`;
}

function curve(points) {
  const space = "http://www.w3.org/2000/svg";
  const svg = document.createElementNS(space, "svg");
  svg.setAttribute("viewBox", "0 0 90 20");
  svg.setAttribute("preserveAspectRatio", "none");
  svg.setAttribute("class", "berth-curve");
  svg.setAttribute("aria-hidden", "true");
  const top = Math.max(...points, 0.001);
  const line = document.createElementNS(space, "polyline");
  const from = KEPT - points.length;
  line.setAttribute("points", points.map((y, i) => `${from + i},${19 - (18 * y) / top}`).join(" "));
  svg.append(line);
  return svg;
}

function figure(name, value, address, points) {
  const box = element(address ? "a" : "div", "berth-figure");
  if (address) box.href = address;
  box.append(element("b", "", value), element("span", "", name));
  if (points && points.length > 4) box.append(curve(points));
  return box;
}

function cell(session) {
  const made = element("a", `berth-cell s-${session.state}${session.accepting ? "" : " draining"}`);
  made.href = `${root.dataset.session}${session.id}/change/`;
  const rest = session.state === "cooldown" && session.until ? ` until ${session.until.slice(11, 19)}` : "";
  const job = session.job ? ` with job ${session.job}` : "";
  const said = `${session.name}: ${session.state}${rest}${job}${session.accepting ? "" : ", draining"}`;
  made.title = session.reason ? `${said} (${session.reason})` : said;
  made.setAttribute("aria-label", made.title);
  return made;
}

function accountLink(session, text) {
  const made = element("a", "", text);
  made.href = `${root.dataset.account}${session.account_id}/change/`;
  return made;
}

// Why sessions are out or rest, each reason once, with how many they are.
function reasons(sessions) {
  const found = new Map();
  for (const session of sessions) {
    const out = session.state === "offline" || session.state === "cooldown";
    if (!session.reason || (!out && session.accepting)) continue;
    const said = `${out ? session.state : "draining"}: ${session.reason}`;
    found.set(said, (found.get(said) || 0) + 1);
  }
  return [...found].map(([said, number]) => `${number} ${said}`);
}

// Beside many sessions, a line for each account that has a reason, and how many more there are.
function drawReasons(accounts) {
  const told = element("ul", "berth-reasons");
  const troubled = [...accounts.values()].filter((sessions) => reasons(sessions).length);
  for (const sessions of troubled.slice(0, MOST_REASONS)) {
    const line = element("li");
    line.append(accountLink(sessions[0], sessions[0].account), ` ${reasons(sessions).join("; ")}`);
    told.append(line);
  }
  if (troubled.length > MOST_REASONS) told.append(element("li", "", `and ${troubled.length - MOST_REASONS} more accounts`));
  return told;
}

function byAccount(sessions) {
  const accounts = new Map();
  for (const session of sessions) {
    if (!accounts.has(session.account_id)) accounts.set(session.account_id, []);
    accounts.get(session.account_id).push(session);
  }
  return accounts;
}

// A few accounts stand in lines of their own, by name; of many, all sessions stand side by side.
function drawGrid(sessions) {
  const accounts = byAccount(sessions);
  const lines = element("div");
  if (accounts.size > 12 || sessions.length > 300) {
    const grid = element("div", `berth-grid${sessions.length > 200 ? " dense" : ""}`);
    grid.append(...sessions.map(cell));
    lines.append(grid, drawReasons(accounts));
    return lines;
  }
  for (const ofAccount of accounts.values()) {
    const line = element("div", "berth-account");
    line.append(accountLink(ofAccount[0], ofAccount[0].account), ...ofAccount.map(cell));
    const why = reasons(ofAccount).join("; ");
    if (why) line.append(element("small", "berth-reason", why));
    lines.append(line);
  }
  return lines;
}

function remember(pool) {
  const kept = curves.get(pool.id) || { depth: [], throughput: [] };
  curves.set(pool.id, kept);
  for (const [points, value] of [[kept.depth, pool.depth], [kept.throughput, pool.throughput_per_second]]) {
    points.push(value);
    if (points.length > KEPT) points.shift();
  }
  return kept;
}

function draw(pool) {
  const kept = remember(pool);
  const jobs = (query) => `${root.dataset.jobs}?pool__id__exact=${pool.id}&${query}`;
  const card = element("section", "berth-pool");
  const title = element("h2");
  const link = element("a", "", pool.name);
  link.href = `${root.dataset.pool}${pool.id}/change/`;
  title.append(link);
  if (!pool.accepting) title.append(element("small", "berth-refused", " not accepting: nothing new is assigned"));
  if (pool.quarantined_until) {
    const until = pool.quarantined_until.slice(0, 19).replace("T", " ");
    title.append(element("small", "berth-refused", ` closed since a restore, until ${until} UTC at the earliest`));
    card.classList.add("closed");
  }
  const figures = element("div", "berth-figures");
  figures.append(
    figure("waiting", whole(pool.depth), jobs("only=waiting"), kept.depth),
    figure("running", whole(pool.jobs.assigned + pool.jobs.processing), jobs("only=running")),
    figure("ended per second", pool.throughput_per_second.toFixed(1), null, kept.throughput),
    figure("sessions in use", `${Math.round(100 * pool.utilisation)} %`),
    figure("lag", pool.depth ? seconds(pool.lag_seconds) : "–"),
    figure("oldest waiting", pool.depth ? seconds(pool.oldest_waiting_seconds) : "–"),
    figure("dead letters", whole(pool.dead_letters), jobs("only=dead_letters")),
    figure("outcome unknown", whole(pool.unknown), jobs("only=unknown")),
  );
  if (pool.dead_letters) figures.children[6].classList.add("berth-warns");
  if (pool.unknown) figures.children[7].classList.add("berth-warns");
  if (pool.unaffordable) {
    figures.append(figure("wait for credits", whole(pool.unaffordable), jobs("only=unaffordable")));
    figures.lastChild.classList.add("berth-warns");
  }
  if (pool.needs_attention) {
    figures.append(figure("need an operator", whole(pool.needs_attention), jobs("only=attention")));
    figures.lastChild.classList.add("berth-warns");
  }
  const grid = drawGrid(pool.grid);
  const sessions = Object.values(pool.sessions).reduce((sum, number) => sum + number, 0);
  if (!sessions) grid.append(element("p", "berth-quiet", "No sessions."));
  else if (pool.grid.length < sessions) {
    grid.append(element("p", "berth-quiet", `The first ${whole(pool.grid.length)} of ${whole(sessions)} sessions.`));
  }
  card.append(title, figures, grid);
  return card;
}

async function refresh() {
  if (document.hidden) return;
  try {
    const patience = AbortSignal.timeout(PATIENCE_MS);
    const asked = { headers: { Accept: "application/json" }, redirect: "manual", signal: patience };
    const answer = await fetch(root.dataset.numbers, asked);
    if (answer.type === "opaqueredirect") return window.location.reload(); // logged out
    if (!answer.ok) throw new Error(`answered ${answer.status}`);
    const { pools } = await answer.json();
    document.getElementById("berth-pools").replaceChildren(...pools.map(draw));
    stateLine.textContent = pools.length
      ? `Updated ${new Date().toISOString().slice(11, 19)} UTC, every two seconds.`
      : "There are no pools yet: apply a configuration file with manage.py apply.";
    stateLine.classList.remove("berth-refused");
  } catch (error) {
    stateLine.textContent = `No numbers: ${error.message}. Still asking; what is below is old.`;
    stateLine.classList.add("berth-refused");
  }
}

// The next question waits for the answer to this one, so that a slow database is not asked more and more.
async function keepFresh() {
  await refresh();
  setTimeout(keepFresh, EVERY_MS);
}

keepFresh();
