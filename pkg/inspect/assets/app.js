// Copyright The Tarn Authors.
// SPDX-License-Identifier: Apache-2.0

// The page over the JSON. All text goes into text nodes, and no element gets a style or a script of its
// own, because the policy of the page allows neither.
'use strict';

const every = 2000; // milliseconds between two looks
const shown = 20; // namespaces of a page, as the server has them
const kept = 150; // samples of a plot: five minutes

// ---- elements

function fillIn(node, attributes, children) {
  for (const [name, value] of Object.entries(attributes || {})) {
    if (value === undefined || value === null || value === false) continue;
    if (typeof value === 'function') node.addEventListener(name, value);
    else node.setAttribute(name, value === true ? '' : value);
  }
  node.append(...children.flat(Infinity).filter((child) => child !== undefined && child !== null && child !== false));
  return node;
}
const el = (tag, attributes, ...children) => fillIn(document.createElement(tag), attributes, children);
const svg = (tag, attributes, ...children) => fillIn(document.createElementNS('http://www.w3.org/2000/svg', tag), attributes, children);

// show puts nodes into a place. What has the focus keeps it, by its data-key; where something is
// selected nothing moves.
function show(place, ...nodes) {
  const chosen = document.getSelection();
  if (chosen && !chosen.isCollapsed && place.contains(chosen.anchorNode)) return;
  const focus = place.contains(document.activeElement) ? document.activeElement.dataset.key : undefined;
  const open = [...place.querySelectorAll('details[open]')].map((node) => node.dataset.key);
  const moved = [...place.querySelectorAll('.scroll')].map((node) => node.scrollLeft);
  place.replaceChildren(...nodes.flat(Infinity).filter(Boolean));
  for (const node of place.querySelectorAll('details')) node.open = open.includes(node.dataset.key);
  place.querySelectorAll('.scroll').forEach((node, i) => { node.scrollLeft = moved[i] || 0; });
  if (focus !== undefined) {
    const again = [...place.querySelectorAll('[data-key]')].find((node) => node.dataset.key === focus);
    if (again) again.focus({ preventScroll: true });
  }
}

// table makes a table that scrolls by itself. A column is [heading, cell of a row, class]. What behind returns for a
// row stands below it, over all columns.
function table(label, columns, rows, empty, behind) {
  if (!rows.length) return el('div', { class: 'scroll' }, el('p', { class: 'empty' }, empty));
  return el('div', { class: 'scroll', tabindex: 0, role: 'region', 'aria-label': label, 'data-key': 'table ' + label },
    el('table', {},
      el('thead', {}, el('tr', {}, columns.map(([heading, , kind]) => el('th', { scope: 'col', class: kind }, heading)))),
      el('tbody', {}, rows.map((row) => {
        const below = behind && behind(row);
        return [el('tr', {}, columns.map(([, cell, kind], i) => el(i ? 'td' : 'th', { scope: i ? undefined : 'row', class: kind }, cell(row)))),
          below ? el('tr', { class: 'below' }, el('td', { colspan: columns.length }, below)) : null];
      }))));
}

// folded makes a part that is closed at first.
const folded = (name, ...nodes) => el('details', { class: 'part', 'data-key': name }, el('summary', { 'data-key': 'open ' + name }, el('h2', {}, name)), ...nodes);
const further = (n, noun) => (n ? el('p', { class: 'quiet' }, `and ${plural(n, noun)} more`) : null);

// copyButton copies a text. Where the browser gives no clipboard, as over plain HTTP, the text is selected instead.
function copyButton(text, key) {
  return el('button', { type: 'button', 'data-key': 'copy ' + key, click: async (event) => {
    const button = event.currentTarget, source = button.closest('.copied').querySelector('pre');
    try {
      await navigator.clipboard.writeText(text);
      button.textContent = 'Copied';
    } catch {
      document.getSelection().selectAllChildren(source);
      button.textContent = 'Selected: press Ctrl+C';
    }
  } }, 'Copy');
}
// copyable makes a text with its button.
const copyable = (label, text, key) => el('div', { class: 'copied' }, copyButton(text, key), el('pre', { tabindex: 0, 'aria-label': label, 'data-key': 'text ' + key }, text));

// ---- words

const whole = new Intl.NumberFormat('en');
const number = (n) => (n === undefined ? '–' : whole.format(n));
const rate = (n, noun) => (n === undefined ? '–' : n.toFixed(n < 10 && n > 0 ? 1 : 0)) + (noun ? ` ${noun}s` : '') + '/s';
function bytes(n) {
  if (n === undefined) return '–';
  const units = ['B', 'KiB', 'MiB', 'GiB', 'TiB'];
  let unit = 0;
  for (; n >= 1024 && unit < units.length - 1; unit++) n /= 1024;
  return (unit && n < 10 ? n.toFixed(1) : Math.round(n)) + ' ' + units[unit];
}
function duration(seconds) {
  if (seconds === undefined) return '–';
  if (seconds < 0.0005) return Math.round(seconds * 1e6) + ' µs';
  if (seconds < 1) return Math.round(seconds * 1000) + ' ms';
  if (seconds < 120) return Math.round(seconds) + ' s';
  if (seconds < 7200) return Math.round(seconds / 60) + ' min';
  return seconds < 172800 ? Math.round(seconds / 3600) + ' h' : Math.round(seconds / 86400) + ' d';
}
const clock = (time) => new Date(time).toLocaleTimeString('en-GB');
const since = (time, now) => duration(Math.max(0, (new Date(now) - new Date(time)) / 1000));
const plural = (n, noun, several) => number(n) + ' ' + (n === 1 ? noun : several || noun + 's');
const groupVersion = (kind) => (kind.group ? kind.group + '/' : '') + kind.version;
const sharing = (kind) => 'one watch with ' + kind.sharedWith.join(' and ');
const sum = (counts) => (counts ? Object.values(counts).reduce((a, b) => a + b, 0) : undefined);

const moods = {
  synced: 'good', listing: 'busy', 'not started': 'idle', dormant: 'idle', silent: 'idle', interrupted: 'warn',
  incomplete: 'bad', stalled: 'bad', 'not synced': 'bad',
};
const mood = (state) => moods[state.phase] || 'warn';
const phase = (state) => el('span', { class: 'phase ' + mood(state) }, state.phase);
const place = (namespace) => namespace || 'all namespaces';
const scopeOf = (kind) => (kind.scopes > 1 ? plural(kind.scopes, kind.leases ? 'scope' : 'namespace') : place(kind.namespace));

// ---- plots

const narrow = matchMedia('(max-width: 760px)');

function plot(title, samples, format) {
  const values = samples.filter((value) => value !== undefined);
  const most = Math.max(...values, 0), top = most || 1;
  const at = values.map((value, i) => [240 * (kept - values.length + i + 1) / kept, 50 - 46 * value / top]);
  const line = at.map((point) => point.map((n) => n.toFixed(1)).join(',')).join(' ');
  const now = values.length ? format(values[values.length - 1]) : '–';
  const image = svg('svg', { viewBox: '0 0 240 52', preserveAspectRatio: 'none', role: 'img', 'aria-label': `${title}: now ${now}, at most ${format(most)}` },
    svg('line', { class: 'axis', x1: 0, y1: 51, x2: 240, y2: 51 }));
  if (at.length > 1) {
    image.append(svg('polygon', { class: 'area', points: `${at[0][0]},51 ${line} 240,51` }), svg('polyline', { class: 'curve', points: line }));
  }
  return el('figure', {}, el('figcaption', {}, el('span', {}, title), el('span', {}, el('b', {}, now), ' · most ', format(most))), image);
}

// timeline draws the events of the last minute, one lane for each type.
function timeline(recent) {
  const end = new Date(recent.time).getTime(), lanes = ['ADDED', 'MODIFIED', 'DELETED'], width = narrow.matches ? 360 : 1100;
  const image = svg('svg', { viewBox: `0 0 ${width} 66`, role: 'img', 'aria-label': `Events of the last minute: ${lanes.map((type) => `${recent.counts[type] || 0} ${type.toLowerCase()} in all`).join(', ')}` });
  lanes.forEach((type, lane) => {
    const y = 22 * lane;
    image.append(svg('line', { class: 'axis', x1: 0, y1: y + 20, x2: width, y2: y + 20 }), svg('text', { class: 'lane', x: 2, y: y + 14 }, type.toLowerCase()));
  });
  for (const e of recent.events) {
    const x = width - 2 - (end - new Date(e.time).getTime()) / 60000 * (width - 72);
    if (x < 70) continue;
    const y = 22 * lanes.indexOf(e.type);
    image.append(svg('line', { class: 'tick tick-' + e.type.toLowerCase(), x1: x.toFixed(1), x2: x.toFixed(1), y1: y + 5, y2: y + 19 }));
  }
  return image;
}

// ---- the pipeline

// stations returns what each station shows: its name, its look, and lines of text.
function stations(view, rates) {
  const { total, phases } = view;
  const well = (phases.synced || 0) + (phases.silent || 0);
  const lost = (phases['not synced'] || 0) + (phases.stalled || 0) + (phases.interrupted || 0) + (phases.incomplete || 0);
  const lag = total.handlerLag;
  return {
    server: { name: 'API server', look: 'server', lines: [[plural(sum(total.lists) || 0, 'list')], [plural(sum(total.watchEnds) || 0, 'watch ended', 'watches ended'), 'dim']] },
    watch: {
      name: 'List and watch', look: 'client', bad: lost > 0,
      lines: [[`${well} of ${plural(view.informers, 'informer')} follow`], lost ? [`${lost} in trouble`, 'alarm'] : ['all others wait', 'dim']].slice(0, lost || well < view.informers ? 2 : 1),
    },
    decode: { name: 'Decode', look: 'client', lines: [[rate(rates.events, 'event')], [total.decoded ? `${duration(total.decodeSeconds / total.decoded)} for one` : 'none yet', 'dim']] },
    engine: { name: 'Engine', look: 'client', lines: [[plural(total.objects, 'object')], [bytes(total.bytes), 'dim']] },
    handlers: {
      name: 'Event handlers', look: 'yours', bad: view.kinds.some((k) => k.slowHandlers),
      lines: [[plural(total.handlers || 0, 'handler')], [lag ? `the slowest ${number(lag)} behind` : 'none behind', 'dim']],
    },
    reads: { name: 'Get and List', look: 'yours', lines: [[rate(rates.reads, 'read')], [number(sum(total.reads)) + ' in all', 'dim']] },
  };
}

function drawPipeline(view, rates) {
  const upright = narrow.matches, s = stations(view, rates);
  const at = upright
    ? { server: [40, 4, 280], watch: [40, 96, 280], decode: [40, 188, 280], engine: [40, 280, 280], handlers: [4, 372, 170], reads: [186, 372, 170] }
    : { server: [4, 60, 150], watch: [194, 60, 170], decode: [404, 60, 150], engine: [594, 60, 150], handlers: [784, 6, 172], reads: [784, 114, 172] };
  const height = 68;
  const image = svg('svg', { viewBox: upright ? '0 0 360 446' : '0 0 960 188', role: 'img', 'aria-label': 'The way of an object: ' + Object.values(s).map((one) => `${one.name}: ${one.lines.map((l) => l[0]).join(', ')}`).join('; ') },
    svg('defs', {}, svg('marker', { id: 'arrow', viewBox: '0 0 10 10', refX: 9, refY: 5, markerWidth: 7, markerHeight: 7, orient: 'auto' }, svg('path', { class: 'head', d: 'M0 0.8 L10 5 L0 9.2 Z' }))));
  for (const [from, to] of [['server', 'watch'], ['watch', 'decode'], ['decode', 'engine'], ['engine', 'handlers'], ['engine', 'reads']]) {
    const [x, y, width] = at[from], [X, Y, W] = at[to];
    image.append(svg('path', { class: 'flow', 'marker-end': 'url(#arrow)', d: upright
      ? `M${Math.min(Math.max(X + W / 2, x + 20), x + width - 20)} ${y + height} L${X + W / 2} ${Y - 2}`
      : `M${x + width} ${y + height / 2} C${X - 16} ${y + height / 2} ${x + width + 16} ${Y + height / 2} ${X - 2} ${Y + height / 2}` }));
  }
  for (const [key, [x, y, width]] of Object.entries(at)) {
    const one = s[key], middle = x + width / 2;
    image.append(svg('rect', { class: `box ${one.look}${one.bad ? ' is-bad' : ''}`, x, y, width, height, rx: 7 }),
      svg('text', { class: 'name', x: middle, y: y + 22 }, one.name),
      ...one.lines.map(([text, look], i) => svg('text', { class: look, x: middle, y: y + 41 + 17 * i }, text)));
  }
  return el('div', { class: 'pipeline' + (upright ? ' upright' : '') }, image);
}

// ---- what is not as it should be

// wrong reports whether an informer is not where it should be. An optional kind that is not served is absent by choice.
const wrong = (state) => !['synced', 'silent', 'listing', 'not started'].includes(state.phase) && !(state.phase === 'dormant' && state.cause === 'kind not served');

function note(state, title, key) {
  const look = { bad: 'is-bad', idle: 'is-idle' }[mood(state)] || '';
  return el('li', { class: look },
    el('div', {}, title, ' ', phase(state), state.cause ? el('span', { class: 'quiet' }, ' · ' + state.cause) : null,
      state.attempts ? el('span', { class: 'quiet' }, ' · ' + plural(state.attempts, 'attempt') + (state.since ? ' since ' + clock(state.since) : '')) : null),
    el('p', { class: 'small' }, state.manifest ? state.message.split('; grant {')[0] : state.message),
    state.manifest ? el('details', { 'data-key': 'manifest ' + key }, el('summary', { 'data-key': 'open ' + key }, state.manifest.includes('roleRef:') ? 'The role that is missing, and its binding' : 'The role that is missing'), copyable('The role', state.manifest, 'role ' + key)) : null);
}

const goType = (type) => el('code', {}, type.replace(/[\w.~-]+\//g, ''));
const slowNote = (handler, title) => el('li', {},
  el('div', {}, title, ' ', el('span', { class: 'phase warn' }, 'slow handler'), el('span', { class: 'quiet' }, ' · ' + place(handler.namespace))),
  el('p', { class: 'small' }, goType(handler.type), ` has not returned from an event for ${duration(handler.lagSeconds)}, and is ${plural(handler.lag, 'event')} behind. It acts on old objects.`));
const slowNotes = (kind, title) => (kind.slowHandlers || []).map((handler) => slowNote(handler, title()));

// ---- asking

async function ask(path, query) {
  const text = new URLSearchParams(Object.entries(query || {}).filter(([, value]) => value)).toString();
  const answer = await fetch('api/v1/' + path + (text ? '?' + text : ''), { cache: 'no-store', redirect: 'error' });
  if (answer.ok) return answer;
  const type = answer.headers.get('Content-Type') || '';
  throw new Error(type.includes('json') ? (await answer.json()).message : `${answer.status} ${answer.statusText}`);
}
const json = async (path, query) => (await ask(path, query)).json();

// rates tells how fast counters grow, from one look to the next.
function rates() {
  let before;
  return (time, counters) => {
    const now = { time: new Date(time).getTime(), counters }, grown = {};
    const seconds = before && (now.time - before.time) / 1000;
    for (const [name, value] of Object.entries(counters)) {
      const was = before && before.counters[name];
      grown[name] = seconds > 0 && value !== undefined && was !== undefined && value >= was ? (value - was) / seconds : undefined;
    }
    before = now;
    return grown;
  };
}

// programOf says whose cache it is, on one line for a report.
function programOf(view) {
  const p = view.program;
  return [p.pod ? 'Pod ' + p.pod : 'host ' + p.host, p.name + (p.version ? ' ' + p.version : ''), p.tarn ? 'Tarn ' + p.tarn : '', 'up ' + since(p.started, view.time)].filter(Boolean).join(' · ');
}

// ---- the views: each fills the page once, and returns what looks again

function overviewPage(main) {
  const [notes, way, list, requests] = [el('div'), el('div'), el('div'), el('div')];
  const title = el('h1', { tabindex: -1 }, 'Cache'), about = el('p', { class: 'quiet' });
  const spaces = el('div');
  main.replaceChildren(title, about, spaces,
    el('section', { 'aria-label': 'The way of an object' }, way),
    el('section', { 'aria-labelledby': 'attention', hidden: true }, el('h2', { id: 'attention' }, 'Not as it should be'), notes),
    el('section', { 'aria-labelledby': 'informers' }, el('h2', { id: 'informers' }, 'Informers'), list), requests);
  const grow = rates(), perKind = new Map();
  const columns = [
    ['Kind', (k) => [el('a', { href: '#/' + k.path, 'data-key': k.path }, k.kind), el('span', { class: 'sub' }, `${groupVersion(k)}, ${k.representation}`), k.sharedWith ? el('span', { class: 'sub' }, sharing(k)) : null, k.startedBy ? el('span', { class: 'sub warn' }, 'started by a read') : null, k.kept ? el('span', { class: 'sub' }, 'some fields only') : null]],
    ['Phase', (k) => [phase(k.state), k.state.cause ? el('span', { class: 'sub' }, k.state.cause) : null]],
    ['Scope', (k) => [scopeOf(k), k.leases ? el('span', { class: 'sub' }, plural(k.leases, 'lease')) : null]],
    ['Objects', (k) => number(k.objects), 'number'],
    ['Bytes', (k) => bytes(k.bytes), 'number'],
    ['Resource version', (k) => k.resourceVersion || '–', 'number'],
    ['Last told', (k) => (k.ageSeconds === undefined ? '–' : duration(k.ageSeconds) + ' ago'), 'number'],
    ['Events', (k) => [number(sum(k.events)), el('span', { class: 'sub' }, rate((perKind.get(k.path) || {}).rate))], 'number'],
    ['Handlers', (k) => [number(k.handlers), k.handlerLag ? el('span', { class: 'sub warn' }, number(k.handlerLag) + ' behind') : null], 'number'],
    ['Indexes', (k) => [number(k.indexes), k.indexHits ? el('span', { class: 'sub' }, plural(k.indexHits, 'hit')) : null], 'number'],
    ['Reads', (k) => number(sum(k.reads)), 'number'],
  ];
  let last;
  const draw = () => last && show(way, drawPipeline(...last));
  narrow.addEventListener('change', draw);
  return {
    leave: () => narrow.removeEventListener('change', draw),
    async look() {
      const [view, controllers] = await Promise.all([json('overview'), json('controllers')]);
      const grown = grow(view.time, { events: sum(view.total.events), reads: sum(view.total.reads) });
      for (const k of view.kinds) {
        const one = perKind.get(k.path) || { grow: rates() };
        one.rate = one.grow(view.time, { events: sum(k.events) }).events;
        perKind.set(k.path, one);
      }
      title.textContent = 'Cache ' + view.cache;
      document.title = view.cache + ' – cache';
      about.textContent = [programOf(view), view.started ? `${plural(view.kinds.length, 'kind')}, ${plural(view.informers, 'informer')}` : 'the cache is not started'].join(' · ');
      show(spaces, namespacesLine(view.namespaces));
      const to = (k) => () => el('a', { href: '#/' + k.path, 'data-key': 'note ' + k.path }, k.kind + (k.representation === 'structured' ? '' : ' as ' + k.representation));
      const trouble = (view.over || []).map((text) => el('li', { class: 'is-bad' }, el('div', {}, text))).concat(view.kinds.flatMap((k) => [wrong(k.state) ? note(k.state, to(k)(), k.path) : [], slowNotes(k, to(k))]).flat());
      notes.parentElement.hidden = !trouble.length;
      show(notes, el('ul', { class: 'notes' }, trouble));
      last = [view, grown];
      draw();
      show(list, table('Informers', columns, view.kinds, 'Nobody has read a kind or listened to one yet.'),
        further(view.moreKinds, 'kind'));
      show(requests, requestsPart(controllers));
    },
  };
}

// namespacesLine says which namespaces of those that come and go are cached, and who has the others.
function namespacesLine(spaces) {
  if (!spaces) return null;
  const share = spaces.ring ? `, those of ${spaces.member}. ${spaces.ring.length ? 'In the ring: ' + spaces.ring.join(', ') : 'It is not in the ring'}` : '';
  return el('p', { class: 'quiet' }, `${plural(spaces.count, 'namespace')} now`, spaces.selector || spaces.ring ? [' with ', el('code', {}, spaces.selector || 'any labels')] : ', which a method sets', share);
}

// requestsPart shows what has woken the newest requests of each controller.
function requestsPart({ controllers, more }) {
  if (!controllers.length) return null;
  const wakeUp = (w) => el('div', {}, [w.kind, w.name && keyOf(w.namespace, w.name), w.change.toLowerCase()].filter(Boolean).join(' '),
    el('span', { class: 'sub' }, clock(w.at) + (w.scope ? `, read as ${w.scope}` : w.handler ? `, by ${w.handler}` : '')));
  return section('Why were they reconciled?', el('p', { class: 'quiet small' }, 'The newest requests of each controller with references, and what has woken them. They are kept while this page looks.'),
    controllers.map((c, i) => folded(c.reconciler.replace(/[\w.~-]+\//g, '') + (i ? ` (${i + 1})` : ''), table('Requests ' + i, [
      ['Request', (r) => r.request], ['At', (r) => clock(r.at), 'number'],
      ['Woken by', (r) => (r.wakeUps.length ? r.wakeUps.map(wakeUp) : el('span', { class: 'quiet' }, 'no reference, and no handler that is named')), 'wrap'],
    ], c.requests, 'None since then.'))), further(more, 'controller'));
}

function kindPage(main, path, query) {
  const title = el('h1', { tabindex: -1 }, path.split('/')[3]), about = el('p', { class: 'quiet' });
  const [state, figures, plots, line, events, pending, parts] = Array.from({ length: 7 }, () => el('div'));
  const objects = objectsPart(path, query);
  let from = 0; // the first namespace that is shown
  main.replaceChildren(title, about, state, figures,
    el('section', { 'aria-labelledby': 'samples' }, el('h2', { id: 'samples' }, 'Since this page is open'), plots),
    el('section', { 'aria-labelledby': 'recent' }, el('h2', { id: 'recent' }, 'Recent events'), line, events),
    pending, objects.node, parts);
  const grow = rates(), samples = { events: [], reads: [], objects: [], bytes: [], lag: [] };
  const add = (name, value) => { samples[name].push(value); if (samples[name].length > kept) samples[name].shift(); };
  let seen = { since: '', events: [], newest: 0 };
  const turnTo = (n) => { from = Math.max(0, n); look(); };
  return {
    path,
    at: objects.at,
    async look() {
      const [kind, recent] = await Promise.all([
        json(path, { from }),
        json(path + '/events', { after: seen.newest }).catch((error) => ({ error })),
      ]);
      title.textContent = kind.kind;
      document.title = kind.kind + ' – cache';
      about.textContent = `${groupVersion(kind)}, ${kind.resource}, as ${kind.representation}, ${scopeOf(kind)}` +
        (kind.sharedWith ? `; ${sharing(kind)}, whose figures are the same` : '');
      const slow = slowNotes(kind, () => 'Event handlers');
      show(state, kind.kept ? el('p', { class: 'note' }, 'Only these fields of the objects are kept, with their metadata: ', el('code', {}, kind.kept)) : null,
        kind.startedBy ? el('p', { class: 'note' }, 'Started by a read: ', el('code', {}, kind.startedBy)) : null,
        kind.state.message ? null : el('p', {}, phase(kind.state)),
        kind.state.message || slow.length ? el('ul', { class: 'notes' }, kind.state.message ? note(kind.state, place(kind.state.namespace), 'state') : null, slow) : null);
      const grown = grow(kind.time, { events: sum(kind.events), reads: sum(kind.reads) });
      add('events', grown.events); add('reads', grown.reads); add('objects', kind.objects); add('bytes', kind.bytes); add('lag', kind.handlerLag || 0);
      show(figures, figuresPart(kind));
      show(plots, el('div', { class: 'plots' }, plot('Events', samples.events, rate), plot('Reads', samples.reads, rate),
        plot('Objects', samples.objects, number), plot('Bytes', samples.bytes, bytes), plot('Lag', samples.lag, number)));
      if (recent.error) {
        show(line, el('p', { class: 'quiet' }, recent.error.message));
      } else {
        const known = recent.since === seen.since ? seen.events : [];
        seen = { since: recent.since, newest: recent.newest, events: [...known, ...recent.events].slice(-500) };
        recent.events = seen.events;
        show(line, timeline(recent));
        show(events, eventsPart(recent));
      }
      show(pending, pendingPart(kind));
      show(parts, partsOf(kind, from, turnTo));
    },
  };
}

const keyOf = (namespace, name) => (namespace ? namespace + '/' : '') + name;

function eventsPart(recent) {
  const counts = recent.counts;
  return [
    el('p', { class: 'quiet small' }, `Since ${clock(recent.since)}: ${number(counts.ADDED)} added, ${number(counts.MODIFIED)} modified, ${number(counts.DELETED)} deleted. They are followed while this page looks.`,
      recent.notFollowed ? ` Of ${plural(recent.notFollowed, 'namespace')} more they are not.` : '',
      recent.missed ? ` ${plural(recent.missed, 'event')} came before their informer was followed, and are not among them.` : ''),
    recent.problem ? el('p', { class: 'note is-bad' }, recent.problem) : null,
    table('Recent events', [
      ['Time', (e) => clock(e.time)],
      ['Type', (e) => el('span', { class: { ADDED: 'good', MODIFIED: 'busy', DELETED: 'bad' }[e.type] }, e.type.toLowerCase())],
      ['Object', (e) => keyOf(e.namespace, e.name)],
      ['Version', (e) => e.resourceVersion || '–', 'number'],
      ['', (e) => (e.merged ? 'all that happened between two states' : '')],
    ], recent.events.slice(-12).reverse(), 'None since then.'),
  ];
}

// byReason says what a counter is made of.
const byReason = (counts) => Object.entries(counts || {}).map(([reason, n]) => `${number(n)} ${reason}`).join(', ') || '0';

function figuresPart(kind) {
  const pairs = [
    ['Objects', number(kind.objects)], ['Bytes', bytes(kind.bytes)], ['Resource version', kind.resourceVersion || '–'],
    ['Last told', kind.ageSeconds === undefined ? '–' : duration(kind.ageSeconds) + ' ago'], ['If it fails', kind.state.policy],
    ['Events', number(sum(kind.events))], ['Bookmarks', number(kind.bookmarks)], ['Lists begun', byReason(kind.lists)], ['Watches ended', byReason(kind.watchEnds)],
    ['Reads', byReason(kind.reads)], ['To decode one', kind.decoded ? duration(kind.decodeSeconds / kind.decoded) : '–'],
  ];
  return el('dl', {}, pairs.map(([name, value]) => el('div', {}, el('dt', {}, name), el('dd', { class: String(value).length > 14 ? 'long' : undefined }, String(value)))));
}

const section = (name, ...nodes) => el('section', { 'aria-label': name }, el('h2', {}, name), ...nodes);

function pendingPart(kind) {
  return kind.pendingWrites.length ? section('Own writes over what the watch has shown', table('Own writes', [
    ['Object', (w) => keyOf(w.namespace, w.name)], ['Outcome', (w) => w.outcome],
    ['Version', (w) => w.resourceVersion || '–', 'number'], ['For', (w) => duration(w.ageSeconds), 'number'],
  ], kind.pendingWrites, ''), further(kind.morePending, 'write')) : null;
}

// partsOf makes the tables of a kind that follow its objects; turnTo shows the namespaces from one on.
function partsOf(kind, from, turnTo) {
  const several = kind.scopes > 1;
  const namespace = several ? [['Namespace', (row) => place(row.namespace)]] : [];
  const last = from + kind.allScopes.length;
  return [
    section('Event handlers', table('Event handlers', [
      ['Handler', (h) => goType(h.type)], ...namespace,
      ['Behind', (h) => el('span', { class: h.lag ? 'warn' : undefined }, plural(h.lag, 'event')), 'number'], ['For', (h) => (h.lagSeconds ? duration(h.lagSeconds) : '–'), 'number'],
      ['Calls', (h) => number(h.calls), 'number'], ['Mean', (h) => (h.calls ? duration(h.meanSeconds) : '–'), 'number'],
      ['Fell behind', (h) => number(h.lagged), 'number'], ['Has the first list', (h) => (h.synced ? 'yes' : 'no')],
    ], kind.handlerList, 'None.'), further(kind.moreHandlers, 'handler')),
    section('Indexes', table('Indexes', [
      ['Index', (x) => el('code', {}, x.name)], ...namespace, ['Pairs', (x) => number(x.pairs), 'number'],
      ['Bytes', (x) => bytes(x.bytes), 'number'], ['Hits', (x) => number(x.hits), 'number'],
    ], kind.indexList, 'None: keys and the order of the objects answer what is asked.'), kind.moreIndexes ? el('p', { class: 'quiet' }, `and ${number(kind.moreIndexes)} more`) : null),
    folded('Memory', table('Memory', [
      ['For', ([part]) => part.replace('_', ' ')], ['Bytes', ([, n]) => bytes(n), 'number'],
    ], Object.entries(kind.parts || {}).filter(([, n]) => n).sort((a, b) => b[1] - a[1]), 'None.')),
    kind.leaseList.length ? section('Leases', el('p', { class: 'quiet small' }, 'The oldest informer that covers the scope of a lease and does not fail serves it, those of the configuration first.'), table('Leases', [
      ['Scope', (l) => l.scope], ['Served by the informer of', (l) => (l.informer === l.scope ? 'the scope alone' : l.informer), 'wrap'], ['Leases', (l) => number(l.leases), 'number'],
    ], kind.leaseList, ''), further(kind.moreLeases, 'scope')) : null,
    several ? folded('Namespaces', table('Namespaces', [
      ['Namespace', (s) => [place(s.namespace), s.selects ? el('span', { class: 'sub' }, s.selects) : null]], ['Leases', (s) => number(s.leases || 0), 'number'], ['Phase', (s) => phase(s.state)], ['Objects', (s) => number(s.objects), 'number'],
      ['Version', (s) => s.resourceVersion || '–', 'number'], ['Last told', (s) => (s.ageSeconds === undefined ? '–' : duration(s.ageSeconds) + ' ago'), 'number'],
      ['', (s) => s.state.message || '', 'wrap'],
    ], kind.allScopes, 'No more.'), el('div', { class: 'row' },
      el('p', { class: 'quiet' }, `${number(from + 1)} to ${number(last)} of ${number(kind.scopes)}, the worst first`),
      from ? el('button', { type: 'button', 'data-key': 'scopes back', click: () => turnTo(from - shown) }, 'Previous') : null,
      kind.moreScopes ? el('button', { type: 'button', 'data-key': 'scopes on', click: () => turnTo(last) }, 'Next') : null)) : null,
  ];
}

// ---- objects. The address says which: the selectors, the page of the list, and the object that is open.

const defaults = { namespace: '', labelSelector: '', fieldSelector: '', limit: '20', continue: '', object: '' };

// addressOf returns the address of a kind with what differs from the defaults.
function addressOf(path, query) {
  const text = new URLSearchParams(Object.keys(defaults).filter((name) => query[name] && query[name] !== defaults[name]).map((name) => [name, query[name]])).toString();
  return '#/' + path + (text ? '?' + text : '');
}

// objectsPart lists objects when the address changes: a table that is read does not change by itself.
function objectsPart(path, query) {
  const input = (name, label, rest) => [name, el('label', rest.short ? { class: 'short' } : {}, label, el('input', { name, autocomplete: 'off', spellcheck: 'false', ...rest, short: undefined }))];
  const fields = Object.fromEntries([
    input('namespace', 'Namespace', { placeholder: 'all' }), input('labelSelector', 'Label selector', { placeholder: 'app=web,tier!=db' }),
    input('fieldSelector', 'Field selector', { placeholder: 'metadata.name=web-1' }), input('limit', 'Limit', { type: 'number', min: 1, max: 500, short: true }),
  ]);
  const answer = el('div', { 'aria-live': 'polite' });
  const fieldOf = (name) => fields[name].querySelector('input');
  let asked, list = [], open = [], turn = 0; // the query of the list, the list, the open object as nodes

  const go = (changes) => { // a list that is asked for again is of now
    const to = { ...asked, ...changes };
    if (addressOf(path, to) === addressOf(path, asked)) at(to, true);
    else location.hash = addressOf(path, to);
  };
  const selectors = ({ object, ...rest }) => rest;
  const link = (text, changes, key, label) => el('a', { href: addressOf(path, { ...asked, ...changes }), 'data-key': key, 'aria-label': label }, text);

  function draw() {
    document.getSelection().removeAllRanges(); // the reader has asked for something else
    const { page, plan, error } = list;
    if (error) return show(answer, open, el('p', { class: 'note is-bad' }, error.message));
    const here = page.items.some((o) => keyOf(o.namespace, o.name) === asked.object);
    const rest = page.remainingItemCount === undefined ? 'there are more' : `${number(page.remainingItemCount)} more`;
    show(answer, el('p', {}, el('b', {}, 'Plan: ' + plan.by), ' ', el('span', { class: 'quiet' }, plan.text)), here ? null : open,
      table('Objects', [
        ['Name', (o) => link(o.name, { object: keyOf(o.namespace, o.name) === asked.object ? '' : keyOf(o.namespace, o.name) }, 'object ' + keyOf(o.namespace, o.name))],
        ['Namespace', (o) => o.namespace || '–'], ['Version', (o) => o.resourceVersion, 'number'],
        ['Age', (o) => (o.created ? since(o.created, Date.now()) : '–'), 'number'],
        ['Labels', (o) => [Object.entries(o.labels || {}).map(([k, v]) => el('span', { class: 'label' }, `${k}=${v}`)), o.moreLabels ? `and ${o.moreLabels} more` : null, o.deleting ? el('span', { class: 'bad' }, ' being deleted') : null, o.ownWrite ? el('span', { class: 'warn' }, ` own write over it: ${o.ownWrite}`) : null], 'wrap'],
      ], page.items, 'No object matches.', (o) => (keyOf(o.namespace, o.name) === asked.object ? open : null)),
      el('div', { class: 'row' },
        el('p', { class: 'quiet' }, `${plural(page.items.length, 'object')} at resource version ${page.resourceVersion || '–'}${page.continue && page.continue !== 'continue-not-supported' ? ', ' + rest : ''}`),
        asked.continue ? el('button', { type: 'button', click: () => go({ continue: '', object: '' }) }, 'First page') : null,
        page.continue ? el('button', { type: 'button', click: () => go({ continue: page.continue, object: '' }) }, 'Next page') : null));
  }
  async function listed(of) {
    const { continue: token, ...which } = selectors(of);
    try {
      const [page, plan] = await Promise.all([json(path + '/objects', { ...which, continue: token }), json(path + '/explain', which)]);
      return { page, plan };
    } catch (error) {
      return { error };
    }
  }
  async function opened(key) {
    if (!key) return [];
    const [name, namespace] = key.split('/').reverse();
    const close = link('Close', { object: '' }, 'close', 'Close ' + key);
    try {
      const text = await (await ask(path + '/object', { namespace, name })).text();
      return [el('section', { 'aria-label': 'One object', class: 'opened' }, el('h3', { tabindex: -1, 'data-key': 'yaml' }, key, ' ', close), copyable('YAML', text, 'yaml'))];
    } catch (error) {
      return [el('section', { 'aria-label': 'One object', class: 'opened' }, el('p', { class: 'note is-bad' }, error.message, ' ', close))];
    }
  }
  // at shows what the address says. Only what differs from before is asked for.
  async function at(to, again) {
    const before = asked, mine = ++turn;
    asked = { ...defaults, ...to };
    for (const name of Object.keys(fields)) fieldOf(name).value = asked[name];
    const same = before && !again && addressOf(path, selectors(before)) === addressOf(path, selectors(asked));
    const [nextList, nextOpen] = await Promise.all([same ? list : listed(asked), opened(asked.object)]);
    if (mine !== turn) return;
    [list, open] = [nextList, nextOpen];
    draw();
    const left = before && before.object && !asked.object && answer.querySelector(`[data-key="${CSS.escape('object ' + before.object)}"]`);
    const target = asked.object ? answer.querySelector('.opened h3, .opened .note') : left;
    if (!target || (before && before.object === asked.object)) return;
    target.focus({ preventScroll: true });
    target.scrollIntoView({ block: 'nearest' });
  }
  at(query);
  return {
    at,
    node: el('section', { 'aria-labelledby': 'objects' }, el('h2', { id: 'objects' }, 'Objects'),
      el('form', { submit: (e) => { e.preventDefault(); go({ ...Object.fromEntries(Object.keys(fields).map((name) => [name, fieldOf(name).value.trim()])), continue: '', object: '' }); } }, Object.values(fields), el('button', { type: 'submit' }, 'List')),
      answer),
  };
}

// ---- the page

const status = document.getElementById('status'), pause = document.getElementById('pause');
let view, timer, turn = 0;

function crumbs(path) {
  const [, , , kind, representation] = path.split('/');
  document.getElementById('crumbs').replaceChildren(
    el('li', {}, el('a', { href: '#/', 'aria-current': kind ? undefined : 'page' }, 'Cache')),
    ...(kind ? [el('li', {}, el('a', { href: '#/' + path, 'aria-current': 'page' }, `${kind} as ${representation}`))] : []));
}

// kindPath is where a kind is. A link may have nothing else in it: the browser would ask for any path of the same origin.
const kindPath = /^kinds(\/(?!\.+(\/|$))[A-Za-z0-9.-]+){4}$/;

function route(event) {
  const [path, text] = location.hash.replace(/^#\//, '').split('?', 2);
  const query = Object.fromEntries(Object.entries(defaults).map(([name, value]) => [name, new URLSearchParams(text).get(name) || value]));
  if (view && view.path === path) { // of the same kind: only its objects are others
    view.at(query);
    return;
  }
  if (view && view.leave) view.leave();
  const main = document.getElementById('main');
  view = kindPath.test(path) ? kindPage(main, path, query) : overviewPage(main);
  crumbs(kindPath.test(path) ? path : '');
  if (event) { // not when the page opens: the reader begins at the top
    scrollTo(0, 0);
    main.querySelector('h1').focus();
  }
  look();
}

async function look() {
  clearTimeout(timer);
  const mine = ++turn;
  try {
    await view.look();
    if (mine === turn) status.textContent = 'as of ' + clock(Date.now());
    status.classList.remove('failed');
  } catch (error) {
    if (mine === turn) {
      status.textContent = error.message;
      status.classList.add('failed');
    }
  }
  if (mine === turn && pause.getAttribute('aria-pressed') === 'false' && !document.hidden) timer = setTimeout(look, every);
}

pause.addEventListener('click', () => {
  const paused = pause.getAttribute('aria-pressed') === 'false';
  pause.setAttribute('aria-pressed', String(paused));
  pause.textContent = paused ? 'Go on' : 'Pause';
  if (paused) clearTimeout(timer);
  else look();
});
document.addEventListener('visibilitychange', () => { if (!document.hidden && pause.getAttribute('aria-pressed') === 'false') look(); });
addEventListener('hashchange', route);
route();
