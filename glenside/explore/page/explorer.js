// The interactive view of an exploration. `glensideExplorer(root, data)` fills an element; data is
// what glenside/explore/page/data.py makes. What it returns drives the view; `stop` ends what runs.
// No library, no network.
function glensideExplorer(root, data) {
  "use strict";
  const texts = data.texts;
  const passes = data.passes;
  const OP = 0, ATTRIBUTES = 1, CHILDREN = 2, RULE = 3, PASS = 4, CHOSEN = 5, PRICE = 6;
  const JOINED_BY = 7, JOINED = 8; // Left out where they are the rule and the pass.
  const TYPE = 0, NODES = 1, COST = 2, NAME = 3;
  const ROW = 26; // Height of a row of the list, in pixels; the style sheet says the same.

  // --- what is derived once ---------------------------------------------------------------------
  const users = data.classes.map(() => []);
  const born = data.classes.map((each) => Math.min(...each[NODES].map((node) => node[PASS])));
  const joined = (node) => node[JOINED] ?? node[PASS];
  const models = Object.keys(data.cost_models);
  const parts = data.cost_models[models[0]];
  const words = data.classes.map((each) =>
    [each[NAME], ...each[NODES].flatMap((node) => [texts[node[OP]], texts[node[RULE]], texts[node[JOINED_BY] ?? node[RULE]]])]
      .join(" ").toLowerCase());
  const inProgram = data.classes.map((each) => each[NODES].some((node) => node[CHOSEN]));
  data.classes.forEach((each, number) => {
    const seen = new Set();
    for (const node of each[NODES])
      for (const child of node[CHILDREN])
        if (!seen.has(child)) {
          seen.add(child);
          users[child].push(number);
        }
  });
  const mark = `glenside-${Math.random().toString(36).slice(2)}`; // Several views on a page.
  const state = {
    pass: passes.length - 1, selected: data.roots[0] ?? 0, query: "", program: false, found: [],
    back: [], playing: null,
  };

  // --- small helpers ----------------------------------------------------------------------------
  const SVG = "http://www.w3.org/2000/svg";
  function element(tag, attributes = {}, ...children) {
    const svg = ["svg", "path", "rect", "text", "g", "circle", "line", "title"].includes(tag);
    const made = svg ? document.createElementNS(SVG, tag) : document.createElement(tag);
    for (const [name, value] of Object.entries(attributes)) {
      if (name.startsWith("on")) made.addEventListener(name.slice(2), value);
      else if (value !== false && value != null) made.setAttribute(name, value === true ? "" : value);
    }
    made.append(...children.filter((child) => child != null));
    return made;
  }
  const number = (value) => value.toLocaleString("en-US");
  const short = (value) =>
    Math.abs(value) >= 1e5 || (value !== 0 && Math.abs(value) < 1e-3)
      ? value.toExponential(3)
      : number(Math.round(value * 1000) / 1000);
  const bytes = (value) => (value ? (value / 2 ** 20).toFixed(0) + " MiB" : "not known");
  function costText(cost, model = models[0]) {
    if (!cost || !cost.length) return "no finite cost";
    return cost.map((value, i) => `${data.cost_models[model][i] ?? i} ${short(value)}`).join(", ");
  }
  const costCell = (cost) => (cost ? cost.map(short).join(" / ") : "not allowed");
  // What a member costs: alone, and with the cheapest way to say each operand.
  const priceOf = (node) => data.prices[node[PRICE]] ?? null;
  function treeCost(node) {
    const own = priceOf(node);
    const below = node[CHILDREN].map((child) => data.classes[child][COST]);
    if (!own || below.some((each) => !each)) return null;
    return own.map((value, i) => below.reduce((sum, each) => sum + each[i], value));
  }
  const members = (at, pass = state.pass) =>
    data.classes[at][NODES].filter((node) => joined(node) <= pass);

  // The member that says a class in the shortest way: the one of the chosen program, else the first.
  function said(at) {
    const there = members(at);
    return there.find((node) => node[CHOSEN]) ?? there[0];
  }
  function text(at, depth) {
    const node = said(at);
    if (!node) return `#${at}`;
    const inner = node[CHILDREN].map((child) => (depth ? text(child, depth - 1) : `#${child}`));
    return `(${[texts[node[OP]], texts[node[ATTRIBUTES]], ...inner].filter(Boolean).join(" ")})`;
  }

  // --- patterns ---------------------------------------------------------------------------------
  const WORD = /"(?:[^"\\]|\\.)*"|[()]|[^\s()"]+/g;
  const ATTRIBUTE = /"(?:[^"\\]|\\.)*"|\([^()]*\)|[^\s()"]+/g;
  const numeric = (word) => (word === "inf" ? Infinity : word === "-inf" ? -Infinity : Number(word));
  const bare = (word) => (word.startsWith('"') ? word.slice(1, -1).replace(/\\(.)/g, "$1") : word);
  function same(wanted, own) {
    if (wanted === own || (wanted !== "" && Object.is(numeric(wanted), numeric(own)) && !Number.isNaN(numeric(own)))) return true;
    return bare(wanted) === bare(own);
  }
  // An option that is not written has its default, which may depend on the operand.
  function defaultFits(node, option, wanted) {
    if (option === ":dilation") // One for each axis of the window.
      return wanted === texts[node[ATTRIBUTES]].match(ATTRIBUTE)[0].replace(/\d+/g, "1");
    if (option === ":accumulate")
      return texts[data.classes[node[CHILDREN][0]][TYPE]].split(" ").pop() === wanted;
    const known = data.defaults[texts[node[OP]]]?.[option];
    return known !== undefined && same(wanted, known);
  }
  function read(source) {
    const words = source.match(WORD) ?? [];
    let at = 0;
    function expression() {
      const word = words[at++];
      if (word === undefined) throw new Error("the pattern ends too early");
      if (word === ")") throw new Error("a parenthesis closes nothing");
      if (word !== "(") return word;
      const inside = [];
      while (words[at] !== ")") {
        if (at >= words.length) throw new Error("a parenthesis is not closed");
        inside.push(expression());
      }
      at++;
      return inside;
    }
    const result = expression();
    if (at < words.length) throw new Error("one pattern was expected");
    return result;
  }
  const spelled = (part) => (Array.isArray(part) ? `(${part.map(spelled).join(" ")})` : part);
  function matchClass(pattern, at, bound) {
    if (!Array.isArray(pattern)) {
      if (!pattern.startsWith("?")) return null;
      const known = bound.get(pattern);
      if (known === undefined) return new Map(bound).set(pattern, at);
      return known === at ? bound : null;
    }
    for (const node of members(at)) {
      const found = matchNode(pattern, node, bound);
      if (found) return found;
    }
    return null;
  }
  function matchNode(pattern, node, bound) {
    const scalar = pattern[0] === "scalar";
    if ((scalar ? "constant" : pattern[0]) !== texts[node[OP]]) return null;
    const attributes = texts[node[ATTRIBUTES]].match(ATTRIBUTE) ?? [];
    if (scalar && attributes[1] !== "()") return null;
    const plain = attributes.filter((word, i) => !word.startsWith(":") && !attributes[i - 1]?.startsWith(":"));
    const rest = [];
    for (let i = 1; i < pattern.length; i++) {
      if (typeof pattern[i] === "string" && pattern[i].startsWith(":")) {
        const where = attributes.indexOf(pattern[i]);
        const wanted = spelled(pattern[++i] ?? "");
        if (where < 0 && !(pattern[i - 1] in (data.defaults[texts[node[OP]]] ?? {}))) return null;
        if (wanted.startsWith("?")) continue;
        if (where < 0 ? !defaultFits(node, pattern[i - 1], wanted) : !same(wanted, attributes[where + 1])) return null;
      } else rest.push(pattern[i]);
    }
    // A leaf may be named by its first attributes alone: (tensor x).
    if (!node[CHILDREN].length && rest.length) plain.length = Math.min(plain.length, rest.length);
    if (rest.length !== plain.length + node[CHILDREN].length) return null;
    for (let i = 0; i < plain.length; i++) {
      const wanted = spelled(rest[i]);
      if (wanted.startsWith("?")) {
        const known = bound.get(wanted);
        if (known !== undefined && known !== plain[i]) return null;
        bound = new Map(bound).set(wanted, plain[i]);
      } else if (!same(wanted, plain[i])) return null;
    }
    for (let i = 0; i < node[CHILDREN].length; i++) {
      bound = matchClass(rest[plain.length + i], node[CHILDREN][i], bound);
      if (!bound) return null;
    }
    return bound;
  }
  function search() {
    const query = state.query.trim();
    let accepts = () => true;
    problem.textContent = "";
    if (query.startsWith("(")) {
      try {
        const pattern = read(query);
        accepts = (at) => matchClass(pattern, at, new Map()) !== null;
      } catch (error) {
        problem.textContent = error.message;
        accepts = () => false;
      }
    } else if (/^#\d+$/.test(query)) accepts = (at) => at === Number(query.slice(1));
    else if (query) {
      const wanted = query.toLowerCase().split(/\s+/);
      accepts = (at) => wanted.every((word) => words[at].includes(word));
    }
    state.found = [];
    for (let at = 0; at < data.classes.length; at++)
      if (born[at] <= state.pass && (!state.program || inProgram[at]) && accepts(at)) state.found.push(at);
  }

  // --- the parts of the page --------------------------------------------------------------------
  const outside = root;
  root = element("div", { class: "glenside-explorer" });
  outside.replaceChildren(root);
  const slider = element("input", {
    type: "range", min: 0, max: passes.length - 1, value: state.pass, step: 1, class: "pass",
    "aria-label": "pass", oninput: () => goTo(Number(slider.value)),
  });
  const play = element("button", { type: "button", class: "play", onclick: toggle }, "Play");
  const passName = element("output", { class: "pass-name", "aria-live": "polite" });
  const figures = element("dl", { class: "figures" });
  const growth = element("div", { class: "growth" });
  const rules = element("div", { class: "rules" });
  const box = element("input", {
    type: "search", placeholder: "operator, rule, name, #class or (pattern ?x)", class: "search",
    "aria-label": "search classes",
    oninput: () => { state.query = box.value; search(); list(true); },
  });
  const program = element("input", {
    type: "checkbox", class: "program",
    onchange: () => { state.program = program.checked; search(); list(true); },
  });
  const problem = element("p", { class: "problem", role: "alert" });
  const count = element("p", { class: "count", "aria-live": "polite" });
  const sizer = element("div", { class: "sizer" });
  const scroller = element("div", {
    class: "list", tabindex: 0, role: "listbox", "aria-label": "classes",
    onscroll: () => list(false), onkeydown: listKeys,
  }, sizer);
  const details = element("section", { class: "details", "aria-label": "class" });
  const neighbourhood = element("div", { class: "neighbourhood" });
  root.append(
    element("header", {},
      element("h1", {}, `${data.model}`, element("small", {}, data.target ? ` for ${data.target}` : "")),
      element("p", {}, data.stop_reason ? `Exploration ended: ${data.stop_reason}. ` : "Exploration can go on. ",
        `Costs of classes and members are those in the end, by ${models[0]}.`),
      element("div", { class: "passes" }, play, slider, passName)),
    element("div", { class: "top" }, figures, growth, rules),
    element("div", { class: "main" },
      element("section", { class: "classes", "aria-label": "classes of the e-graph" },
        box,
        element("p", { class: "only" }, element("label", {}, program, " only the chosen program")),
        problem, count, scroller),
      element("div", { class: "right" }, details, neighbourhood)),
  );
  root.addEventListener("keydown", (event) => {
    if (event.key === "/" && event.target !== box) {
      event.preventDefault();
      box.focus();
    }
  });

  function goTo(pass) {
    state.pass = Math.max(0, Math.min(passes.length - 1, pass));
    slider.value = state.pass;
    search();
    summary();
    list(false);
    show();
  }
  function toggle() {
    if (state.playing) {
      clearInterval(state.playing);
      state.playing = null;
      play.textContent = "Play";
      return;
    }
    if (state.pass === passes.length - 1) goTo(0);
    play.textContent = "Stop";
    state.playing = setInterval(() => {
      if (state.pass === passes.length - 1) return toggle();
      goTo(state.pass + 1);
    }, 800);
  }

  function summary() {
    const now = passes[state.pass], before = passes[state.pass - 1];
    passName.textContent = state.pass ? `pass ${state.pass} of ${passes.length - 1}` : "the program as loaded";
    const more = (value, old) => (old === undefined || value === old ? "" : ` (${value > old ? "+" : ""}${number(value - old)})`);
    const rows = [
      ["e-nodes", number(now.nodes) + more(now.nodes, before?.nodes)],
      ["e-classes", number(now.classes) + more(now.classes, before?.classes)],
      ["seconds", now.seconds.toFixed(4)],
      ["memory", bytes(now.memory)],
      ["matches", number(now.rules.reduce((sum, rule) => sum + rule[1], 0))],
      ["equalities", number(now.nodes - now.classes) + more(now.nodes - now.classes, before && before.nodes - before.classes)],
      ...models.map((model) => [
        models.length > 1 ? `best, ${model}` : "best cost",
        now.costs[model] ? costText(now.costs[model], model) : "not priced at this pass",
      ]),
    ];
    figures.replaceChildren(...rows.flatMap(([name, value]) => [element("dt", {}, name), element("dd", {}, value)]));
    curve();
    const fired = now.rules.filter((rule) => rule[1]).sort((a, b) => b[1] - a[1]);
    rules.replaceChildren(
      element("table", {},
        element("caption", {}, state.pass ? "Rules that matched in this pass" : "No rule has been applied"),
        element("thead", {}, element("tr", {}, ...["rule", "matches", "e-nodes", "ms"].map((h) => element("th", { scope: "col" }, h)))),
        element("tbody", {}, ...fired.map(([name, hits, nodes, seconds]) =>
          element("tr", {}, element("th", { scope: "row" }, ruleButton(name)), element("td", {}, number(hits)),
            element("td", {}, number(nodes)), element("td", {}, (seconds * 1000).toFixed(2)))))),
    );
  }
  function ruleButton(name) {
    return element("button", {
      type: "button", class: "link", title: "classes with members by this rule",
      onclick: () => { box.value = state.query = name; search(); list(true); },
    }, name);
  }
  function curve() {
    const width = 260, height = 110, margin = 6;
    const most = Math.max(...passes.map((each) => each.nodes), 1);
    const x = (i) => margin + (passes.length < 2 ? 0 : (i * (width - 2 * margin)) / (passes.length - 1));
    const y = (value) => height - margin - (value * (height - 2 * margin)) / most;
    const line = (key) => passes.map((each, i) => `${i ? "L" : "M"}${x(i)} ${y(each[key])}`).join("");
    const now = passes[state.pass];
    growth.replaceChildren(
      element("svg", { viewBox: `0 0 ${width} ${height}`, role: "img", "aria-label": "e-nodes and e-classes after each pass" },
        element("line", { x1: x(state.pass), x2: x(state.pass), y1: 0, y2: height, class: "now" }),
        element("path", { d: line("nodes"), class: "nodes" }),
        element("path", { d: line("classes"), class: "classes-line" }),
        element("circle", { cx: x(state.pass), cy: y(now.nodes), r: 3.5, class: "nodes" }),
        element("circle", { cx: x(state.pass), cy: y(now.classes), r: 3.5, class: "classes-line" })),
      element("p", {}, element("span", { class: "key nodes" }), " e-nodes  ", element("span", { class: "key classes-line" }), " e-classes"));
  }

  // Only the rows that can be seen are in the document, so that size does not matter.
  function list(fromTop) {
    if (fromTop) scroller.scrollTop = 0;
    count.textContent = `${number(state.found.length)} of ${number(data.classes.length)} classes`;
    sizer.style.height = `${state.found.length * ROW}px`;
    const first = Math.max(0, Math.floor(scroller.scrollTop / ROW) - 5);
    const last = Math.min(state.found.length, first + Math.ceil((scroller.clientHeight || 400) / ROW) + 10);
    const rows = [];
    for (let i = first; i < last; i++) {
      const at = state.found[i];
      const there = members(at);
      const operators = [...new Set(there.map((node) => texts[node[OP]]))].join(", ");
      rows.push(element("div", {
        class: `row${at === state.selected ? " selected" : ""}${inProgram[at] ? " in-program" : ""}`,
        style: `top:${i * ROW}px`, role: "option", "aria-selected": String(at === state.selected),
        "data-class": at, id: `${mark}-${at}`, onclick: () => select(at),
      }, element("span", { class: "id" }, `#${at}`), element("span", { class: "size" }, `×${there.length}`),
      element("span", { class: "operators" }, data.classes[at][NAME] ? `${data.classes[at][NAME]}: ${operators}` : operators)));
    }
    sizer.replaceChildren(...rows);
    scroller.setAttribute("aria-activedescendant", `${mark}-${state.selected}`);
  }
  function listKeys(event) {
    const moves = { ArrowDown: 1, ArrowUp: -1, PageDown: 15, PageUp: -15, Home: -1e9, End: 1e9 };
    if (!(event.key in moves) || !state.found.length) return;
    event.preventDefault();
    const now = state.found.indexOf(state.selected);
    const next = Math.max(0, Math.min(state.found.length - 1, (now < 0 ? -1 : now) + moves[event.key]));
    select(state.found[next]);
    const top = next * ROW;
    if (top < scroller.scrollTop) scroller.scrollTop = top;
    if (top + ROW > scroller.scrollTop + scroller.clientHeight) scroller.scrollTop = top + ROW - scroller.clientHeight;
    list(false);
  }

  function select(at, back = false) {
    if (!back && at !== state.selected) state.back.push(state.selected);
    state.selected = at;
    list(false);
    show();
  }
  function classButton(at) {
    return element("button", { type: "button", class: "link class", "data-class": at, title: text(at, 1), onclick: () => select(at) }, `#${at}`);
  }
  function show() {
    const at = state.selected, each = data.classes[at];
    if (!each) return;
    const there = members(at);
    const goBack = element("button", { type: "button", class: "back", disabled: !state.back.length,
      onclick: () => select(state.back.pop(), true) }, "Back");
    const head = element("h2", {}, `Class #${at} `, element("small", {}, texts[each[TYPE]]));
    const facts = [];
    if (each[NAME]) facts.push(`named ${each[NAME]}`);
    if (data.roots.includes(at)) facts.push("an output of the program");
    if (inProgram[at]) facts.push("part of the chosen program");
    facts.push(`cheapest tree: ${costText(each[COST])}`);
    const apart = each[NODES].filter((node) => node[PASS] <= state.pass && joined(node) > state.pass);
    const by = (rule, pass) => (pass ? ruleButton(texts[rule]) : "the program as loaded");
    const row = (node) =>
      element("tr", { class: node[CHOSEN] ? "chosen" : "" },
        element("td", { class: "member" }, `(${[texts[node[OP]], texts[node[ATTRIBUTES]]].filter(Boolean).join(" ")}`,
          ...node[CHILDREN].flatMap((child) => [" ", classButton(child)]), ")"),
        element("td", {}, by(node[RULE], node[PASS])),
        element("td", {}, node[PASS] ? String(node[PASS]) : ""),
        element("td", {}, ...(node[JOINED] ? [by(node[JOINED_BY], node[JOINED]), ` in ${node[JOINED]}`] : [])),
        element("td", { class: "cost" }, costCell(treeCost(node))),
        element("td", { class: "cost" }, costCell(priceOf(node))),
        element("td", {}, node[CHOSEN] ? "chosen" : ""));
    const meaning = parts.join(" / ");
    const heads = [["e-node"], ["brought by"], ["pass"], ["made equal by"], ["costs", `${meaning}, with the cheapest operands`],
      ["alone", `${meaning}, without operands`], [""]];
    const table = (nodes, caption) =>
      element("table", { class: "members" },
        element("caption", {}, caption),
        element("thead", {}, element("tr", {}, ...heads.map(([name, title]) => element("th", { scope: "col", title }, name)))),
        element("tbody", {}, ...nodes.map(row)));
    details.replaceChildren(...[head, goBack, element("p", {}, facts.join("; "), "."),
      there.length
        ? table(there, `${there.length} ${there.length === 1 ? "member" : "members"}: ways to say it. Costs: ${meaning}`)
        : element("p", { class: "none" }, born[at] > state.pass
          ? `Not in the e-graph yet: it is born in pass ${born[at]}.` : "No member yet."),
      apart.length ? table(apart, "In the e-graph, but not yet known to be equal") : null,
      element("p", { class: "text" }, element("code", {}, there.length ? text(at, 4) : ""))].filter(Boolean));
    drawNeighbourhood();
  }

  // What uses the class above it, what it is built from below it.
  function drawNeighbourhood() {
    const at = state.selected, wide = 132, high = 40, gap = 14, most = 6;
    const above = users[at].filter((user) => members(user).some((node) => node[CHILDREN].includes(at)));
    const below = [...new Set(members(at).flatMap((node) => node[CHILDREN]))];
    const levels = [above.slice(0, most), [at], below.slice(0, most)];
    const columns = Math.max(...levels.map((level) => level.length));
    const width = Math.max(columns * (wide + gap), 300), height = 3 * high + 2 * 46 + 4;
    const place = new Map();
    levels.forEach((level, row) => level.forEach((each, i) => {
      const left = (width - level.length * (wide + gap) + gap) / 2 + i * (wide + gap);
      place.set(`${row}:${each}`, [left, 2 + row * (high + 46)]);
    }));
    const lines = [];
    const join = (from, to) => {
      const [ax, ay] = place.get(from), [bx, by] = place.get(to);
      lines.push(element("path", { class: "edge", d: `M${ax + wide / 2} ${ay + high}C${ax + wide / 2} ${ay + high + 24} ${bx + wide / 2} ${by - 24} ${bx + wide / 2} ${by}` }));
    };
    levels[0].forEach((each) => join(`0:${each}`, `1:${at}`));
    levels[2].forEach((each) => join(`1:${at}`, `2:${each}`));
    const boxes = levels.flatMap((level, row) => level.map((each) => {
      const [left, top] = place.get(`${row}:${each}`);
      const node = said(each);
      const operator = node ? texts[node[OP]] : "";
      const call = operator === "call" || operator === "blocked";
      return element("g", {
        class: `box${inProgram[each] ? " in-program" : ""}${call ? " call" : ""}${row === 1 ? " here" : ""}`,
        tabindex: 0, role: "button", "aria-label": `class ${each}: ${operator}`,
        onclick: () => select(each), onkeydown: (event) => { if (event.key === "Enter" || event.key === " ") { event.preventDefault(); select(each); } },
      }, element("title", {}, text(each, 2)), element("rect", { x: left, y: top, width: wide, height: high, rx: 5 }),
      element("text", { x: left + wide / 2, y: top + 17 }, `${operator} ×${members(each).length}`),
      element("text", { x: left + wide / 2, y: top + 32, class: "type" }, `#${each} ${data.classes[each][NAME]}`.slice(0, 20)));
    }));
    const hidden = [above.length - levels[0].length, below.length - levels[2].length];
    neighbourhood.replaceChildren(
      element("h3", {}, "Neighbourhood"),
      element("p", {}, `Used by ${above.length} (above), built from ${below.length} (below)`,
        hidden[0] + hidden[1] ? `; ${hidden[0] + hidden[1]} not drawn` : "", "."),
      element("svg", { viewBox: `0 0 ${width} ${height}`, width, height, class: "graph", role: "group", "aria-label": "neighbourhood of the class" }, ...lines, ...boxes));
  }

  goTo(state.pass);
  return { goTo, select, state, stop: () => clearInterval(state.playing) };
}
