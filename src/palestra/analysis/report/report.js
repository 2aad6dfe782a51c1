"use strict";
(() => {
  const PAGE = 50;
  const byId = (id) => document.getElementById(id);
  const data = JSON.parse(byId("table-data").textContent);
  const count = data.position.length;
  const rowOf = new Map(data.position.map((position, row) => [position, row]));
  const embedded = new Set(
    [...document.querySelectorAll('script[id^="rollouts-"]')].map((block) => Number(block.id.slice(9))),
  );
  // a task without a scored rollout has no rate
  data.rate = data.solved.map((solved, row) => (data.trials[row] ? solved / data.trials[row] : null));
  const toolSets = JSON.parse(byId("tools").textContent);

  // Text only ever enters the page through here, as text.
  const make = (name, text, className) => {
    const element = document.createElement(name);
    if (text !== undefined) element.textContent = text;
    if (className) element.className = className;
    return element;
  };
  const grouped = (value, digits) => value.toLocaleString("en-US", { maximumFractionDigits: digits });
  const written = {
    mean: (value) => value.toFixed(3),
    std: (value) => value.toFixed(3),
    tokens: (value) => grouped(value, 0),
    time: (value) => value.toLocaleString("en-US", { maximumSignificantDigits: 3 }),
    missing: (value) => (value ? grouped(value, 0) : ""),
  };

  // ---- rewards of a task, a bar each
  const SVG = "http://www.w3.org/2000/svg";
  const strip = (rewards, height = 16) => {
    const step = Math.min(5, 128 / rewards.length);
    const bars = ["", ""];
    [...rewards].forEach((digit, at) => {
      const tall = digit === "0" ? 2 : 3 + (Number(digit) / 9) * (height - 3);
      bars[digit === "0" ? 0 : 1] += `M${at * step} ${height}v${-tall}h${step * 0.76}v${tall}z`;
    });
    const svg = document.createElementNS(SVG, "svg");
    svg.setAttribute("width", Math.ceil(step * rewards.length));
    svg.setAttribute("height", height);
    svg.setAttribute("aria-hidden", "true");
    bars.forEach((shape, kind) => {
      const path = svg.appendChild(document.createElementNS(SVG, "path"));
      path.setAttribute("d", shape);
      if (!kind) path.setAttribute("class", "nil");
    });
    return svg;
  };
  for (const place of document.querySelectorAll("[data-strip]")) {
    const row = rowOf.get(Number(place.dataset.strip));
    if (row !== undefined) place.append(strip(data.rewards[row]));
  }

  // ---- the table
  const view = { sort: "position", down: false, page: 0, low: null, high: null, rows: [] };
  const heads = [...document.querySelectorAll(".tasks thead th")];
  let texts = null;
  const wanted = () => {
    texts ??= data.task.map((task, row) =>
      `${task} ${data.prompt[row]} ${data.groups[data.group[row]] ?? ""}`.toLowerCase(),
    );
    const words = byId("find").value.toLowerCase().split(/\s+/).filter(Boolean);
    const state = byId("state").value;
    const group = byId("group")?.value ?? "";
    const { low, high } = view;
    const close = 1e-9;
    const found = [];
    for (let row = 0; row < count; row++) {
      const rate = data.rate[row];
      if (low !== null && (rate === null || rate < low - close)) continue;
      if (high !== null && (rate === null || rate > high + close)) continue;
      if (state === "never" && rate !== 0) continue;
      if (state === "always" && rate !== 1) continue;
      if (state === "sometimes" && (rate === null || rate === 0 || rate === 1)) continue;
      if (state === "missing" && !data.missing[row]) continue;
      if (state === "text" && !embedded.has(data.position[row])) continue;
      if (group !== "" && data.group[row] !== Number(group)) continue;
      if (!words.every((word) => texts[row].includes(word))) continue;
      found.push(row);
    }
    return found;
  };
  const sorted = (rows) => {
    const column = data[view.sort];
    const sign = view.down ? -1 : 1;
    return rows.sort((a, b) => {
      const [left, right] = [column[a], column[b]];
      if (left === right) return a - b;
      if (left === null) return 1;
      if (right === null) return -1;
      return sign * (left - right);
    });
  };
  const cell = {
    position: (row) => {
      const head = make("th", undefined, "name");
      head.scope = "row";
      const position = data.position[row];
      const link = head.appendChild(make("a", data.task[row], embedded.has(position) ? "" : "bare"));
      link.href = `#task-${position}`;
      return head;
    },
    prompt: (row) => {
      const text = make("td", data.prompt[row], "prompt");
      text.title = data.prompt[row];
      text.dir = "auto";
      return text;
    },
    rewards: (row) => {
      const place = make("td", undefined, "strip");
      place.append(strip(data.rewards[row]));
      return place;
    },
    rate: (row) => make("td", `${data.solved[row]}/${data.trials[row]}`, "n"),
  };
  const line = (row) => {
    const element = make("tr");
    for (const head of heads) {
      const key = head.dataset.key;
      const value = cell[key] ? null : data[key][row];
      element.append(
        cell[key] ? cell[key](row) : make("td", value === null ? "–" : written[key](value), "n wide"),
      );
    }
    return element;
  };
  const draw = () => {
    const pages = Math.max(1, Math.ceil(view.rows.length / PAGE));
    view.page = Math.min(view.page, pages - 1);
    const first = view.page * PAGE;
    const rows = view.rows.slice(first, first + PAGE);
    const empty = make("tr");
    if (!rows.length) {
      const text = empty.appendChild(make("td", "No task fits these filters.", "empty"));
      text.colSpan = heads.length;
    }
    byId("rows").replaceChildren(...(rows.length ? rows.map(line) : [empty]));
    const all = view.rows.length === count ? "" : ` that fit, of ${grouped(count, 0)}`;
    byId("shown").textContent = rows.length
      ? `${grouped(first + 1, 0)} to ${grouped(first + rows.length, 0)} of ${grouped(view.rows.length, 0)}${all}`
      : `0 of ${grouped(count, 0)}`;
    byId("previous").disabled = view.page === 0;
    byId("next").disabled = view.page === pages - 1;
    for (const head of heads) {
      if (head.dataset.key === view.sort) head.ariaSort = view.down ? "descending" : "ascending";
      else head.removeAttribute("aria-sort");
    }
  };
  const refresh = () => {
    view.rows = sorted(wanted());
    view.page = 0;
    draw();
  };
  for (const button of document.querySelectorAll("[data-sort]")) {
    button.addEventListener("click", () => {
      const key = button.dataset.sort;
      // numbers are first wanted from the top, tasks from the beginning
      view.down = view.sort === key ? !view.down : key !== "position";
      view.sort = key;
      refresh();
    });
  }
  const percentOf = (id) => (byId(id).value === "" ? null : Number(byId(id).value) / 100);
  for (const id of ["find", "state", "group"]) byId(id)?.addEventListener("input", refresh);
  for (const id of ["low", "high"]) {
    byId(id).addEventListener("input", () => {
      view[id] = percentOf(id);
      refresh();
    });
  }
  const reset = () => {
    for (const id of ["find", "state", "low", "high", "group"]) if (byId(id)) byId(id).value = "";
    view.low = view.high = null;
    refresh();
  };
  byId("reset").addEventListener("click", reset);
  byId("previous").addEventListener("click", () => (view.page--, draw()));
  byId("next").addEventListener("click", () => (view.page++, draw()));
  byId("rows").addEventListener("click", (event) => {
    if (event.target.closest("a") || String(getSelection())) return;
    event.target.closest("tr")?.querySelector("a")?.click();
  });
  for (const bar of document.querySelectorAll("a[data-rates]")) {
    bar.addEventListener("click", () => {
      const [low, high] = bar.dataset.rates.split(",").map(Number);
      reset();
      for (const [id, value] of [["low", low], ["high", high]]) {
        view[id] = value;
        byId(id).value = Number((100 * value).toFixed(2));
      }
      refresh();
    });
  }

  // ---- one task's rollouts
  const reader = byId("reader");
  const entry = (parts) => {
    if (parts.length === 1) {
      return make("p", `${grouped(parts[0], 0)} messages or calls left out here`, "cut");
    }
    const [kind, name, head, omitted, tail] = parts;
    const section = make("section", undefined, `entry ${kind}`);
    const title = section.appendChild(make("h4", kind));
    if (name) title.append(" ", make("code", name));
    const text = section.appendChild(make("pre", head));
    text.dir = "auto";
    if (omitted) {
      text.append(make("span", `${grouped(omitted, 0)} characters left out here`, "cut"), tail);
    }
    return section;
  };
  const toolsOf = (number) => {
    const tools = make("details", undefined, "given");
    tools.append(make("summary", `Tools offered (${toolSets[number].length})`));
    for (const [name, description, parameters] of toolSets[number]) {
      const section = tools.appendChild(make("section", undefined, "entry tool"));
      const title = section.appendChild(make("h4", "tool"));
      title.append(" ", make("code", name));
      if (description) section.append(make("pre", description));
      section.append(make("pre", parameters));
    }
    return tools;
  };
  const listOf = (pairs) => {
    const list = make("dl", undefined, "fields");
    for (const [name, value] of pairs) list.append(make("dt", name), make("dd", value));
    return list;
  };
  const failureOf = (failure) => {
    const section = make("section", undefined, "entry failure");
    section.append(make("h4", [failure.class, failure.layer, failure.cause].filter(Boolean).join(" · ")));
    section.append(make("pre", failure.message));
    const hops = failure.hops.map(([server, status, body]) =>
      [`answered by ${server}`, [status, body].filter(Boolean).join(": ") || "nothing"],
    );
    const facts = [["attempt", String(failure.attempts)], ["hint", failure.hint], ["what helps", failure.remedy], ...hops];
    section.append(listOf(facts.filter(([, value]) => value)));
    if (failure.traceback) section.append(make("pre", failure.traceback));
    return section;
  };
  const rolloutOf = (rollout) => {
    const section = make("section", undefined, `rollout ${rollout.why.split(" ")[0]}`.trim());
    const title = section.appendChild(make("h3", `Rollout ${rollout.index}${rollout.why ? `: ${rollout.why}` : ""}`));
    if (rollout.failure) {
      section.append(failureOf(rollout.failure));
      if (rollout.said.length) section.append(make("p", "The model's answer is kept:", "cut"));
      section.append(...rollout.said.map(entry));
      return section;
    }
    title.append(make("span", `reward ${rollout.reward}`));
    if (rollout.tokens_in !== null) title.append(make("span", `${grouped(rollout.tokens_in, 0)} tokens in`));
    if (rollout.tokens !== null) title.append(make("span", `${grouped(rollout.tokens, 0)} tokens out`));
    section.append(...rollout.said.map(entry));
    if (rollout.fields.length) section.append(listOf(rollout.fields));
    return section;
  };
  const factsOf = (row) => {
    const facts = make("p", undefined, "facts");
    const say = (name, value) => {
      const fact = facts.appendChild(make("span", `${name} `));
      fact.append(make("b", value));
    };
    facts.append(strip(data.rewards[row], 20));
    say("solved", `${data.solved[row]} of ${data.trials[row]}`);
    if (data.trials[row]) say("mean reward", `${written.mean(data.mean[row])} ± ${written.std(data.std[row])}`);
    if (data.tokens.length && data.tokens[row] !== null) say("mean tokens out", written.tokens(data.tokens[row]));
    if (data.missing[row]) say("without a score", written.missing(data.missing[row]));
    if (data.groups.length) say("group", data.groups[data.group[row]] ?? "none");
    facts.classList.add("strip");
    return facts;
  };
  const absent = (row) => {
    const text = make("p", "The transcripts of this task are not in this file. Its rows in the rollouts file:", "where");
    const name = /^-?\d+$/.test(data.task[row]) ? data.task[row] : JSON.stringify(data.task[row]);
    text.append(make("code", `jq 'select(._ng_task_index == ${name})' ${document.querySelector("h1").dataset.file}`));
    return text;
  };
  const fill = (row) => {
    const position = data.position[row];
    byId("reader-title").textContent = `Task ${data.task[row]}`;
    const parts = [factsOf(row)];
    if (embedded.has(position)) {
      const { prompt, rollouts } = JSON.parse(byId(`rollouts-${position}`).textContent);
      const given = make("details", undefined, "given");
      given.open = true;
      given.append(make("summary", "Prompt"), ...prompt.map(entry));
      const columns = make("div", undefined, "columns");
      columns.append(...rollouts.map(rolloutOf));
      const sets = [...new Set(rollouts.map((rollout) => rollout.tools ?? null))].filter((set) => set !== null);
      parts.push(given, ...sets.map(toolsOf), columns);
    } else {
      parts.push(absent(row));
    }
    byId("reader-body").replaceChildren(...parts);
    byId("reader-body").scrollTop = 0;
    const place = view.rows.indexOf(row);
    byId("before").disabled = place <= 0;
    byId("after").disabled = place < 0 || place >= view.rows.length - 1;
    reader.dataset.row = row;
  };
  const show = () => {
    const match = /^#task-(\d+)$/.exec(location.hash);
    const row = match ? rowOf.get(Number(match[1])) : undefined;
    if (row === undefined) {
      if (reader.open) reader.close();
      return;
    }
    fill(row);
    if (!reader.open) reader.showModal();
    byId("reader-body").focus({ preventScroll: true });
  };
  const go = (by) => {
    const row = view.rows[view.rows.indexOf(Number(reader.dataset.row)) + by];
    if (row === undefined) return;
    history.replaceState(null, "", `#task-${data.position[row]}`);
    show();
  };
  byId("before").addEventListener("click", () => go(-1));
  byId("after").addEventListener("click", () => go(1));
  byId("close").addEventListener("click", () => reader.close());
  reader.addEventListener("click", (event) => event.target === reader && reader.close());
  reader.addEventListener("keydown", (event) => {
    if (event.altKey || event.ctrlKey || event.metaKey || event.shiftKey) return;
    if (event.key === "ArrowLeft") go(-1);
    if (event.key === "ArrowRight") go(1);
  });
  reader.addEventListener("close", () => {
    if (location.hash.startsWith("#task-")) history.replaceState(null, "", "#tasks");
  });
  addEventListener("hashchange", show);

  // ---- what a mark says, at once instead of after the browser's pause
  const tip = document.body.appendChild(make("div"));
  tip.id = "tip";
  tip.hidden = true;
  for (const title of document.querySelectorAll(".mark > title")) {
    title.parentNode.dataset.tip = title.textContent;
    title.remove();
  }
  const tell = (mark) => {
    tip.hidden = !mark;
    if (!mark) return;
    tip.textContent = mark.dataset.tip;
    const box = mark.getBoundingClientRect();
    const left = box.left + box.width / 2 - tip.offsetWidth / 2;
    const above = box.top - tip.offsetHeight - 6;
    tip.style.left = `${Math.max(4, Math.min(left, innerWidth - tip.offsetWidth - 4))}px`;
    tip.style.top = `${above < 4 ? box.bottom + 6 : above}px`;
  };
  document.addEventListener("pointerover", (event) => tell(event.target.closest?.(".mark")));
  document.addEventListener("focusin", (event) => tell(event.target.closest?.(".mark")));
  document.addEventListener("focusout", () => tell(null));
  addEventListener("scroll", () => tell(null), { passive: true });

  // ---- light or dark
  const themes = ["auto", "light", "dark"];
  const button = byId("theme");
  let theme = "auto";
  const dress = () => {
    if (theme === "auto") delete document.documentElement.dataset.theme;
    else document.documentElement.dataset.theme = theme;
    button.textContent = `Theme: ${theme}`;
  };
  try {
    theme = themes.find((one) => one === localStorage.getItem("palestra-theme")) ?? "auto";
  } catch {
    // no storage for files: the choice lasts as long as the page
  }
  button.hidden = false;
  button.addEventListener("click", () => {
    theme = themes[(themes.indexOf(theme) + 1) % themes.length];
    try {
      localStorage.setItem("palestra-theme", theme);
    } catch {
      // as above
    }
    dress();
  });
  dress();
  refresh();
  show();
})();
