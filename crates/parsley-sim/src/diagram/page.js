"use strict";
(() => {
  const run = JSON.parse(document.getElementById("run").textContent);
  const picture = document.getElementById("picture");
  const panel = document.getElementById("panel");
  const path = document.getElementById("path");
  const part = (event, names) => Object.fromEntries(names.map((name, n) => [name, event[n]]));
  const events = run.events.map(e => part(e, ["x", "y", "step", "cause", "record", "who", "what", "remarks"]));
  const records = run.records.map(r => part(r, ["place", "colour", "sent", "fate", "clock"]));
  let pinned = -1;

  const add = (parent, tag, text, attributes) => {
    const space = parent.namespaceURI;
    const child = document.createElementNS(space, tag);
    if (text !== undefined) child.textContent = text;
    for (const name in attributes) child.setAttribute(name, attributes[name]);
    return parent.appendChild(child);
  };
  const list = (title, tag, items) => {
    if (items.length === 0) return undefined;
    add(panel, "h3", title);
    const all = add(panel, tag);
    items.forEach(item => add(all, "li", item));
    return all;
  };
  const pathTo = i => {
    const all = [];
    for (; i >= 0; i = events[i].cause) all.push(i);
    return all.reverse();
  };

  const clear = () => {
    panel.replaceChildren();
    path.replaceChildren();
    picture.classList.remove("dim");
    document.querySelectorAll(".on").forEach(element => element.classList.remove("on"));
  };
  const idle = () => {
    clear();
    add(panel, "h2", "What happened, and why");
    add(panel, "p", "Point at an event or an arrow to see its record's clock, what blocked it, and the path along which it came to be. " +
      "A click keeps it, ↑ and ↓ go on from there, Esc lets go.");
  };
  const show = i => {
    clear();
    const event = events[i];
    add(panel, "h2", event.who + " " + event.what);
    add(panel, "p", "step " + event.step + ", event " + (i + 1) + " of " + events.length);
    list("Held", "ul", event.remarks);
    const record = records[event.record];
    if (record) {
      list("Record", "ul", [record.place + ", " + record.fate, "sent by " + events[record.sent].who + " in step " + events[record.sent].step]);
      list("Clock", "ul", record.clock.length ? record.clock : ["no claims"]);
    }
    const way = pathTo(i);
    if (way.length > 1) {
      const all = list("Causal path", "ol", way.map(n => events[n].what));
      way.forEach((n, place) => {
        const item = all.children[place];
        item.prepend(Object.assign(document.createElement("span"), { textContent: events[n].step + "  " + events[n].who + " " }));
        item.addEventListener("click", () => keep(n));
      });
      add(path, "path", undefined, { d: "M" + way.map(n => events[n].x + " " + events[n].y).join("L") });
      picture.classList.add("dim");
    }
    way.forEach(n => add(path, "circle", undefined, { cx: events[n].x, cy: events[n].y, r: 8.5 }));
    document.querySelectorAll(".row[data-i='" + i + "'], #e" + i).forEach(element => element.classList.add("on"));
    way.forEach(n => document.querySelectorAll(".arrow[data-i='" + n + "']").forEach(element => element.classList.add("on")));
    if (event.record >= 0 && record.sent === i) {
      document.querySelectorAll(".arrow[data-from='" + i + "']").forEach(element => element.classList.add("on"));
    }
  };
  const keep = i => {
    if (i < 0 || i >= events.length) return;
    pinned = i;
    document.querySelectorAll(".event[tabindex='0']").forEach(element => element.setAttribute("tabindex", "-1"));
    const mark = document.getElementById("e" + i);
    mark.setAttribute("tabindex", "0");
    mark.focus({ preventScroll: true });
    const { top, bottom } = mark.getBoundingClientRect();
    if (top < 80 || bottom > window.innerHeight * .9) mark.scrollIntoView({ block: "center", inline: "nearest" });
    show(i);
  };
  const at = target => {
    const element = target instanceof Element ? target.closest("[data-i]") : null;
    return element ? Number(element.dataset.i) : -1;
  };

  picture.addEventListener("pointerover", e => { const i = at(e.target); if (i >= 0 && pinned < 0) show(i); });
  picture.addEventListener("pointerleave", () => { if (pinned < 0) idle(); });
  picture.addEventListener("click", e => keep(at(e.target)));
  picture.addEventListener("focusin", e => { const i = at(e.target); if (i >= 0 && i !== pinned) keep(i); });
  document.addEventListener("keydown", e => {
    if (e.key === "Escape") {
      pinned = -1;
      if (document.activeElement) document.activeElement.blur();
      idle();
    } else if (pinned >= 0 && (e.key === "ArrowDown" || e.key === "ArrowUp")) {
      e.preventDefault();
      keep(pinned + (e.key === "ArrowDown" ? 1 : -1));
    }
  });
  const linked = () => { const id = /^#e(\d+)$/.exec(location.hash); if (id) keep(Number(id[1])); };
  window.addEventListener("hashchange", linked);
  idle();
  linked();
})();
